package scan

import (
	"strconv"
	"unsafe"
)

// safeDigits is the number of digits up to which a number without an exponent is
// always in the range of a float64.
const safeDigits = 308

// number reads a number. A number that is out of the range of float64 is invalid.
func (s *Scanner) number() {
	b, i := s.b, s.i
	start := i
	if i < len(b) && b[i] == '-' {
		i++
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
	if i < len(b) && b[i] == '.' {
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
		check = true
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
