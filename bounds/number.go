package bounds

import (
	"bytes"
	"strconv"
)

// isInteger reports whether serde_json stores literal, an integer without
// leading zeros, as an integer: it fits int64 or uint64 and is not -0.
func isInteger(literal []byte) bool {
	digits, negative := bytes.CutPrefix(literal, []byte{'-'})
	switch len(digits) {
	case 20: // strings of digits of the same length compare like numbers
		return !negative && string(digits) <= "18446744073709551615"
	case 19:
		return !negative || string(digits) <= "9223372036854775808"
	default:
		return len(digits) < 19 && string(literal) != "-0"
	}
}

// appendFloat appends f, which is finite, in the format of Rust's ryu: the
// shortest digits that identify f, always with a decimal point or an exponent.
// It uses no exponent if 1e-5 <= |f| < 1e16. It appends at most 24 bytes.
func appendFloat(dst []byte, f float64) []byte {
	var scratch [32]byte
	s := strconv.AppendFloat(scratch[:0], f, 'e', -1, 64) // -d.ddde±dd
	if s[0] == '-' {
		dst = append(dst, '-')
		s = s[1:]
	}
	exponentAt := bytes.IndexByte(s, 'e')
	exponent, _ := strconv.Atoi(string(s[exponentAt+1:]))
	if exponent < -5 || exponent > 15 {
		dst = append(append(dst, s[:exponentAt]...), 'e')
		return strconv.AppendInt(dst, int64(exponent), 10)
	}
	digits := s[:exponentAt]
	if exponentAt > 1 {
		s[1] = s[0]
		digits = s[1:exponentAt]
	}
	const zeros = "0000000000000000"
	switch point := exponent + 1; {
	case point <= 0:
		return append(append(append(dst, "0."...), zeros[:-point]...), digits...)
	case point < len(digits):
		return append(append(append(dst, digits[:point]...), '.'), digits[point:]...)
	default:
		return append(append(append(dst, digits...), zeros[:point-len(digits)]...), ".0"...)
	}
}
