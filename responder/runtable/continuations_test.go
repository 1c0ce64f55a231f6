package runtable_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/responder/runtable"
	"github.com/linesman/linesman/runs"
)

// logWriter writes the raw logs of runs directly.
type logWriter struct {
	*harness
	streams *bus.Bus
}

func (l *harness) logWriter() *logWriter { return &logWriter{l, l.bus(embedded.ResponderUser)} }

func (l *logWriter) write(run string, kind runs.Kind, body []byte) {
	l.Helper()
	_, err := l.streams.AppendIf(l.soon(), "codex", run, runs.Mark{}, func(m runs.Mark) *runs.Entry {
		if kind == runs.Started && m.Started || kind == runs.Exited && m.Exited {
			return nil
		}
		return &runs.Entry{Kind: kind, Time: time.Now().UnixMilli(), Offset: m.Out, Body: body}
	})
	if err != nil {
		l.Fatal(err)
	}
}

// begin starts a run that continues a task; "": none.
func (l *logWriter) begin(run, task string) {
	l.Helper()
	s := runs.Start{Source: "run", Worker: "w"}
	if task != "" {
		s.Labels = map[string]string{runs.LabelContinues: task}
	}
	l.write(run, runs.Started, runs.Encode(s))
}

func (l *logWriter) output(run, text string) {
	l.Helper()
	l.write(run, runs.Out, fmt.Appendf(nil, `{"type":"item.completed","item":{"id":"item_0","type":"agent_message","text":%q}}`+"\n"+
		`{"type":"turn.completed","usage":{"input_tokens":1,"cached_input_tokens":0,"output_tokens":2}}`+"\n", text))
}

func (l *logWriter) exit(run string, code int) {
	l.Helper()
	l.write(run, runs.Exited, runs.Encode(runs.Exit{Reason: runs.ReasonExited, Code: &code}))
}

// shows waits until a responder shows a run in a state, with the facts of a
// continuation.
func (l *logWriter) shows(run string, state runs.State, continuation string) {
	l.Helper()
	v := l.reaches(run, func(v runtable.View) bool { return v.State == state && v.Link == continuation })
	if v.ID != run {
		l.Errorf("run %s is shown as %s", run, v.ID)
	}
}

// A client that follows a task by the id of its first run sees the state of its
// newest run, however often it was continued.
func TestATaskStandsAsItsNewestRun(t *testing.T) {
	t.Parallel()
	l := newHarness(t, nil).logWriter()
	const task = "T-local-task"
	l.begin(task, "")
	l.output(task, "I need somebody.")
	l.shows(task, runs.StateWorking, "")
	l.exit(task, runs.ExitNeedsAgent)
	l.shows(task, runs.StateInputRequired, "")
	if s := l.table.Snapshot(9, nil); len(s.Working) != 1 || len(s.Ended) != 0 || s.Working[0].State != runs.StateInputRequired {
		t.Errorf("it waits, and is listed so: %+v", s)
	}
	ended := make(chan runtable.View, 1)
	ctx := l.soon()
	var group sync.WaitGroup
	defer group.Wait()
	group.Go(func() {
		v, err := l.table.Wait(ctx, task, nil)
		if err != nil {
			t.Error(err)
		}
		ended <- v
	})
	continuations := []string{"T-local-task-2", "T-local-task-3"}
	for i, continuation := range continuations {
		l.begin(continuation, task)
		l.shows(task, runs.StateWorking, continuation)
		l.output(continuation, fmt.Sprint("answer ", i))
		if i == 0 {
			l.exit(continuation, runs.ExitNeedsAgent)
			l.shows(task, runs.StateInputRequired, continuation)
		}
	}
	l.shows(continuations[0], runs.StateWorking, continuations[1])
	select {
	case v := <-ended:
		t.Errorf("a client that waits for the task got %s", v.State)
	default:
	}
	l.exit(continuations[1], 0)
	if v := <-ended; v.State != runs.StateCompleted || v.ID != task {
		t.Errorf("a waiting client got %+v", v)
	}
	later := l.respond(nil) // which reads all of them at the start
	for _, table := range []*runtable.Table{l.table, later} {
		for _, run := range append([]string{task}, continuations...) {
			v, ok := table.Get(run)
			if !ok || v.State != runs.StateCompleted || v.ID != run {
				t.Errorf("%s is shown as %+v", run, v)
			}
			record, err := table.Record(l.soon(), run)
			if err != nil || record.ID != run || record.State != runs.StateCompleted || record.FinalText == nil || *record.FinalText != "answer 1" {
				t.Errorf("%s has the record %s, %v", run, record.JSON(), err)
			}
			if events, err := table.Events(l.soon(), record, 1); err != nil || len(events) != 1 {
				t.Errorf("%s has %d events, %v", run, len(events), err)
			}
		}
		if s := table.Snapshot(9, nil); len(s.Working) != 0 || s.Total != 3 {
			t.Errorf("%d work, %d have ended", len(s.Working), s.Total)
		}
		if _, err := table.Cancel(l.soon(), task, "too late"); !is(err, runs.StateCompleted) {
			t.Errorf("cancel of a task that has ended: %v", err)
		}
	}
}

func is(err error, state runs.State) bool {
	var ended *runtable.EndedError
	return errors.As(err, &ended) && ended.State == state
}

func TestATaskThatWaitsCanBeGivenUp(t *testing.T) {
	t.Parallel()
	l := newHarness(t, nil).logWriter()
	const task = "T-local-task"
	l.begin(task, "")
	l.exit(task, runs.ExitNeedsAgent)
	l.shows(task, runs.StateInputRequired, "")
	c, err := l.table.Cancel(l.soon(), task, "nobody knows")
	if err != nil || c.Before != runs.StateInputRequired || c.State != runs.StateCancelled {
		t.Errorf("cancelled: %+v, %v", c, err)
	}
	l.shows(task, runs.StateCancelled, "T-local-task-2")
	if _, err := l.table.Cancel(l.soon(), task, "again"); !is(err, runs.StateCancelled) {
		t.Errorf("cancelled again: %v", err)
	}
}

