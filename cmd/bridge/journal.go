package bridge

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/linesman/linesman/internal/files"
	"github.com/linesman/linesman/runs"
)

// Limits of the journal.
const (
	maxRemembered = 10_000
	maxEntry      = 4 << 10 // bytes of an entry's file
	remembered    = 30 * 24 * time.Hour
)

// errState is the error of a journal that cannot be opened.
var errState = errors.New("bridge state")

// tmpSuffix ends the names of temporary files in the directory of a journal.
const tmpSuffix = ".tmp"

// entry is the state of one request in a journal, without its content.
type entry struct {
	ID       string `json:"request_id"`
	Name     string `json:"file"`                  // name of the request file
	Run      string `json:"run"`                   // run id
	At       int64  `json:"claimed_at"`            // Unix milliseconds
	Timeout  int64  `json:"timeout_ms"`            // from claimed_at
	Answered int64  `json:"answered_at,omitempty"` // 0: not yet
	Unended  bool   `json:"unended,omitempty"`     // answered with a timeout, and the run could not be ended yet
}

func (e entry) deadline() time.Time { return time.UnixMilli(e.At + e.Timeout) }

// journal stores which requests of one directory were claimed and answered,
// with a file per request. Files are replaced atomically, and are durable when
// a method returns, so a bridge can resume after a crash.
type journal struct {
	dir string

	mu      sync.Mutex
	entries map[string]entry // by request id
}

// openJournal reads the journal in dir, or creates it. The error is an errState.
func openJournal(dir string) (*journal, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("%w: %w", errState, err)
	}
	for _, parent := range []string{filepath.Dir(dir), filepath.Dir(filepath.Dir(dir))} {
		if err := files.SyncDir(parent); err != nil { // the entry of the directory may be new
			return nil, fmt.Errorf("%w: %w", errState, err)
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errState, err)
	}
	j := &journal{dir: dir, entries: map[string]entry{}}
	for _, f := range files {
		path := filepath.Join(dir, f.Name())
		if strings.HasSuffix(path, tmpSuffix) { // left by a crash before the rename
			_ = os.Remove(path)
			continue
		}
		e, err := readEntry(path)
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", errState, path, err)
		}
		j.entries[e.ID] = e
	}
	return j, nil
}

func readEntry(path string) (entry, error) {
	var e entry
	info, err := os.Lstat(path)
	if err != nil {
		return e, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxEntry {
		return e, errors.New("not a file of the bridge")
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return e, err
	}
	if json.Unmarshal(b, &e) != nil || e.ID == "" || runs.CheckID(e.Run) != nil || filepath.Base(path) != fileOf(e.ID) {
		return e, errors.New("damaged; remove it, and its request counts as new")
	}
	return e, nil
}

// fileOf returns the file name for a request id, which may be any text.
func fileOf(id string) string { return digest(id) + ".json" }

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

func (j *journal) get(id string) (entry, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	e, ok := j.entries[id]
	return e, ok
}

// unanswered returns the entries without an answer.
func (j *journal) unanswered() []entry {
	j.mu.Lock()
	defer j.mu.Unlock()
	var all []entry
	for _, e := range j.entries {
		if e.Answered == 0 {
			all = append(all, e)
		}
	}
	return all
}

// unended returns the entries whose run is to be ended.
func (j *journal) unended() []entry {
	j.mu.Lock()
	defer j.mu.Unlock()
	var all []entry
	for _, e := range j.entries {
		if e.Unended {
			all = append(all, e)
		}
	}
	return all
}

// ended stores that the run of an entry is ended, unless the entry has changed meanwhile.
func (j *journal) ended(id string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	e := j.entries[id]
	if !e.Unended {
		return nil
	}
	e.Unended = false
	return j.store(e)
}

// byUnpublishedName returns all entries by the names of their unpublished
// answers.
func (j *journal) byUnpublishedName() map[string]entry {
	j.mu.Lock()
	defer j.mu.Unlock()
	all := make(map[string]entry, len(j.entries))
	for _, e := range j.entries {
		all[unpublishedName(e)] = e
	}
	return all
}

// put stores an entry, and prunes old ones.
func (j *journal) put(e entry) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.store(e); err != nil {
		return err
	}
	return j.prune(time.UnixMilli(e.At))
}

func (j *journal) store(e entry) error {
	b, err := json.Marshal(e)
	if err == nil {
		err = files.Replace(filepath.Join(j.dir, fileOf(e.ID)), "*"+tmpSuffix, b)
	}
	if err != nil {
		return fmt.Errorf("bridge state: %w", err)
	}
	j.entries[e.ID] = e
	return nil
}

// forget removes the entry of a request id.
func (j *journal) forget(id string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.remove(id)
}

func (j *journal) remove(id string) error {
	err := os.Remove(filepath.Join(j.dir, fileOf(id)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("bridge state: %w", err)
	}
	delete(j.entries, id)
	return files.SyncDir(j.dir)
}

// prune removes answered entries that are too old and, beyond the limit, the
// oldest ones.
func (j *journal) prune(now time.Time) error {
	var old []entry
	for _, e := range j.entries {
		if e.Answered != 0 {
			old = append(old, e)
		}
	}
	slices.SortFunc(old, func(a, b entry) int { return cmp.Compare(a.Answered, b.Answered) })
	for i, e := range old {
		if i >= len(old)-maxRemembered && now.Sub(time.UnixMilli(e.Answered)) < remembered {
			return nil
		}
		if err := j.remove(e.ID); err != nil {
			return err
		}
	}
	return nil
}
