package main

import (
	"testing"
	"time"

	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/runs"
)

// A task is gone on with by the first id that nobody has had: not by one that
// somebody gave to a run of their own, which says nothing of the task either,
// and not by that of a run that was forgotten.
func TestATaskIsGoneOnWithByAnIDThatNobodyHad(t *testing.T) {
	t.Parallel()
	_, server := serve(t)
	b := as(t, server, embedded.OperatorUser)
	normalize(t, server)
	ctx := t.Context()
	write := func(run, task string, code int) {
		t.Helper()
		s := runs.Start{Source: "run", Worker: "w"}
		if task != "" {
			s.Labels = map[string]string{runs.LabelContinues: task}
		}
		l, err := b.OpenLog(ctx, "codex", run, runs.Mark{})
		if err != nil {
			t.Fatal(err)
		}
		entries := []runs.Entry{{Kind: runs.Started, Time: time.Now().UnixMilli(), Body: runs.Encode(s)}}
		if code >= 0 {
			entries = append(entries, runs.Entry{
				Kind: runs.Exited, Time: time.Now().UnixMilli(),
				Body: runs.Encode(runs.Exit{Reason: runs.ReasonExited, Code: &code}),
			})
		}
		for _, e := range entries {
			if err := l.Append(ctx, e); err != nil {
				t.Fatal(err)
			}
		}
	}
	next := func(run, want string) {
		t.Helper()
		link, task, err := (&app{stderr: t.Output()}).nextLink(ctx, b, run, "codex")
		if err != nil || link != want || task != "build" {
			t.Errorf("%s is gone on with by %q of task %q, want %s; %v", run, link, task, want, err)
		}
	}
	write("build", "", runs.ExitNeedsAgent)
	write("build-2", "", -1) // works, for somebody else
	next("build", "build-3")
	write("build-3", "build", runs.ExitNeedsAgent)
	next("build", "build-4")
	write("build-4", "", 0) // somebody else's, too
	next("build", "build-5")
	if _, err := b.Forget(ctx, "build-4"); err != nil {
		t.Fatal(err)
	}
	next("build", "build-5")
	write("build-5", "build", 0)
	if link, _, err := (&app{stderr: t.Output()}).nextLink(ctx, b, "build", "codex"); err == nil {
		t.Errorf("a task that is done is gone on with by %s", link)
	}
}
