package scan

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// ones, times a byte, is eight of that byte in one word.
const ones = 0x0101010101010101

// string reads over the string whose quote is next.
func (s *Scanner) string() {
	if end, _ := s.text(s.i + 1); !s.bad {
		s.i = end + 1
	}
}

// text reads the string that begins at i, behind its quote, up to the closing
// quote at end. Its surplus is how many bytes longer it is as written than as
// decoded: 0 if and only if it has no escapes.
func (s *Scanner) text(i int) (end, surplus int) {
	end, surplus = plain(s.b, i)
	if end < len(s.b) && s.b[end] == '"' {
		return end, surplus
	}
	return s.rest(end, surplus)
}

// rest reads on at i, where plain met what it does not read.
func (s *Scanner) rest(i, before int) (end, surplus int) {
	surplus = before
	for i < len(s.b) {
		switch c := s.b[i]; {
		case c == '"':
			return i, surplus
		case c == '\\':
			n, decoded := escape(s.b[i:])
			if n == 0 {
				s.fail()
				return 0, 0
			}
			i += n
			surplus += n - decoded
		case c >= utf8.RuneSelf:
			_, n := utf8.DecodeRune(s.b[i:])
			if n == 1 {
				s.fail()
				return 0, 0
			}
			i += n
		default: // a control character
			s.fail()
			return 0, 0
		}
		n, escapes := plain(s.b, i)
		i, surplus = n, surplus+escapes
	}
	s.fail()
	return 0, 0
}

// short is the length of the string that b begins with, behind its quote, if
// it has at most eight bytes and no escapes; else -1. Most keys are such.
func short(b []byte) int {
	if len(b) <= 8 {
		return -1
	}
	n := bits.TrailingZeros64(stops(binary.LittleEndian.Uint64(b))) / 8
	if b[n] != '"' {
		return -1
	}
	return n
}

// plain reads what most strings are made of, from b[i] on: ASCII, escapes of
// two bytes, which it counts, and characters of two and three bytes. It ends
// at whatever else it finds, and calls nothing.
func plain(b []byte, i int) (end, escapes int) {
	b = b[:len(b):len(b)]
	p := b[i:]
	for len(p) > 8 {
		stop := stops(binary.LittleEndian.Uint64(p))
		if stop == 0 {
			p = p[8:]
			continue
		}
		p = p[bits.TrailingZeros64(stop)/8:]
		if len(p) <= 3 {
			break
		}
		switch c := p[0]; {
		case c == '\\' && twoByte[p[1]]:
			p = p[2:]
			escapes++
		case 0xc2 <= c && c < 0xe0 && p[1]&0xc0 == 0x80:
			p = p[2:]
		case 0xe1 <= c && c < 0xf0 && c != 0xed && p[1]&0xc0 == 0x80 && p[2]&0xc0 == 0x80:
			p = p[3:]
		default:
			return len(b) - len(p), escapes
		}
	}
	for len(p) > 0 && ' ' <= p[0] && p[0] < utf8.RuneSelf && p[0] != '"' && p[0] != '\\' {
		p = p[1:]
	}
	return len(b) - len(p), escapes
}

// stops marks the first byte of x that is no plain character with its highest
// bit; it is 0 where all are plain. It may mark bytes behind the first one, too:
// a borrow runs up from it. To flip 2 makes the quote a space, and keeps the
// control characters below it, and all else above.
func stops(x uint64) uint64 {
	return (((x ^ 2*ones) - ('"'-1)*ones) | ((x ^ '\\'*ones) - ones) | x) & (0x80 * ones)
}

// twoByte says which bytes behind a backslash make an escape of two bytes.
var twoByte = [256]bool{'"': true, '\\': true, '/': true, 'b': true, 'f': true, 'n': true, 'r': true, 't': true}

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

// decode appends the text of the string that is written as raw, which is valid.
func decode(dst, raw []byte) []byte {
	for {
		i := bytes.IndexByte(raw, '\\')
		if i < 0 {
			return append(dst, raw...)
		}
		dst = append(dst, raw[:i]...)
		raw = raw[i:]
		n, decoded := escape(raw)
		switch raw[1] {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			r := hex4(raw[2:])
			if decoded == 4 {
				r = 0x10000 + (r-0xd800)<<10 + (hex4(raw[8:]) - 0xdc00)
			}
			dst = utf8.AppendRune(dst, r) // a surrogate gives U+FFFD
		default:
			dst = append(dst, raw[1])
		}
		raw = raw[n:]
	}
}
