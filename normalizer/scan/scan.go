// Package scan reads one line of JSON in a single pass. It validates UTF-8 and the
// JSON grammar, and returns the values that the caller selects. It does not
// allocate, and builds no tree.
//
// A [Scanner] accepts exactly the lines that are valid UTF-8 and that
// encoding/json can decode into an any. A caller reads an object like this:
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
// The values are valid only if [Scanner.End] returns OK.
package scan

import (
	"strconv"
	"unicode/utf8"
	"unsafe"
)

// maxDepth is the maximum nesting depth. It is the same as the limit of
// encoding/json.
const maxDepth = 10000

// Fault is the reason why a line is invalid.
type Fault uint8

// The faults. InvalidUTF8 takes precedence over InvalidJSON.
const (
	OK Fault = iota
	InvalidUTF8
	InvalidJSON
)

// Scanner reads one line. The zero value is ready for [Scanner.Reset].
type Scanner struct {
	b     []byte
	i     int  // offset of the next byte; len(b) after a syntax error
	start int  // offset of the value
	depth int  // number of open objects and arrays
	bad   bool // there was a syntax error
	first bool // directly after '{': the next member has no comma before it
	odd   bool // since First cleared it, something was read that serde_json writes in another form

	key     int // offset of the key, after its quote
	keyEnd  int
	surplus int      // of the key, see text
	scratch [64]byte // buffer for a decoded key

	// Bit set of the open containers that are objects; used only by skip.
	object [maxDepth/64 + 1]uint64
}

// Reset starts reading line. The scanner keeps a reference to line until the next
// Reset.
func (s *Scanner) Reset(line []byte) {
	s.b, s.i, s.depth, s.bad, s.first = line, 0, 0, false, false
	s.space()
	s.start = s.i
}

// Fields reads line, and the values of the named members if it is an object. The
// first of duplicate keys counts.
func Fields(line []byte, fields map[string]*Value) Fault {
	var s Scanner
	s.Reset(line)
	ok := s.Object()
	if !ok {
		s.Skip()
	}
	for ok && s.Next() {
		if v := fields[string(s.Key())]; v != nil {
			s.First(v)
		} else {
			s.Skip()
		}
	}
	return s.End()
}

// Object enters the next value if it is an object, and reports whether it is one.
// Otherwise it reads nothing.
func (s *Scanner) Object() bool {
	if s.i >= len(s.b) || s.b[s.i] != '{' {
		return false
	}
	s.i++
	s.depth++
	s.first = true
	if s.depth > maxDepth {
		return s.fail()
	}
	return true
}

// Next moves to the next member of the current object, so that its value is the
// next value. At the end of the object it leaves the object and returns false.
func (s *Scanner) Next() bool {
	if p := s.b[s.i:]; len(p) > 12 && p[0] == ',' && p[1] == '"' && !s.first { // often: a short key, no white space
		if n := 2 + shortString(p[2:]); n > 1 && p[n+1] == ':' && p[n+2] > ' ' {
			s.key, s.keyEnd, s.surplus = s.i+2, s.i+n, 0
			s.i += n + 2
			return true
		}
	}
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

// Key returns the decoded key of the current member. A key that has escapes and
// more than 64 decoded bytes is returned undecoded. The result is valid until the
// next call of Next.
func (s *Scanner) Key() []byte {
	if s.surplus == 0 || s.keyEnd-s.key-s.surplus > len(s.scratch) {
		return s.b[s.key:s.keyEnd]
	}
	return s.decodedKey()
}

func (s *Scanner) decodedKey() []byte {
	return decode(s.scratch[:0], s.b[s.key:s.keyEnd])
}

// Value reads the next value.
func (s *Scanner) Value() (v Value) {
	s.First(&v)
	return v
}

// First reads the next value into v. If v already has a value, First skips the next
// value: the first of duplicate keys counts.
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
	s.odd = false
	switch s.b[start] {
	case '"':
		end, surplus := s.text(start + 1)
		if s.bad {
			return
		}
		s.i = end + 1
		// Field by field: assigning a Value is slower, because it copies via the stack.
		v.Kind, v.Raw, v.Len, v.Escaped = String, s.b[start+1:end:end], end-start-1-surplus, surplus > 0
		v.Odd = s.odd
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
		v.Kind, v.Raw, v.Odd = kind, s.b[start:s.i:s.i], s.odd
	}
}

// Skip skips the next value.
func (s *Scanner) Skip() {
	if s.i < len(s.b) && s.b[s.i] == '"' {
		s.skipString()
		return
	}
	s.skip()
}

// Offset returns the offset of the next byte that is not read.
func (s *Scanner) Offset() int { return s.i }

// End returns the fault of the line after its only value was read.
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

// fail records a syntax error and moves to the end of the line. It returns false.
func (s *Scanner) fail() bool {
	s.bad = true
	s.i = len(s.b)
	return false
}

// space skips white space. Most agents print none, so that is the fast path.
func (s *Scanner) space() {
	if s.i < len(s.b) && s.b[s.i] <= ' ' {
		s.spaces()
	}
}

func (s *Scanner) spaces() {
	s.odd = true
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
	if n := shortString(s.b[s.key:]); n >= 0 {
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

// skip skips one value. It is iterative, because the nesting depth can be MaxDepth.
func (s *Scanner) skip() bool {
	base := s.depth
	for {
		// Expect a value.
		if s.i >= len(s.b) {
			return s.fail()
		}
		switch c := s.b[s.i]; c {
		case '"':
			s.skipString()
		case '{', '[':
			s.i++
			if s.depth++; s.depth > maxDepth {
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
		// After a value: close the containers that end here.
		for {
			if s.depth == base {
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

// safeDigits is the number of digits up to which a number without an exponent is
// always in the range of a float64.
const safeDigits = 308

// plainDigits is the number of digits up to which an integer always fits int64.
const plainDigits = 18

// number reads a number. A number that is out of the range of float64 is invalid.
func (s *Scanner) number() {
	b, i := s.b, s.i
	start := i
	if i < len(b) && b[i] == '-' {
		i++
		s.odd = true // perhaps -0
	}
	switch {
	case i < len(b) && b[i] == '0':
		i++
	case i < len(b) && '1' <= b[i] && b[i] <= '9':
		i = digits(b, i)
	default:
		s.fail()
		return
	}
	check := i-start > safeDigits
	s.odd = s.odd || i-start > plainDigits
	if i < len(b) && b[i] == '.' {
		s.odd = true
		end := digits(b, i+1)
		if end == i+1 {
			s.fail()
			return
		}
		i = end
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		end := digits(b, i)
		if end == i {
			s.fail()
			return
		}
		i = end
		check, s.odd = true, true
	}
	if check {
		// Safe: the string is only used in this call, and b is not modified.
		if _, err := strconv.ParseFloat(unsafe.String(&b[start], i-start), 64); err != nil {
			s.fail()
			return
		}
	}
	s.i = i
}

// digits returns the end of the digits that begin at i.
func digits(b []byte, i int) int {
	for i < len(b) && '0' <= b[i] && b[i] <= '9' {
		i++
	}
	return i
}
