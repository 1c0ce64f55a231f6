package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/runs"
)

// Who goes on with a task for so long that its numbers are used up is told so,
// and what to do: the last number is for that.
func TestTheLastNumberIsForGivingATaskUp(t *testing.T) {
	t.Parallel()
	_, server := serve(t)
	b := as(t, server, embedded.OperatorUser)
	normalize(t, server)
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
	use := func(number int) { // by a run that goes on with nothing
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
	if link, _, err := (&app{stderr: t.Output()}).nextLink(ctx, b, "build", "codex"); err != nil || link != "build-999" {
		t.Errorf("the last run but one is %q, %v", link, err)
	}
	use(runs.MaxLinks - 1)
	link, _, err := (&app{stderr: t.Output()}).nextLink(ctx, b, "build", "codex")
	if !errors.Is(err, runs.ErrManyRuns) || !strings.Contains(err.Error(), "`linesman cancel build`") {
		t.Errorf("behind the last number but one: %q, %v", link, err)
	}
	use(runs.MaxLinks)
	if link, _, err = (&app{stderr: t.Output()}).nextLink(ctx, b, "build", "codex"); !errors.Is(err, runs.ErrManyRuns) {
		t.Errorf("behind the last number: %q, %v", link, err)
	}
}
