package scan

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// ones*c is a word of eight bytes c.
const ones = 0x0101010101010101

// skipString skips a string. The next byte is its opening quote.
func (s *Scanner) skipString() {
	if end, _ := s.text(s.i + 1); !s.bad {
		s.i = end + 1
	}
}

// text reads the string that begins at i, after its opening quote, up to the
// closing quote at end. surplus is the length of the undecoded minus the decoded
// string: 0 if and only if it has no escapes.
func (s *Scanner) text(i int) (end, surplus int) {
	end, surplus = plain(s.b, i)
	if end < len(s.b) && s.b[end] == '"' {
		return end, surplus
	}
	return s.textSlow(end, surplus)
}

// textSlow continues at i, where plain stopped. before is the surplus so far.
func (s *Scanner) textSlow(i, before int) (end, surplus int) {
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
			s.odd = s.odd || !canonical(s.b[i:i+n])
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

// shortString returns the length of the string at the beginning of b, after its
// opening quote, if it has at most eight bytes and no escapes, like most keys.
// Otherwise it returns -1.
func shortString(b []byte) int {
	if len(b) <= 8 {
		return -1
	}
	n := bits.TrailingZeros64(stops(binary.LittleEndian.Uint64(b))) / 8
	if b[n] != '"' {
		return -1
	}
	return n
}

// plain is the fast path for strings. From b[i] on it reads ASCII, escapes of two
// bytes, the escape character, and characters of two and three bytes. It stops at any
// other byte. After inlining it contains no calls.
func plain(b []byte, i int) (end, surplus int) {
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
		case c == '\\' && short[p[1]] != 0:
			p = p[2:]
			surplus++
		case 0xc2 <= c && c < 0xe0 && p[1]&0xc0 == 0x80:
			p = p[2:]
		case 0xe1 <= c && c < 0xf0 && c != 0xed && p[1]&0xc0 == 0x80 && p[2]&0xc0 == 0x80:
			p = p[3:]
		case c == '\\' && len(p) > 6 && string(p[1:6]) == "u001b": // of terminals
			p = p[6:]
			surplus += 5
		default:
			return len(b) - len(p), surplus
		}
	}
	for len(p) > 0 && ' ' <= p[0] && p[0] < utf8.RuneSelf && p[0] != '"' && p[0] != '\\' {
		p = p[1:]
	}
	return len(b) - len(p), surplus
}

// stops sets the highest bit of the first byte of x that is a control character, a
// quote, a backslash or not ASCII. It returns 0 if there is none. A borrow can set
// bits of later bytes, too. XOR with 2 swaps '"' and ' ', so that one comparison
// with 0x21 finds the quote and the control characters.
func stops(x uint64) uint64 {
	return (((x ^ 2*ones) - ('"'-1)*ones) | ((x ^ '\\'*ones) - ones) | x) & (0x80 * ones)
}

// short has the decoded character of each escape of two bytes, by its second byte, but for
// the slash, which needs no escape.
var short = [256]byte{
	'"': '"', '\\': '\\', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t',
}

// canonical reports whether an escape is necessary and the shortest: one of two bytes but for
// the slash, or a control character that has none of those, in lower case.
func canonical(e []byte) bool {
	if len(e) == 2 {
		return e[1] != '/'
	}
	if len(e) != 6 || e[2] != '0' || e[3] != '0' {
		return false
	}
	switch e[4] {
	case '0':
		return '0' <= e[5] && e[5] < '8' || e[5] == 'b' || e[5] == 'e' || e[5] == 'f'
	case '1':
		return e[5] <= '9' || 'a' <= e[5]
	}
	return false
}

// escape returns the length of the escape at the beginning of b, undecoded and as
// UTF-8. It returns 0, 0 if the escape is invalid. A pair of surrogates is one
// escape. A lone surrogate becomes U+FFFD.
func escape(b []byte) (n, decoded int) {
	if len(b) < 2 {
		return 0, 0
	}
	if short[b[1]] != 0 || b[1] == '/' {
		return 2, 1
	}
	if b[1] != 'u' {
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

// hex4 returns the value of the four hexadecimal digits at the beginning of b, or
// -1.
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

// decode appends the decoded text of raw, the inside of a valid JSON string.
func decode(dst, raw []byte) []byte {
	for {
		for len(raw) >= 9 && cap(dst)-len(dst) >= 8 { // in words, up to a long escape
			x := binary.LittleEndian.Uint64(raw)
			dst = binary.LittleEndian.AppendUint64(dst, x)
			x ^= '\\' * ones
			stop := (x - ones) &^ x & (0x80 * ones)
			if stop == 0 {
				raw = raw[8:]
				continue
			}
			n := bits.TrailingZeros64(stop) / 8
			dst, raw = dst[:len(dst)-8+n], raw[n:]
			c := short[raw[1]]
			if c == 0 {
				break
			}
			dst, raw = append(dst, c), raw[2:]
		}
		if len(raw) == 0 || raw[0] != '\\' {
			i := bytes.IndexByte(raw, '\\')
			if i < 0 {
				return append(dst, raw...)
			}
			dst, raw = append(dst, raw[:i]...), raw[i:]
		}
		n, decoded := escape(raw)
		if c := short[raw[1]]; c != 0 {
			dst = append(dst, c)
		} else if n == 2 {
			dst = append(dst, '/')
		} else {
			r := hex4(raw[2:])
			if decoded == 4 {
				r = utf16.DecodeRune(r, hex4(raw[8:]))
			}
			dst = utf8.AppendRune(dst, r) // a lone surrogate becomes U+FFFD
		}
		raw = raw[n:]
	}
}
