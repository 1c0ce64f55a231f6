// Package runtable keeps a row for every run in memory, and reads and changes
// single runs: their records, output and events; submissions, cancels and
// answers from outside. It owns the rules of these changes. It does not know
// requests, keys, webhooks or error codes: that is package responder.
//
//	RUNS ──watch──▶ Table ──▶ Get, Snapshot, Wait          (memory)
//	RUNS, RAW, EVENTS ──────▶ Record, Output, Events       (read on demand)
//	Submit ──▶ WORK, RAW      Cancel ──▶ control, RAW      Cleanup ──▶ RAW, RUNS
//
// Any number of processes may have a table of the same streams: each has all
// rows, and every change is a conditional append, so that one of them wins.
package runtable

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/linesman/linesman/runs"
)

// Streams is the part of the bus that a table needs.
type Streams interface {
	WatchRuns(ctx context.Context, each func(runs.Change)) error
	WatchHeartbeats(ctx context.Context, each func(beat runs.Heartbeat, at time.Time)) error
	FirstRun(ctx context.Context) (uint64, error)
	RemoveRun(ctx context.Context, run string, revision uint64) error

	Record(ctx context.Context, run string) (*runs.Record, bool, error)
	Output(ctx context.Context, agent, run string, limit int, hasErr bool) (stdout, stderr runs.Excerpt, err error)
	LastEvents(ctx context.Context, agent, run, token string, n int,
		each func(seq uint64, token string, body []byte) error) error
	SetSeen(ctx context.Context, run string) error
	WatchSeen(ctx context.Context, begin func(lost bool), each func(run string, at time.Time), known func()) error
	Peek(ctx context.Context, run string) (runs.Header, error)
	Since() time.Time
	Storable(ctx context.Context) error

	Submit(ctx context.Context, queue string, t runs.QueuedTask, at int64) (work, raw uint64, err error)
	Queued(ctx context.Context, queue, run string) (bool, error)
	Unqueue(ctx context.Context, queue, run string) error
	AskCancel(ctx context.Context, run, reason string) error
	AskAnswer(ctx context.Context, run string, c runs.Command) (runs.Ruling, error)
	AppendIf(ctx context.Context, agent, run string, known runs.Mark, decide func(runs.Mark) *runs.Entry) (runs.Mark,
		error)
}

// Config configures a [Table].
type Config struct {
	Streams    Streams
	Queue      string        // the queue that tasks are submitted to
	LostAfter  time.Duration // a worker without a heartbeat for this long is lost
	StuckAfter time.Duration // a silent run of a lost worker is ended after this; 0: only by Cleanup
	MaxIdle    time.Duration // longest idle timeout of a task; 0: no limit
	MaxHard    time.Duration
	Danger     bool // tasks without a sandbox may be submitted

	// Outside returns a [runs.FieldError] for a task in a directory outside the
	// roots that this process knows of. Nil: only the workers decide.
	Outside func(queue string, t runs.Task, all []Worker) error

	// Absent stores the answer to a question of a live run whose owner is away. Nil: it is refused.
	Absent func(ctx context.Context, agent, run string, c runs.Command) (runs.Ruling, error)

	Patience time.Duration // how long a submission or a cancel waits for NATS; default 5 s or 20 s
	Log      *zap.Logger   // default: none
}

// Table answers questions about runs, and changes them. Its methods are safe
// for concurrent use while Run is active.
type Table struct {
	cfg     Config
	log     *zap.Logger
	index   *index
	workers *workers
	seen    *seen
	orphans atomic.Uint64
}

// New returns a table. It reads nothing before Run.
func New(cfg Config) *Table {
	cfg.Log = cmp.Or(cfg.Log, zap.NewNop())
	return &Table{cfg: cfg, log: cfg.Log.Named("responder"), index: newIndex(), workers: newWorkers(), seen: newSeen()}
}

// Run maintains the table until outer ends; then it returns nil. The error
// reports that the run table cannot be read.
func (r *Table) Run(outer context.Context) error {
	group, ctx := errgroup.WithContext(outer)
	group.Go(func() error {
		return r.cfg.Streams.WatchRuns(ctx, func(c runs.Change) { r.index.change(c, time.Now()) })
	})
	group.Go(func() error { return r.cfg.Streams.WatchHeartbeats(ctx, r.workers.observe) })
	group.Go(func() error { // without it no run is shown as unseen
		if err := r.watchSeen(ctx); err != nil && ctx.Err() == nil {
			r.log.Warn("cannot read which runs were opened", zap.Error(err))
		}
		return nil
	})
	group.Go(func() error { return r.maintain(ctx) })
	if err := group.Wait(); err != nil && outer.Err() == nil {
		return err
	}
	return nil
}

// ErrNotReady reports a run table that was not read in time.
var ErrNotReady = errors.New("the run table is not read yet")

