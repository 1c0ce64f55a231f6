package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/linesman/linesman/live"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/worker/launch"
)

// ReadLog is a [Log] that can be read, as live runs need it.
type ReadLog interface {
	Log
	// Entries calls each with the entries after a sequence, in order, up to that of the mark.
	Entries(ctx context.Context, after uint64, each func(seq uint64, e runs.Entry) error) error
	// Look reports whether others have appended since the mark, which includes that then. It does not wait for a
	// server that is away.
	Look(ctx context.Context) (moved bool, err error)
}

// dialog is what a worker does for a live run beside storing its output: it folds the raw log, and appends
// what follows from it.
//
//	out, in, … ─▶ Conversation ─▶ decisions, due bytes ─▶ RAW ─▶ journal ─▶ file in ─▶ shim ─▶ agent
//
// All that it knows is in the raw log, so the worker after it goes on where that ends.
type dialog struct {
	config  live.Config
	conv    *live.Conversation
	journal *journal
	seen    uint64 // up to where the raw log is folded
	out     int64  // bytes of stdout so far
	pieces  int    // of stdout since the last record of the journal
	policy  live.Policy
	over    time.Time // when the conversation had an outcome; zero: it has none
	began   time.Time
	asking  *int64       // in the file asking; nil: not known
	asked   time.Time    // when a limit was last known to stand still
	looked  time.Time    // when the log was last read for what others have stored
	place   begins       // of the process that the fold has reached
	last    runs.Process // the last end of one
	former  stream       // its output, if it is not the newest
	thread  string       // as its file has it
	late    bool         // a cancel came after the end of the turn: the agent had no part in it
	torn    bool         // entries of it are lost: nobody knows what the agent was sent
	pace    pace
}

// closeTime is how long an agent may take to close its session, see Worker.closeTime.
const closeTime = 5 * time.Second

// newTalk returns the conversation of the run before its first entry, nil for a run that is not live.
func (r *Run) newTalk() (*dialog, error) {
	spec := &r.dir.Spec
	if !spec.Live {
		return nil, nil
	}
	if _, ok := r.raw.(ReadLog); !ok {
		return nil, fmt.Errorf("run %s: its log cannot be read", spec.Run)
	}
	prompt, err := readBounded(r.dir.file(inFile), runs.MaxPrompt)
	if err != nil {
		return nil, fmt.Errorf("run %s: read its prompt: %w", spec.Run, err)
	}
	if err := r.dir.makeProcess(1); err != nil {
		return nil, err
	}
	a, _ := r.w.cfg.Agents.Find(spec.Agent)
	policy, err := spec.policy()
	if err != nil {
		return nil, fmt.Errorf("run %s: policy: %w", spec.Run, err)
	}
	j, err := openJournal(r.dir.file(journalFile))
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", spec.Run, err)
	}
	t := &dialog{policy: policy, began: time.Now(), journal: j, config: live.Config{
		Agent: a.Live, Version: r.w.cfg.Self, Always: spec.Always,
		Task: runs.Task{Attributes: spec.Attributes, Prompt: string(prompt), Keep: spec.Keep, AddDirs: spec.AddDirs},
	}}
	if spec.Keep {
		t.pace = pace{turn: spec.Limits.Hard, rest: spec.Limits.Rest, sleep: spec.Limits.Sleep, start: r.w.startTime}
	}
	t.restart()
	return t, nil
}

func (t *dialog) close() {
	if t != nil {
		t.journal.close()
		t.former.close()
	}
}

// restart begins the fold again.
func (t *dialog) restart() {
	if t != nil {
		t.conv, t.seen, t.out, t.pieces, t.place = live.New(t.config), 0, 0, 0, begins{}
		t.former.partialEnd = 0
	}
}

// missing is the entry that the raw log has lost and gets next; nil: there is none.
func (t *dialog) missing() *noted {
	if t == nil || t.torn {
		return nil
	}
	return t.journal.head
}

