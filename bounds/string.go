package bounds

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"unicode/utf8"
)

// Strings are processed in words of eight bytes. ones has the value 1 in each
// byte of a word, highBits the highest bit of each byte, lowBits all other bits.
const (
	ones     = 0x0101010101010101
	highBits = 0x8080808080808080
	lowBits  = ^uint64(highBits)
)

// shortEscapes has the bit 1<<c set for each control character c whose JSON
// escape has two bytes. The escapes of all other control characters have six.
const shortEscapes = 1<<'\b' | 1<<'\t' | 1<<'\n' | 1<<'\f' | 1<<'\r'

// replacement is U+FFFD, which replaces each byte that is not valid UTF-8.
const replacement = "\uFFFD"

// StringSize returns the number of bytes that [AppendString] appends for s,
// quotes included. It does not allocate.
func StringSize[T ~string | ~[]byte](s T) int {
	return stringSize([]byte(s)) // no copy: s is only read and does not escape
}

// AppendString appends s as a JSON string, quotes included, in the format of
// serde_json: `"` and `\` are escaped, control characters become \b \t \n \f \r
// or \u00xx in lower case, and all other characters are copied, including < > &
// DEL U+2028 and U+2029. Each byte that is not valid UTF-8 becomes U+FFFD, as in
// a conversion to runes. It allocates only to grow dst.
func AppendString[T ~string | ~[]byte](dst []byte, s T) []byte {
	return appendString(dst, []byte(s)) // no copy, as above
}

func stringSize(s []byte) int {
	size, high := len(s)+len(`""`), uint64(0)
	i := 0
	for ; i+8 <= len(s); i += 8 {
		w := binary.LittleEndian.Uint64(s[i:])
		high |= w
		controls := highBits &^ (w | (w&lowBits + (0x80-' ')*ones))
		escapes := controls | equalBytes(w, '"') | equalBytes(w, '\\')
		if escapes == 0 {
			continue
		}
		size += bits.OnesCount64(escapes)
		if controls&^(equalBytes(w, '\n')|equalBytes(w, '\t')) != 0 {
			for _, c := range s[i : i+8] {
				if c < ' ' {
					size += extraBytes(c) - 1 // the 1 is counted above
				}
			}
		}
	}
	for _, c := range s[i:] {
		high |= uint64(c)
		size += extraBytes(c)
	}
	if high&highBits != 0 && !utf8.Valid(s) {
		size += countInvalid(s) * (len(replacement) - 1)
	}
	return size
}

func appendString(dst, s []byte) []byte {
	if n, ascii := unescapedPrefix(s); n == len(s) && ascii { // like most ids and names
		return append(append(append(dst, '"'), s...), '"')
	}
	start := len(dst)
	dst = append(slices.Grow(dst, len(s)+len(`""`)), '"')
	ascii := true
	for rest := s; ; {
		n, a := unescapedPrefix(rest)
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

// appendRepaired is the slow path for text that is not valid UTF-8.
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

// appendEscaped appends the ASCII character c in its form inside a JSON string.
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

// unescapedPrefix returns the length of the prefix of s that needs no escape:
// up to the first `"`, `\` or control character. If ascii is true, the prefix is
// ASCII; if it is false, the prefix may or may not be ASCII.
func unescapedPrefix(s []byte) (n int, ascii bool) {
	high := uint64(0)
	for ; n+8 <= len(s); n += 8 {
		w := binary.LittleEndian.Uint64(s[n:])
		high |= w
		// A borrow can mark a wrong byte, but only above a correctly marked
		// byte, and only the lowest mark is used.
		quote, slash := w^'"'*ones, w^'\\'*ones
		mark := ((w-' '*ones)&^w | (quote-ones)&^quote | (slash-ones)&^slash) & highBits
		if mark != 0 {
			return n + bits.TrailingZeros64(mark)/8, high&highBits == 0
		}
	}
	if n > 0 && n < len(s) { // the last eight bytes: those before n have no mark
		w := binary.LittleEndian.Uint64(s[len(s)-8:])
		quote, slash := w^'"'*ones, w^'\\'*ones
		mark := ((w-' '*ones)&^w | (quote-ones)&^quote | (slash-ones)&^slash) & highBits
		if high |= w; mark != 0 {
			n = len(s) - 8 + bits.TrailingZeros64(mark)/8
		} else {
			n = len(s)
		}
		return n, high&highBits == 0
	}
	for ; n < len(s); n++ {
		c := s[n]
		if c < ' ' || c == '"' || c == '\\' {
			break
		}
		high |= uint64(c)
	}
	return n, high&highBits == 0
}

// extraBytes returns the number of bytes that an escape adds to the one byte of c.
func extraBytes(c byte) int {
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

// equalBytes sets the highest bit of each byte of w that equals c, and no other bit.
func equalBytes(w uint64, c byte) uint64 {
	x := w ^ uint64(c)*ones
	return highBits &^ (x | (x&lowBits + lowBits))
}

// countInvalid returns the number of bytes of s that are not valid UTF-8.
func countInvalid(s []byte) int {
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