// Ready waits until the table holds all runs that existed when Run began. If patience
// or the deadline of ctx passes first the error wraps [ErrNotReady], and has the reason, if
// it is known, as a text for clients.
func (r *Table) Ready(ctx context.Context, patience time.Duration) error {
	select {
	case <-r.index.filled:
		return nil
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case <-r.index.filled:
		return nil
	case <-ctx.Done():
	}
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("the run table is not read yet: %w", ctx.Err())
	}
	if reason := r.index.reason(); reason != "" {
		return fmt.Errorf("%w: %s", ErrNotReady, reason)
	}
	return ErrNotReady
}

// Basis returns the newest sequence of RAW that the table includes, and when
// the last change arrived; zero if none has.
func (r *Table) Basis() (seq uint64, at time.Time) {
	r.index.mu.Lock()
	defer r.index.mu.Unlock()
	return r.index.seq, r.index.at
}

// Has waits for a time until the table includes the record with a revision. It returns false if it does not.
func (r *Table) Has(ctx context.Context, revision uint64, patience time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		r.index.mu.Lock()
		has := r.index.revision >= revision
		r.index.mu.Unlock()
		if has {
			return true
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return false
		}
	}
}

// Get returns the row of a run, from memory.
func (r *Table) Get(run string) (runs.Header, bool) {
	e := r.index.get(run)
	if e == nil {
		return runs.Header{}, false
	}
	return r.view(e.header()), true
}

// view returns a run with what depends on other runs and on the workers.
func (r *Table) view(v runs.Header) runs.Header {
	switch v.State {
	case runs.StateQueued:
		v.Position = new(r.index.position(v))
	case runs.StateWorking:
		v.WorkerLost = r.lost(v, time.Now())
	}
	v.Unseen = r.Unseen(v)
	return v
}

// lost reports whether the worker of a run has been silent for so long that it
// counts as lost. A disconnected responder cannot judge whether workers are
// alive, nor can any while heartbeats are not stored.
func (r *Table) lost(row runs.Header, now time.Time) bool {
	since, heard := r.cfg.Streams.Since(), r.workers.heardSince()
	if row.Worker == "" || since.IsZero() || heard.IsZero() {
		return false
	}
	for _, at := range []time.Time{r.workers.last(row.Worker), heard} {
		if at.After(since) {
			since = at
		}
	}
	return now.Sub(since) > r.cfg.LostAfter
}

// Look is Get for a run that may be very new: if the raw log has the run, Look
// waits for its row; if no normalizer writes records, the view is derived from
// the log. The error is [runs.ErrNoRun] for other runs.
func (r *Table) Look(ctx context.Context, run string) (runs.Header, error) {
	if v, ok := r.Get(run); ok {
		return v, nil
	}
	if runs.CheckID(run) != nil {
		return runs.Header{}, runs.ErrNoRun
	}
	news, stop := r.index.listen(run)
	defer stop()
	row, err := r.cfg.Streams.Peek(ctx, run)
	if err != nil {
		return runs.Header{}, err
	}
	patience, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	for {
		if v, ok := r.Get(run); ok {
			return v, nil
		}
		select {
		case <-news:
		case <-patience.Done():
			return r.view(row), ctx.Err()
		}
	}
}

// Thread returns the newest run of a thread.
func (r *Table) Thread(thread string) (runs.Header, bool) { return r.ofThread(thread, false) }

// Told returns the newest run whose agent reported a thread.
func (r *Table) Told(thread string) (runs.Header, bool) { return r.ofThread(thread, true) }

// LastOf returns the newest run of the thread of an agent, in any of some directories, whose newest run ended last: one
// that has not ended comes first, of those that linesman follows by its last output. Threads that do not fit are left
// out.
func (r *Table) LastOf(agent string, dirs []string, fits func(runs.Header) bool) (runs.Header, bool) {
	return r.index.lastOf(agent, dirs, fits)
}

func (r *Table) ofThread(thread string, told bool) (runs.Header, bool) {
	row, ok := r.index.ofThread(thread, told)
	if !ok {
		return runs.Header{}, false
	}
	return r.view(row), true
}

// Snapshot is the state of all runs.
type Snapshot struct {
	Working []runs.Header // by start
	Queued  []runs.Header // by queue position
	Ended   []runs.Header // last first, at most limit of them
	Total   int           // number of ended runs that are kept
}

// Snapshot lists the runs that keep accepts; nil accepts all. Without a limit it has only open runs.
func (r *Table) Snapshot(limit int, keep func(runs.Header) bool) Snapshot {
	return r.SnapshotOf(limit, Among{}, nil, keep)
}