// converse appends what the raw log has lost, and then, unless no agent could get it, what is due, until nothing is, or
// output comes first.
func (r *Run) converse(ctx context.Context, final bool) error {
	for r.talk != nil && (!r.stopped || r.refills()) {
		if err := r.hear(ctx); err != nil || r.talk.torn {
			return err
		}
		if lost := r.talk.missing(); lost != nil {
			if r.talk.torn = r.unlike(lost); r.talk.torn || r.progress.Log.Out < lost.Out {
				return nil
			}
			if err := r.append(ctx, time.UnixMilli(lost.Time), lost.Kind, lost.Offset, lost.Body); err != nil {
				return err
			}
			continue
		}
		if final || r.stopped {
			return nil
		}
		now := time.Now()
		sleep := r.noteAwake(now)
		e, ok := r.talk.next(now, r.progress.Log.At)
		if !ok && sleep {
			e, ok = runs.Entry{Kind: runs.Ordered, Body: runs.Encode(r.talk.sleeps())}, true
		}
		if !ok || e.Kind == runs.Proc && r.talk.conv.Status().Asleep && !r.mayWake() {
			return r.noteAsked()
		}
		if e.Kind == runs.Proc {
			e.Body = runs.Encode(r.nextProcess())
		}
		if err := r.append(ctx, time.Now(), e.Kind, e.Offset, e.Body); err != nil {
			return err
		}
	}
	return nil
}

// unlike reports whether an entry that was lost cannot be stored again: the output before it is gone, or it was sent to
// the agent, and is not due at its place.
func (r *Run) unlike(lost *noted) bool {
	if at := r.progress.Log.Out; at < lost.Out {
		s := r.folded()
		info, err := os.Lstat(s.path)
		base := s.segment.Base
		return err != nil || base > at || base+info.Size() < lost.Out
	}
	offset, due := r.talk.conv.Due()
	return lost.Kind == runs.Sent && (offset != lost.Offset || len(due) == 0)
}

// next returns the entry that is due; without a body where the run knows that. The last one in the log is of the time
// last, Unix milliseconds.
func (t *dialog) next(now time.Time, last int64) (e runs.Entry, ok bool) {
	status := t.conv.Status()
	if outcome, _ := t.conv.Ended(); outcome == nil && (status.Process == 0 || status.Wakes) {
		return runs.Entry{Kind: runs.Proc}, true
	}
	t.policy.Mode = t.conv.Mode()
	for _, q := range t.conv.Open() {
		if !q.People {
			followLinks(&q)
		}
		decision, ok := t.policy.Decide(q, t.now(now))
		if _, known := t.conv.Obeyed(decision.ID); ok && !known {
			return runs.Entry{Kind: runs.Ordered, Body: runs.Encode(decision)}, true
		}
	}
	c, reached := t.pace.limit(status, now, last)
	if c.Do == runs.DoSleep {
		c = t.sleeps()
	}
	if reached {
		if _, known := t.conv.Obeyed(c.ID); !known {
			return runs.Entry{Kind: runs.Ordered, Body: runs.Encode(c)}, true
		}
	}
	if offset, body := t.conv.Due(); len(body) > 0 {
		return runs.Entry{Kind: runs.Sent, Offset: offset, Body: body}, true
	}
	return e, false
}

// nextProcess is the start of the next process, with the login that its environment permits.
func (r *Run) nextProcess() runs.Process {
	p := runs.Process{N: r.talk.conv.Status().Process + 1, Do: runs.ProcessStart, How: "new",
		Version: r.w.cfg.Version(&r.dir.Spec), At: time.Now().UnixMilli()}
	if p.N > 1 || r.dir.Spec.Thread != "" {
		p.How = "resume"
	}
	a, _ := r.w.cfg.Agents.Find(r.dir.Spec.Agent)
	for _, auth := range a.Live.Auth {
		if launch.Value(r.dir.Spec.Env, auth.Variable) != "" || slices.Contains(r.dir.Spec.Keys, auth.Variable) {
			p.Auth = auth.Method
			break
		}
	}
	return p
}

// hear folds the entries that the raw log has.
func (r *Run) hear(ctx context.Context) error {
	t, at := r.talk, r.progress.Log.Seq
	if at < t.seen { // it was lost
		t.restart()
	}
	if t.torn || at == t.seen {
		return nil
	}
	var err error
	if t.seen == 0 {
		err = r.recall(ctx, at)
	}
	for {
		if err == nil {
			err = r.read(ctx, t.seen, r.heard)
		}
		if errors.Is(err, runs.ErrMoved) { // it was lost meanwhile
			return r.progressed("", err)
		}
		n := t.conv.Status().Process
		switch {
		case err != nil:
			return err
		case n <= r.process():
			t.seen, t.torn = at, t.torn || t.missing() == nil && r.toldMore()
			if n == r.process() {
				err = r.placeOutput()
			}
			return errors.Join(err, r.noteThread())
		}
		if err = r.enterProcess(n); err != nil {
			return err
		}
	}
}

