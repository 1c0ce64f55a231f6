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
	end, _ := plain(s.b, s.i+1)
	if end >= len(s.b) || s.b[end] != '"' {
		if end, _ = s.rest(end, 0); s.bad {
			return
		}
	}
	s.i = end + 1
}

// rest reads on where plain met what it does not read, up to the closing quote
// at end. It adds to the surplus, which is how many bytes longer the string is
// as written than as decoded: 0 if and only if it has no escapes.
func (s *Scanner) rest(i, surplus int) (end, all int) {
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
			n := runes(s.b[i:])
			if n == 0 {
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

// plain reads ASCII characters and escapes of two bytes from b[i] on, and
// counts the escapes. It ends at whatever else it finds. What it reads is
// most of every line, so it looks at eight bytes at a time, and calls nothing.
func plain(b []byte, i int) (end, escapes int) {
	b = b[:len(b):len(b)]
	p := b[i:]
	for len(p) > 8 {
		x := binary.LittleEndian.Uint64(p)
		// The first byte with its highest bit set is the first that is no
		// plain character. A borrow can mark bytes behind it that are.
		// To flip 2 makes the quote a space, and keeps the control
		// characters below it, and all else above.
		stop := (((x ^ 2*ones) - ('"'-1)*ones) | ((x ^ '\\'*ones) - ones) | x) & (0x80 * ones)
		if stop == 0 {
			p = p[8:]
			continue
		}
		p = p[bits.TrailingZeros64(stop)/8:]
		if len(p) <= 2 {
			break
		}
		if p[0] != '\\' || !short[p[1]] {
			return len(b) - len(p), escapes
		}
		p = p[2:]
		escapes++
	}
	for len(p) > 0 {
		c := p[0]
		if c == '\\' && len(p) > 2 && short[p[1]] {
			p = p[2:]
			escapes++
			continue
		}
		if c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			break
		}
		p = p[1:]
	}
	return len(b) - len(p), escapes
}

// short says which bytes behind a backslash make an escape of two bytes.
var short = [256]bool{'"': true, '\\': true, '/': true, 'b': true, 'f': true, 'n': true, 'r': true, 't': true}

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
