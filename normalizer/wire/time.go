package wire

import "github.com/linesman/linesman/normalizer/scan"

// Time returns the time in v in Unix milliseconds, rounded down: a text in the form of RFC
// 3339 in UTC, such as 2026-11-21T09:42:15.438Z, after 1970 and with at most nine digits
// after the point. It is 0 for any other value.
func Time(v scan.Value) int64 {
	s := v.Raw
	if !v.IsString() || v.Escaped || len(s) < len("2006-01-02T15:04:05Z") || s[len(s)-1] != 'Z' {
		return 0
	}
	valid := s[4] == '-' && s[7] == '-' && s[10] == 'T' && s[13] == ':' && s[16] == ':'
	number := func(from, to int) (n int64) {
		for _, c := range s[from:to] {
			valid = valid && '0' <= c && c <= '9'
			n = n*10 + int64(c-'0')
		}
		return n
	}
	y, m, d := number(0, 4), number(5, 7), number(8, 10)
	h, minute, second := number(11, 13), number(14, 16), number(17, 19)
	var ms int64
	if fraction := s[19 : len(s)-1]; len(fraction) > 0 {
		valid = valid && fraction[0] == '.' && 1 < len(fraction) && len(fraction) <= 10
		end := min(len(fraction), 4)
		ms = number(20, 19+end)
		for range 4 - end {
			ms *= 10
		}
		number(19+end, len(s)-1)
	}
	if !valid || y < 1970 || m < 1 || m > 12 || d < 1 || d > daysOf(y, m) || h > 23 || minute > 59 || second > 59 {
		return 0
	}
	return (((days(y, m, d)*24+h)*60+minute)*60+second)*1000 + ms
}

// daysOf returns the number of days of a month.
func daysOf(y, m int64) int64 {
	if m == 2 {
		if y%4 == 0 && (y%100 != 0 || y%400 == 0) {
			return 29
		}
		return 28
	}
	return 30 + (m+m/8)%2
}

// days returns the number of days from 1970-01-01 to a date of the Gregorian calendar. It
// counts years from March, so that a leap day is the last day of its year.
func days(y, m, d int64) int64 {
	if m -= 3; m < 0 {
		m, y = m+12, y-1
	}
	return 365*y + y/4 - y/100 + y/400 + (153*m+2)/5 + d - 1 - 719_468
}
