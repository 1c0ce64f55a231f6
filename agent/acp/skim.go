package acp

import (
	"bytes"

	"github.com/linesman/linesman/normalizer/scan"
)

// Skim finds the id and the method of a message in a line of any length, which comes in pieces and is
// not kept. The zero value is ready for the first piece.
type Skim struct {
	depth         int
	text, escaped bool
	over          bool   // nothing further is read
	cut           bool   // bytes are missing
	member        []byte // of the message that is being read, without what is nested in it; at most maxMember
	found         [3][]byte
}

// maxMember is the maximum length of a member of a message that [Skim] reads.
const maxMember = 2 * MaxOption

// skimmed are the members that a skim reads: they are kept as they are in the line.
var skimmed = [3]string{"jsonrpc", "id", "method"}

// Write reads the next piece of the line, without its newline.
func (s *Skim) Write(piece []byte) {
	for _, b := range piece {
		if s.over {
			return
		}
		s.read(b)
	}
}

// Cut says that bytes of the line are missing here: what was read before them counts, and nothing else does.
func (s *Skim) Cut() { s.over, s.cut, s.member = true, true, nil }

func (s *Skim) read(b byte) {
	switch {
	case s.text:
		s.text = s.escaped || b != '"'
		s.escaped = !s.escaped && b == '\\'
	case b == '"':
		s.text = true
	case b == '{', b == '[':
		s.depth++
		s.over = s.depth == 1 && b == '[' // no message
		return
	case b == '}', b == ']':
		if s.depth--; s.depth <= 0 {
			s.end()
			s.over = true
		}
		return
	case b == ',' && s.depth == 1:
		s.end()
		return
	}
	if s.depth == 1 && len(s.member) <= maxMember {
		s.member = append(s.member, b)
	}
}

// end reads a member. One that is nested, too long or invalid is none of those that are searched.
func (s *Skim) end() {
	member := append([]byte{'{'}, s.member...)
	if bytes.HasSuffix(bytes.TrimSpace(member), []byte{':'}) { // the value was nested: the first of a key counts
		member = append(member, "null"...)
	}
	member, s.member = append(member, '}'), s.member[:0]
	if len(member) > maxMember {
		return
	}
	var values [len(skimmed)]scan.Value
	fields := map[string]*scan.Value{}
	for i, name := range skimmed {
		fields[name] = &values[i]
	}
	if scan.Fields(member, fields) != scan.OK {
		return
	}
	for i, v := range values {
		if v.Kind != scan.Absent && s.found[i] == nil {
			s.found[i] = member
		}
	}
}

// Message returns what was found at the end of the line: a request or a response that has nothing but its id and
// its method, or an invalid one. Such a response counts as one that failed.
func (s *Skim) Message() (m Message) {
	var version scan.Value
	for i, v := range []*scan.Value{&version, &m.ID, &m.Method} {
		scan.Fields(s.found[i], map[string]*scan.Value{skimmed[i]: v})
	}
	id := (m.ID.Kind == scan.Number || m.ID.IsString()) && len(m.ID.Raw) <= MaxID
	switch {
	case !version.Equal("2.0") || !id:
	case m.Method.IsString():
		m.Kind = Request
	case !s.cut:
		m.Kind = Response
	}
	return m
}
