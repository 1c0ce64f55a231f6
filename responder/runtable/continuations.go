package runtable

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/linesman/linesman/runs"
)

// Continuations: a task that awaits resumption may be continued by further
// runs. Such a task, and each of its runs except the newest, is shown with the
// state of the newest one, so that a client can follow the task by the id of
// its first run.

// addContinuation records that a run continues a task.
func (t *index) addContinuation(row runs.Header) {
	continuations := t.continuations[row.Continues]
	at, known := slices.BinarySearchFunc(continuations, row.ID, compareContinuations)
	if !known && len(continuations) < runs.MaxLinks {
		t.continuations[row.Continues] = slices.Insert(continuations, at, row.ID)
	}
}

func (t *index) removeContinuation(task, id string) {
	t.continuations[task] = slices.DeleteFunc(t.continuations[task], func(other string) bool { return other == id })
	if len(t.continuations[task]) == 0 {
		delete(t.continuations, task)
	}
}

// newest returns the newest continuation of a task, nil if it has none, by the
// numbers in the ids.
func (t *index) newest(task string) *entry {
	for _, id := range slices.Backward(t.continuations[task]) {
		if e := t.rows[id]; e != nil { // nil for the run that is being stored
			return e
		}
	}
	return nil
}

// record is the header as recorded.
func (e *entry) record() runs.Header {
	if e.recorded != nil {
		return e.recorded.header()
	}
	return e.header()
}

// resolve sets the row of an entry to what answers show: the state of the
// newest continuation.
func (t *index) resolve(e *entry) *entry {
	if e.state() != runs.StateInputRequired { // nearly all: nothing is copied for them
		return e
	}
	own := e.header()
	if !own.Waits() {
		return e
	}
	newest := t.newest(cmp.Or(own.Continues, own.ID))
	if newest == nil || !later(newest.id(), own.ID) {
		return e
	}
	s := newest.record()
	s.ID, s.Agent, s.Source, s.Governance, s.Type = own.ID, own.Agent, own.Source, own.Governance, own.Type
	s.Continues, s.ContinuedBy = own.Continues, newest.id()
	s.QueuedAt, s.StartedAt = own.QueuedAt, cmp.Or(own.StartedAt, s.StartedAt)
	s.Thread, s.Seq = cmp.Or(s.Thread, own.Thread), max(s.Seq, own.Seq)
	e.recorded = new(e.row)
	e.row = t.commons.rowOf(&s)
	return e
}

// compareContinuations orders the runs of a task.
func compareContinuations(id, other string) int {
	return cmp.Or(cmp.Compare(len(id), len(other)), cmp.Compare(id, other))
}

// later reports whether a run of a task comes after another.
func later(id, other string) bool { return compareContinuations(id, other) > 0 }

// refresh resolves all runs of a task again, except the changed one. If there
// is a newer run, nothing changes: they already show its state.
func (t *index) refresh(task, but string) {
	if newest := t.newest(task); newest != nil && later(newest.id(), but) {
		return
	}
	for _, id := range append([]string{task}, t.continuations[task]...) {
		e := t.rows[id]
		if e == nil || id == but {
			continue
		}
		if own := e.record(); own.Waits() {
			stale := e.stale
			e = t.resolve(&entry{row: t.commons.rowOf(&own), revision: e.revision})
			e.stale = stale
			t.show(e)
		}
	}
}

// cancelWaiting cancels a task that is awaiting resumption: it creates a
// continuation without a worker and cancels it. A client that continues the
// task at the same time uses the same log, and its run is cancelled, or it
// comes too late.
func (r *Table) cancelWaiting(ctx context.Context, v runs.Header, reason string) (cancelled, error) {
	task := cmp.Or(v.Continues, v.ID)
	c := cancelled{Before: v.State, State: v.State}
	start := runs.Start{Source: runs.SourceExternal,
		Attributes: runs.Attributes{Labels: runs.LabelsOf(map[string]string{runs.LabelContinues: task})}}
	for n := 2; ; n++ {
		id, err := runs.LinkID(task, n)
		if err != nil {
			return c, err
		}
		if e := r.index.get(id); e != nil && e.revision != 0 {
			continue // an older continuation, or an unrelated run with that id
		}
		_, ours, err := r.begin(ctx, v.Agent, id, start)
		if err != nil {
			return c, err
		}
		if !ours {
			if ours, err = r.isContinuation(ctx, id, task); err != nil {
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

// begin writes the first entry of a log, and reports false if the log has one.
func (r *Table) begin(ctx context.Context, agent, run string, start runs.Start) (m runs.Mark, ours bool, err error) {
	m, err = r.cfg.Streams.AppendIf(ctx, agent, run, runs.Mark{}, func(m runs.Mark) *runs.Entry {
		if ours = m.Seq == 0; !ours {
			return nil
		}
		return newEntry(runs.Started, runs.Encode(start))
	})
	return m, ours, err
}

func newEntry(kind runs.Kind, body []byte) *runs.Entry {
	return &runs.Entry{Kind: kind, Time: time.Now().UnixMilli(), Body: body}
}

// isContinuation waits until an existing run is recorded, and reports whether
// it continues a task. A removed run does not.
func (r *Table) isContinuation(ctx context.Context, id, task string) (bool, error) {
	is := false
	_, err := r.Until(ctx, id, nil, func(runs.Header) bool {
		e := r.index.get(id)
		is = e != nil && e.continues() == task
		return e != nil && e.revision != 0
	})
	if errors.Is(err, runs.ErrNoRun) {
		return false, nil
	}
	return is, err
}

// OwnRecord reads the record of one run alone, without its continuations.
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

// Record reads the complete record of a run; if its task was continued, with the
// facts of the newest continuation. The error is [runs.ErrNoRun] if there is none.
func (r *Table) Record(ctx context.Context, run string) (*runs.Record, error) {
	record, err := r.OwnRecord(ctx, run)
	if err != nil || !record.Waits() {
		return record, err
	}
	e := r.index.get(run)
	if e == nil || e.header().ContinuedBy == "" {
		return record, nil
	}
	newest, err := r.Record(ctx, e.header().ContinuedBy)
	if errors.Is(err, runs.ErrNoRun) { // not recorded yet, or removed
		return record, nil
	}
	if err != nil {
		return nil, err
	}
	return newest.ForTask(record), nil
}
