package worker

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/linesman/linesman/runs"
)

// The raw log is unreachable and the shim is killed. The limits and a cancel
// still end the agent.
func TestAgentWhoseShimDiedEndsWhileTheLogIsUnreachable(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		limits Limits
		cancel bool
		want   runs.Reason
	}{
		{"hard limit", Limits{Hard: 2 * time.Second}, false, runs.ReasonHard},
		{"cancel", Limits{}, true, runs.ReasonCancelled},
		{"cancel of one that ignores SIGTERM", Limits{Grace: 200 * time.Millisecond}, true, runs.ReasonCancelled},
	} {
		for _, when := range []string{"at an append", "at the start of the next worker"} {
			t.Run(test.name+" "+when, func(t *testing.T) {
				t.Parallel()
				for limits := test.limits; !endsUnreachable(t, limits, test.cancel, test.want, when != "at an append"); {
					if !longer(&limits.Hard) {
						t.Fatalf("the agent ended before its shim was killed, with a limit of %v", limits.Hard)
					}
				}
			})
		}
	}
}

// endsUnreachable reports false if a limit ended the agent before its shim was killed, on a busy machine.
func endsUnreachable(t *testing.T, limits Limits, cancel bool, want runs.Reason, next bool) bool {
	t.Helper()
	l := newFixture(t)
	script := "while :; do echo line; sleep 0.01; done"
	if limits.Grace > 0 {
		script = "trap '' TERM; " + script
	}
	spec := shell("r", recordPIDs+script)
	spec.Dir, spec.Limits = t.TempDir(), limits
	killAtEnd(t, filepath.Join(spec.Dir, "agent"))

	d := l.create(spec)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	r, done := l.driven(ctx, d)
	if !l.prints("r", "line") {
		<-done
		return false
	}
	back := make(chan struct{})
	l.logs.setBlocked(back)
	if l.ended("r") {
		<-done
		return false
	}
	if next {
		stop()
		res := <-done
		if l.ended("r") { // the last append was under way
			return false
		}
		if !errors.Is(res.err, context.Canceled) {
			t.Fatalf("error %v", res.err)
		}
	}
	killed := endShim(t, spec.Dir)
	if next {
		d, err := open(d.Path())
		if err != nil {
			t.Fatal(err)
		}
		r, done = l.driven(t.Context(), d)
	}
	if cancel {
		if err := r.Cancel(t.Context(), "enough"); err != nil {
			t.Fatal(err)
		}
	}
	waitFor(t, "the agent's end", func() bool { return gone(t, filepath.Join(spec.Dir, "agent")) })
	early := l.ended("r") && !next // the last append was under way
	if early && limits.Hard == 0 || next && l.ended("r") {
		t.Fatal("the log was reachable")
	}
	close(back)
	res := <-done
	byShim := res.Signal != 0 || res.Code != nil || res.Reason == runs.ReasonLost // it was killed while it ended the agent
	if res.err == nil && limits.Hard > 0 && (early || !killed || byShim) {
		return false
	}
	if res.err != nil || !sameExit(res.Exit, runs.Exit{Reason: want, Torn: res.Torn}) {
		t.Errorf("exit %s, error %v; want the reason %s alone", runs.Encode(res.Exit), res.err, want)
	}
	cancels := 0
	if cancel {
		cancels = 1
	}
	if got := strings.Count(l.kinds("r"), string(runs.Cancelled)); got != cancels {
		t.Errorf("%d cancel entries, want %d", got, cancels)
	}
	if l.exit("r"); !strings.HasPrefix(strings.Repeat("line\n", len(l.output("r"))/5+1), l.output("r")) {
		t.Error("output differs")
	}
	return true
}
