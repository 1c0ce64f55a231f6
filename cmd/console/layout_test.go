package console

import (
	"testing"
	"time"
)

// A time is shown in two units at most, those of a session of last month in days.
func TestShortTime(t *testing.T) {
	t.Parallel()
	for want, d := range map[string]time.Duration{
		"0ms": -time.Second, "40ms": 40 * time.Millisecond, "1.2s": 1290 * time.Millisecond,
		"59s":   59*time.Second + 999*time.Millisecond,
		"1m02s": 62 * time.Second, "3h05m": 3*time.Hour + 5*time.Minute, "47h59m": 48*time.Hour - time.Second,
		"2d00h": 48 * time.Hour, "8d22h": 214*time.Hour + 39*time.Minute,
	} {
		if got := ShortTime(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}
