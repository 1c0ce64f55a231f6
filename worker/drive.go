package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/linesman/linesman/runs"
)

// Run is one run, in the hands of this worker. Interrupt and Cancel may be
// called from any goroutine, before and while it is driven.
type Run struct {
	w      *Worker
	dir    *Dir
	log    *zap.Logger
	source source
	raw    Log
	place  *place // in the directory's mark
	out    stream
	err    stream

	again   bool          // it was driven before, by this worker, and failed
	cancels chan string   // reasons, one is enough
	reason  *string       // one of them, while the raw log has no cancel entry
	noted   chan struct{} // closed once the raw log has a cancel entry
	begun   func()        // called once the raw log has our start entry; may be nil
	over    chan struct{} // closed when Drive returns
	stopped bool          // the source was told to stop
	fenced  bool          // somebody else ended the run in its log, before our eyes

	stores   []string // that know the run, for the ledger; nil: ask
	recorded bool     // the ledger has its line
}

// A source is what writes the output of a run.
type source interface {
	// ended returns how the run ended, once all that will ever be written
	// can be read; until then nil. It is asked again and again, and does what
	// is needed to get there.
	ended(now time.Time) (*runs.Exit, error)
	// stop asks what writes to end. It may be called more than once.
	stop()
	// next is how long ended need not be asked again.
	next() time.Duration
	// lasting reports whether output is still to be read once stopped.
	lasting() bool
}

// Drive carries the run from wherever it stands to its end: its start entry,
// its agent, its output, its exit entry, and the end of its directory. It
// returns how the run ended.
//
// When ctx ends it returns soon and leaves all as it is, for the next owner;
// the agent goes on. The error is [ErrKnown] or [ErrEnded] when the raw log
// belongs to somebody else. The directory is closed in any case.
func (r *Run) Drive(ctx context.Context) (runs.Exit, error) {
	defer close(r.over)
	defer r.dir.Close()
	defer r.out.close()
	defer r.err.close()
	r.w.enter(r)
	defer r.w.leave(r)
	if r.w.cfg.Control != nil {
		stop, err := r.w.cfg.Control.Listen(r.dir.Spec.Run, r.Cancel)
		if err != nil {
			return runs.Exit{}, err
		}
		defer stop()
	}

	ex, err := r.drive(ctx)
	switch {
	case errors.Is(err, ErrKnown):
		if r.dir.Spec.Part != nil { // it was imported, and the ledger does not say so
			err = errors.Join(err, r.record(ctx))
		} else {
			r.log.Warn("run is known already, not started")
		}
		err = errors.Join(err, r.dir.Remove())
	case errors.Is(err, ErrEnded):
		err = errors.Join(err, r.abandon(ctx))
	}
	if err != nil {
		return ex, fmt.Errorf("run %s: %w", r.dir.Spec.Run, err)
	}
	return ex, nil
}

// Interrupt passes SIGINT on to the agent and its group. Without an agent the
// error is [ErrNoAgent].
func (r *Run) Interrupt() error {
	if !r.dir.Spec.process() || r.dir.tell(ctlInterrupt) != nil {
		return ErrNoAgent
	}
	return nil
}

// AgentBegun reports whether the agent was started, or has ended.
func (r *Run) AgentBegun() bool { return exists(r.dir.file(startedFile)) || r.AgentEnded() }

// AgentEnded reports whether the agent has ended, also while the raw log is
// out of reach and Drive cannot tell. A run without an agent has none that ends.
func (r *Run) AgentEnded() bool {
	s, ok := r.source.(*spawned)
	if !ok {
		return false
	}
	if !exists(r.dir.path) { // the run is over
		return true
	}
	ex, err := readExit(r.dir.path, *s.keys.Load()...)
	return ex != nil && err == nil
}

