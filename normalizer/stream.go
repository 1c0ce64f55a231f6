package normalizer

import (
	"bytes"
	"strconv"
)

// stream splits the bytes of one direction into lines. Its JSON is the state between two lines.
type stream struct {
	Offset   int64 `json:"offset"`         // of the next new byte
	Oversize int64 `json:"long,omitempty"` // length of an unfinished line that is too long
	EndsInCR bool  `json:"cr,omitempty"`   // with Oversize: the last byte was a carriage return
	AfterGap bool  `json:"torn,omitempty"` // the next line follows a gap: its beginning may be missing

	partial []byte // unfinished line, unless it is too long
	from    uint64 // sequence number of the entry in which partial begins
}

// open reports whether there is an unfinished line.
func (s *stream) open() bool { return len(s.partial) > 0 || s.Oversize > 0 }

// drop frees the buffered bytes of the unfinished line, which must be applied again.
func (s *stream) drop() {
	s.Offset -= int64(len(s.partial))
	s.partial = nil
}

// give gives up the unfinished line.
func (s *stream) give() { s.partial, s.Oversize, s.EndsInCR = nil, 0, false }

// next folds bytes at an offset, and returns those that are new. Duplicate bytes are ignored; missing
// bytes result in one Error event.
func (f *Fold) next(s *stream, offset int64, b []byte, replay bool) []byte {
	switch {
	case offset+int64(len(b)) <= s.Offset:
		return nil
	case offset < s.Offset:
		b = b[s.Offset-offset:]
	case offset > s.Offset:
		f.state.Missing += offset - s.Offset
		s.partial, s.Oversize, s.AfterGap = nil, 0, true
		s.Offset = offset
		f.Record.Gaps++
		if !replay {
			f.publishGap()
		}
	}
	s.Offset += int64(len(b))
	return b
}

// buffer stores the beginning of a line, or only its length if it is too long. The
// limit is one byte more than the longest line, because the last byte may be a carriage
// return.
func (f *Fold) buffer(s *stream, b []byte) {
	if s.Oversize == 0 && len(s.partial)+len(b) <= f.longest()+1 {
		if len(s.partial) == 0 {
			s.from = f.pos.Raw
		}
		s.partial = f.work.extend(s.partial, b)
		return
	}
	s.Oversize += int64(len(s.partial) + len(b))
	s.partial = nil
	if len(b) > 0 {
		s.EndsInCR = b[len(b)-1] == '\r'
	}
}

// flush folds the buffered line of stdout.
func (f *Fold) flush() {
	s := &f.state.stream
	if s.Oversize > 0 {
		if s.EndsInCR {
			s.Oversize--
		}
		f.tooLong(s.Oversize)
	} else {
		f.line(s.partial)
	}
	f.work.giveBack(s.partial)
	s.give()
}

// unfinished folds a line that a process has left unfinished: it is not read.
func (f *Fold) unfinished() {
	s := &f.state.stream
	if !s.open() {
		return
	}
	f.pos.Part = 0
	if n := s.Oversize + int64(len(s.partial)); s.AfterGap {
		f.lost()
	} else {
		f.publishFault(f.agent + " stream parse error (redacted): unfinished line (line_bytes=" +
			strconv.FormatInt(n, 10) + ")")
	}
	s.AfterGap = false
	f.work.giveBack(s.partial)
	s.give()
}

// sent folds bytes for the agent. Lines that are too long or no JSON are none for it.
func (f *Fold) sent(offset int64, b []byte, replay bool) {
	s := &f.state.In
	for b = f.next(s, offset, b, replay); len(b) > 0; {
		end := bytes.IndexByte(b, '\n')
		if end < 0 {
			f.buffer(s, b)
			return
		}
		line := b[:end]
		if s.open() {
			f.buffer(s, line)
			line = s.partial
		}
		if !s.AfterGap && len(line) <= f.longest() {
			f.sentLine(line)
		}
		f.settle() // nothing refers to the line after that
		f.work.giveBack(s.partial)
		s.give()
		s.AfterGap = false
		b = b[end+1:]
	}
}
