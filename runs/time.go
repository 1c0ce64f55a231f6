package runs

import (
	"encoding/json"
	"errors"
)

// Time is a moment in Unix milliseconds; 0 means that it has not come, or is unknown. In JSON it is a
// string of RFC 3339 in UTC with milliseconds.
type Time int64

const (
	timeForm = "2006-01-02T15:04:05.000Z" // as package time writes it
	lastTime = Time(253402300799999)      // 9999-12-31T23:59:59.999Z: RFC 3339 has years of four digits
	yearZero = Time(-62167219200000)
)

// String returns the form that JSON has, "" for 0.
func (t Time) String() string {
	if t == 0 {
		return ""
	}
	return string(t.append(make([]byte, 0, len(timeForm))))
}

// append appends the form of a time that is not 0; one that has no form as the nearest that has one.
func (t Time) append(b []byte) []byte {
	since := int64(min(max(t, yearZero), lastTime) - yearZero)
	rest := int(since % day)
	year, month, date := dateOf(since/day + int64(yearZero)/day)
	b = append(digits(b, year, 4), '-')
	b = append(digits(b, month, 2), '-')
	b = append(digits(b, date, 2), 'T')
	b = append(digits(b, rest/hour, 2), ':')
	b = append(digits(b, rest/minute%60, 2), ':')
	b = append(digits(b, rest/second%60, 2), '.')
	return append(digits(b, rest%second, 3), 'Z')
}

func digits(b []byte, n, width int) []byte {
	for width--; width >= 0; width-- {
		unit := 1
		for range width {
			unit *= 10
		}
		b = append(b, byte('0'+n/unit%10))
	}
	return b
}

// The Gregorian calendar repeats itself after 400 years. Years are counted from March here, so that a
// leap day is the last day of its year.
const (
	era        = 400              // years
	eraDays    = 365*era + 97     // days of them
	march0     = -719_468         // the first of March of the year 0, in days since 1970-01-01
	before     = march0 - eraDays // the same an era earlier: no day is before it
	fiveMonths = 153              // days of any five months from March or August on
)

// daysOf returns the number of days from 1970-01-01 to a date, from the year 0 on.
func daysOf(year, month, date int) int64 {
	if month -= 3; month < 0 {
		month, year = month+12, year-1
	}
	year += era
	return int64(365*year+year/4-year/100+year/era+(fiveMonths*month+2)/5+date-1) + before
}

// dateOf is the inverse of daysOf.
func dateOf(days int64) (year, month, date int) {
	n := int(days - before)
	eras, n := n/eraDays, n%eraDays
	year = (n - n/1460 + n/36524 - n/(eraDays-1)) / 365
	n -= 365*year + year/4 - year/100
	month = (5*n + 2) / fiveMonths
	date = n - (fiveMonths*month+2)/5 + 1
	year += (eras - 1) * era
	if month += 3; month > 12 {
		month, year = month-12, year+1
	}
	return year, month, date
}

// daysIn returns the number of days of a month.
func daysIn(year, month int) int {
	if month == 2 {
		if year%4 == 0 && (year%100 != 0 || year%era == 0) {
			return 29
		}
		return 28
	}
	return 30 + (month+month/8)%2
}

// MarshalJSON writes a string. A zero time is "": leave it out with omitzero.
func (t Time) MarshalJSON() ([]byte, error) {
	b := append(make([]byte, 0, len(timeForm)+2), '"')
	if t != 0 {
		b = t.append(b)
	}
	return append(b, '"'), nil
}

var errTime = errors.New("not a time of RFC 3339 such as " + timeForm)

// UnmarshalJSON reads a string of RFC 3339, or "".
func (t *Time) UnmarshalJSON(b []byte) error {
	var s string
	err := json.Unmarshal(b, &s)
	if err == nil {
		*t, err = ParseTime(s)
	}
	return err
}

// ParseTime reads a time of RFC 3339; an empty text is 0. More digits than those of milliseconds are
// cut off.
func ParseTime[T string | []byte](s T) (Time, error) {
	if len(s) == 0 {
		return 0, nil
	}
	const whole = len("2006-01-02T15:04:05")
	if len(s) <= whole || s[4] != '-' || s[7] != '-' || s[10] != 'T' || s[13] != ':' || s[16] != ':' {
		return 0, errTime
	}
	bad := false
	number := func(from, to, least, most int) int {
		n := 0
		for i := from; i < to; i++ {
			bad = bad || s[i] < '0' || s[i] > '9'
			n = 10*n + int(s[i]-'0')
		}
		bad = bad || n < least || n > most
		return n
	}
	year, month := number(0, 4, 0, 9999), number(5, 7, 1, 12)
	date := number(8, 10, 1, daysIn(year, month))
	at := number(11, 13, 0, 23)*hour + number(14, 16, 0, 59)*minute + number(17, 19, 0, 59)*second
	end := whole
	if s[end] == '.' {
		end++
		for unit := second / 10; end < len(s) && s[end] >= '0' && s[end] <= '9'; unit /= 10 {
			at += int(s[end]-'0') * unit
			end++
		}
		bad = bad || end == whole+1
	}
	switch zone := len(s) - end; {
	case zone == 1 && s[end] == 'Z':
	case zone == len("+00:00") && (s[end] == '+' || s[end] == '-') && s[end+3] == ':':
		offset := number(end+1, end+3, 0, 23)*hour + number(end+4, end+6, 0, 59)*minute
		if s[end] == '+' {
			offset = -offset
		}
		at += offset
	default:
		bad = true
	}
	if bad {
		return 0, errTime
	}
	return Time(daysOf(year, month, date)*day + int64(at)), nil
}