// A responder that is killed between the two entries of a cancel leaves the
// task waiting, and the next cancel ends it.
func TestHalfACancelOfATaskIsEndedByTheNext(t *testing.T) {
	t.Parallel()
	l := newHarness(t, nil).logWriter()
	const task, continuation = "T-local-task", "T-local-task-2"
	l.begin(task, "")
	l.exit(task, runs.ExitNeedsAgent)
	l.write(continuation, runs.Started, runs.Encode(runs.Start{Source: runs.SourceExternal, Labels: map[string]string{runs.LabelContinues: task}}))
	l.shows(task, runs.StateInputRequired, continuation)
	if c, err := l.table.Cancel(l.soon(), task, "nobody knows"); err != nil || c.State != runs.StateCancelled {
		t.Errorf("cancelled: %+v, %v", c, err)
	}
	l.shows(task, runs.StateCancelled, continuation)
}

// Continuing a task and cancelling it use the same log: exactly one creates it.
func TestOfGoingOnAndGivingUpOneWins(t *testing.T) {
	t.Parallel()
	l := newHarness(t, nil).logWriter()
	for i := range 3 {
		task := fmt.Sprint("T-local-task", i)
		continuation := task + "-2"
		l.begin(task, "")
		l.exit(task, runs.ExitNeedsAgent)
		l.shows(task, runs.StateInputRequired, "")
		var begun bool
		var group sync.WaitGroup
		group.Go(func() {
			start := runs.Encode(runs.Start{Source: "run", Labels: map[string]string{runs.LabelContinues: task}})
			_, err := l.streams.AppendIf(l.soon(), "codex", continuation, runs.Mark{}, func(m runs.Mark) *runs.Entry {
				if begun = m.Seq == 0; !begun {
					return nil
				}
				return &runs.Entry{Kind: runs.Started, Time: time.Now().UnixMilli(), Body: start}
			})
			if err != nil {
				t.Error(err)
			}
		})
		group.Go(func() {
			if _, err := l.table.Cancel(l.soon(), task, "nobody knows"); err != nil {
				t.Error(err)
			}
		})
		group.Wait()
		if begun { // its worker finds the cancel, and writes the exit entry
			l.write(continuation, runs.Exited, runs.Encode(runs.Exit{Reason: runs.ReasonCancelled}))
		}
		l.shows(task, runs.StateCancelled, continuation)
	}
}

// The continuation label is ignored on runs that cannot belong to the task, and
// a continuation of a task that does not wait changes nothing.
func TestForeignLinksCountForNothing(t *testing.T) {
	t.Parallel()
	l := newHarness(t, nil).logWriter()
	l.begin("T-local-a", "")
	l.exit("T-local-a", runs.ExitNeedsAgent)
	l.begin("T-local-b", "")
	l.exit("T-local-b", 0)
	for _, run := range []string{"T-local-x", "T-local-a-x", "T-local-a-1", "T-local-a-02"} {
		l.begin(run, "T-local-a")
		l.reaches(run, func(v runtable.View) bool { return v.State == runs.StateWorking && v.Continues == "" })
	}
	l.begin("T-local-b-2", "T-local-b")
	l.shows("T-local-b-2", runs.StateWorking, "")
	l.shows("T-local-a", runs.StateInputRequired, "")
	if v, _ := l.table.Get("T-local-b"); v.State != runs.StateFailed || v.Link != "" {
		t.Errorf("%+v", v)
	}
}

// The record of a continuation may be removed: its task is then shown by the
// remaining runs.
func TestARemovedLinkIsForgotten(t *testing.T) {
	t.Parallel()
	l := newHarness(t, nil).logWriter()
	l.begin("T-local-a", "")
	l.exit("T-local-a", runs.ExitNeedsAgent)
	l.begin("T-local-a-2", "T-local-a")
	l.exit("T-local-a-2", 0)
	l.shows("T-local-a", runs.StateFailed, "T-local-a-2")
	report, err := l.table.Cleanup(l.soon(), runtable.CleanupSpec{Stuck: time.Hour})
	if err != nil || report.Gone != 2 {
		t.Errorf("cleaned up %+v, %v", report, err)
	}
	for _, run := range []string{"T-local-a", "T-local-a-2"} {
		if v, ok := l.table.Get(run); ok {
			t.Errorf("%s is still shown as %s", run, v.State)
		}
	}
	ctx, cancel := context.WithTimeout(l.Context(), time.Second)
	defer cancel()
	if _, err := l.table.Record(ctx, "T-local-a"); !errors.Is(err, runs.ErrNoRun) {
		t.Errorf("record: %v", err)
	}
}

// A cancel that arrives after the agent has ended, but before its record says
// so, still cancels the task.
func TestACancelJustAfterTheEndGivesTheTaskUp(t *testing.T) {
	t.Parallel()
	l := newHarness(t, nil).logWriter()
	for i := range 5 {
		task := fmt.Sprint("T-local-task", i)
		l.begin(task, "")
		l.shows(task, runs.StateWorking, "")
		l.exit(task, runs.ExitNeedsAgent)
		if c, err := l.table.Cancel(l.soon(), task, "nobody knows"); err != nil || c.State != runs.StateCancelled {
			t.Errorf("cancelled: %+v, %v", c, err)
		}
		l.shows(task, runs.StateCancelled, task+"-2")
	}
}
