package worker

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/runs"
)

// segment maps the current content of a file to offsets of the raw log: byte n
// of the file has the offset Base+n.
type segment struct {
	Base int64  `json:"base"`
	Head []byte `json:"head,omitempty"` // the first bytes of the file, at most maxHead
	// Last are the last bytes of a file of another program that were stored; nil: not known.
	Last *lastBytes `json:"last,omitempty"`
}

// lastBytes are bytes of the raw log.
type lastBytes struct {
	To   int64  `json:"to"` // their end
	Size int64  `json:"n"`  // at most maxHead
	Sum  uint32 `json:"crc"`
}

// maxHead is how many of a file's first bytes are compared to detect replaced
// content, and how many of those that were stored last.
const maxHead = 128

// stream is one growing file, read by offsets of the raw log. Offsets keep
// increasing when the writer truncates the file.
type stream struct {
	path    string
	segment *segment // stored in the mark of the run
	only    *file    // if set: read only this file, not one that replaces it
	part    *part    // if set: read only this part
	most    int64    // if set: read at most so many bytes of the file, and no holes in it
	f       *os.File

	size       int64     // at the last refresh
	mod        time.Time // at the last refresh
	live       bool      // refreshed by this process before
	grown      time.Time // when the file last changed
	partialEnd int64     // the end of the file, when only an unfinished line was left
	sparse     bool      // the file may have holes
	hole       int64     // where the last read ended at a hole with more behind it; 0: it did not

	replaced bool // only is set, and its content is gone
}

// change is the result of a refresh.
type change int

const (
	unchanged change = iota // nothing new
	grown                   // there may be more to read
	truncated               // the previous content was replaced or truncated
)

// open opens the file, if it exists.
func (s *stream) open() error {
	if s.f != nil || s.replaced {
		return nil
	}
	open := openOwn
	if s.only != nil {
		open = openOther
	}
	f, err := open(s.path, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errBad) {
		s.replaced = s.only != nil
		return nil
	}
	if err != nil {
		return err
	}
	if s.only != nil {
		info, err := f.Stat()
		if err != nil || !s.only.is(info) {
			s.replaced = err == nil
			return errors.Join(err, f.Close())
		}
	}
	s.f = f
	return nil
}

// refresh updates the state of the stream; at is the offset after the last
// stored byte. It moves the base if the file was truncated; then the caller
// must save the segment before it stores anything.
func (s *stream) refresh(at int64, now time.Time) (change, error) {
	if err := s.open(); err != nil || s.f == nil {
		return unchanged, err
	}
	info, err := s.f.Stat()
	if err != nil {
		return unchanged, err
	}
	size := info.Size()
	if s.part != nil {
		size = min(size, s.part.To)
	}
	if s.most > 0 {
		st, ok := info.Sys().(*syscall.Stat_t)
		s.sparse = !ok || st.Blocks*512 < size
		size = min(size, s.most)
	}
	if s.live && size == s.size && info.ModTime().Equal(s.mod) {
		return unchanged, nil
	}
	var buf [maxHead]byte
	n, err := s.f.ReadAt(buf[:min(size, maxHead)], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return unchanged, err
	}
	head := buf[:n]
	same, err := s.hasLast(at, size)
	if err != nil {
		return unchanged, err
	}
	found, base := grown, s.segment.Base
	switch {
	case !same, !s.isHead(head):
		found, base = truncated, at
	case at > base+size:
		// Truncated by the writer or by a power failure. The log keeps the bytes
		// that it has.
		found, base = truncated, at-size
	}
	if found == truncated && s.only != nil { // after a kill it is found again
		s.replaced = true
		s.close()
		return truncated, nil
	}
	if s.segment.Base = base; found == truncated {
		s.partialEnd = 0
	}
	if len(head) > len(s.segment.Head) || found == truncated {
		s.segment.Head = bytes.Clone(head)
	}
	if s.live {
		s.grown = now
	} else {
		s.grown = changeTime(now, info.ModTime())
	}
	s.live, s.size, s.mod = true, size, info.ModTime()
	return found, nil
}

// changeTime returns the modification time of a file as a time on the
// monotonic clock of now. A time in the future counts as now.
func changeTime(now, changed time.Time) time.Time { return now.Add(-max(0, now.Sub(changed))) }

