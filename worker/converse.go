package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/linesman/linesman/agent/acp"
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
//	out, in, … ─▶ Conversation ─▶ decisions, due bytes ─▶ RAW ─▶ file in ─▶ shim ─▶ agent
//
// All that it knows is in the raw log, so the worker after it goes on where that ends.
type dialog struct {
	conv   *live.Conversation
	policy live.Policy
	over   time.Time // when the conversation had an outcome; zero: it has none
	began  time.Time
	asking *int64    // in the file asking; nil: not known
	asked  time.Time // when people were last known to be asked
	looked time.Time // when the log was last read for what others have stored
	late   bool      // a cancel came after the end of the turn: the agent had no part in it
	torn   bool      // the raw log has lost entries of it: nobody knows what the agent was sent
	pace   pace
}

// closeTime is how long an agent may take to close its session.
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
	var rules []acp.Rule
	for _, s := range spec.Policy {
		rule, err := acp.ParseRule(s)
		if err != nil {
			return nil, fmt.Errorf("run %s: policy: %w", spec.Run, err)
		}
		rules = append(rules, rule)
	}
	policy := live.Policy{Rules: rules, Mode: spec.Mode, Ask: spec.Ask, Answer: spec.Limits.Answer.Milliseconds()}
	task := runs.Task{Attributes: spec.Attributes, Prompt: string(prompt), Keep: spec.Keep}
	t := &dialog{policy: policy, began: time.Now(), conv: live.New(live.Config{
		Agent: a.Live, Version: r.w.cfg.Self, Task: task,
	})}
	if spec.Keep {
		t.pace = pace{turn: spec.Limits.Hard, rest: spec.Limits.Rest}
	}
	return t, nil
}

// converse appends what is due to the raw log, and gives it to the shim, until nothing is due.
func (r *Run) converse(ctx context.Context) error {
	for r.talk != nil && !r.stopped {
		if err := r.hear(ctx); err != nil {
			return err
		}
		if r.talk.torn {
			return nil
		}
		e, ok := r.talk.next(time.Now(), r.progress.Log.At)
		if !ok {
			return r.noteAsked()
		}
		if e.Kind == runs.Proc {
			e.Body = runs.Encode(r.firstProcess())
		}
		if err := r.append(ctx, time.Now(), e.Kind, e.Offset, e.Body); err != nil {
			return err
		}
	}
	return nil
}

// next returns the entry that is due; without a body where the run knows that. The last one in the log is of the time
// last, Unix milliseconds.
func (t *dialog) next(now time.Time, last int64) (e runs.Entry, ok bool) {
	if outcome, _ := t.conv.Ended(); outcome == nil && t.conv.Status().Process == 0 {
		return runs.Entry{Kind: runs.Proc}, true
	}
	for _, q := range t.conv.Open() {
		decision, ok := t.policy.Decide(q, t.now(now))
		if _, known := t.conv.Obeyed(decision.ID); ok && !known {
			return runs.Entry{Kind: runs.Ordered, Body: runs.Encode(decision)}, true
		}
	}
	if c, reached := t.pace.limit(t.conv.Status(), now, last); reached {
		if _, known := t.conv.Obeyed(c.ID); !known {
			return runs.Entry{Kind: runs.Ordered, Body: runs.Encode(c)}, true
		}
	}
	if offset, body := t.conv.Due(); len(body) > 0 {
		return runs.Entry{Kind: runs.Sent, Offset: offset, Body: body}, true
	}
	return e, false
}

// firstProcess is the start of the first process, with the login that its environment permits.
func (r *Run) firstProcess() runs.Process {
	p := runs.Process{N: 1, Do: runs.ProcessStart, How: "new", Version: r.w.cfg.Version(&r.dir.Spec),
		At: time.Now().UnixMilli()}
	a, _ := r.w.cfg.Agents.Find(r.dir.Spec.Agent)
	for _, auth := range a.Live.Auth {
		if launch.Value(r.dir.Spec.Env, auth.Variable) != "" || slices.Contains(r.dir.Spec.Keys, auth.Variable) {
			p.Auth = auth.Method
			break
		}
	}
	return p
}

// hear folds the entries that the raw log has. Bytes for the agent go to the file of its process, which
// has them already if a worker before wrote them.
func (r *Run) hear(ctx context.Context) error {
	t, agent := r.talk, r.source.(*spawned)
	at := r.progress.Log.Seq
	if t.torn = t.torn || at < t.conv.Seen(); t.torn || at == t.conv.Seen() {
		return nil
	}
	err := r.supervised(func() error {
		return r.raw.(ReadLog).Entries(ctx, t.conv.Seen(), func(seq uint64, e runs.Entry) error {
			if e.Kind == runs.Sent {
				if err := agent.send(e.Offset, e.Body); err != nil {
					return fmt.Errorf("run %s: give lines to the agent: %w", r.dir.Spec.Run, err)
				}
			}
			if outcome, _ := t.conv.Ended(); e.Kind == runs.Cancelled && outcome != nil {
				t.late = outcome.State == live.TurnCompleted || outcome.State == live.TurnFailed
			}
			t.conv.Apply(seq, e)
			return nil
		})
	})
	if errors.Is(err, runs.ErrMoved) { // they were lost meanwhile
		t.torn, err = true, nil
	}
	t.torn = t.torn || err == nil && r.toldMore()
	return err
}

// toldMore reports whether the agent was started, or its file has bytes for it, and the raw log does not know: it
// has lost that.
func (r *Run) toldMore() bool {
	sent, _ := r.talk.conv.Due()
	info, err := os.Lstat(r.file(inFile))
	return err == nil && info.Size() > sent || r.talk.conv.Status().Process == 0 && exists(r.file(startedFile))
}

// files is the directory with the files of the agent.
func (r *Run) files() string {
	if r.dir.Spec.Live {
		return r.dir.processDir(1)
	}
	return r.dir.path
}

// file is the path of a file of the agent.
func (r *Run) file(name string) string { return filepath.Join(r.files(), name) }

// endTalk ends the process of a conversation that is over, or whose agent takes too long to close it.
func (r *Run) endTalk(now time.Time) {
	agent, ok := r.source.(*spawned)
	if r.talk == nil || !ok || r.stopped || !agent.agentAlive() {
		return
	}
	outcome, over := r.talk.conv.Ended()
	if over = over || r.talk.torn || r.talk.pace.stuck(now); outcome == nil && !over {
		return
	}
	if r.talk.over.IsZero() {
		r.talk.over = now
	}
	if over || now.Sub(r.talk.over) >= closeTime {
		agent.command(now, ctlFinish)
	}
}

// talked returns the exit of a run whose conversation ended by itself, not by the end of its process: that of
// the process is in an entry of its own.
func (r *Run) talked(ex runs.Exit) runs.Exit {
	own := []runs.Reason{runs.ReasonFinished, runs.ReasonExited, runs.ReasonLost}
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
	if status := r.talk.conv.Status(); !status.Alive {
		return nil
	}
	return r.append(ctx, r.exitTime(ex, time.Now()), runs.Proc, 0, runs.Encode(runs.Process{
		N: 1, Do: runs.ProcessEnd, Reason: ex.Reason, Code: ex.Code, Signal: ex.Signal, At: ex.At,
	}))
}
