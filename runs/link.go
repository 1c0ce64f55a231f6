package runs

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// A program that exits with status 42 is restarted when its answer is available,
// and resumes its work: one task with several runs. Each run has its own raw log,
// events and completion. The id of the first run is the id of the task. The ids
// of the other runs, the links, are derived from it. So if two callers resume a
// task at the same time, the raw log of the next link accepts only one of them.

// LabelContinues is the label of a link. Its value is the id of the task.
const LabelContinues = "linesman.continues"

// MaxLinks is the maximum number of runs of a task. The last one is reserved for
// abandoning the task.
const MaxLinks = 1000

// ErrManyRuns reports a task that already has [MaxLinks] runs.
var ErrManyRuns = fmt.Errorf("a task has at most %d runs", MaxLinks)

// LinkID returns the id of the nth run of a task; n is 2 or more. The error is
// [ErrManyRuns], or that of [CheckID].
func LinkID(task string, n int) (string, error) {
	id := task + "-" + strconv.Itoa(n)
	if n > MaxLinks {
		return "", ErrManyRuns
	}
	return id, CheckID(id)
}

// isLink reports whether id is the id of a later run of task. A label
// [LabelContinues] of any other run is ignored.
func isLink(id, task string) bool {
	number, ok := strings.CutPrefix(id, task+"-")
	n, err := strconv.Atoi(number)
	if !ok || err != nil || n < 2 {
		return false
	}
	link, err := LinkID(task, n)
	return err == nil && link == id && CheckID(task) == nil
}

// Waits reports whether the run has ended and its task is awaiting resumption.
func (r *Record) Waits() bool { return r.State == StateInputRequired && r.EndedAt != 0 }

// ForTask returns the current state of a task of several runs: the identity
// of task, the first run, with the facts of r, its newest link.
func (r *Record) ForTask(task *Record) *Record {
	s := *r
	s.ID, s.Agent, s.Source, s.Governance, s.Type = task.ID, task.Agent, task.Source, task.Governance, task.Type
	s.Continues, s.Link = task.Continues, r.ID
	s.Labels = task.Labels
	s.QueuedAt, s.StartedAt = task.QueuedAt, cmp.Or(task.StartedAt, r.StartedAt)
	s.Thread = cmp.Or(r.Thread, task.Thread)
	s.Seq = max(r.Seq, task.Seq)
	return &s
}
