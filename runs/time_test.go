package runs

import (
	"encoding/json"
	"math"
	"regexp"
	"testing"
	"time"
)

// Times have the form that package time gives them, on each day of the years that have one.
func TestTimeHasTheFormOfItsLayout(t *testing.T) {
	first := time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)
	last := time.Date(9999, 12, 31, 23, 59, 59, 999_000_000, time.UTC)
	if first.UnixMilli() != int64(yearZero) || last.UnixMilli() != int64(lastTime) {
		t.Fatal("the bounds are others")
	}
	step := 17*time.Hour + 13*time.Minute + 11*time.Second + 97*time.Millisecond
	for at := first; at.Before(last); at = at.Add(step) {
		want := at.Format(timeForm)
		if got := Time(at.UnixMilli()).String(); got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
		if back, err := ParseTime(want); err != nil || int64(back) != at.UnixMilli() {
			t.Fatalf("%s: %d, %v; want %d", want, back, err, at.UnixMilli())
		}
		if at.Year() < 1900 || at.Year() > 2200 { // all in between
			at = at.Add(24 * time.Hour * 17)
		}
	}
	if got := Time(0).String(); got != "" {
		t.Errorf("the zero time is %q", got)
	}
	for _, c := range []struct {
		at   Time
		want string
	}{
		{math.MaxInt64, "9999-12-31T23:59:59.999Z"}, {math.MinInt64, "0000-01-01T00:00:00.000Z"},
		{-1, "1969-12-31T23:59:59.999Z"}, {1, "1970-01-01T00:00:00.001Z"},
	} {
		if got, err := json.Marshal(c.at); err != nil || string(got) != `"`+c.want+`"` {
			t.Errorf("%d: %s, %v; want %s", c.at, got, err, c.want)
		}
	}
}

// Package time also takes a comma, an hour of one digit, and zones of 24 hours or of 60 minutes.
var strictly = regexp.MustCompile(`^[-0-9]{10}T[0-9]{2}:[0-9:]{5}(\.[0-9]+)?(Z|[-+]([01][0-9]|2[0-3]):[0-5][0-9])$`)

// A text is a time if package time takes it for one, and RFC 3339 does, and then the same.
func FuzzTime(f *testing.F) {
	for _, s := range []string{
		"2026-11-28T18:24:45.123Z", "2024-02-29T00:00:00Z", "2023-02-29T00:00:00Z", "2026-11-28T18:24:45+05:30",
		"2026-11-28T18:24:45,5-00:00", "2026-11-28T24:00:00Z", "2026-11-28t18:24:45z", "0000-01-01T00:00:00+01:00",
		"2026-11-28T18:24:45.1234567891Z", "2026-11-28T18:24:60Z", "2026-11-28T18:24:45.Z", "2026-11-28T0:00:00Z",
		"9999-12-31T23:59:59-23:59",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := ParseTime(s)
		want, wanted := time.Parse(time.RFC3339, s)
		if wanted == nil && !strictly.MatchString(s) {
			wanted = errTime
		}
		if s == "" {
			return
		}
		if (err == nil) != (wanted == nil) {
			t.Fatalf("%q: %v, but package time: %v", s, err, wanted)
		}
		if err == nil && int64(got) != want.UnixMilli() {
			t.Fatalf("%q: %d, want %d", s, got, want.UnixMilli())
		}
	})
}
