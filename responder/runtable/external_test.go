package runtable_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/responder/runtable"
	"github.com/linesman/linesman/runs"
)

// ask begins a run that waits, and returns its id.
func (l *lab) ask(n int, due time.Time) string {
	l.Helper()
	run := fmt.Sprintf("T-local-ask%d", n)
	if err := l.table.Ask(l.soon(), run, runs.Question{Prompt: "Which one?"},
		runs.LabelsOf(map[string]string{"request_id": "id"}),
		due); err != nil {
		l.Fatal(err)
	}
	l.reaches(run, func(v runs.Header) bool { return v.State == runs.StateInputRequired })
	return run
}

func text(s string) runs.Reply { return runs.Reply{Status: runs.ReplySuccess, Text: s} }

// Of many answers at once, of two responders, one counts: whoever gave it is
// told so, also when it gives it again, and everybody else is not.
func TestOneOfManyAnswersCounts(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	tables := []*runtable.Table{l.table, l.respond(nil)}
	run := l.ask(1, time.Time{})
	const n = 20
	errs := make([]error, n)
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { _, errs[i] = tables[i%2].Answer(l.soon(), run, text(fmt.Sprint("answer ", i)), false) })
	}
	group.Wait()
	won := -1
	for i, err := range errs {
		var ended *runtable.EndedError
		switch {
		case err == nil && won < 0:
			won = i
		case err == nil:
			t.Errorf("answers %d and %d both count", won, i)
		case !errors.As(err, &ended) || ended.State != runs.StateCompleted:
			t.Errorf("answer %d: %v", i, err)
		}
	}
	want := text(fmt.Sprint("answer ", won))
	if got, err := l.table.Reply(l.soon(), run); err != nil || got != want {
		t.Errorf("the reply is %+v, %v; want %+v", got, err, want)
	}
	for range 2 {
		if state, err := tables[1].Answer(l.soon(), run, want, false); err != nil || state != runs.StateCompleted {
			t.Errorf("the same again: %s, %v", state, err)
		}
	}
	l.reaches(run, func(v runs.Header) bool { return v.State.Final() })
	record, err := l.table.Record(l.soon(), run)
	if err != nil || record.Lines != 2 || record.FinalText == nil || *record.FinalText != want.Text {
		t.Errorf("record %s, %v", record.JSON(), err)
	}
}

// An answer, a cancel and the end of its time race: one of them wins, and all
// are told which.
func TestAnswerCancelAndExpiryHaveOneWinner(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	won := map[runs.State]int{}
	for i := range 12 {
		run := l.ask(i, time.Time{})
		var answered, cancelled, expired error
		var state runs.State
		var group sync.WaitGroup
		group.Go(func() { state, answered = l.table.Answer(l.soon(), run, text("yes"), false) })
		group.Go(func() {
			for { // it may return before the end is known
				var c runtable.Cancelled
				if c, cancelled = l.table.Cancel(l.soon(), run, "not needed"); cancelled != nil || c.State.Final() {
					break
				}
			}
			if is(cancelled, runs.StateCancelled) { // by the one before
				cancelled = nil
			}
		})
		if i%2 == 0 {
			group.Go(func() { expired = l.table.Expire(l.soon(), run) })
		}
		group.Wait()
		v, err := l.table.Wait(l.soon(), run, nil)
		if err != nil {
			t.Fatal(err)
		}
		won[v.State]++
		var ended *runtable.EndedError
		if expired != nil {
			t.Errorf("expire: %v", expired)
		}
		if is := v.State == runs.StateCompleted; is != (answered == nil) || !is && (!errors.As(answered, &ended) ||
			state != v.State) {
			t.Errorf("%s, but the answer: %s, %v", v.State, state, answered)
		}
		if is := v.State == runs.StateCancelled; is != (cancelled == nil) || !is && (!errors.As(cancelled, &ended) ||
			ended.State != v.State) {
			t.Errorf("%s, but the cancel: %v", v.State, cancelled)
		}
	}
	t.Logf("won: %v", won)
}

