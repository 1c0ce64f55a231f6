package bounds

import (
	"bytes"
	"strconv"
)

// number reads a number, and lays it out anew unless it is an integer that
// serde_json holds as one.
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
	if err != nil { // its grammar was read above, so only its range can be wrong
		return 0, ErrRange
	}
	var scratch [32]byte
	e.replace(from, i, appendFloat(scratch[:0], f))
	return i, nil
}

// digits returns where the digits at i end; ok is false if there are none.
func (e *editor) digits(i int) (end int, ok bool) {
	end = i
	for end < len(e.raw) && '0' <= e.raw[end] && e.raw[end] <= '9' {
		end++
	}
	return end, end > i
}

// isInteger reports whether literal, an integer without needless zeros, is one
// to serde_json: within int64 or uint64, and not -0, which only a float can be.
func isInteger(literal []byte) bool {
	digits, negative := bytes.CutPrefix(literal, []byte{'-'})
	switch len(digits) {
	case 20: // digits of equal count compare as numbers do
		return !negative && string(digits) <= "18446744073709551615"
	case 19:
		return !negative || string(digits) <= "9223372036854775808"
	default:
		return len(digits) < 19 && string(literal) != "-0"
	}
}

// appendFloat appends f, which is finite, as Rust's ryu lays it out: the
// shortest digits that mean f, always with a point or an exponent. The value
// is written plainly from 1e-5 up to, and without, 1e16. At most 24 bytes.
func appendFloat(dst []byte, f float64) []byte {
	var scratch [32]byte
	s := strconv.AppendFloat(scratch[:0], f, 'e', -1, 64) // -d.ddde±dd
	if s[0] == '-' {
		dst = append(dst, '-')
		s = s[1:]
	}
	mark := bytes.IndexByte(s, 'e')
	exponent, _ := strconv.Atoi(string(s[mark+1:]))
	if exponent < -5 || exponent > 15 {
		dst = append(append(dst, s[:mark]...), 'e')
		return strconv.AppendInt(dst, int64(exponent), 10)
	}
	digits := s[:mark]
	if mark > 1 {
		s[1] = s[0]
		digits = s[1:mark]
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