func (r *Run) drive(ctx context.Context) (ex runs.Exit, err error) {
	mark := r.place.Log
	err = r.tending(func() (err error) {
		r.raw, err = r.w.cfg.Logs.Open(ctx, r.dir.Spec.Agent, r.dir.Spec.Run, mark)
		return err
	})
	if err != nil {
		return ex, fmt.Errorf("open raw log: %w", err)
	}
	if err := r.begin(ctx); err != nil {
		return ex, err
	}
	if r.begun != nil {
		r.begun()
	}
	how, level := "adopted", zap.InfoLevel
	if r.dir.fresh {
		how = "started"
	}
	if r.again {
		level = zap.DebugLevel // the error before it is news, this is not
	}
	r.log.Log(level, how, zap.String("source", r.dir.Spec.Source))

	last, err := r.carry(ctx)
	if err != nil {
		return ex, err
	}
	return r.finish(ctx, *last)
}

// begin makes sure that the run is ours: the raw log has our start entry.
func (r *Run) begin(ctx context.Context) error {
	ours := r.place.Begun
	for {
		r.place.Log = r.raw.Mark()
		m := r.place.Log
		switch {
		case !ours && r.taken(m), r.dir.Spec.Source == SourceQueue && r.lost(m):
			return ErrKnown
		case m.Exited:
			return ErrEnded
		case m.Cancelled:
			r.stop()
		}
		if m.Started && !(ours && m.Gone) { // else a torn mark kept us from seeing that RAW was lost
			return r.dir.mark.save()
		}
		// Said first: after a kill, a log that has a start entry has ours.
		r.place.Begun, r.place.As = true, r.w.cfg.Name
		if err := r.dir.mark.save(); err != nil {
			return err
		}
		err := r.append(ctx, time.Now(), runs.Started, 0, runs.Encode(runs.Start{
			Source: r.dir.Spec.Source, Argv: r.dir.Spec.Argv, Dir: r.dir.Spec.Dir,
			Labels: r.dir.Spec.Labels, Worker: r.w.cfg.Name, Queue: r.dir.Spec.Queue, Work: r.dir.Spec.Work,
		}))
		if err == nil || !errors.Is(err, runs.ErrMoved) && !errors.Is(err, ErrEnded) {
			return err
		}
	}
}

// moved sees to it that the run is still ours, once somebody else wrote to
// its log: a log that has lost its end may have lost our start entry, and got
// another's. One that has lost everything gets ours again.
func (r *Run) moved(ctx context.Context) error {
	m := r.place.Log
	if r.dir.Spec.Source != SourceQueue && m.Seq != 0 || m.Started && !r.lost(m) {
		return nil
	}
	err := r.begin(ctx)
	if errors.Is(err, ErrKnown) {
		r.fenced = true
		return ErrEnded
	}
	return err
}

// taken reports whether a log that holds m before our first entry belongs to
// another run, or to another worker that was faster.
func (r *Run) taken(m runs.Mark) bool {
	if r.dir.Spec.Source == SourceQueue { // which has a queued entry
		return m.Started || m.Cancelled || m.Exited
	}
	if r.dir.Spec.Part != nil && m.By == r.w.cfg.Name && m.At != 0 && !m.Exited {
		return false // the same import, whose directory is gone
	}
	return m.Seq != 0
}

// lost reports whether the task went to another worker, or was cancelled,
// while we were on the way to our start entry, or dead; or whether it is
// another one of the same id.
func (r *Run) lost(m runs.Mark) bool {
	ours := r.place.As
	if ours == "" { // we did not come to it, or cannot tell any more
		ours = r.w.cfg.Name
		if exists(r.dir.file(startedFile)) {
			return false
		}
	}
	return m.Started && m.By != ours || m.Cancelled && !m.Started || m.Work != 0 && m.Work != r.dir.Spec.Work
}

