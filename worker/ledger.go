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
	"path/filepath"
	"sync"
)

// maxLedger is the size in bytes at which a ledger is compacted to the newest
// half of it: at least the last 200,000 imports are remembered.
const maxLedger = 64 << 20

// imported is what a ledger says of a file: how far its content is in runs.
type imported struct {
	Dev   uint64 `json:"dev"`
	Inode uint64 `json:"inode"`
	Size  int64  `json:"size"` // bytes of the file that are in runs
	Sum   string `json:"sum"`  // checksum of these, see sumOf
	Run   string `json:"run"`  // the last of the runs
}

// inode tells a file from all others of this machine.
type inode struct{ dev, inode uint64 }

// ledger is a file with one line for each file that was imported. The last
// line of a file counts. Several processes append to it, with one write each,
// under the lock of the file. It is not synced: of what a power failure takes,
// the raw log still knows the run.
type ledger struct {
	path string
	max  int64
	mu   sync.Mutex // compaction holds a part of the ledger in memory: one at a time
}

// add appends a line.
func (l *ledger) add(e imported) error {
	line, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	f, err := l.open()
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	defer f.Close() // and releases the lock
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	// A line that a full disk or a power failure tore must not tear this one.
	if _, err := f.Write(append(append([]byte{'\n'}, line...), '\n')); err != nil {
		return fmt.Errorf("ledger: %w", errors.Join(err, f.Truncate(end)))
	}
	if end < l.max {
		return nil
	}
	if err := l.compact(f); err != nil {
		return fmt.Errorf("compact ledger: %w", err)
	}
	return nil
}

// open opens the ledger with its lock held.
func (l *ledger) open() (*os.File, error) {
	for {
		f, err := os.OpenFile(l.path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			return nil, err
		}
		if err := lock(f); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		// A compaction may have replaced it while this waited for the lock.
		if is, err := sameFile(f, l.path); is || err != nil {
			return f, err
		}
		f.Close()
	}
}

// find returns the last line of each wanted file. Lines that cannot be read
// are skipped.
func (l *ledger) find(wanted map[inode]bool) (map[inode]imported, error) {
	found := make(map[inode]imported)
	f, err := os.Open(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return found, nil
	}
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	defer f.Close()
	err = eachImport(f, func(e imported, _ int64) {
		if wanted[inode{e.Dev, e.Inode}] {
			found[inode{e.Dev, e.Inode}] = e
		}
	})
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	return found, nil
}

// compact replaces the ledger by its newest half, with one line for each file.
func (l *ledger) compact(f *os.File) error {
	last := make(map[inode]int64) // where the last line of a file is
	var from, end int64
	if err := eachImport(io.NewSectionReader(f, 0, 1<<62), func(e imported, at int64) {
		last[inode{e.Dev, e.Inode}], end = at, at
	}); err != nil {
		return err
	}
	from = end - l.max/2
	tmp, err := os.CreateTemp(filepath.Dir(l.path), ".tmp-"+filepath.Base(l.path)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	defer tmp.Close()
	w := bufio.NewWriter(tmp)
	encoder := json.NewEncoder(w)
	var werr error
	if err := eachImport(io.NewSectionReader(f, 0, 1<<62), func(e imported, at int64) {
		if werr == nil && at >= from && last[inode{e.Dev, e.Inode}] == at {
			werr = encoder.Encode(e)
		}
	}); err != nil {
		return err
	}
	if err := errors.Join(werr, w.Flush(), tmp.Sync()); err != nil {
		return err
	}
	if err := os.Rename(tmp.Name(), l.path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(l.path))
}

// eachImport calls each with the lines of a ledger and their offsets.
func eachImport(r io.Reader, each func(e imported, at int64)) error {
	const longest = 1 << 10
	lines := bufio.NewReaderSize(r, longest)
	var at int64
	for {
		line, err := lines.ReadSlice('\n')
		var e imported
		if err == nil && json.Unmarshal(line, &e) == nil && e.Inode != 0 {
			each(e, at)
		}
		at += int64(len(line))
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
	}
}

// sumOf is the checksum of the first size bytes of a file: of their beginning
// and their end. The error is io.ErrUnexpectedEOF for a file that is shorter.
func sumOf(f io.ReaderAt, size int64) (string, error) {
	const piece = 4 << 10
	sum := sha256.New()
	for _, at := range []int64{0, max(0, size-piece)} {
		n, err := io.Copy(sum, io.NewSectionReader(f, at, min(piece, size)))
		if err != nil {
			return "", err
		}
		if n < min(piece, size) {
			return "", io.ErrUnexpectedEOF
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:16]), nil
}

// lineBefore is where the line begins that has the byte before the offset at:
// at itself, where that byte ends a line.
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
