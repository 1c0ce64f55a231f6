package a2a_test

import (
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"

	"github.com/linesman/linesman/runs"
)

// A task that resumes a context belongs to it from the start for all callers, even
// if it never starts.
func TestQueuedTaskIsInTheContextThatItGoesOnIn(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	d := l.endpoint(nil)
	c := d.client(surfaces[0], token)
	first := sent(t, c, now(user("go")))
	d.finish(string(first.ID))
	m := user("more")
	m.ContextID = thread
	task := sent(t, c, now(m))
	in := func(c *a2aclient.Client, state sdk.TaskState) {
		t.Helper()
		got, err := c.GetTask(t.Context(), &sdk.GetTaskRequest{ID: task.ID})
		if err != nil || got.ContextID != thread || got.Status.State != state {
			t.Errorf("the task is %+v, %v", got, err)
		}
		list, err := c.ListTasks(t.Context(), &sdk.ListTasksRequest{ContextID: thread})
		if err != nil || len(list.Tasks) != 2 || list.Tasks[0].ID != task.ID {
			t.Errorf("tasks of the context: %+v, %v", list, err)
		}
	}
	in(c, sdk.TaskStateSubmitted)
	in(l.endpoint(nil).client(surfaces[0], token), sdk.TaskStateSubmitted) // which knows it from the streams alone
	if _, err := c.CancelTask(t.Context(), &sdk.CancelTaskRequest{ID: task.ID}); err != nil {
		t.Fatal(err)
	}
	d.await(string(task.ID), func(v runs.Header) bool { return v.State.Final() })
	in(c, sdk.TaskStateCanceled)
}

// Lists are ordered by times: the raw logs of these tests must not be ahead of the clock by which a responder queues.
func TestTheLogsOfTheseTestsAreNotAheadOfTheClock(t *testing.T) {
	t.Parallel()
	d := newLab(t).endpoint(nil)
	run := d.work("long")
	for range 500 {
		run.out(turns)
	}
	run.exit(runs.ReasonExited, 0)
	c := d.client(surfaces[0], token)
	next := sent(t, c, now(user("go")))
	list, err := c.ListTasks(t.Context(), &sdk.ListTasksRequest{})
	if err != nil || len(list.Tasks) != 2 || list.Tasks[0].ID != next.ID {
		t.Errorf("a run that was queued after the end of another is not listed before it: %+v, %v", list, err)
	}
}