// isHead reports whether head can be the beginning of the previous content. An
// agent that truncates its output may write the same first bytes again, so a
// file that was longer before must still have the whole head.
func (s *stream) isHead(head []byte) bool {
	if s.live && len(head) < len(s.segment.Head) {
		return false
	}
	n := min(len(head), len(s.segment.Head))
	return bytes.Equal(head[:n], s.segment.Head[:n])
}

// hasLast reports whether a file of a size still has the bytes that were stored last, the log up to the offset at.
func (s *stream) hasLast(at, size int64) (bool, error) {
	last := s.segment.Last
	if last == nil || last.To > at || last.To > s.segment.Base+size { // it is not known, or the size tells
		return true, nil
	}
	var buf [maxHead]byte
	b := buf[:max(0, min(last.Size, maxHead))]
	n, err := s.f.ReadAt(b, max(0, last.To-s.segment.Base-last.Size))
	if errors.Is(err, io.EOF) { // it is being truncated
		err = nil
	}
	return crc32.ChecksumIEEE(b[:n]) == last.Sum, err
}

// stores notes that bytes of the file are stored next, up to an offset.
func (s *stream) stores(b []byte, to int64) {
	if s.only != nil {
		b = b[max(0, len(b)-maxHead):]
		s.segment.Last = &lastBytes{to, int64(len(b)), crc32.ChecksumIEEE(b)}
	}
}

// end is the offset of the end of the file at the last refresh.
func (s *stream) end() int64 { return s.segment.Base + s.size }

// read reads into buf from the offset at, or from the first offset behind it
// that the file has. It returns the number of bytes and that offset.
func (s *stream) read(buf []byte, at int64) (int, int64, error) {
	if s.f == nil {
		return 0, at, nil
	}
	at = max(at, s.segment.Base)
	if s.part != nil || s.only != nil { // the rest may be of others
		buf = buf[:max(0, min(int64(len(buf)), s.end()-at))]
	}
	from := at - s.segment.Base
	s.hole = 0
	if s.most > 0 {
		buf = buf[:max(0, min(int64(len(buf)), s.size-from))]
	}
	if s.sparse {
		var err error
		if from, buf, err = s.skipHole(from, buf); err != nil {
			return 0, at, err
		}
	}
	n, err := s.f.ReadAt(buf, from)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, at, fmt.Errorf("read output: %w", err)
	}
	return n, s.segment.Base + from, nil
}

// skipHole returns where the next data of the file begins at or after from, and the part of buf for
// it. What an agent skips, or adds to the size of its output, is no output.
func (s *stream) skipHole(from int64, buf []byte) (int64, []byte, error) {
	data, err := s.f.Seek(from, unix.SEEK_DATA)
	switch {
	case errors.Is(err, unix.EINVAL): // this file system does not know holes
		return from, buf, nil
	case errors.Is(err, unix.ENXIO), err == nil && data >= s.size:
		return from, nil, nil
	case err != nil:
		return from, nil, fmt.Errorf("holes of the output: %w", err)
	}
	hole, err := s.f.Seek(data, unix.SEEK_HOLE)
	if err != nil {
		return data, nil, fmt.Errorf("holes of the output: %w", err)
	}
	if hole < s.size {
		s.hole = s.segment.Base + hole
	}
	return data, buf[:min(int64(len(buf)), hole-data, s.size-data)], nil
}

// endsLine reports whether nothing continues an unfinished line that was read up to an offset: a hole follows.
func (s *stream) endsLine(at int64) bool { return s.hole > 0 && at == s.hole }

// torn reports whether the file ends in the middle of a line.
func (s *stream) torn() bool {
	var last [1]byte
	if s.f == nil || s.size == 0 {
		return false
	}
	_, err := s.f.ReadAt(last[:], s.size-1)
	return err == nil && last[0] != '\n'
}

func (s *stream) close() {
	if s.f != nil {
		s.f.Close()
		s.f = nil
	}
}

// wholeLines returns how many bytes of b to send: all complete lines, or a
// full chunk of a longer line. An unfinished line waits, unless this is the
// final read.
func wholeLines(b []byte, final bool) int {
	if i := bytes.LastIndexByte(b, '\n'); i >= 0 {
		return i + 1
	}
	if final || len(b) == runs.MaxChunk {
		return len(b)
	}
	return 0
}
