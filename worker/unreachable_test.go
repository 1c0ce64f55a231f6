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
				l := newFixture(t)
				script := "while :; do echo line; sleep 0.01; done"
				if test.limits.Grace > 0 {
					script = "trap '' TERM; " + script
				}
				spec := shell("r", recordPIDs+script)
				spec.Dir, spec.Limits = t.TempDir(), test.limits
				killAtEnd(t, filepath.Join(spec.Dir, "agent"))

				d := l.create(spec)
				ctx, stop := context.WithCancel(t.Context())
				r, done := l.driven(ctx, d)
				l.await("r", "line")
				back := make(chan struct{})
				l.logs.setBlocked(back)
				if when != "at an append" {
					stop()
					if res := <-done; !errors.Is(res.err, context.Canceled) {
						t.Fatalf("error %v", res.err)
					}
					killShim(t, spec.Dir)
					d, err := open(d.Path())
					if err != nil {
						t.Fatal(err)
					}
					r, done = l.driven(t.Context(), d)
				} else {
					killShim(t, spec.Dir)
				}
				if test.cancel {
					if err := r.Cancel(t.Context(), "enough"); err != nil {
						t.Fatal(err)
					}
				}
				waitFor(t, "the agent's end", func() bool { return gone(t, filepath.Join(spec.Dir, "agent")) })
				if l.ended("r") {
					t.Fatal("the log was reachable")
				}
				close(back)
				if res := <-done; res.err != nil || !sameExit(res.Exit, runs.Exit{Reason: test.want, Torn: res.Torn}) {
					t.Errorf("exit %s, error %v; want the reason %s alone", runs.Encode(res.Exit), res.err, test.want)
				}
				cancels := 0
				if test.cancel {
					cancels = 1
				}
				if got := strings.Count(l.kinds("r"), string(runs.Cancelled)); got != cancels {
					t.Errorf("%d cancel entries, want %d", got, cancels)
				}
				if l.exit("r"); !strings.HasPrefix(strings.Repeat("line\n", len(l.output("r"))/5+1), l.output("r")) {
					t.Error("output differs")
				}
				stop()
			})
		}
	}
}