// errEnough ends a read.
var errEnough = errors.New("enough was read")

// read reads the raw log after a sequence, until each returns an error.
func (r *Run) read(ctx context.Context, after uint64, each func(seq uint64, e runs.Entry) error) error {
	err := r.supervised(func() error { return r.raw.(ReadLog).Entries(ctx, after, each) })
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// recall folds what the journal has, if the raw log has its last entry, or has had it: else that was lost.
func (r *Run) recall(ctx context.Context, at uint64) error {
	t, last := r.talk, r.talk.journal.last
	if err := t.journal.rewind(); err != nil || last.Seq == 0 || last.Seq > at {
		return err
	}
	const early = 16 // there is the start entry, unless it has expired
	has, begins, n := false, false, 0
	err := r.read(ctx, last.Seq-1, func(seq uint64, e runs.Entry) error {
		has = seq == last.Seq && last.is(e)
		return errEnough
	})
	if err == nil && !has {
		err = r.read(ctx, 0, func(_ uint64, e runs.Entry) error {
			n, begins = n+1, e.Kind == runs.Queued || e.Kind == runs.Started
			if begins || n == early {
				return errEnough
			}
			return nil
		})
	}
	if err != nil || begins {
		return err
	}
	whole := true
	for n := t.journal.head; n != nil && whole && err == nil; n = t.journal.head {
		if whole, err = r.recallOut(n.Out); !whole || err != nil {
			break
		}
		if err = r.pass(n.Entry); err != nil { // the worker before may have been killed before it did
			break
		}
		t.apply(t.conv.Seen()+1, n.Entry) // of an earlier log it has another sequence
		err = t.journal.next()
	}
	if whole && err == nil {
		whole, err = r.recallOut(last.Out)
	}
	if err == nil && (!whole || t.conv.Seen() > last.Seq) { // the whole log is to be folded
		t.restart()
		return t.journal.rewind()
	}
	t.seen, t.late = last.Seq, t.journal.late
	return err
}

// recallOut folds stdout up to an offset. It reports whether that is there.
func (r *Run) recallOut(to int64) (whole bool, err error) {
	t, s := r.talk, r.folded()
	stored := r.progress.Log.Out
	if s != &r.out {
		stored = t.out
	}
	if _, err := r.refresh(s, stored, time.Now()); err != nil {
		return false, err
	}
	buf, release := r.w.buffers.take(0)
	defer release()
	for t.out < to {
		n, at, err := s.read(buf[:min(int64(len(buf)), max(to-max(t.out, s.segment.Base), 0))], t.out)
		if err != nil || n == 0 || s.segment.Base > t.out {
			return false, err
		}
		t.out = at + int64(n)
		t.conv.Apply(t.conv.Seen()+1, runs.Entry{Kind: runs.Out, Offset: at, Body: buf[:n]})
	}
	return true, nil
}

// heard folds an entry of the raw log. Bytes for the agent go to the file of its process, which has them already if a
// worker before wrote them.
func (r *Run) heard(seq uint64, e runs.Entry) (err error) {
	const often = 256 // entries of stdout
	t := r.talk
	switch {
	case t.torn:
		return nil
	case journaled(e.Kind):
		t.pieces = 0
		same, terr := t.journal.take(noted{seq, t.out, e})
		t.torn, err = !same && e.Kind != runs.Ordered, terr // a command may be somebody else's
	case e.Kind == runs.Out:
		t.out = max(t.out, e.Offset+int64(len(e.Body)))
		if t.pieces++; t.pieces >= often && t.missing() == nil {
			t.pieces = 0
			err = t.journal.write(noted{Seq: seq, Out: t.out})
		}
	case e.Kind == runs.Cancelled:
		if outcome, _ := t.conv.Ended(); outcome != nil {
			t.late = outcome.State == live.TurnCompleted || outcome.State == live.TurnFailed
		}
		if t.late && t.missing() == nil {
			err = t.journal.write(noted{seq, t.out, runs.Entry{Kind: e.Kind}})
		}
	}
	if err == nil {
		err = r.pass(e)
	}
	if err != nil {
		return fmt.Errorf("run %s: give lines to the agent: %w", r.dir.Spec.Run, err)
	}
	t.apply(seq, e)
	if t.seen = seq; t.conv.Status().Process > r.process() {
		return errEnough // its files are not there yet
	}
	return nil
}

// pass gives the bytes of an entry for the agent to the file of its process, which may have them.
func (r *Run) pass(e runs.Entry) error {
	t := r.talk
	if s := t.conv.Status(); e.Kind != runs.Sent || t.torn || s.Process != r.process() || !s.Alive {
		return nil
	}
	return r.source.(*spawned).send(e.Offset-t.place.in, e.Body)
}

// apply folds an entry.
func (t *dialog) apply(seq uint64, e runs.Entry) {
	before := t.conv.Status().Process
	t.conv.Apply(seq, e)
	var p runs.Process
	if e.Kind == runs.Proc && json.Unmarshal(e.Body, &p) == nil && p.Do == runs.ProcessEnd {
		t.last = p
	}
	if t.conv.Status().Process != before {
		sent, _ := t.conv.Due()
		t.place = begins{out: t.out, in: sent}
	}
}

// toldMore reports whether the agent was started, or its file has bytes for it, and the raw log does not know: it
// has lost that.
func (r *Run) toldMore() bool {
	sent, _ := r.talk.conv.Due()
	info, err := os.Lstat(r.file(inFile))
	if err == nil && r.talk.place.in+info.Size() > sent {
		return true
	}
	return r.talk.conv.Status().Process == 0 && exists(r.file(startedFile))
}

// files is the directory with the files of the agent.
func (r *Run) files() string {
	if r.dir.Spec.Live {
		return r.dir.processDir(r.process())
	}
	return r.dir.path
}

// process is the number of the newest process of a live run.
func (r *Run) process() int { return int(r.n.Load()) }

// file is the path of a file of the agent.
func (r *Run) file(name string) string { return filepath.Join(r.files(), name) }

// endTalk ends the process of a conversation that is over, or whose agent takes too long to close it.
func (r *Run) endTalk(now time.Time) {
	agent, ok := r.source.(*spawned)
	if r.talk == nil || !ok || r.stopped || !agent.agentAlive() {
		return
	}
	outcome, over := r.talk.conv.Ended()
	sleeps := r.talk.conv.Status().Sleeps
	if over = over || r.talk.torn || r.talk.pace.stuck(now); outcome == nil && !sleeps && !over {
		return
	}
	if r.talk.over.IsZero() {
		r.talk.over = now
	}
	if over || now.Sub(r.talk.over) >= r.w.closeTime {
		agent.command(now, ctlFinish)
	}
}

// talked returns the exit of a run whose conversation ended by itself, not by the end of its process: that of
// the process is in an entry of its own.
func (r *Run) talked(ex runs.Exit) runs.Exit {
	own := []runs.Reason{runs.ReasonFinished, runs.ReasonExited, runs.ReasonLost, runs.ReasonEOF}
	if r.talk == nil || !slices.Contains(own, ex.Reason) && !(r.talk.late && ex.Reason == runs.ReasonCancelled) {
		return ex
	}
	switch outcome, _ := r.talk.conv.Ended(); {
	case r.talk.torn:
		const why = "the raw log lost entries of the conversation with the agent"
		return runs.Exit{Reason: runs.ReasonSession, Why: why, At: ex.At, Out: ex.Out}
	case outcome == nil, outcome.State == live.Interrupted:
		return ex
	case outcome.State == live.NoSession:
		return runs.Exit{Reason: runs.ReasonSession, Why: outcome.Why, At: ex.At, Out: ex.Out}
	}
	return runs.Exit{Reason: runs.ReasonEOF, At: ex.At, Out: ex.Out}
}

// noteProcess stores that the process has ended.
func (r *Run) noteProcess(ctx context.Context, ex runs.Exit) error {
	if r.talk == nil {
		return nil
	}
	if err := r.hear(ctx); err != nil {
		return err
	}
	if status := r.talk.conv.Status(); !status.Alive || status.Process != r.process() {
		return nil
	}
	p := runs.Process{
		N: r.process(), Do: runs.ProcessEnd, Reason: ex.Reason, Code: ex.Code, Signal: ex.Signal, At: ex.At,
	}
	if r.dir.Spec.Keep && !r.stopped && !r.talk.torn {
		p.Unsent = r.talk.conv.Unsent(r.fed())
		p.Stays = r.talk.conv.Stays(p.Unsent)
	}
	return r.append(ctx, r.exitTime(ex, time.Now()), runs.Proc, 0, runs.Encode(p))
}
