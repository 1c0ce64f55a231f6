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
	t = min(max(t, yearZero), lastTime)
	days, rest := int64(t-yearZero)/day, int(int64(t-yearZero)%day)
	year, month, date := dateOf(days)
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

// The Gregorian calendar repeats itself after 400 years.
const (
	eraDays  = 146097
	eraYears = 400
)

// daysBefore is the number of days before a month of a year that begins in March.
var daysBefore = [...]int{0, 31, 61, 92, 122, 153, 184, 214, 245, 275, 306, 337}

// firstMarch is the number of days between the first of January and of March in the year 0.
const firstMarch = 60

// dateOf returns the date of a day; day 0 is the first of January in the year 0.
func dateOf(days int64) (year, month, date int) {
	n := int(days) - firstMarch + eraDays // from the first of March, 400 years before the year 0
	era, n := n/eraDays, n%eraDays
	// Leap days are at the end of such a year: all but the last of each century, and that of the era.
	y := (n - n/1460 + n/36524 - n/(eraDays-1)) / 365
	n -= 365*y + y/4 - y/100
	m := len(daysBefore) - 1
	for daysBefore[m] > n {
		m--
	}
	year, month, date = (era-1)*eraYears+y, m+3, n-daysBefore[m]+1
	if month > 12 {
		year, month = year+1, month-12
	}
	return year, month, date
}

// daysOf is the inverse of dateOf.
func daysOf(year, month, date int) int64 {
	if month < 3 {
		year, month = year-1, month+12
	}
	year += eraYears
	return int64(365*year+year/4-year/100+year/eraYears+daysBefore[month-3]+date-1) + firstMarch - eraDays
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
		*t, err = parseTime(s)
	}
	return err
}

// parseTime reads a time of RFC 3339; "" is 0. More digits than those of milliseconds are cut off.
func parseTime(s string) (Time, error) {
	if s == "" {
		return 0, nil
	}
	const whole = len("2006-01-02T15:04:05")
	if len(s) <= whole || s[4] != '-' || s[7] != '-' || s[10] != 'T' || s[13] != ':' || s[16] != ':' {
		return 0, errTime
	}
	bad := false
	number := func(text string, least, most int) int {
		n := 0
		for i := range len(text) {
			bad = bad || text[i] < '0' || text[i] > '9'
			n = 10*n + int(text[i]-'0')
		}
		bad = bad || n < least || n > most
		return n
	}
	year, month, date := number(s[:4], 0, 9999), number(s[5:7], 1, 12), number(s[8:10], 1, 31)
	at := int64(number(s[11:13], 0, 23))*hour + int64(number(s[14:16], 0, 59))*minute +
		int64(number(s[17:19], 0, 59))*second
	if bad {
		return 0, errTime
	}
	days := daysOf(year, month, date)
	if _, m, d := dateOf(days); m != month || d != date { // no such day
		return 0, errTime
	}
	zone := s[whole:]
	if zone[0] == '.' || zone[0] == ',' {
		n := 1
		for n < len(zone) && zone[n] >= '0' && zone[n] <= '9' {
			n++
		}
		if n == 1 {
			return 0, errTime
		}
		at += int64(number((zone[1:n] + "00")[:3], 0, 999))
		zone = zone[n:]
	}
	switch {
	case zone == "Z":
	case len(zone) == len("+00:00") && (zone[0] == '+' || zone[0] == '-') && zone[3] == ':':
		offset := int64(number(zone[1:3], 0, 24))*hour + int64(number(zone[4:6], 0, 60))*minute // as package time has it
		if zone[0] == '+' {
			offset = -offset
		}
		at += offset
	default:
		bad = true
	}
	if bad {
		return 0, errTime
	}
	return yearZero + Time(days*day+at), nil
}
