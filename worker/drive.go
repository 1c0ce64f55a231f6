package worker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/linesman/linesman/runs"
)

// Run is one run that this worker owns. Interrupt, Cancel and Answer may be called
// from any goroutine, before and while it is driven.
type Run struct {
	w        *Worker
	dir      *Dir
	log      *zap.Logger
	source   source
	talk     *dialog      // of a live run; else nil
	n        atomic.Int32 // the newest process of a live run
	doze     doze         // under the lock of the worker
	raw      Log
	progress *progress // stored in the mark of the directory
	out      stream
	err      stream
	backlog  *backlog // of an agent's output; nil: there is no agent
	piece    int64    // bytes of stdout to read next, if there is a backlog
	sent     sent     // for metrics

	retried      bool          // this worker drove it before, and failed
	cancels      chan string   // reasons of cancel requests; one is enough
	unfollow     chan struct{} // requests to follow no longer; one is enough
	answers      chan answer   // to questions of a live run
	nudge        chan struct{} // to look at doze; one is enough
	unfollowed   bool
	leftNoted    bool          // the raw log says that further output is of processes that the agent left
	judged       int64         // bytes of stdout, plus one, of which it is known whether they end with a result
	rests        bool          // they do
	finishing    bool          // the agent is ended because of that
	cancelReason *string       // of a cancel request, until the raw log has a cancel entry
	cancelled    string        // the reason in that entry, if this worker stored it
	cancelStored chan struct{} // closed once the raw log has a cancel entry
	cancelTold   chan struct{} // closed once the shim was told, and the run ends with its agent
	onStarted    func()        // called once the raw log has our start entry; may be nil
	done         chan struct{} // closed when Drive returns
	stopped      bool          // the source was stopped
	fenced       bool          // another writer ended the run in the raw log
	refill       int64         // bytes of stdout, plus one, that the raw log had when it was lost; 0: it has them again

	stores   []string // that know the run, for the ledger; nil: ask the worker
	recorded bool     // the ledger has a line for the run
}

// source is the writer of a run's output.
type source interface {
	// ended returns the exit of the run once all output can be read, until then
	// nil. It is called repeatedly, and also takes the steps that lead to the end,
	// such as starting a shim.
	ended(now time.Time) (*runs.Exit, error)
	// stop terminates the writer. It may be called more than once.
	stop()
	// pollInterval is how long ended need not be called again.
	pollInterval() time.Duration
}

