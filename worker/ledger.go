package worker

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"

	"go.uber.org/zap"

	"github.com/linesman/linesman/internal/files"
)

// maxLedger is the size in bytes at which a ledger is compacted to its newest
// half. That keeps at least the last 100,000 imports.
const maxLedger = 64 << 20

// imported is one line of a ledger: how much of a file was imported.
type imported struct {
	Agent  string   `json:"agent"`  // agent kind of the run
	Stores []string `json:"stores"` // that know the run, see Config.Stores
	inode
	Size int64  `json:"size"`          // bytes of the file that were imported
	Sum  string `json:"sum"`           // checksum of these bytes, see sumOf
	Run  string `json:"run"`           // the last run of the file
	Log  string `json:"log,omitempty"` // of the log of a session: which one, wherever the file is

	line int // counts the lines that a ledgerIndex has read
}

// knownTo reports whether one of the stores knows the run.
func (e *imported) knownTo(stores []string) bool {
	if len(e.Stores) == 0 && len(stores) == 0 {
		return true
	}
	return slices.ContainsFunc(e.Stores, func(s string) bool { return slices.Contains(stores, s) })
}

// key identifies the lines of which only the last one counts.
func (e *imported) key() ledgerKey {
	return ledgerKey{e.Agent, strings.Join(e.Stores, " "), e.inode}
}

type ledgerKey struct {
	agent, stores string
	file          inode
}

// ledger is a file with a line for each import. The last line of a file, agent
// kind and set of stores counts. Several processes append to it, with one
// write per line, under the lock of the file. It is not synced: lines that a
// power failure removes are restored from the raw log.
type ledger struct {
	path string
	max  int64
	log  *zap.Logger
	mu   sync.Mutex // one compaction at a time in this process: it uses much memory

	compactRetry retryDelay // after failed compactions
}

// tmpSuffix ends the name of the file that a compaction writes. The next
// compaction truncates the file that an interrupted one has left.
const tmpSuffix = ".tmp"

// add appends a line. A failed compaction is logged, does not fail the call,
// and is retried by a later one.
func (l *ledger) add(e imported) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.appendLine(e); err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	return nil
}

func (l *ledger) appendLine(e imported) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	f, err := openLocked(l.path, os.O_APPEND, files.Lock)
	if err != nil {
		return err
	}
	defer func() { _ = files.Close(f) }()
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	// A leading newline separates the line from one that a full disk or a power
	// failure cut off.
	if _, err := fmt.Fprintf(f, "\n%s\n", line); err != nil {
		return errors.Join(err, f.Truncate(end))
	}
	if end < l.max || l.compactRetry.remaining() > 0 {
		return nil
	}
	if err := l.compact(f); err == nil {
		l.compactRetry.succeeded()
	} else if l.compactRetry.failed() {
		l.log.Warn("cannot compact the ledger of imports, it keeps growing", zap.Error(err))
	}
	return nil
}

// wanted is a file, or the log of a session, wherever its file is.
type wanted struct {
	file inode
	log  string
}

// ledgerIndex holds the last line of each wanted file for one agent kind and
// one set of stores. A look-up reads only what was appended since the previous
// one, or all of the ledger after a compaction. It may be used from several
// goroutines.
type ledgerIndex struct {
	ledger *ledger
	agent  string
	stores []string

	mu    sync.Mutex
	files map[wanted]*imported // nil: wanted, but without a line
	f     *os.File             // the ledger; nil: there was none
	read  int64                // bytes of f
	lines int                  // that were read so far
}

// last returns the last line of a file, or nil. Invalid lines are skipped.
func (x *ledgerIndex) last(file inode) (*imported, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	w := wanted{file: file}
	x.add(w) // it may have replaced another one
	if err := x.update(); err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	return x.files[w], nil
}

// lastOfLog returns the last lines of the log of a session and of its file, the newest first.
func (x *ledgerIndex) lastOfLog(log string, file inode) (all []*imported, err error) {
	x.want(log, file)
	last, err := x.last(file)
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, e := range []*imported{x.files[wanted{log: log}], last} {
		if e != nil && !slices.Contains(all, e) {
			all = append(all, e)
		}
	}
	slices.SortFunc(all, func(a, b *imported) int { return b.line - a.line })
	return all, err
}

