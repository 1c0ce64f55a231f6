package bounds

import (
	"bytes"
	"strconv"
)

// number reads a number. It reformats every number that serde_json does not
// store as an integer.
func (e *editor) number(i int) (int, error) {
	from := i
	var ok bool
	if e.at(i) == '-' {
		i++
	}
	if e.at(i) == '0' {
		i++
	} else if i, ok = e.digits(i); !ok {
		return 0, ErrSyntax
	}
	integer := true
	if e.at(i) == '.' {
		integer = false
		if i, ok = e.digits(i + 1); !ok {
			return 0, ErrSyntax
		}
	}
	if c := e.at(i); c == 'e' || c == 'E' {
		integer = false
		i++
		if c := e.at(i); c == '+' || c == '-' {
			i++
		}
		if i, ok = e.digits(i); !ok {
			return 0, ErrSyntax
		}
	}
	if integer && isInteger(e.raw[from:i]) {
		return i, nil
	}
	f, err := strconv.ParseFloat(string(e.raw[from:i]), 64)
	if err != nil { // the syntax is checked above, so only the range can be wrong
		return 0, ErrRange
	}
	var scratch [32]byte
	e.replace(from, i, appendFloat(scratch[:0], f))
	return i, nil
}

// digits returns the end of the digits at i. ok is false if there are none.
func (e *editor) digits(i int) (end int, ok bool) {
	end = i
	for end < len(e.raw) && '0' <= e.raw[end] && e.raw[end] <= '9' {
		end++
	}
	return end, end > i
}

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
