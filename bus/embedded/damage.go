package embedded

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/bucket"
)

// A NATS server meets damage in its files with silence. A message that cannot be read
// answers no request, or is skipped, and a stream without a current index is cut at its
// first damaged record. So the files are read before the server starts, and repaired:
//
//   - of any stream, each record that can be read is kept;
//   - EVENTS ends before the damage, if RAW reaches back to there: the normalizer sees
//     that the stream lost its end, and derives the rest again;
//   - RUNS becomes another stream: the normalizer derives all records again;
//   - a consumer whose position is damaged begins again.
//
// Files are set aside as they were. They are removed once they are old, or when a run is
// forgotten, because a damaged file may have entries of that run that cannot be read.
const (
	damagedDir = "damaged"
	damagedAge = 30 * 24 * time.Hour

	// maxVerified is how much of a stream with a current index is read before the start, its newest blocks first: its
	// server reads no other block to start. Without one it reads all, and cuts each at its first damage. It does so,
	// too, if a block is gone that a current index names, for example after a partial restore: this is not noticed here.
	maxVerified = 64 << 20

	indexFile = "index.db"
	blockFile = ".blk"
	metaFile  = "meta.inf"
	metaSum   = "meta.sum"
	stateFile = "o.dat" // the position of a consumer
)

// verifier finds and repairs damage in the files of a server that does not run.
type verifier struct {
	store string // directory of the server
	names bus.Names
	log   *zap.Logger
	now   time.Time
	block []byte // the buffer of blocks
}

// storedStream is what the files of a stream contain.
type storedStream struct {
	name, dir string
	hash      hash.Hash64
	blocks    []int          // numbers of all blocks, in order
	unread    []int          // those that were not read, in order
	damaged   []damagedBlock // in order
	last      uint64         // highest sequence that was read
	newest    int64          // when the newest record was stored, in Unix nanoseconds
	indexed   uint64         // last sequence according to its index, 0 if it has no valid one
	badMeta   bool           // its settings are damaged
	noMeta    bool           // it has no settings: it was being created, or a repair set them aside
	short     bool           // its index has messages that no block has
}

// damagedBlock is a block, and the ranges of it that cannot be read.
type damagedBlock struct {
	number int
	bad    []span
}

func (s *storedStream) path(number int) string {
	return filepath.Join(s.dir, "msgs", strconv.Itoa(number)+blockFile)
}

func (s *storedStream) isDamaged() bool { return s.badMeta || s.short || len(s.damaged) > 0 }

// verify reads the blocks of each stream, at most limit bytes if it is whole and has a current index, and repairs what
// is damaged. The error is one of the file system.
func (v *verifier) verify(limit int64) (all []*storedStream, err error) {
	if err := v.expire(); err != nil {
		return nil, err
	}
	dirs, err := glob(v.store, "jetstream", "*", "streams", "*")
	if err != nil {
		return nil, err
	}
	for _, dir := range dirs {
		if !v.isStream(dir) {
			continue
		}
		s, err := v.readStream(dir, limit)
		if err == nil && s.isDamaged() {
			err = v.repair(s)
		}
		if err == nil && s.hash != nil {
			err = v.checkPositions(s)
		}
		if err != nil {
			return nil, fmt.Errorf("stream %s: %w", filepath.Base(dir), err)
		}
		all = append(all, s)
	}
	return all, nil
}

// isStream reports whether a path is the directory of a stream: it has the settings of that, or a name of linesman. A
// copy has neither, and one that is being deleted has a dot in its name.
func (v verifier) isStream(dir string) bool {
	name := filepath.Base(dir)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() || strings.Contains(name, ".") {
		return false
	}
	s := &storedStream{dir: dir, hash: newHash(name)}
	if err := s.readMeta(); err != nil || !s.badMeta && !s.noMeta {
		return true // readStream returns the error
	}
	n := v.names
	return slices.Contains([]string{n.Raw(), n.Events(), n.Work(), n.Outbox()}, name) ||
		slices.ContainsFunc([]string{
			n.Runs(), n.State(), n.Threads(), n.Folds(), n.Requests(), n.Access(), n.Seen(), n.Push(),
		}, func(one string) bool { return bucket.Stream(one) == name })
}

