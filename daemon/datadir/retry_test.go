package datadir

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/linesman/linesman/bus"
)

func TestNATSThatStaysAwayIsWaitedForAMinuteAndSaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stderr strings.Builder
		d := &Dialer{Stderr: &stderr}
		d.Config.DataDir = "/data"
		began := time.Now()
		err := d.Retry(t.Context(), func(context.Context) error { return bus.ErrUnreachable })
		if waited := time.Since(began); waited < MaxOutage || waited > MaxOutage+5*time.Second {
			t.Errorf("gave up after %v, want %v", waited, MaxOutage)
		}
		if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "the `linesman up` of /data") ||
			!strings.Contains(err.Error(), "linesman doctor") {
			t.Errorf("the error: %v", err)
		}
		if want := "linesman: the `linesman up` of /data is away: waiting for it, 1m0s at most\n"; stderr.String() != want {
			t.Errorf("stderr: %q", stderr.String())
		}
	})
}

func TestMistakesAreNotTriedAgain(t *testing.T) {
	d, n, wrong := &Dialer{}, 0, errors.New("no such thing")
	if err := d.Retry(t.Context(), func(context.Context) error { n++; return wrong }); !errors.Is(err, wrong) || n != 1 {
		t.Errorf("%v after %d times", err, n)
	}
}
