package worker

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/runs"
)

// spot ties a file to offsets of the raw log: the byte at n of the file has
// the log's offset Base+n.
type spot struct {
	Base int64  `json:"base"`
	Head []byte `json:"head,omitempty"` // the first bytes of the file, at most maxHead
}

// maxHead is how many of a file's first bytes tell whether it is still the
// same content.
const maxHead = 128

// A stream is one growing file, read by the offsets of the raw log. The
// offsets count on when the file is truncated under the one who writes it.
type stream struct {
	path string
	spot *spot // in the run's mark
	only *File // when set: content that takes this file's place is not ours
	part *Part // when set: what is behind it is not ours either
	f    *os.File

	size  int64     // when last looked at
	mod   time.Time // when last looked at
	live  bool      // seen by this process before
	grown time.Time // when it last changed
	stuck int64     // the end, when all that is left was an unfinished line

	replaced bool // with only: our content is gone
}

// change is what a look at a stream found.
type change int

const (
	same      change = iota // nothing new
	grown                   // there may be something to read
	truncated               // not the content that was there before, or less of it
)

// open opens the file, if it is there.
func (s *stream) open() error {
	if s.f != nil || s.replaced {
		return nil
	}
	f, err := os.OpenFile(s.path, os.O_RDONLY|unix.O_NONBLOCK, 0) // a FIFO would not let us go on
	if errors.Is(err, fs.ErrNotExist) {
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

// look finds out what the file holds now, at being the log's offset of what
// was stored last. It moves the base when the file was truncated; whoever
// calls it must save the spot before anything is stored.
func (s *stream) look(at int64, now time.Time) (change, error) {
	if err := s.open(); err != nil || s.f == nil {
		return same, err
	}
	info, err := s.f.Stat()
	if err != nil {
		return same, err
	}
	size := info.Size()
	if s.part != nil {
		size = min(size, s.part.To)
	}
	if s.live && size == s.size && info.ModTime().Equal(s.mod) {
		return same, nil
	}
	var buf [maxHead]byte
	n, err := s.f.ReadAt(buf[:min(size, maxHead)], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return same, err
	}
	head := buf[:n]
	found := grown
	switch {
	case !s.isHead(head):
		s.spot.Base = at
		found = truncated
	case at > s.spot.Base+size:
		// Cut short, by the writer or by a power failure: what the log has
		// of it is right.
		s.spot.Base = at - size
		found = truncated
	}
	if found == truncated && s.only != nil {
		s.replaced = true
		s.close()
		return truncated, nil
	}
	if len(head) > len(s.spot.Head) || found == truncated {
		s.spot.Head = bytes.Clone(head)
	}
	if s.live {
		s.grown = now
	} else {
		s.grown = steady(now, info.ModTime())
	}
	s.live, s.size, s.mod = true, size, info.ModTime()
	return found, nil
}

// steady is when something happened to a file, as far as its time of change
// tells, on the clock of now, which does not jump: who looks at a file that was
// changed "in the future" takes it for changed just now.
func steady(now, changed time.Time) time.Time { return now.Add(-max(0, now.Sub(changed))) }

// isHead reports whether head may begin the content that was there before.
// An agent that truncates its output begins again, often with the same words,
// so a file seen longer before must still have the whole head.
func (s *stream) isHead(head []byte) bool {
	if s.live && len(head) < len(s.spot.Head) {
		return false
	}
	n := min(len(head), len(s.spot.Head))
	return bytes.Equal(head[:n], s.spot.Head[:n])
}

// end is the log's offset of the end of the file, when last looked at.
func (s *stream) end() int64 { return s.spot.Base + s.size }

// read reads into buf from the log's offset at, or from the first offset after
// it that the file still has. It returns that offset.
func (s *stream) read(buf []byte, at int64) (int, int64, error) {
	if s.f == nil {
		return 0, at, nil
	}
	at = max(at, s.spot.Base)
	if s.part != nil {
		buf = buf[:max(0, min(int64(len(buf)), s.end()-at))]
	}
	n, err := s.f.ReadAt(buf, at-s.spot.Base)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, at, fmt.Errorf("read output: %w", err)
	}
	return n, at, nil
}

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

// wholeLines returns how many of b's bytes to send: whole lines, else a piece
// of a line that is longer than a chunk. The rest waits for its end, unless
// there is none to come.
func wholeLines(b []byte, final bool) int {
	if i := bytes.LastIndexByte(b, '\n'); i >= 0 {
		return i + 1
	}
	if final || len(b) == runs.MaxChunk {
		return len(b)
	}
	return 0
}
