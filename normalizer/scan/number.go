package scan

import (
	"strconv"
	"unsafe"
)

// plainDigits is how many digits a number without exponent may have and
// surely be in the range of a float64.
const plainDigits = 308

// number reads a number. One that no float64 can hold is malformed.
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
	check := i-start > plainDigits
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
		// The string lives no longer than the call, and is not written to.
		if _, err := strconv.ParseFloat(unsafe.String(&b[start], i-start), 64); err != nil {
			s.fail()
			return
		}
	}
	s.i = i
}

// digits is where the digits that begin at i end.
func digits(b []byte, i int) int {
	for i < len(b) && '0' <= b[i] && b[i] <= '9' {
		i++
	}
	return i
}
