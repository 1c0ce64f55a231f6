package runtable

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/linesman/linesman/runs"
)

// A run that waits to be gone on with is shown as the newest of its links
// stands, and so is every link but that one: who follows a task by the id of
// its first run sees the task.

// link notes the run of a task.
func (t *index) link(row runs.Row) {
	links := t.links[row.Continues]
	at, known := slices.BinarySearchFunc(links, row.ID, byNumber)
	if !known && len(links) < runs.MaxLinks {
		t.links[row.Continues] = slices.Insert(links, at, row.ID)
	}
}

func (t *index) unlink(task, id string) {
	t.links[task] = slices.DeleteFunc(t.links[task], func(link string) bool { return link == id })
	if len(t.links[task]) == 0 {
		delete(t.links, task)
	}
}

// newest is the newest link of a task, nil where it has none. Their ids count.
func (t *index) newest(task string) *entry {
	for _, id := range slices.Backward(t.links[task]) {
		if e := t.rows[id]; e != nil { // all but the one that is being put
			return e
		}
	}
	return nil
}

// came is a row as it came.
func (e *entry) came() runs.Row {
	if e.own != nil {
		return *e.own
	}
	return e.Row
}

// shown is an entry, whose row is as it came, as it is shown.
func (t *index) shown(e *entry) *entry {
	if e.State != runs.StateInputRequired { // as nearly all: nothing is copied for them
		return e
	}
	own := e.Row
	if !own.Waits() {
		return e
	}
	newest := t.newest(cmp.Or(own.Continues, own.ID))
	if newest == nil || !later(newest.ID, own.ID) {
		return e
	}
	s := newest.came()
	s.ID, s.Agent, s.Source, s.Governance, s.Continues, s.Link = own.ID, own.Agent, own.Source, own.Governance, own.Continues, newest.ID
	s.QueuedAt, s.StartedAt = own.QueuedAt, cmp.Or(own.StartedAt, s.StartedAt)
	s.Thread, s.Seq = cmp.Or(s.Thread, own.Thread), max(s.Seq, own.Seq)
	e.Row, e.own = s, &own
	return e
}

// byNumber orders the runs of a task.
func byNumber(id, other string) int {
	return cmp.Or(cmp.Compare(len(id), len(other)), cmp.Compare(id, other))
}

// later reports whether one run of a task comes behind another.
func later(id, other string) bool { return byNumber(id, other) > 0 }

// follow shows the runs of a task anew, all but one, of which there is news:
// unless there is a newer one, as which they stand already.
func (t *index) follow(task, but string) {
	if newest := t.newest(task); newest != nil && later(newest.ID, but) {
		return
	}
	for _, id := range append([]string{task}, t.links[task]...) {
		e := t.rows[id]
		if e == nil || id == but {
			continue
		}
		if own := e.came(); own.Waits() {
			t.place(t.shown(&entry{Row: own, revision: e.revision, stale: e.stale}))
		}
	}
}

// giveUp ends a task that waits to be gone on with: by a link of its own, which
// nobody works on, and which is cancelled. Who goes on with the task at the
// same time gets that link, and is cancelled, or comes too late.
func (r *Table) giveUp(ctx context.Context, v View, reason string) (Cancelled, error) {
	task := cmp.Or(v.Continues, v.ID)
	c := Cancelled{Before: v.State, State: v.State}
	start := runs.Start{Source: runs.SourceExternal, Labels: map[string]string{runs.LabelContinues: task}}
	for n := 2; ; n++ {
		id, err := runs.LinkID(task, n)
		if err != nil {
			return c, err
		}
		if _, revision, ok := r.index.get(id); ok && revision != 0 {
			continue // an older link, or a run of that id that is none
		}
		ours := false
		_, err = r.cfg.Streams.AppendIf(ctx, v.Agent, id, runs.Mark{}, func(m runs.Mark) *runs.Entry {
			if ours = m.Seq == 0; !ours {
				return nil
			}
			return &runs.Entry{Kind: runs.Started, Time: time.Now().UnixMilli(), Body: runs.Encode(start)}
		})
		if err != nil {
			return c, err
		}
		if !ours {
			if ours, err = r.isLink(ctx, id, task); err != nil {
				return c, err
			}
		}
		if ours {
			done, err := r.Cancel(ctx, id, reason)
			c.State = done.State
			return c, err
		}
	}
}

// isLink waits until a run that somebody has begun is recorded, and reports
// whether it goes on with a task. One that was removed does not.
func (r *Table) isLink(ctx context.Context, id, task string) (bool, error) {
	is := false
	_, err := r.until(ctx, id, nil, func(View) bool {
		row, revision, ok := r.index.get(id)
		is = ok && row.Continues == task
		return ok && revision != 0
	})
	if errors.Is(err, runs.ErrNoRun) {
		return false, nil
	}
	return is, err
}

// OwnRecord is Record of the run alone, whatever came of its task since.
func (r *Table) OwnRecord(ctx context.Context, run string) (*runs.Record, error) {
	if runs.CheckID(run) != nil {
		return nil, runs.ErrNoRun
	}
	record, ok, err := r.cfg.Streams.Record(ctx, run)
	if err == nil && !ok {
		err = runs.ErrNoRun
	}
	return record, err
}

// recordOf reads the record of a run; that of one whose task was gone on with
// has the facts of the newest link.
func (r *Table) recordOf(ctx context.Context, run string) (*runs.Record, error) {
	record, err := r.OwnRecord(ctx, run)
	if err != nil || !record.Waits() {
		return record, err
	}
	row, _, ok := r.index.get(run)
	if !ok || row.Link == "" {
		return record, nil
	}
	link, err := r.recordOf(ctx, row.Link)
	if errors.Is(err, runs.ErrNoRun) { // nobody has made it yet, or it was removed
		return record, nil
	}
	if err != nil {
		return nil, err
	}
	return link.StandsFor(record), nil
}