// Drive drives the run from its current state to its end: start entry, agent,
// output, exit entry, removal of the directory. It returns how the run ended.
//
// When ctx ends, Drive returns soon and leaves the run to the next owner; the
// agent continues. The error is [ErrKnown] or [ErrEnded] if the raw log
// belongs to another run or writer. The directory is closed in any case.
func (r *Run) Drive(ctx context.Context) (runs.Exit, error) {
	defer close(r.done)
	defer r.dir.Close()
	defer r.out.close()
	defer r.err.close()
	defer func() { r.talk.close() }()
	r.w.register(r)
	defer r.w.unregister(r)
	if r.w.cfg.Control != nil {
		stop, err := r.w.cfg.Control.Listen(r.dir.Spec.Run, r)
		if err != nil {
			return runs.Exit{}, err
		}
		defer stop()
	}

	ex, err := r.drive(ctx)
	switch {
	case errors.Is(err, ErrKnown):
		if r.dir.Spec.derived() { // imported before, but missing in the ledger
			err = errors.Join(err, r.record(ctx))
		} else {
			r.log.Warn("run is already known, not started")
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

// Interrupt sends SIGINT to the process group of the agent. The error is
// [errNoAgent] if there is none.
func (r *Run) Interrupt() error {
	if !r.dir.Spec.process() || sendCommand(r.files(), ctlInterrupt) != nil {
		return errNoAgent
	}
	return nil
}

// AgentBegun reports whether the agent was started or has ended.
func (r *Run) AgentBegun() bool { return exists(r.file(startedFile)) || r.AgentEnded() }

// AgentEnded reports whether the agent has ended. It also works while the raw
// log is unreachable. It is false for a run without an agent.
func (r *Run) AgentEnded() bool {
	s, ok := r.source.(*spawned)
	if !ok {
		return false
	}
	if !exists(r.dir.path) { // the run has ended
		return true
	}
	ex, err := readExit(r.files(), *s.keys.Load()...)
	return ex != nil && err == nil
}

func (r *Run) drive(ctx context.Context) (ex runs.Exit, err error) {
	mark := r.progress.Log
	err = r.supervised(func() (err error) {
		r.raw, err = r.w.cfg.Logs.Open(ctx, r.dir.Spec.Agent, r.dir.Spec.Run, mark)
		return err
	})
	if err != nil {
		return ex, fmt.Errorf("open raw log: %w", err)
	}
	if err := r.begin(ctx); err != nil {
		return ex, err
	}
	if r.onStarted != nil {
		r.onStarted()
	}
	how, level := "adopted", zap.InfoLevel
	if r.dir.fresh {
		how = "started"
	}
	if r.retried {
		level = zap.DebugLevel // the error before it was logged
	}
	r.log.Log(level, how, zap.String("source", r.dir.Spec.shownSource()))

	if err := r.takeSnapshot(ctx); err != nil {
		return ex, err
	}
	if r.talk, err = r.newTalk(); err != nil {
		return ex, err
	}
	last, err := r.follow(ctx)
	if err != nil {
		return ex, err
	}
	return r.finish(ctx, *last)
}

// begin ensures that the run is ours: that the raw log has our start entry.
func (r *Run) begin(ctx context.Context) error {
	ours := r.progress.Begun
	for {
		known, m := r.progress.Log, r.raw.Mark()
		r.progress.Log = m
		r.lostSince(known)
		switch {
		case !ours && r.taken(m), r.dir.Spec.Source == runs.SourceQueue && r.lost(m):
			return ErrKnown
		case m.Exited:
			return ErrEnded
		}
		r.heed()
		if m.Started && !(ours && m.Gone) { // else the mark was torn, and did not show that RAW was lost
			return r.dir.mark.save()
		}
		attributes, before := r.continues()
		// Saved first: after a kill, a start entry in the log is ours.
		r.progress.Begun, r.progress.As = true, r.w.cfg.Name
		if err := r.dir.mark.save(); err != nil {
			return err
		}
		err := r.append(ctx, r.startTime(time.Now()), runs.Started, 0, runs.Encode(runs.Start{
			Source: r.dir.Spec.shownSource(), Argv: r.dir.Spec.Argv, Attributes: attributes,
			Worker: r.w.cfg.Name, Queue: r.dir.Spec.Queue, Work: r.dir.Spec.Work,
			Version: r.w.cfg.Version(&r.dir.Spec),
			Person:  r.dir.Spec.Session != nil && r.dir.Spec.Session.Person,
			Before:  before, Withheld: r.dir.Spec.Withheld,
			Prompt: r.dir.Spec.Prompt, PromptBytes: r.dir.Spec.PromptBytes, Live: r.dir.Spec.terms(),
			Keep: r.dir.Spec.Keep, Always: r.dir.Spec.Always, Unboxed: r.dir.Spec.Unboxed, Flags: r.dir.Spec.Flags,
		}))
		if err == nil || !errors.Is(err, runs.ErrMoved) && !errors.Is(err, ErrEnded) {
			return err
		}
	}
}

// recheckOwnership is called after another writer wrote to the raw log. A log
// that lost its end may have lost our start entry and got one of another
// worker. A log that lost all entries gets ours again.
func (r *Run) recheckOwnership(ctx context.Context) error {
	m := r.progress.Log
	if m.Started && (r.dir.Spec.Source != runs.SourceQueue || !r.lost(m)) {
		return nil
	}
	err := r.begin(ctx)
	if errors.Is(err, ErrKnown) {
		r.fenced = true
		return ErrEnded
	}
	return err
}

// taken reports whether a log that holds m, without any entry of ours, belongs
// to another run or to another worker.
func (r *Run) taken(m runs.Mark) bool {
	if r.dir.Spec.Source == runs.SourceQueue { // its log begins with a queued entry
		return m.Started || m.Cancelled || m.Exited
	}
	if r.dir.Spec.derived() && m.By == r.w.cfg.Name && m.At != 0 && !m.Exited {
		return false // the same run, its directory is gone
	}
	return m.Seq != 0
}

// lost reports whether the task was started by another worker, was cancelled,
// or was replaced by another task with the same id, before our start entry was
// stored.
func (r *Run) lost(m runs.Mark) bool {
	ours := r.progress.As
	if ours == "" { // not saved, or the mark was torn
		ours = r.w.cfg.Name
		if exists(r.file(startedFile)) {
			return false
		}
	}
	return m.Started && m.By != ours || m.Cancelled && !m.Started || m.Work != 0 && m.Work != r.dir.Spec.Work
}

// sendDue sends what is due now: output, and what the worker notes itself. Sent reports whether there was output.
func (r *Run) sendDue(ctx context.Context) (sent bool, err error) {
	sent, err = r.pump(ctx, false)
	if err == nil {
		err = r.look(ctx, time.Now())
	}
	if err == nil {
		err = r.noteIdle(ctx)
	}
	if err == nil {
		err = r.notePresence(ctx)
	}
	r.finishAgent(time.Now())
	return sent, err
}

// follow sends output until the source has ended. finish sends the rest.
func (r *Run) follow(ctx context.Context) (*runs.Exit, error) {
	watched := r.process()
	watch := r.watch()
	defer func() { watch.close() }()
	timer := time.NewTimer(0)
	defer timer.Stop()
	var checked time.Time
	for {
		sent, err := r.sendDue(ctx)
		if errors.Is(err, runs.ErrMoved) {
			if err := r.recheckOwnership(ctx); err != nil {
				return nil, err
			}
			continue // resume where the raw log ends
		}
		if err != nil {
			return nil, err
		}
		// While output flows, the source is checked at intervals, not at every
		// line.
		interval := min(200*time.Millisecond, r.pollInterval())
		next := interval
		switch now := time.Now(); {
		case r.asleep():
			if !r.resting() {
				return r.exitAsleep(now)
			}
			if next = min(calmly, r.w.lookEvery); r.talk.conv.Status().Wakes { // others are to sleep before
				next = time.Second
			}
		case !sent || now.Sub(checked) >= interval || watch.exited.Load():
			checked = now
			ex, err := r.source.ended(now)
			if ex != nil && err == nil {
				var goesOn bool
				if goesOn, err = r.goesOn(ctx, *ex); goesOn {
					continue
				}
			}
			if ex != nil || err != nil {
				return ex, err
			}
			next = r.pollInterval()
		}
		if n := r.process(); n != watched {
			watch.close()
			watched, watch = n, r.watch()
		}
		r.endTalk(time.Now())
		if sent && r.talk.asks() { // the shim is calm, too
			_ = sendCommand(r.files(), ctlFeed)
		}
		next = min(next, r.due(time.Now()))
		if watch.err != nil {
			next = min(next, 100*time.Millisecond)
		}
		timer.Reset(together(next, time.Now()))
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case reason := <-r.cancels:
			r.cancelReason = &reason
		case <-r.unfollow:
			r.unfollowed = true
			r.stop()
		case a := <-r.answers:
			got := r.rule(ctx, a.command)
			a.ruled <- got
			if got.err != nil && !errors.Is(got.err, runs.ErrFilling) {
				return nil, got.err
			}
		case <-r.nudge:
		case <-watch.C:
		case <-timer.C:
		}
	}
}

// finish sends the remaining output of the ended source, stores the exit
// entry, and removes the directory.
func (r *Run) finish(ctx context.Context, ended runs.Exit) (runs.Exit, error) {
	ex, err := r.sendEnd(ctx, ended)
	for errors.Is(err, runs.ErrMoved) {
		if err = r.recheckOwnership(ctx); err == nil {
			ex, err = r.sendEnd(ctx, ended)
		}
	}
	if err != nil {
		return ex, err
	}
	ex.Failed = ex.Reason == runs.ReasonFinished && r.talk == nil && r.failed(ex)
	fields := []zap.Field{
		zap.String("reason", string(ex.Reason)), zap.Duration("after", r.lasted(ex, time.Now())),
	}
	if ex.Code != nil {
		fields = append(fields, zap.Int("code", *ex.Code))
	}
	if ex.Signal != 0 {
		fields = append(fields, zap.Int("signal", ex.Signal))
	}
	r.log.Info("ended", fields...)
	return ex, r.recordAndRemove(ctx)
}

// sendEnd sends the remaining output, notes and the exit entry. After a [runs.ErrMoved] it is to be called again.
func (r *Run) sendEnd(ctx context.Context, ex runs.Exit) (runs.Exit, error) {
	if _, err := r.pump(ctx, true); err != nil {
		return ex, err
	}
	if err := r.noteProcess(ctx, ex); err != nil {
		return ex, err
	}
	ex = r.knowsNoSession(r.talked(ex))
	ex.Torn = r.out.torn() && !(r.leftNoted && r.endsWithResult(ex.Out))
	if err := r.noteUsage(ctx, ex); err != nil {
		return ex, err
	}
	if err := r.noteChanges(ctx, ex); err != nil {
		return ex, err
	}
	for {
		if r.progress.Log.Cancelled && !r.endedBefore(ex) {
			ex.Reason, ex.Spawn = runs.ReasonCancelled, ""
		}
		if err := r.append(ctx, r.exitTime(ex, time.Now()), runs.Exited, 0, runs.EncodeExit(ex)); !onlyMoved(err) {
			return ex, err
		}
	}
}

// abandon stops a run whose raw log already has an exit entry, stored by
// another writer or by us right before a kill, and removes the directory.
func (r *Run) abandon(ctx context.Context) error {
	const shimTimeout = 15 * time.Second // for the shim, in addition to the grace period
	deadline := time.Now().Add(r.dir.Spec.Limits.Grace + shimTimeout)
	if r.fenced || r.dir.Spec.process() && !exists(r.file(exitFile)) {
		r.log.Warn("fenced off: another writer ended the run in its raw log, stopping it here")
	}
	r.stop()
	for time.Now().Before(deadline) {
		ex, err := r.source.ended(time.Now()) // other errors pass, such as that descriptors are short
		if ex != nil || errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err := sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	return r.recordAndRemove(ctx)
}

// recordAndRemove removes the directory of an ended run, after the ledger has a
// line for an imported file.
func (r *Run) recordAndRemove(ctx context.Context) error {
	if err := r.record(ctx); err != nil {
		return err
	}
	return r.dir.Remove()
}
