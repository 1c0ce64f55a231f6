package runs

import (
	"cmp"
	"fmt"
	"maps"
	"strconv"
	"strings"
)

// A program that ends with the status 42 is started again, once it has its
// answer, and goes on with what it did: one task, of several runs. Each run
// has a log, events and a completion of its own. The first one's id is the
// task's, and the ids of the others, its links, are made of it, so that of two
// who go on with a task at once the log of the next link lets one.

// LabelContinues is the label of a link: the id of its task.
const LabelContinues = "linesman.continues"

// sourceRun is the [Start.Source] of a run that somebody started by hand.
const sourceRun = "run"

// MaxLinks is how many runs a task can have. The last one is for giving it up.
const MaxLinks = 1000

// ErrManyRuns reports a task that has had [MaxLinks] runs.
var ErrManyRuns = fmt.Errorf("a task has at most %d runs", MaxLinks)

// LinkID is the id of the nth run of a task, n being 2 or more. The error says
// that it would be no id.
func LinkID(task string, n int) (string, error) {
	id := task + "-" + strconv.Itoa(n)
	if n > MaxLinks {
		return "", ErrManyRuns
	}
	return id, CheckID(id)
}

// isLink reports whether id is that of a later run of a task. A label that
// says so of another one counts for nothing.
func isLink(id, task string) bool {
	number, ok := strings.CutPrefix(id, task+"-")
	n, err := strconv.Atoi(number)
	if !ok || err != nil || n < 2 {
		return false
	}
	link, err := LinkID(task, n)
	return err == nil && link == id && CheckID(task) == nil
}

// Waits reports whether the run has ended, and its task waits to be gone on
// with.
func (r *Record) Waits() bool { return r.State == StateInputRequired && r.EndedAt != 0 }

// Waits is that of the row's record.
func (r Row) Waits() bool { return r.State == StateInputRequired && r.EndedAt != 0 }

// StandsFor is the record of task with the facts of r, the newest of its
// links: how the task stands.
func (r *Record) StandsFor(task *Record) *Record {
	s := *r
	s.ID, s.Agent, s.Source, s.Governance = task.ID, task.Agent, task.Source, task.Governance
	s.Continues, s.Link = task.Continues, r.ID
	s.Labels = maps.Clone(task.Labels)
	s.QueuedAt, s.StartedAt = task.QueuedAt, cmp.Or(task.StartedAt, r.StartedAt)
	s.Thread = cmp.Or(r.Thread, task.Thread)
	s.Seq = max(r.Seq, task.Seq)
	return &s
}
