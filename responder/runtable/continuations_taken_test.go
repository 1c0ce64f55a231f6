package runtable_test

import (
	"testing"

	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/runs"
)

// Whoever names a run may have given it the id that the next link of a task
// would have: it is none, and giving the task up is not its end.
func TestCancelledTaskLeavesOtherRunsAlone(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil).legs()
	l.begin("build", "")
	l.exit("build", runs.ExitNeedsAgent)
	l.shows("build", runs.StateInputRequired, "")
	l.begin("build-2", "") // has a worker, and nothing to do with it
	l.shows("build-2", runs.StateWorking, "")
	c, err := l.table.Cancel(l.soon(), "build", "nobody knows")
	if err != nil || c.Before != runs.StateInputRequired || otherEnd(c.State) {
		t.Errorf("cancelled: %+v, %v", c, err)
	}
	l.shows("build", runs.StateCancelled, "build-3")
	_, err = l.streams.AppendIf(l.soon(), "codex", "build-2", runs.Mark{}, func(m runs.Mark) *runs.Entry {
		if m.Cancelled || m.Exited {
			t.Errorf("the other run was ended: %+v", m)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// The same where the other run is so young that it has no record yet.
func TestCancelledTaskLeavesNewRunsOfOthersAlone(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil).legs()
	const task = "T-local-task"
	l.begin(task, "")
	l.exit(task, runs.ExitNeedsAgent)
	l.shows(task, runs.StateInputRequired, "")
	l.begin(task+"-2", "")
	if _, err := l.table.Cancel(l.soon(), task, "nobody knows"); err != nil {
		t.Error(err)
	}
	l.shows(task, runs.StateCancelled, task+"-3")
	l.shows(task+"-2", runs.StateWorking, "")
}

// A run that was forgotten has used its number up, also where it was none of
// the task's: the task can still be given up.
func TestTaskIsCancelledIfTheNextIDIsTaken(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil).legs()
	const task, other = "T-local-task", "T-local-task-2"
	l.begin(task, "")
	l.exit(task, runs.ExitNeedsAgent)
	l.begin(other, "")
	l.exit(other, 0)
	l.reaches(other, func(v runs.Header) bool { return v.State.Final() })
	if _, err := l.bus(embedded.OperatorUser).Forget(l.soon(), other); err != nil {
		t.Fatal(err)
	}
	l.shows(task, runs.StateInputRequired, "")
	if c, err := l.table.Cancel(l.soon(), task, "nobody knows"); err != nil || otherEnd(c.State) {
		t.Errorf("cancelled: %+v, %v", c, err)
	}
	l.shows(task, runs.StateCancelled, "T-local-task-3")
}
