package bounds

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"unicode/utf8"
)

// Eight bytes are looked at in one word: a lane of one has the value 1 in each
// byte, and tops is the highest bit of each.
const (
	one  = 0x0101010101010101
	tops = 0x8080808080808080
	lows = ^uint64(tops)
)

// shortEscapes has the bit 1<<c set for each control character c that JSON
// writes with two bytes. All others take six.
const shortEscapes = 1<<'\b' | 1<<'\t' | 1<<'\n' | 1<<'\f' | 1<<'\r'

// replacement is U+FFFD, which takes the place of what is no text.
const replacement = "\uFFFD"

// StringSize returns how many bytes [AppendString] adds for s, quotes
// included. It does not allocate.
func StringSize[T ~string | ~[]byte](s T) int {
	return stringSize([]byte(s)) // not copied: it is only read and does not escape
}

// AppendString appends s as a JSON string, quotes included, just as serde_json
// writes it: `"` and `\` are escaped, control characters are \b \t \n \f \r or
// \u00xx in lower case, and everything else stays as it is, also < > & DEL
// U+2028 and U+2029. Each byte that belongs to no valid UTF-8 becomes U+FFFD,
// as in a conversion to runes. It allocates only to grow dst.
func AppendString[T ~string | ~[]byte](dst []byte, s T) []byte {
	return appendString(dst, []byte(s)) // not copied, as above
}

func stringSize(s []byte) int {
	size, high := len(s)+len(`""`), uint64(0)
	i := 0
	for ; i+8 <= len(s); i += 8 {
		w := binary.LittleEndian.Uint64(s[i:])
		high |= w
		controls := tops &^ (w | (w&lows + (0x80-' ')*one))
		escapes := controls | lanes(w, '"') | lanes(w, '\\')
		if escapes == 0 {
			continue
		}
		size += bits.OnesCount64(escapes)
		if controls&^(lanes(w, '\n')|lanes(w, '\t')) != 0 {
			for _, c := range s[i : i+8] {
				if c < ' ' {
					size += growth(c) - 1 // the count above has the 1
				}
			}
		}
	}
	for _, c := range s[i:] {
		high |= uint64(c)
		size += growth(c)
	}
	if high&tops != 0 && !utf8.Valid(s) {
		size += broken(s) * (len(replacement) - 1)
	}
	return size
}

func appendString(dst, s []byte) []byte {
	start := len(dst)
	dst = append(slices.Grow(dst, len(s)+len(`""`)), '"')
	ascii := true
	for rest := s; ; {
		n, a := plain(rest)
		ascii = ascii && a
		dst = append(dst, rest[:n]...)
		if n == len(rest) {
			break
		}
		dst = appendEscaped(dst, rest[n])
		rest = rest[n+1:]
	}
	if !ascii && !utf8.Valid(s) {
		dst = appendRepaired(append(dst[:start], '"'), s)
	}
	return append(dst, '"')
}

// appendRepaired is the slow way, for text with bytes that are no UTF-8.
func appendRepaired(dst, s []byte) []byte {
	for len(s) > 0 {
		r, n := utf8.DecodeRune(s)
		switch {
		case r == utf8.RuneError && n == 1:
			dst = append(dst, replacement...)
		case n == 1:
			dst = appendEscaped(dst, s[0])
		default:
			dst = append(dst, s[:n]...)
		}
		s = s[n:]
	}
	return dst
}

// appendEscaped appends the ASCII character c as it reads inside a string.
func appendEscaped(dst []byte, c byte) []byte {
	const hex = "0123456789abcdef"
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\b':
		return append(dst, `\b`...)
	case '\t':
		return append(dst, `\t`...)
	case '\n':
		return append(dst, `\n`...)
	case '\f':
		return append(dst, `\f`...)
	case '\r':
		return append(dst, `\r`...)
	}
	if c < ' ' {
		return append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
	}
	return append(dst, c)
}

// plain returns the length of the prefix of s that needs no escape: up to the
// first `"`, `\` or control character. If ascii is true, the prefix is ASCII;
// if it is false, the prefix may be.
func plain(s []byte) (n int, ascii bool) {
	high := uint64(0)
	for ; n+8 <= len(s); n += 8 {
		w := binary.LittleEndian.Uint64(s[n:])
		high |= w
		// A borrow can mark a byte too many, but only above one that is marked
		// rightly, and the lowest is all that counts here.
		quote, slash := w^'"'*one, w^'\\'*one
		mark := ((w-' '*one)&^w | (quote-one)&^quote | (slash-one)&^slash) & tops
		if mark != 0 {
			return n + bits.TrailingZeros64(mark)/8, high&tops == 0
		}
	}
	for ; n < len(s); n++ {
		c := s[n]
		if c < ' ' || c == '"' || c == '\\' {
			break
		}
		high |= uint64(c)
	}
	return n, high&tops == 0
}

// growth returns how many bytes more than one the character c takes.
func growth(c byte) int {
	switch {
	case c == '"' || c == '\\':
		return 1
	case c >= ' ':
		return 0
	case shortEscapes>>c&1 != 0:
		return 1
	default:
		return 5
	}
}

// lanes marks the top bit of each byte of w that is c, and no other bit.
func lanes(w uint64, c byte) uint64 {
	x := w ^ uint64(c)*one
	return tops &^ (x | (x&lows + lows))
}

// broken counts the bytes of s that belong to no valid UTF-8.
func broken(s []byte) int {
	count := 0
	for len(s) > 0 {
		r, n := utf8.DecodeRune(s)
		if r == utf8.RuneError && n == 1 {
			count++
		}
		s = s[n:]
	}
	return count
}