// carry sends the output until the source has ended. What is left then is for
// finish.
func (r *Run) carry(ctx context.Context) (*runs.Exit, error) {
	paths := []string{r.out.path, r.dir.file(exitFile)}
	if r.dir.Spec.process() {
		paths = append(paths, r.err.path)
	}
	watch := r.w.watch(paths...)
	defer watch.close()
	timer := time.NewTimer(0)
	defer timer.Stop()
	var asked time.Time
	for {
		sent, err := r.pump(ctx, false)
		if err == nil {
			err = r.remark(ctx)
		}
		if errors.Is(err, runs.ErrMoved) {
			if err := r.moved(ctx); err != nil {
				return nil, err
			}
			continue // the log tells where to go on
		}
		if err != nil {
			return nil, err
		}
		// While output flows it is not asked at every line whether it ended.
		const rarely = 20 * time.Millisecond
		next := rarely
		if now := time.Now(); !sent || now.Sub(asked) >= rarely {
			asked = now
			if ex, err := r.source.ended(now); ex != nil || err != nil {
				return ex, err
			}
			next = r.source.next()
		}
		if watch.blind != nil {
			next = min(next, 100*time.Millisecond)
		}
		timer.Reset(next)
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case reason := <-r.cancels:
			r.reason = &reason
		case <-watch.C:
		case <-timer.C:
		}
	}
}

// finish sends what the ended source has left behind, records the end, and
// removes the directory.
func (r *Run) finish(ctx context.Context, ex runs.Exit) (runs.Exit, error) {
	for r.source.lasting() || !r.stopped {
		_, err := r.pump(ctx, true)
		if err == nil {
			break
		}
		if !errors.Is(err, runs.ErrMoved) {
			return ex, err
		}
	}
	ex.Torn = r.out.torn()
	for {
		if r.place.Log.Cancelled {
			ex.Reason, ex.Spawn = runs.ReasonCancelled, ""
		}
		err := r.append(ctx, time.Now(), runs.Exited, 0, runs.Encode(ex))
		if err == nil {
			break
		}
		if !errors.Is(err, runs.ErrMoved) {
			return ex, err
		}
	}
	fields := []zap.Field{zap.String("reason", string(ex.Reason)), zap.Duration("after", r.age())}
	if ex.Code != nil {
		fields = append(fields, zap.Int("code", *ex.Code))
	}
	if ex.Signal != 0 {
		fields = append(fields, zap.Int("signal", ex.Signal))
	}
	r.log.Info("ended", fields...)
	if err := r.record(ctx); err != nil {
		return ex, err
	}
	return ex, r.dir.Remove()
}

// abandon stops a run whose raw log somebody else has closed, or that a kill
// kept us from clearing away, and removes what is left of it.
func (r *Run) abandon(ctx context.Context) error {
	const patience = 15 * time.Second // for the shim, beyond the grace
	deadline := time.Now().Add(r.dir.Spec.Limits.Grace + patience)
	if r.fenced || r.dir.Spec.process() && !exists(r.dir.file(exitFile)) {
		r.log.Warn("fenced off: somebody else ended the run in its log, what writes it is stopped")
	}
	r.stop()
	for time.Now().Before(deadline) {
		if ex, err := r.source.ended(time.Now()); ex != nil || err != nil {
			break
		}
		if err := sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	if err := r.record(ctx); err != nil {
		return err
	}
	return r.dir.Remove()
}

// append stores an entry and the place it leads to. After an ErrMoved the
// place is where the log really stands.
func (r *Run) append(ctx context.Context, now time.Time, kind runs.Kind, offset int64, body []byte) error {
	e := runs.Entry{Kind: kind, Time: now.UnixMilli(), Offset: offset, Body: body}
	err := r.tending(func() error { return r.raw.Append(ctx, e) })
	if err != nil && !errors.Is(err, runs.ErrMoved) {
		return fmt.Errorf("append %s entry: %w", kind, err)
	}
	r.place.Log = r.raw.Mark()
	if err := r.dir.mark.save(); err != nil {
		return err
	}
	if r.place.Log.Cancelled {
		r.stop()
	}
	if r.place.Log.Exited && (err != nil || kind != runs.Exited) {
		r.fenced = true
		return ErrEnded
	}
	return err
}

// age is how long ago the run was made.
func (r *Run) age() time.Duration {
	return time.Since(time.UnixMilli(r.dir.Spec.Created)).Round(time.Millisecond)
}
