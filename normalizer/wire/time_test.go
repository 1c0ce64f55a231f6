package wire

import (
	"strings"
	"testing"
	"time"

	"github.com/linesman/linesman/normalizer/scan"
)

// parsed is the time that package time reads, 0 for a text that is not of the form. Package
// time reads more forms, such as an hour of one digit, but does not write them.
func parsed(s string) int64 {
	layout := "2006-01-02T15:04:05Z"
	if _, fraction, ok := strings.Cut(s, "."); ok {
		layout = "2006-01-02T15:04:05." + strings.Repeat("0", max(min(len(fraction)-1, 9), 0)) + "Z"
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || t.Format(layout) != s || t.Year() < 1970 {
		return 0
	}
	return t.UnixMilli()
}

func timeOf(s string) int64 { return Time(scan.Value{Kind: scan.String, Raw: []byte(s), Len: len(s)}) }

func TestTimesAreThoseOfPackageTime(t *testing.T) {
	for s, valid := range map[string]bool{
		"2026-11-21T09:42:15.438Z": true, "2026-11-21T09:42:15Z": true, "2026-11-21T09:42:15.4Z": true,
		"2026-11-21T09:42:15.438999999Z": true, "1970-01-01T00:00:00.001Z": true, "2024-02-29T23:59:59.999Z": true,
		"2000-02-29T00:00:00Z": true, "9999-12-31T23:59:59Z": true,
		"2100-02-29T00:00:00Z": false, "2026-02-29T00:00:00Z": false, "2026-04-31T00:00:00Z": false,
		"1969-12-31T23:59:59Z": false, "2026-13-01T00:00:00Z": false, "2026-00-01T00:00:00Z": false,
		"2026-01-00T00:00:00Z": false, "2026-01-01T24:00:00Z": false, "2026-01-01T00:60:00Z": false,
		"2026-01-01T00:00:60Z": false, "2026-01-01T00:00:00.Z": false, "2026-01-01T00:00:00,5Z": false,
		"2026-01-01T00:00:00.1234567890Z": false, "2026-01-01T00:00:00+00:00": false, "2026-01-01 00:00:00Z": false,
		"2026-01-01T00:00:00": false, "2026-01-01T00:00:00z": false, "": false, "Z": false,
		"+026-01-01T00:00:00Z": false, "2026-01-01T00:00:0 Z": false, "2026-01-01T00:00:00.5 Z": false,
	} {
		got := timeOf(s)
		if want := parsed(s); got != want || valid != (got > 0) {
			t.Errorf("%q: %d, package time says %d, valid: want %t", s, got, want, valid)
		}
	}
	if got := Time(scan.Value{Kind: scan.Number, Raw: []byte("2026-11-21T09:42:15Z")}); got != 0 {
		t.Errorf("a number is the time %d", got)
	}
}

func TestEveryDayHasItsTime(t *testing.T) {
	for day := time.Unix(0, 0).UTC(); day.Year() < 2405; day = day.AddDate(0, 0, 1) {
		if got, want := timeOf(day.Add(time.Millisecond).Format(time.RFC3339Nano)), day.UnixMilli()+1; got != want {
			t.Fatalf("%s: %d, want %d", day, got, want)
		}
	}
}

func FuzzTime(f *testing.F) {
	f.Add("2026-11-21T09:42:15.438Z")
	f.Add("1600-02-29T09:42:15.438999Z")
	f.Fuzz(func(t *testing.T, s string) {
		if got, want := timeOf(s), parsed(s); got != want {
			t.Errorf("%q: %d, package time says %d", s, got, want)
		}
	})
}