// dir returns the directory of a stream.
func (v verifier) dir(account, stream string) string {
	return filepath.Join(v.store, "jetstream", account, "streams", stream)
}

// glob returns the files in and below a directory, whose own path is no pattern, that match one.
func glob(dir string, pattern ...string) ([]string, error) {
	names, err := fs.Glob(os.DirFS(dir), path.Join(pattern...))
	for i, name := range names {
		names[i] = filepath.Join(dir, filepath.FromSlash(name))
	}
	return names, err
}

// readStream reads the files of a stream, and its newest blocks up to a size; all if it has no current index, or is
// damaged: a repaired stream has no index.
func (v *verifier) readStream(dir string, limit int64) (*storedStream, error) {
	s := &storedStream{name: filepath.Base(dir), dir: dir}
	if _, err := os.Stat(filepath.Join(dir, "meta.key")); err == nil {
		return s, nil // encrypted, and not by linesman
	}
	s.hash = newHash(s.name)
	if err := s.readMeta(); err != nil {
		return nil, err
	}
	var err error
	if s.blocks, err = blockNumbers(dir); err != nil {
		return nil, err
	}
	if s.badMeta {
		limit = math.MaxInt64
	}
	_, indexed, lastHash := s.readIndex()
	s.indexed = indexed
	for i, number := range slices.Backward(s.blocks) {
		if limit <= 0 {
			s.unread = s.blocks[:i+1]
			break
		}
		buf, err := readInto(v.block, s.path(number))
		if v.block = buf; errors.Is(err, fs.ErrNotExist) { // it was being deleted
			s.blocks = slices.Delete(s.blocks, i, i+1)
			continue
		} else if err != nil {
			return nil, err
		}
		if bytes.HasPrefix(buf, []byte("cmp\x01")) { // compressed, and not by linesman
			return &storedStream{name: s.name, dir: dir}, nil
		}
		bad := scanEach(buf, newBlockHash(s.name, number), func(r record) {
			s.last, s.newest = max(s.last, r.seq), max(s.newest, r.time)
		})
		limit -= int64(len(buf))
		newest := i == len(s.blocks)-1
		if newest && (lastHash == nil || indexed != s.last || !bytes.HasSuffix(buf, lastHash)) { // no current index
			limit = math.MaxInt64
		}
		if len(bad) > 0 || len(buf) == 0 && !newest {
			s.damaged = append(s.damaged, damagedBlock{number, bad})
			limit = math.MaxInt64
		}
	}
	slices.Reverse(s.damaged)
	s.short = s.indexed > s.last
	return s, nil
}

// readMeta checks the settings of the stream.
func (s *storedStream) readMeta() error {
	meta, err := readIfThere(filepath.Join(s.dir, metaFile))
	if err != nil {
		return err
	}
	sum, err := readIfThere(filepath.Join(s.dir, metaSum))
	if err != nil {
		return err
	}
	s.noMeta = meta == nil && sum == nil
	s.badMeta = !s.noMeta && string(sum) != s.sum(meta)
	return nil
}

// sum returns the content of the file that the server writes beside the settings.
func (s *storedStream) sum(meta []byte) string { return hex.EncodeToString(hashOf(s.hash, meta)) }

// readIndex returns the first and the last sequence according to the index of the stream, and the hash of its last
// record; 0 and nil if it has no valid one.
func (s *storedStream) readIndex() (first, last uint64, lastHash []byte) {
	index, err := os.ReadFile(filepath.Join(s.dir, "msgs", indexFile))
	if err != nil || len(index) < 2+2*recordHash {
		return 0, 0, nil
	}
	index, own := index[:len(index)-recordHash], index[len(index)-recordHash:]
	if !bytes.Equal(hashOf(s.hash, index), own) {
		return 0, 0, nil
	}
	at := index[2:] // after the version
	var numbers [5]uint64
	for i := range numbers { // messages, bytes, first sequence, its time, last sequence
		var n int
		numbers[i], n = binary.Uvarint(at) // a signed number has the same size
		at = at[max(n, 0):]
	}
	return numbers[2], numbers[4], index[len(index)-recordHash:]
}