// What a crash left out between the two entries is done by the next who asks,
// and nothing twice.
func TestQuestionIsStoredOnce(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	const run = "T-local-half"
	streams := l.bus(embedded.ResponderUser)
	_, err := streams.AppendIf(l.soon(), runs.AgentExternal, run, runs.Mark{}, func(runs.Mark) *runs.Entry {
		return &runs.Entry{Kind: runs.Started, Time: 1, Body: runs.Encode(runs.Start{Source: runs.SourceExternal})}
	})
	if err != nil {
		t.Fatal(err)
	}
	l.reaches(run, func(v runs.Header) bool { return v.State == runs.StateInputRequired })
	if _, err := l.table.Answer(l.soon(), run, text("yes"), false); !errors.Is(err, runtable.ErrNotAsked) {
		t.Errorf("an answer before the question: %v", err)
	}
	for range 3 {
		if err := l.table.Ask(l.soon(), run, runs.Question{Prompt: "Which one?"}, "", time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	l.reaches(run, func(v runs.Header) bool {
		r, err := l.table.Record(l.soon(), run)
		return err == nil && r.Lines == 1
	})
	if _, err := l.table.Answer(l.soon(), run, text("yes"), false); err != nil {
		t.Fatal(err)
	}
	if err := l.table.Ask(l.soon(), run, runs.Question{Prompt: "Which one?"}, "", time.Time{}); err != nil {
		t.Errorf("asked again after the end: %v", err)
	}
	l.reaches(run, func(v runs.Header) bool { return v.State.Final() })
	record, err := l.table.Record(l.soon(), run)
	if err != nil || record.Lines != 2 || record.State != runs.StateCompleted {
		t.Errorf("record %s, %v", record.JSON(), err)
	}
}

// A run whose bridge never comes back is ended by any responder; one whose
// time is not over, or that has none, waits on, and counts neither as stuck.
func TestOnlyOverdueQuestionsAreEnded(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	late, early, never := l.ask(1, time.Now().Add(-time.Minute)), l.ask(2, time.Now().Add(time.Hour)),
		l.ask(3, time.Time{})
	runtable.EndOverdue(l.table, l.soon(), 2*time.Minute)
	if v, _ := l.table.Get(late); v.State != runs.StateInputRequired {
		t.Errorf("ended before its grace was over: %s", v.State)
	}
	runtable.EndOverdue(l.table, l.soon(), 30*time.Second)
	if v, err := l.table.Wait(l.soon(), late, nil); err != nil || v.State != runs.StateTimeout ||
		v.Reason != string(runs.ReasonHard) {
		t.Errorf("%s (%s), %v", v.State, v.Reason, err)
	}
	report, err := l.table.Cleanup(l.soon(), api.Cleanup{Old: time.Hour})
	if err != nil || len(report.Stuck) != 0 {
		t.Errorf("cleaned up %+v, %v", report, err)
	}
	for _, run := range []string{early, never} {
		if v, _ := l.table.Get(run); v.State != runs.StateInputRequired || v.WorkerLost {
			t.Errorf("%s: %s, lost: %v", run, v.State, v.WorkerLost)
		}
	}
	waiting, _, err := l.table.Waiting(l.soon(), 10, nil)
	if err != nil || len(waiting) != 2 || waiting[0].ID != early || waiting[1].ID != never {
		t.Errorf("waiting: %d, %v", len(waiting), err)
	}
}

// Whoever answers when the time is over is told so, at once and for ever: the
// bridge may have given up on it, and be out of reach.
func TestAnAnswerAfterItsTimeIsRefused(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	for i, reply := range []runs.Reply{text("yes"), {Status: runs.ReplyError, Error: "nobody knows"}} {
		run := l.ask(i, time.Now().Add(-time.Millisecond))
		for range 2 {
			state, err := l.table.Answer(l.soon(), run, reply, false)
			if ended := (*runtable.EndedError)(nil); !errors.As(err, &ended) || state != runs.StateTimeout ||
				ended.State != state {
				t.Errorf("%s: the answer of the late: %s, %v", reply.Status, state, err)
			}
		}
		if got, err := l.table.Reply(l.soon(), run); !errors.Is(err, runs.ErrNoReply) {
			t.Errorf("%s: it is stored: %+v, %v", reply.Status, got, err)
		}
	}
	run := l.ask(2, time.Now().Add(-time.Millisecond))
	if state, err := l.table.Answer(l.soon(), run, text("by a file"), true); err != nil || state != runs.StateCompleted {
		t.Errorf("what its reader has already: %s, %v", state, err)
	}
}

// A long answer is stored wholly, and read back byte for byte.
func TestLongAnswerIsReadCompletely(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	run := l.ask(1, time.Time{})
	want := text(strings.Repeat("é<\n", runs.MaxReply/5-100))
	if _, err := l.table.Answer(l.soon(), run, want, false); err != nil {
		t.Fatal(err)
	}
	if got, err := l.table.Reply(l.soon(), run); err != nil || got != want {
		t.Errorf("%d bytes came back of %d, %v", len(got.Text), len(want.Text), err)
	}
}

func TestOnlyExternalRunsAcceptAnswers(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	ticket := l.submit("wait for a worker")
	if _, err := l.table.Answer(l.soon(), ticket.Run, text("yes"), false); !errors.Is(err, runtable.ErrNotAsked) {
		t.Errorf("a queued task: %v", err)
	}
	if err := l.table.Expire(l.soon(), ticket.Run); !errors.Is(err, runtable.ErrNotAsked) {
		t.Errorf("expire a queued task: %v", err)
	}
	if _, err := l.table.Answer(l.soon(), "T-local-none", text("yes"), false); !errors.Is(err, runs.ErrNoRun) {
		t.Errorf("no run: %v", err)
	}
	var field *runs.FieldError
	if _, err := l.table.Answer(l.soon(), "T-local-none", runs.Reply{}, false); !errors.As(err, &field) {
		t.Errorf("no answer: %v", err)
	}
	if err := l.table.Ask(l.soon(), "a b", runs.Question{}, runs.LabelsOf(map[string]string{"": "x"}),
		time.Time{}); !errors.As(err,
		&field) {
		t.Errorf("a bad question: %v", err)
	}
}
