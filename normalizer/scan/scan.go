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
//			typ = s.Value()
//		default:
//			s.Skip()
//		}
//	}
//	fault := s.End()
//
// Nothing that was read may be believed before [Scanner.End] returned OK.
package scan

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

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
	i     int  // next byte to read
	start int  // where the value begins
	bad   bool // the grammar was broken, at or before i
	first bool // just behind a '{': no comma is due
	depth int  // open objects and arrays

	key     Value
	scratch [64]byte // a key with escapes, decoded

	// Which of the open containers are objects; read and written by skip only.
	object [MaxDepth/64 + 1]uint64
}

// Reset makes s read line from its beginning. It keeps line until the next Reset.
func (s *Scanner) Reset(line []byte) {
	s.b, s.i, s.bad, s.first, s.depth = line, 0, false, false, 0
	s.space()
	s.start = s.i
}

// Object enters the object that is next, and reports whether there is one.
// Where there is none it reads nothing.
func (s *Scanner) Object() bool {
	if s.bad || s.i >= len(s.b) || s.b[s.i] != '{' {
		return false
	}
	s.i++
	s.depth++
	s.first = true
	if s.depth > MaxDepth {
		s.bad = true
	}
	return true
}

// Next moves to the next member of the object that was entered last; its
// value is next to be read. At the object's end it leaves it, and is false.
func (s *Scanner) Next() bool {
	if s.bad {
		return false
	}
	s.space()
	if s.i >= len(s.b) {
		return s.fail()
	}
	c := s.b[s.i]
	if c == '}' {
		s.i++
		s.depth--
		s.first = false
		s.space()
		return false
	}
	if s.first {
		s.first = false
	} else {
		if c != ',' {
			return s.fail()
		}
		s.i++
		s.space()
	}
	if s.i >= len(s.b) || s.b[s.i] != '"' {
		return s.fail()
	}
	s.key = s.string()
	s.space()
	if s.bad || s.i >= len(s.b) || s.b[s.i] != ':' {
		return s.fail()
	}
	s.i++
	s.space()
	return true
}

// Key is the key of the member that [Scanner.Next] moved to, decoded. A key
// with escapes that is longer than any that a caller asks for comes as
// written. It is valid until the next call of Next.
func (s *Scanner) Key() []byte {
	if !s.key.Escaped || s.key.Len > len(s.scratch) {
		return s.key.Raw
	}
	return s.key.Append(s.scratch[:0])
}

// Value reads the value that is next, whatever it is.
func (s *Scanner) Value() Value {
	if s.bad {
		return Value{}
	}
	if s.i >= len(s.b) {
		s.fail()
		return Value{}
	}
	switch s.b[s.i] {
	case '"':
		return s.string()
	case '{':
		return s.raw(Object)
	case '[':
		return s.raw(Array)
	case 'n':
		return s.raw(Null)
	case 't', 'f':
		return s.raw(Bool)
	}
	return s.raw(Number)
}

// Skip reads over the value that is next.
func (s *Scanner) Skip() {
	if s.bad {
		return
	}
	if s.i < len(s.b) && s.b[s.i] == '"' {
		s.string()
		return
	}
	s.skip()
}

// End reports what is wrong with the line, once its value has been read: it
// must be the only one.
func (s *Scanner) End() Fault {
	if !s.bad && s.depth == 0 && s.i > s.start {
		s.space()
		if s.i == len(s.b) {
			return OK
		}
	}
	s.bad = true
	if !utf8.Valid(s.b) {
		return InvalidUTF8
	}
	return InvalidJSON
}

func (s *Scanner) raw(k Kind) Value {
	start := s.i
	s.skip()
	if s.bad {
		return Value{}
	}
	return Value{Kind: k, Raw: s.b[start:s.i]}
}

