// Package scan reads one line of JSON in place, once: it checks UTF-8 and the
// whole grammar, and hands out the few values its caller names, without
// building a tree and without allocating.
//
// A [Scanner] accepts exactly what encoding/json can decode into an any, as
// long as the line is valid UTF-8. A caller walks an object like this:
//
//	s.Reset(line)
//	for ok := s.Object(); ok && s.Next(); {
//		switch string(s.Key()) {
//		case "type":
//			s.First(&typ)
//		default:
//			s.Skip()
//		}
//	}
//	fault := s.End()
//
// Nothing that was read may be believed before [Scanner.End] returned OK.
package scan

import "unicode/utf8"

// MaxDepth is the deepest nesting that is read: encoding/json's own limit.
const MaxDepth = 10000

// Fault is what is wrong with a line.
type Fault uint8

// The faults, in the order in which a line is checked.
const (
	OK Fault = iota
	InvalidUTF8
	InvalidJSON
)

// Scanner walks one line. Its zero value is ready for [Scanner.Reset].
type Scanner struct {
	b     []byte
	i     int  // next byte to read; at the end once the grammar was broken
	start int  // where the value begins
	depth int  // open objects and arrays
	bad   bool // the grammar was broken
	first bool // just behind a '{': no comma is due

	key     int // where the key begins, behind its quote
	keyEnd  int
	surplus int      // of the key, see plain
	scratch [64]byte // a key with escapes, decoded

	// Which of the open containers are objects; read and written by skip only.
	object [MaxDepth/64 + 1]uint64
}

// Reset makes s read line from its beginning. It keeps line until the next Reset.
func (s *Scanner) Reset(line []byte) {
	s.b, s.i, s.depth, s.bad, s.first = line, 0, 0, false, false
	s.space()
	s.start = s.i
}

// Object enters the object that is next, and reports whether there is one.
// Where there is none it reads nothing.
func (s *Scanner) Object() bool {
	if s.i >= len(s.b) || s.b[s.i] != '{' {
		return false
	}
	s.i++
	s.depth++
	s.first = true
	if s.depth > MaxDepth {
		return s.fail()
	}
	return true
}

// Next moves to the next member of the object that was entered last; its
// value is next to be read. At the object's end it leaves it, and is false.
func (s *Scanner) Next() bool {
	s.space()
	if s.i >= len(s.b) {
		return s.fail()
	}
	switch c := s.b[s.i]; {
	case c == '}':
		s.i++
		s.depth--
		s.first = false
		return false
	case s.first:
		s.first = false
	case c == ',':
		s.i++
		s.space()
	default:
		return s.fail()
	}
	return s.member()
}

// Key is the key of the member that [Scanner.Next] moved to, decoded. A key
// with escapes that is longer than any that a caller asks for comes as
// written. It is valid until the next call of Next.
func (s *Scanner) Key() []byte {
	if s.surplus == 0 || s.keyEnd-s.key-s.surplus > len(s.scratch) {
		return s.b[s.key:s.keyEnd]
	}
	return s.decodedKey()
}

func (s *Scanner) decodedKey() []byte {
	return decode(s.scratch[:0], s.b[s.key:s.keyEnd])
}

// Value reads the value that is next, whatever it is.
func (s *Scanner) Value() (v Value) {
	s.First(&v)
	return v
}

// First reads the value that is next into v, or over it where v has one
// already: the first of two equal keys counts.
func (s *Scanner) First(v *Value) {
	if v.Kind != Absent {
		s.Skip()
		return
	}
	start := s.i
	if start >= len(s.b) {
		s.fail()
		return
	}
	kind := Number
	switch s.b[start] {
	case '"':
		end, surplus := s.text(start + 1)
		if s.bad {
			return
		}
		s.i = end + 1
		// Field by field: a whole Value would go by way of the stack, slowly.
		v.Kind, v.Raw, v.Len, v.Escaped = String, s.b[start+1:end:end], end-start-1-surplus, surplus > 0
		return
	case '{':
		kind = Object
	case '[':
		kind = Array
	case 'n':
		kind = Null
	case 't', 'f':
		kind = Bool
	}
	if s.skip() {
		v.Kind, v.Raw = kind, s.b[start:s.i:s.i]
	}
}

// Skip reads over the value that is next.
func (s *Scanner) Skip() {
	if s.i < len(s.b) && s.b[s.i] == '"' {
		s.string()
		return
	}
	s.skip()
}

// End reports what is wrong with the line, once its value has been read: it
// must be the only one.
func (s *Scanner) End() Fault {
	s.space()
	if !s.bad && s.depth == 0 && s.i > s.start && s.i == len(s.b) {
		return OK
	}
	s.fail()
	if !utf8.Valid(s.b) {
		return InvalidUTF8
	}
	return InvalidJSON
}

// fail ends the reading: nothing is left to read.
func (s *Scanner) fail() bool {
	s.bad = true
	s.i = len(s.b)
	return false
}

// space moves over white space. Agents print none, so the common case is one compare.
func (s *Scanner) space() {
	if s.i < len(s.b) && s.b[s.i] <= ' ' {
		s.spaces()
	}
}

func (s *Scanner) spaces() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return
		}
	}
}

// member reads a key and its colon.
func (s *Scanner) member() bool {
	if s.i >= len(s.b) || s.b[s.i] != '"' {
		return s.fail()
	}
	s.key = s.i + 1
	if n := short(s.b[s.key:]); n >= 0 {
		s.keyEnd, s.surplus = s.key+n, 0
	} else if s.keyEnd, s.surplus = s.text(s.key); s.bad {
		return false
	}
	s.i = s.keyEnd + 1
	s.space()
	if s.i >= len(s.b) || s.b[s.i] != ':' {
		return s.fail()
	}
	s.i++
	s.space()
	return true
}

// skip reads over one value, iteratively: a line may nest MaxDepth deep.
func (s *Scanner) skip() bool {
	floor := s.depth
	for {
		// A value is due.
		if s.i >= len(s.b) {
			return s.fail()
		}
		switch c := s.b[s.i]; c {
		case '"':
			s.string()
		case '{', '[':
			s.i++
			if s.depth++; s.depth > MaxDepth {
				return s.fail()
			}
			s.space()
			if s.i < len(s.b) && s.b[s.i] == c+2 { // '}' is '{'+2, ']' is '['+2
				s.i++
				s.depth--
				break
			}
			word, bit := s.depth>>6, uint64(1)<<(s.depth&63)
			if c == '[' {
				s.object[word] &^= bit
				continue
			}
			s.object[word] |= bit
			if !s.member() {
				return false
			}
			continue
		case 't':
			s.literal("true")
		case 'f':
			s.literal("false")
		case 'n':
			s.literal("null")
		default:
			s.number()
		}
		// A value has ended: close what ends with it.
		for {
			if s.depth == floor {
				return !s.bad
			}
			s.space()
			if s.i >= len(s.b) {
				return s.fail()
			}
			inObject := s.object[s.depth>>6]&(1<<(s.depth&63)) != 0
			c := s.b[s.i]
			s.i++
			if c == ',' {
				s.space()
				if inObject && !s.member() {
					return false
				}
				break
			}
			if inObject && c != '}' || !inObject && c != ']' {
				return s.fail()
			}
			s.depth--
		}
	}
}

func (s *Scanner) literal(word string) {
	if len(s.b)-s.i < len(word) || string(s.b[s.i:s.i+len(word)]) != word {
		s.fail()
		return
	}
	s.i += len(word)
}
