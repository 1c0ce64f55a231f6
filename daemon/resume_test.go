package daemon_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/daemon"
	"github.com/linesman/linesman/daemon/daemontest"
	"github.com/linesman/linesman/daemon/datadir"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// session is that of a command beside a daemon.
func session(t *testing.T) (*daemon.Session, *bus.Bus) {
	t.Helper()
	d := daemontest.Start(t, nil)
	b, err := d.Server.Connect(bustest.Patient(t), embedded.OperatorUser)
	if err != nil {
		t.Fatal(err)
	}
	s, err := d.Session(t.Context(), daemon.Config{Dialer: &datadir.Dialer{Stderr: t.Output()}})
	if err != nil {
		t.Fatal(err)
	}
	return s, b
}

// When the numbers of a task are used up, the error says so, and what to do: the
// last number is for the cancel.
func TestTheLastNumberIsForTheCancel(t *testing.T) {
	t.Parallel()
	s, b := session(t)
	ctx := t.Context()
	write := func(run string, kind runs.Kind, body []byte) {
		t.Helper()
		_, err := b.AppendIf(ctx, "codex", run, runs.Mark{}, func(runs.Mark) *runs.Entry {
			return &runs.Entry{Kind: kind, Time: time.Now().UnixMilli(), Body: body}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	use := func(number int) { // by a run that continues nothing
		t.Helper()
		id, err := runs.LinkID("build", number)
		if err != nil {
			t.Fatal(err)
		}
		write(id, runs.Started, runs.Encode(runs.Start{Source: "run", Worker: "w"}))
	}
	code := runs.ExitNeedsAgent
	write("build", runs.Started, runs.Encode(runs.Start{Source: "run", Worker: "w"}))
	write("build", runs.Exited, runs.Encode(runs.Exit{Reason: runs.ReasonExited, Code: &code}))
	for number := 2; number < runs.MaxLinks-1; number++ {
		use(number)
	}
	if link, _, err := s.NextRun(ctx, "build", "codex"); err != nil || link != "build-999" {
		t.Errorf("the last run but one is %q, %v", link, err)
	}
	use(runs.MaxLinks - 1)
	link, _, err := s.NextRun(ctx, "build", "codex")
	if !errors.Is(err, runs.ErrManyRuns) || !strings.Contains(err.Error(), "`linesman cancel build`") {
		t.Errorf("behind the last number but one: %q, %v", link, err)
	}
	use(runs.MaxLinks)
	if link, _, err = s.NextRun(ctx, "build", "codex"); !errors.Is(err, runs.ErrManyRuns) {
		t.Errorf("behind the last number: %q, %v", link, err)
	}
}

// A task continues with the first id that is not in use: not with the id of a run
// that does not belong to the task, and not with that of a forgotten run.
func TestATaskContinuesWithAnUnusedID(t *testing.T) {
	t.Parallel()
	s, b := session(t)
	ctx := t.Context()
	write := func(run, task string, code int) {
		t.Helper()
		start := runs.Start{Source: "run", Worker: "w"}
		if task != "" {
			start.Labels = runs.LabelsOf(map[string]string{runs.LabelContinues: task})
		}
		l, err := b.OpenLog(ctx, "codex", run, runs.Mark{})
		if err != nil {
			t.Fatal(err)
		}
		entries := []runs.Entry{{Kind: runs.Started, Time: time.Now().UnixMilli(), Body: runs.Encode(start)}}
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
		link, task, err := s.NextRun(ctx, run, "codex")
		if err != nil || link != want || task != "build" {
			t.Errorf("%s continues with %q of task %q, want %s; %v", run, link, task, want, err)
		}
	}
	write("build", "", runs.ExitNeedsAgent)
	write("build-2", "", -1) // a run of its own
	next("build", "build-3")
	write("build-3", "build", runs.ExitNeedsAgent)
	next("build", "build-4")
	write("build-4", "", 0) // as well
	next("build", "build-5")
	if _, err := b.Forget(ctx, "build-4"); err != nil {
		t.Fatal(err)
	}
	next("build", "build-5")
	write("build-5", "build", 0)
	if link, _, err := s.NextRun(ctx, "build", "codex"); err == nil {
		t.Errorf("a completed task continues with %s", link)
	}
}