func (s *Scanner) fail() bool {
	s.bad = true
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

// skip reads over one value, iteratively: a line may nest MaxDepth deep.
func (s *Scanner) skip() {
	floor := s.depth
	for {
		// A value is due.
		if s.i >= len(s.b) {
			s.bad = true
			return
		}
		switch c := s.b[s.i]; c {
		case '"':
			s.string()
		case '{', '[':
			s.i++
			s.space()
			if s.i < len(s.b) && s.b[s.i] == c+2 { // '}' is '{'+2, ']' is '['+2
				s.i++
				if s.depth+1 > MaxDepth {
					s.bad = true
				}
				break
			}
			s.depth++
			if s.depth > MaxDepth {
				s.bad = true
				return
			}
			word, bit := s.depth>>6, uint64(1)<<(s.depth&63)
			if c == '{' {
				s.object[word] |= bit
				s.member()
			} else {
				s.object[word] &^= bit
			}
			if s.bad {
				return
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
			if s.bad || s.depth == floor {
				return
			}
			s.space()
			if s.i >= len(s.b) {
				s.bad = true
				return
			}
			inObject := s.object[s.depth>>6]&(1<<(s.depth&63)) != 0
			c := s.b[s.i]
			s.i++
			if c == ',' {
				s.space()
				if inObject {
					s.member()
				}
				break
			}
			if inObject && c != '}' || !inObject && c != ']' {
				s.bad = true
				return
			}
			s.depth--
		}
	}
}

// member reads a key and its colon.
func (s *Scanner) member() {
	if s.bad || s.i >= len(s.b) || s.b[s.i] != '"' {
		s.bad = true
		return
	}
	s.string()
	s.space()
	if s.bad || s.i >= len(s.b) || s.b[s.i] != ':' {
		s.bad = true
		return
	}
	s.i++
	s.space()
}

func (s *Scanner) literal(word string) {
	if len(s.b)-s.i < len(word) || string(s.b[s.i:s.i+len(word)]) != word {
		s.bad = true
		return
	}
	s.i += len(word)
}

const (
	ones   = 0x0101010101010101
	highs  = 0x80 * ones
	spaces = ' ' * ones
	quotes = '"' * ones
	slashs = '\\' * ones
)

// string reads the string whose quote is next. Eight bytes at a time are
// looked at for a quote, a backslash, a control byte or a byte past ASCII.
func (s *Scanner) string() Value {
	b := s.b
	start := s.i + 1
	i := start
	surplus := 0 // bytes that the encoded form is longer
	for {
		for i+8 <= len(b) {
			x := binary.LittleEndian.Uint64(b[i:])
			hit := ((x - spaces) | ((x ^ quotes) - ones) | ((x ^ slashs) - ones) | x) & highs
			if hit != 0 {
				i += bits.TrailingZeros64(hit) >> 3
				break
			}
			i += 8
		}
		if i >= len(b) {
			s.bad = true
			return Value{}
		}
		switch c := b[i]; {
		case c == '"':
			s.i = i + 1
			return Value{Kind: String, Raw: b[start:i:i], Len: i - start - surplus, Escaped: surplus != 0}
		case c == '\\':
			n, decoded := escape(b[i:])
			if n == 0 {
				s.bad = true
				return Value{}
			}
			i += n
			surplus += n - decoded
		case c < ' ':
			s.bad = true
			return Value{}
		case c < utf8.RuneSelf:
			i++
		default:
			n := runes(b[i:])
			if n == 0 {
				s.bad = true
				return Value{}
			}
			i += n
		}
	}
}

// runes is the length of the run of valid UTF-8 sequences past ASCII that b
// begins with, or 0 where its first sequence is invalid.
func runes(b []byte) int {
	i := 0
	for i < len(b) && b[i] >= utf8.RuneSelf {
		c := b[i]
		switch {
		case c < 0xc2:
			return 0
		case c < 0xe0:
			if len(b)-i < 2 || b[i+1]&0xc0 != 0x80 {
				return 0
			}
			i += 2
		case c < 0xf0:
			if len(b)-i < 3 || b[i+1]&0xc0 != 0x80 || b[i+2]&0xc0 != 0x80 ||
				c == 0xe0 && b[i+1] < 0xa0 || c == 0xed && b[i+1] > 0x9f {
				return 0
			}
			i += 3
		default:
			if c > 0xf4 || len(b)-i < 4 || b[i+1]&0xc0 != 0x80 || b[i+2]&0xc0 != 0x80 || b[i+3]&0xc0 != 0x80 ||
				c == 0xf0 && b[i+1] < 0x90 || c == 0xf4 && b[i+1] > 0x8f {
				return 0
			}
			i += 4
		}
	}
	return i
}

// escape measures the escape that b begins with: its own length and that of
// the UTF-8 it stands for; 0, 0 where it is none. A pair of surrogates is one
// escape; a lone one stands for U+FFFD.
func escape(b []byte) (n, decoded int) {
	if len(b) < 2 {
		return 0, 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2, 1
	case 'u':
	default:
		return 0, 0
	}
	switch r := hex4(b[2:]); {
	case r < 0:
		return 0, 0
	case r < 0x80:
		return 6, 1
	case r < 0x800:
		return 6, 2
	case 0xd800 <= r && r < 0xdc00 && len(b) >= 12 && b[6] == '\\' && b[7] == 'u':
		if low := hex4(b[8:]); 0xdc00 <= low && low < 0xe000 {
			return 12, 4
		}
	}
	return 6, 3
}

// hex4 is the value of the four hexadecimal digits that b begins with, or -1.
func hex4(b []byte) rune {
	if len(b) < 4 {
		return -1
	}
	var r rune
	for _, c := range b[:4] {
		switch {
		case '0' <= c && c <= '9':
			r = r<<4 | rune(c-'0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return -1
		}
	}
	return r
}