// want adds the log of a session and its file, so that the next look-up reads the lines of all
// that were added at once.
func (x *ledgerIndex) want(log string, file inode) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.add(wanted{file: file})
	x.add(wanted{log: log})
}

func (x *ledgerIndex) add(w wanted) {
	if _, known := x.files[w]; !known {
		x.files[w] = nil
		x.close()
	}
}

func (x *ledgerIndex) update() error {
	if x.f != nil {
		current, err := sameFile(x.f, x.ledger.path)
		if err != nil {
			return err
		}
		if !current {
			x.close()
		}
	}
	if x.f == nil {
		f, err := os.Open(x.ledger.path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		x.f, x.read = f, 0
	}
	n, err := eachImport(io.NewSectionReader(x.f, x.read, 1<<62), func(e *imported, _ int64) {
		if e.Agent != x.agent || !e.knownTo(x.stores) {
			return
		}
		x.lines++
		e.line = x.lines
		for _, w := range []wanted{{file: e.inode}, {log: e.Log}} {
			if _, known := x.files[w]; known {
				x.files[w] = e
			}
		}
	})
	x.read += n
	return err
}

// close makes the next look-up read the ledger from its beginning.
func (x *ledgerIndex) close() {
	if x.f != nil {
		x.f.Close()
		x.f = nil
	}
}

// compact replaces the ledger, whose lock is held, by its newest half, without
// lines that do not count.
func (l *ledger) compact(f *os.File) (err error) {
	last := make(map[ledgerKey]int64) // offsets of the lines that count
	var end int64
	if _, err := eachImport(io.NewSectionReader(f, 0, 1<<62), func(e *imported, at int64) {
		last[e.key()], end = at, at
	}); err != nil {
		return err
	}
	from := end - l.max/2
	tmp, err := os.OpenFile(l.path+tmpSuffix, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer tmp.Close()
	defer func() {
		if err != nil { // for example on a full disk
			err = errors.Join(err, os.Remove(tmp.Name()))
		}
	}()
	w := bufio.NewWriter(tmp)
	encoder := json.NewEncoder(w)
	var werr error
	if _, err := eachImport(io.NewSectionReader(f, 0, 1<<62), func(e *imported, at int64) {
		if werr == nil && at >= from && last[e.key()] == at {
			werr = encoder.Encode(e)
		}
	}); err != nil {
		return err
	}
	if err := errors.Join(werr, w.Flush(), tmp.Sync()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), l.path)
}

// eachImport calls each with the lines of a ledger and their offsets. It
// returns the offset of the end of the last complete line.
func eachImport(r io.Reader, each func(e *imported, at int64)) (int64, error) {
	const longest = 1 << 10
	lines := bufio.NewReaderSize(r, longest)
	var at int64
	for {
		line, err := lines.ReadSlice('\n')
		var e imported
		if err == nil && json.Unmarshal(line, &e) == nil && e.Inode != 0 {
			each(&e, at)
		}
		switch {
		case errors.Is(err, io.EOF): // a line that is being written
			return at, nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return at, err
		}
		at += int64(len(line))
	}
}

// sumOf returns a checksum of the first size bytes of a file: of the first and
// the last 4 KiB of them. The error is io.ErrUnexpectedEOF if the file is
// shorter.
func sumOf(f io.ReaderAt, size int64) (string, error) {
	var piece [4 << 10]byte
	sum, n := sha256.New(), min(int64(len(piece)), size)
	for _, at := range []int64{0, size - n} {
		if got, err := f.ReadAt(piece[:n], at); int64(got) < n {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return "", err
		}
		sum.Write(piece[:n])
	}
	return hex.EncodeToString(sum.Sum(nil)[:16]), nil
}

// lineBefore returns the offset of the beginning of the unfinished line at the
// offset at, or at itself if a line ends there.
func lineBefore(f io.ReaderAt, at int64) (int64, error) {
	var buf [64 << 10]byte
	for at > 0 {
		piece := buf[:min(at, int64(len(buf)))]
		if _, err := f.ReadAt(piece, at-int64(len(piece))); err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		at -= int64(len(piece))
		if i := bytes.LastIndexByte(piece, '\n'); i >= 0 {
			return at + int64(i) + 1, nil
		}
	}
	return 0, nil
}