func hashOf(h hash.Hash, b []byte) []byte {
	h.Reset()
	_, _ = h.Write(b) // a hash returns no errors
	return h.Sum(nil)
}

// blockNumbers returns the numbers of the blocks of a stream, in order.
func blockNumbers(dir string) (numbers []int, err error) {
	files, err := os.ReadDir(filepath.Join(dir, "msgs"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, f := range files {
		if name, is := strings.CutSuffix(f.Name(), blockFile); is {
			if n, err := strconv.Atoi(name); err == nil {
				numbers = append(numbers, n)
			}
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// repair repairs a stream. The index goes before its blocks change, because it describes them as
// they were: a process that is killed in between leaves a stream that the next one repairs.
func (v verifier) repair(s *storedStream) error {
	aside, err := v.aside(s.name)
	if err != nil {
		return err
	}
	// Before its index is removed: nothing else shows that the stream was longer.
	if s.name == bucket.Stream(v.names.Runs()) && !s.badMeta && !s.noMeta { // new settings make it another one, too
		if err := s.renew(v.now, aside); err != nil {
			return err
		}
	}
	for _, name := range []string{indexFile, "thw.db", "sched.db"} { // the server makes them from the blocks
		if err := moveIfThere(filepath.Join(s.dir, "msgs", name), filepath.Join(aside, name)); err != nil {
			return err
		}
	}
	for _, d := range s.damaged {
		v.tell(s, d)
	}
	if s.badMeta { // the settings of linesman replace them, and the messages stay
		v.log.Error("the settings of a stream are damaged", zap.String("stream", s.name), zap.String("file",
			filepath.Join(s.dir, metaFile)))
		for _, name := range []string{metaFile, metaSum} {
			if err := moveIfThere(filepath.Join(s.dir, name), filepath.Join(aside, name)); err != nil {
				return err
			}
		}
	}
	if s.short {
		v.log.Error("the files of a stream are shorter than they were", zap.String("stream", s.name),
			zap.String("directory", s.dir), zap.Uint64("last", s.last), zap.Uint64("was", s.indexed))
	}
	what, err := v.repairBlocks(s, aside)
	if err != nil {
		return err
	}
	v.log.Error("the damaged stream is repaired: "+what, zap.String("stream", s.name), zap.String("set_aside", aside))
	return nil
}

// aside makes the directory for what is set aside of a stream.
func (v verifier) aside(stream string) (string, error) {
	dir := filepath.Join(v.store, damagedDir, v.now.UTC().Format("20060102T150405.000Z"), stream)
	return dir, os.MkdirAll(dir, 0o700)
}

// tell logs where a block is damaged.
func (v verifier) tell(s *storedStream, d damagedBlock) {
	at, size := 0, 0
	for i, b := range d.bad {
		if size += b.to - b.from; i == 0 {
			at = b.from
		}
	}
	v.log.Error("a stream is damaged", zap.String("stream", s.name), zap.String("file", s.path(d.number)),
		zap.Int("at", at), zap.Int("bytes", size), zap.Int("places", len(d.bad)))
}

// repairBlocks repairs the blocks of a stream, and returns what becomes of it.
func (v verifier) repairBlocks(s *storedStream, aside string) (what string, err error) {
	what = "all that can be read is kept, the rest is missing"
	var rest following // of EVENTS
	if s.name == v.names.Events() && len(s.damaged) > 0 {
		if rest, err = s.following(); err != nil {
			return "", err
		}
	}
	switch {
	case len(s.damaged) == 0 && !s.short && s.name != bucket.Stream(v.names.Runs()):
		what = "its settings are written again, its messages are complete"
	case s.name == v.names.Raw():
		what = "all that can be read of it is kept; events and records that exist stay as they are"
	case rest.records > 0:
		cut, err := v.canDerive(rest)
		if err != nil {
			return "", err
		}
		if cut {
			return "its events from there on are derived again", s.cut(aside)
		}
		what = "the damaged events are missing, because not all that follows them can be derived again"
	case s.name == v.names.Events():
		what = "the events that it lost are derived again, as far as RAW reaches back"
	case s.name == bucket.Stream(v.names.Runs()):
		what = "its records are derived again, as far as RAW reaches back"
	}
	for _, d := range s.damaged {
		if err := s.replace(d, aside, false); err != nil {
			return "", err
		}
	}
	return what, nil
}

// readBlock reads a block.
func (s *storedStream) readBlock(number int) (good []record, bad []span, err error) {
	buf, err := os.ReadFile(s.path(number))
	if err != nil {
		return nil, nil, err
	}
	good, bad = scan(buf, newBlockHash(s.name, number))
	return good, bad, nil
}

// cut ends the stream before the first damage.
func (s *storedStream) cut(aside string) error {
	first := s.damaged[0]
	for _, number := range slices.Backward(s.blocks) {
		if number > first.number {
			if err := moveIfThere(s.path(number), filepath.Join(aside, filepath.Base(s.path(number)))); err != nil {
				return err
			}
		}
	}
	return s.replace(first, aside, true)
}

// replace replaces a damaged block by what can be read of it, or of its beginning.
func (s *storedStream) replace(d damagedBlock, aside string, cut bool) error {
	path := s.path(d.number)
	buf, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	kept := filepath.Join(aside, filepath.Base(path))
	if err := os.Link(path, kept); errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("set aside %s: %w", path, err)
	} else if err != nil { // a file system without links
		if err := os.WriteFile(kept, buf, 0o600); err != nil {
			return err
		}
	}
	good := without(buf, d.bad)
	if cut && len(d.bad) > 0 {
		good = buf[:d.bad[0].from]
	}
	if len(good) == 0 {
		return os.Remove(path)
	}
	return writeOver(path, kept+".new", good)
}

// renew makes the stream another one, by the time at which it was created.
func (s *storedStream) renew(now time.Time, aside string) error {
	return s.change("Created", now.UTC(), aside)
}

// change changes one of the settings of the stream. Temporary files are in a directory on the
// same file system. Killed in between, the next start meets settings that are damaged, and
// replaces all of them.
func (s *storedStream) change(key string, value any, temporary string) error {
	meta, err := os.ReadFile(filepath.Join(s.dir, metaFile))
	if err != nil {
		return err
	}
	var settings map[string]json.RawMessage
	if err := json.Unmarshal(meta, &settings); err != nil {
		return fmt.Errorf("%s: %w", metaFile, err)
	}
	if settings[key], err = json.Marshal(value); err != nil {
		return err
	}
	if meta, err = json.Marshal(settings); err != nil {
		return err
	}
	if err := writeOver(filepath.Join(s.dir, metaFile), filepath.Join(temporary, metaFile+".new"), meta); err != nil {
		return err
	}
	return writeOver(filepath.Join(s.dir, metaSum), filepath.Join(temporary, metaSum+".new"), []byte(s.sum(meta)))
}

// expire removes what was set aside long ago.
func (v verifier) expire() error {
	old, err := os.ReadDir(filepath.Join(v.store, damagedDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, dir := range old {
		info, err := dir.Info()
		if err == nil && v.now.Sub(info.ModTime()) > damagedAge {
			err = os.RemoveAll(filepath.Join(v.store, damagedDir, dir.Name()))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// RemoveDamaged removes the files of damaged streams that were set aside in the data directory
// dir. Each may have content of any run.
func RemoveDamaged(dir string) error { return os.RemoveAll(filepath.Join(dir, storeName, damagedDir)) }
