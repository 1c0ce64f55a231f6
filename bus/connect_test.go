package bus

import (
	"fmt"
	"testing"
	"time"
)

func TestErrorsThatTakeTurnsAreLoggedOnceAMinute(t *testing.T) {
	s := LogLimiter{Max: 32}
	now := time.Now()
	n := 0
	for i := range 100 {
		if s.Allow(fmt.Sprint("error ", i%2), now.Add(time.Duration(i)*time.Millisecond)) {
			n++
		}
	}
	if n != 2 {
		t.Errorf("two errors that take turns are logged %d times", n)
	}
	for i := range 1000 {
		s.Allow(fmt.Sprint("another ", i), now)
	}
	if len(s.texts) > s.Max {
		t.Errorf("%d texts are kept", len(s.texts))
	}
	if !s.Allow("error 0", now.Add(time.Minute)) {
		t.Error("it is not logged again after a minute")
	}
}

func TestOldServerIsRefused(t *testing.T) {
	for version, fits := range map[string]bool{"2.10.29": false, "1.4.1": false, "2.11.0": true, "2.15.2": true,
		"3.0.0": true, "2.12.0-RC.1": true, "": false, "x": false} {
		major, minor := parseVersion(version)
		if got := major > minMajor || major == minMajor && minor >= minMinor; got != fits {
			t.Errorf("version %q: fits %v, want %v", version, got, fits)
		}
	}
}