// SnapshotOf is Snapshot of the runs that are among some, and of agents and sources that of accepts. It visits the
// ended ones only as far as it needs, but all of them to count those that keep accepts.
func (r *Table) SnapshotOf(limit int, a Among, of func(agent, source string) bool,
	keep func(runs.Header) bool) Snapshot {
	fits := func(h runs.Header) bool {
		return (of == nil || of(h.Agent, h.Source)) && (keep == nil || keep(h))
	}
	var s Snapshot
	working, queued := r.index.open()
	now := time.Now()
	for _, v := range working {
		if fits(v) {
			v.WorkerLost = r.lost(v, now)
			s.Working = append(s.Working, v)
		}
	}
	before := map[string]int{} // by queue
	for _, v := range queued {
		if fits(v) {
			v.Position = new(before[v.Queue])
			s.Queued = append(s.Queued, v)
		}
		before[v.Queue]++
	}
	if limit <= 0 {
		return s
	}
	most := r.index.endedOf(of)
	if keep == nil {
		s.Total, limit = most, min(limit, most)
	}
	visited := 0
	r.Walk(true, a, nil, func(h runs.Header) bool {
		if visited == most || keep == nil && len(s.Ended) == limit {
			return false
		}
		if !h.State.Final() || of != nil && !of(h.Agent, h.Source) {
			return true
		}
		if visited++; keep != nil && !keep(h) {
			return true
		}
		if len(s.Ended) < limit {
			h.Unseen = r.Unseen(h)
			s.Ended = append(s.Ended, h)
		}
		if keep != nil {
			s.Total++
		}
		return true
	})
	return s
}

// Output reads the output of a run's agent: about limit bytes at most, half of
// them of stdout and half of stderr.
func (r *Table) Output(ctx context.Context, record *runs.Record, limit int) (stdout, stderr runs.Excerpt, err error) {
	return r.cfg.Streams.Output(ctx, record.Agent, cmp.Or(record.Link, record.ID), limit/2, record.ErrBytes > 0)
}

// Events reads the newest n events of a run.
func (r *Table) Events(ctx context.Context, record *runs.Record, n int) (all []json.RawMessage, err error) {
	err = r.cfg.Streams.LastEvents(ctx, record.Agent, cmp.Or(record.Link, record.ID), "", n,
		func(_ uint64, _ string, body []byte) error {
			all = append(all, body)
			return nil
		})
	return all, err
}

// Wait waits for the end of a run. Each, unless it is nil, is called with the
// current view and after each change. If ctx ends first, Wait returns the last
// view and the error of ctx.
func (r *Table) Wait(ctx context.Context, run string, each func(runs.Header)) (runs.Header, error) {
	return r.Until(ctx, run, each, func(v runs.Header) bool { return v.State.Final() })
}

// Until is Wait for another condition than the end.
func (r *Table) Until(ctx context.Context, run string, each func(runs.Header),
	is func(runs.Header) bool) (runs.Header, error) {
	news, stop := r.index.listen(run)
	defer stop()
	v, err := r.Look(ctx, run)
	if err != nil {
		return v, err
	}
	for {
		if each != nil {
			each(v)
		}
		if is(v) {
			return v, nil
		}
		select {
		case <-ctx.Done():
			return v, ctx.Err()
		case <-news:
		}
		next, ok := r.Get(run)
		if !ok { // removed, or the table is being rebuilt
			if next, err = r.Look(ctx, run); err != nil {
				return v, err
			}
		}
		v = next
	}
}

// ticket is the receipt of a submission.
type ticket struct {
	Run      string
	At       int64 // when it was accepted, Unix milliseconds
	Position int   // number of queued runs before it
	Seq      uint64
}

// Submit queues a task that was checked. The error is one or
// several [runs.FieldError] of a task that no worker takes, [runs.ErrQueueFull] or [runs.ErrKnownRun],
// or an error of NATS.
func (r *Table) Submit(ctx context.Context, queue string, t runs.QueuedTask) (ticket, error) {
	queue = cmp.Or(queue, r.cfg.Queue)
	now := time.Now().UnixMilli()
	if err := r.allow(queue, t.Task); err != nil {
		return ticket{}, err
	}
	if e := r.index.get(t.Run); e != nil && e.header().State != runs.StateQueued { // a queued one may be in no queue
		return ticket{}, runs.ErrKnownRun
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(r.cfg.Patience, 5*time.Second))
	defer cancel()
	work, raw, err := r.cfg.Streams.Submit(ctx, queue, t, now)
	if err != nil {
		return ticket{}, err
	}
	row := runs.FirstHeader(t.Run, t.Agent, t.Entry(queue, work, now), raw)
	r.index.submitted(row)
	return ticket{Run: t.Run, At: now, Position: r.index.position(row), Seq: raw}, nil
}

func (r *Table) allow(queue string, t runs.Task) error {
	var errs []error
	if r.cfg.Outside != nil {
		errs = append(errs, r.cfg.Outside(queue, t, r.Workers()))
	}
	if t.Mode == runs.DangerFull && !r.cfg.Danger && !t.IsUnboxed() { // that is for the workers to allow
		errs = append(errs, &runs.FieldError{Field: "mode", Problem: string(runs.DangerFull) +
			" is not allowed here: see the setting work.danger"})
	}
	for _, l := range []struct {
		field string
		asked int64
		limit time.Duration
	}{{"idleTimeoutSec", t.Idle, r.cfg.MaxIdle}, {"timeoutSec", t.Hard, r.cfg.MaxHard}} {
		if limit := int64(l.limit / time.Second); limit > 0 && l.asked > limit {
			errs = append(errs, &runs.FieldError{Field: l.field, Problem: fmt.Sprintf("at most %d seconds, got %d", limit,
				l.asked)})
		}
	}
	return errors.Join(errs...)
}
