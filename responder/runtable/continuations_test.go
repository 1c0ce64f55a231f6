package runtable_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/responder/runtable"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
)

// legs writes the logs of runs by hand.
type legs struct {
	*lab
	streams *bus.Bus
}

func (l *lab) legs() *legs { return &legs{l, l.bus(embedded.ResponderUser)} }

func (l *legs) write(run string, kind runs.Kind, body []byte) {
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

// begin begins a run that goes on with a task, "" being none.
func (l *legs) begin(run, task string) {
	l.Helper()
	s := runs.Start{Source: "run", Worker: "w"}
	if task != "" {
		s.Labels = runs.LabelsOf(map[string]string{runs.LabelContinues: task})
	}
	l.write(run, runs.Started, runs.Encode(s))
}

func (l *legs) say(run, text string) {
	l.Helper()
	l.write(run, runs.Out, fmt.Appendf(nil,
		`{"type":"item.completed","item":{"id":"item_0","type":"agent_message","text":%q}}`+"\n"+
			`{"type":"turn.completed","usage":{"input_tokens":1,"cached_input_tokens":0,"output_tokens":2}}`+"\n", text))
}

func (l *legs) exit(run string, code int) {
	l.Helper()
	l.write(run, runs.Exited, runs.Encode(runs.Exit{Reason: runs.ReasonExited, Code: &code}))
}

// shows waits until a responder shows a run in a state, with the facts of a link.
func (l *legs) shows(run string, state runs.State, link string) {
	l.Helper()
	v := l.reaches(run, func(v runs.Header) bool { return v.State == state && v.ContinuedBy == link })
	if v.ID != run {
		l.Errorf("run %s is shown as %s", run, v.ID)
	}
}

// Who follows a task by the id of its first run sees how its newest one stands,
// however often it was gone on with.
func TestTaskHasTheStateOfItsNewestRun(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil).legs()
	const task = "T-local-task"
	l.begin(task, "")
	l.say(task, "I need somebody.")
	l.shows(task, runs.StateWorking, "")
	l.exit(task, runs.ExitNeedsAgent)
	l.shows(task, runs.StateInputRequired, "")
	if s := l.table.Snapshot(9, nil); len(s.Working) != 1 || len(s.Ended) != 0 ||
		s.Working[0].State != runs.StateInputRequired {
		t.Errorf("it waits, and is listed so: %+v", s)
	}
	ended := make(chan runs.Header, 1)
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
	links := []string{"T-local-task-2", "T-local-task-3"}
	for i, link := range links {
		l.begin(link, task)
		l.shows(task, runs.StateWorking, link)
		l.say(link, fmt.Sprint("answer ", i))
		if i == 0 {
			l.exit(link, runs.ExitNeedsAgent)
			l.shows(task, runs.StateInputRequired, link)
		}
	}
	l.shows(links[0], runs.StateWorking, links[1])
	select {
	case v := <-ended:
		t.Errorf("who waits for the task was told that it is %s", v.State)
	default:
	}
	l.exit(links[1], 0)
	if v := <-ended; v.State != runs.StateCompleted || v.ID != task {
		t.Errorf("who waits was told %+v", v)
	}
	later := l.respond(nil) // which reads them all at once
	for _, table := range []*runtable.Table{l.table, later} {
		for _, run := range append([]string{task}, links...) {
			v, ok := table.Get(run)
			if !ok || v.State != runs.StateCompleted || v.ID != run {
				t.Errorf("%s is shown as %+v", run, v)
			}
			record, err := table.Record(l.soon(), run)
			if err != nil || record.ID != run || record.State != runs.StateCompleted || record.FinalText == nil ||
				*record.FinalText != "answer 1" {
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

// otherEnd reports whether a cancel ended in another state. It may return before it is known that the
// task is cancelled.
func otherEnd(s runs.State) bool { return s.Final() && s != runs.StateCancelled }

func TestTaskAwaitingResumptionCanBeCancelled(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil).legs()
	const task = "T-local-task"
	l.begin(task, "")
	l.exit(task, runs.ExitNeedsAgent)
	l.shows(task, runs.StateInputRequired, "")
	c, err := l.table.Cancel(l.soon(), task, "nobody knows")
	if err != nil || c.Before != runs.StateInputRequired || otherEnd(c.State) {
		t.Errorf("cancelled: %+v, %v", c, err)
	}
	l.shows(task, runs.StateCancelled, "T-local-task-2")
	if _, err := l.table.Cancel(l.soon(), task, "again"); !is(err, runs.StateCancelled) {
		t.Errorf("cancelled again: %v", err)
	}
}

// A responder that is killed between the two entries of a cancel leaves a task
// that waits still, and the next cancel ends it.
func TestInterruptedCancelIsCompletedByTheNext(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil).legs()
	const task, link = "T-local-task", "T-local-task-2"
	l.begin(task, "")
	l.exit(task, runs.ExitNeedsAgent)
	l.write(link, runs.Started, runs.Encode(runs.Start{Source: runs.SourceExternal,
		Attributes: runs.Attributes{Labels: runs.LabelsOf(map[string]string{runs.LabelContinues: task})}}))
	l.shows(task, runs.StateInputRequired, link)
	if c, err := l.table.Cancel(l.soon(), task, "nobody knows"); err != nil || otherEnd(c.State) {
		t.Errorf("cancelled: %+v, %v", c, err)
	}
	l.shows(task, runs.StateCancelled, link)
}

// Who goes on with a task and who gives it up use the same log: one of them
// begins it.
func TestOfGoingOnAndGivingUpOneWins(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil).legs()
	for i := range 3 {
		task := fmt.Sprint("T-local-task", i)
		link := task + "-2"
		l.begin(task, "")
		l.exit(task, runs.ExitNeedsAgent)
		l.shows(task, runs.StateInputRequired, "")
		var begun bool
		var group sync.WaitGroup
		group.Go(func() {
			start := runs.Encode(runs.Start{Source: "run",
				Attributes: runs.Attributes{Labels: runs.LabelsOf(map[string]string{runs.LabelContinues: task})}})
			_, err := l.streams.AppendIf(l.soon(), "codex", link, runs.Mark{}, func(m runs.Mark) *runs.Entry {
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
		if begun { // its worker finds the cancel, and says how it ended
			l.write(link, runs.Exited, runs.Encode(runs.Exit{Reason: runs.ReasonCancelled}))
		}
		l.shows(task, runs.StateCancelled, link)
	}
}

// A label counts only on the runs that a task can have, and a link of nothing
// that waits changes nothing.
func TestLinksOfOtherTasksAreIgnored(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil).legs()
	l.begin("T-local-a", "")
	l.exit("T-local-a", runs.ExitNeedsAgent)
	l.begin("T-local-b", "")
	l.exit("T-local-b", 0)
	for _, run := range []string{"T-local-x", "T-local-a-x", "T-local-a-1", "T-local-a-02"} {
		l.begin(run, "T-local-a")
		l.reaches(run, func(v runs.Header) bool { return v.State == runs.StateWorking && v.Continues == "" })
	}
	l.begin("T-local-b-2", "T-local-b")
	l.shows("T-local-b-2", runs.StateWorking, "")
	l.shows("T-local-a", runs.StateInputRequired, "")
	if v, _ := l.table.Get("T-local-b"); v.State != runs.StateFailed || v.ContinuedBy != "" {
		t.Errorf("%+v", v)
	}
}

// The record of a link may be removed: its task is shown by what is left.
func TestRemovedContinuationIsDropped(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil).legs()
	l.begin("T-local-a", "")
	l.exit("T-local-a", runs.ExitNeedsAgent)
	l.begin("T-local-a-2", "T-local-a")
	l.exit("T-local-a-2", 0)
	l.shows("T-local-a", runs.StateFailed, "T-local-a-2")
	report, err := l.table.Cleanup(l.soon(), api.Cleanup{Stuck: time.Hour})
	if err != nil || report.Removed != 2 {
		t.Errorf("cleaned up %+v, %v", report, err)
	}
	for _, run := range []string{"T-local-a", "T-local-a-2"} {
		if v, ok := l.table.Get(run); ok {
			t.Errorf("%s is still shown as %s", run, v.State)
		}
	}
	ctx, cancel := context.WithTimeout(l.Context(), fixture.Patience)
	defer cancel()
	if _, err := l.table.Record(ctx, "T-local-a"); !errors.Is(err, runs.ErrNoRun) {
		t.Errorf("record: %v", err)
	}
}

// A cancel that comes when the agent has ended, and its record does not say so
// yet, gives the task up all the same.
func TestCancelRightAfterTheEndCancelsTheTask(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil).legs()
	for i := range 5 {
		task := fmt.Sprint("T-local-task", i)
		l.begin(task, "")
		l.shows(task, runs.StateWorking, "")
		l.exit(task, runs.ExitNeedsAgent)
		if c, err := l.table.Cancel(l.soon(), task, "nobody knows"); err != nil || otherEnd(c.State) {
			t.Errorf("cancelled: %+v, %v", c, err)
		}
		l.shows(task, runs.StateCancelled, task+"-2")
	}
}
