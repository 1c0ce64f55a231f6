package worker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/linesman/linesman/agent/acp"
	"github.com/linesman/linesman/live"
	"github.com/linesman/linesman/runs"
)

// answer is an answer to a question of a live run, on its way to the goroutine of the run.
type answer struct {
	command runs.Command
	ruled   chan<- ruled // has room for one
}

type ruled struct {
	ruling runs.Ruling
	fed    string // the file that tells what the process was fed
	sent   int64  // bytes for the process, with the answer
	err    error
}

// Answer stores the answer to a question, unless it is decided, and gives it to the agent. It returns what became of
// it; the error is [ErrEnded] for a run that has ended.
func (r *Run) Answer(ctx context.Context, c runs.Command) (runs.Ruling, error) {
	if !r.dir.Spec.Live {
		return runs.Ruling{Why: runs.WhyUnknown}, nil
	}
	done := make(chan ruled, 1)
	select {
	case r.answers <- answer{c, done}:
	case <-r.done:
		return runs.Ruling{}, ErrEnded
	case <-ctx.Done():
		return runs.Ruling{}, ctx.Err()
	}
	select {
	case got := <-done:
		got.ruling.Delivered = got.err == nil && got.ruling.By != "" && fedUpTo(ctx, got.fed, got.sent)
		return got.ruling, got.err
	case <-r.done:
		return runs.Ruling{}, ErrEnded
	case <-ctx.Done():
		return runs.Ruling{}, ctx.Err()
	}
}

// fedUpTo reports whether the agent has the first n bytes that are for it. It waits a moment for that.
func fedUpTo(ctx context.Context, path string, n int64) bool {
	const tries, pause = 100, 5 * time.Millisecond
	for range tries {
		f, err := openOwn(path, os.O_RDONLY)
		if err != nil {
			return false
		}
		at, err := readFed(f)
		if f.Close(); err != nil {
			return false
		}
		if at.At >= n {
			return true
		}
		if sleep(ctx, pause) != nil {
			return false
		}
	}
	return false
}

// rule carries out an answer.
func (r *Run) rule(ctx context.Context, c runs.Command) (got ruled) {
	for {
		got.err = r.converse(ctx, false)
		if got.err == nil && r.talk.missing() != nil { // the conversation is not whole yet
			sent, err := r.pump(ctx, false)
			if err == nil && !sent {
				got.err = runs.ErrFilling // output is needed for the next entry
				return got
			}
			if got.err = err; err == nil {
				continue
			}
		}
		if got.err == nil {
			got.ruling = r.talk.conv.Rule(&c)
			got.sent, _ = r.talk.conv.Due()
			got.sent, got.fed = got.sent-r.talk.place.in, r.file(fedFile)
			if !got.ruling.Open || r.stopped || r.talk.torn {
				return got
			}
			got.err = r.append(ctx, time.Now(), runs.Ordered, 0, runs.Encode(c))
		}
		if errors.Is(got.err, runs.ErrMoved) {
			got.err = r.recheckOwnership(ctx)
		}
		if got.err != nil {
			return got
		}
	}
}

// Rule stores the answer to a question of a live run whose owner is away, unless it is decided, or nobody waits for it
// any more: the next owner gives it to the agent. Of several that do so at once, the log takes one. Read reads the log
// from its beginning, up to about its end, and open opens it after a mark.
func Rule(
	ctx context.Context, open func(runs.Mark) (ReadLog, error),
	read func(each func(seq uint64, e runs.Entry) error) error, a acp.Agent, c runs.Command,
) (runs.Ruling, error) {
	conv, mark, whole := live.New(live.Config{Agent: a}), runs.Mark{}, false
	apply := func(seq uint64, e runs.Entry) error {
		if start, err := runs.DecodeStart(e.Body); e.Kind == runs.Started && err == nil { // the task, but for its prompt
			conv = live.New(live.Config{
				Agent: a, Task: runs.Task{Attributes: start.Attributes, Keep: start.Keep}, Always: start.Always,
			})
		}
		whole = whole || e.Kind == runs.Queued || e.Kind == runs.Started
		conv.Apply(seq, e)
		mark = mark.After(e, seq)
		return nil
	}
	var log ReadLog
	err := read(apply)
	switch {
	case err == nil && !whole:
		err = runs.ErrNoOwner
	case err == nil:
		log, err = open(mark)
	}
	for err == nil {
		if err = log.Entries(ctx, conv.Seen(), apply); err != nil {
			break
		}
		ruling, now := conv.Rule(&c), time.Now().UnixMilli()
		if !ruling.Open {
			return ruling, nil
		}
		for _, q := range conv.Open() {
			if q.ID == c.Question && q.Due > 0 && now >= q.Due {
				return runs.Ruling{Why: runs.WhyExpired, Seq: ruling.Seq}, nil
			}
		}
		at := max(now, log.Mark().At)
		err = log.Append(ctx, runs.Entry{Kind: runs.Ordered, Time: at, Body: runs.Encode(c)})
		if errors.Is(err, runs.ErrMoved) {
			err = nil
		}
	}
	return runs.Ruling{}, fmt.Errorf("answer without the owner of the run: %w", err)
}

// While people are asked, the limits of an agent stand still; while a tool call is open, only that of silence. The
// worker says so in the file asking, with the time until which that holds at most: the shim acts on it, also while the
// worker is away.

// What the file asking says beside such a time.
const (
	nobodyAsked = -1 // there is none
	inCall      = -2
	callPrefix  = "calls "
)

// noteAsked keeps the file asking. A call that is never completed is bounded by the time limit: without one it does not
// count.
func (r *Run) noteAsked() error {
	until, hard := int64(nobodyAsked), r.dir.Spec.Limits.Hard
	switch s := r.talk.conv.Status(); {
	case s.Idle && !s.Sleeps:
		until = math.MaxInt64 // for a message
	case s.Running && s.Calling && hard > 0:
		until = inCall
	}
	for _, q := range r.talk.conv.Open() {
		switch {
		case !q.People || until == math.MaxInt64:
		case q.Due == 0:
			until = math.MaxInt64
		default:
			until = max(until, q.Due)
		}
	}
	path := r.file(askingFile)
	switch {
	case r.talk.asking != nil && *r.talk.asking == until:
		return nil
	case until != nobodyAsked:
		text := strconv.AppendInt(nil, until, 10)
		if until == inCall {
			text = strconv.AppendInt([]byte(callPrefix), time.Now().Add(hard).UnixMilli(), 10)
		}
		err := writeFile(path+".new", text, false)
		if err == nil {
			err = os.Rename(path+".new", path) // no shim reads half of it
		}
		if err != nil {
			return err
		}
	default:
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	r.talk.asking = &until
	return nil
}

// asks reports whether people are asked.
func (t *dialog) asks() bool { return t != nil && t.asking != nil && *t.asking >= 0 }

// holds reports whether a limit of the agent is suspended.
func (t *dialog) holds() bool { return t != nil && t.asking != nil && *t.asking != nobodyAsked }

// now is the time for the due times of questions, in Unix milliseconds. A clock that is set back gives nobody more
// time.
func (t *dialog) now(now time.Time) int64 {
	return steady(t.began.UnixMilli(), now.Sub(t.began), now.UnixMilli())
}

func steady(began int64, passed time.Duration, wall int64) int64 {
	return max(wall, began+passed.Milliseconds())
}

// look reads what others have stored in the log while people are asked, or a turn runs: an answer, or a cancel, that
// was given while this worker was not to be reached. Of any run it reads that once after the connection was lost. Where
// the log cannot be read the next look does it.
func (r *Run) look(ctx context.Context, now time.Time) error {
	switch log, remote := r.raw.(remoteLog); {
	case remote && log.Reconnected():
	case r.talk == nil, !r.talk.asks() && !r.talk.conv.Status().Running, now.Sub(r.talk.looked) < r.w.lookEvery:
		return nil
	}
	if r.talk != nil {
		r.talk.looked = now
	}
	var moved bool
	if err := r.supervised(func() (err error) {
		moved, err = r.raw.(ReadLog).Look(ctx)
		return err
	}); err != nil || !moved {
		return ctx.Err()
	}
	return r.progressed("", runs.ErrMoved)
}

// asks reports whether people are asked, by the agent whose files are in dir, or else a tool call of it is open.
func asks(dir string, now time.Time) (people, call bool) {
	b, err := readBounded(dir+"/"+askingFile, 32)
	if err != nil {
		return false, false
	}
	const late = time.Minute // for the worker to decide
	text, call := strings.CutPrefix(strings.TrimSpace(string(b)), callPrefix)
	until, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil:
		return false, false
	case call:
		return false, now.UnixMilli() < until
	}
	return until == math.MaxInt64 || now.UnixMilli() < until+late.Milliseconds(), false
}

// calmly is how often worker and shim look after an agent that waits for people, if nothing wakes them: files that
// change, commands, the time of a question.
const calmly = 15 * time.Second

func (r *Run) pollInterval() time.Duration {
	if agent, ok := r.source.(*spawned); ok && r.talk.asks() && !r.stopped && agent.agentAlive() {
		return min(calmly, r.w.lookEvery)
	}
	return r.source.pollInterval()
}

// holds reports whether the limits stand still. Each change is noted with the time that they have stood still so far,
// for the next shim. An agent with an open call is not silent.
func (s *shim) holds(now time.Time) bool {
	if !s.spec.Live {
		return false
	}
	held, call := asks(s.dir, now)
	if call {
		s.watchdog.grew = now
	}
	if held != s.held {
		note := fmt.Appendf(nil, "%d %t", s.watchdog.held.Milliseconds(), held)
		if writeFile(s.dir+"/"+heldFile+".new", note, false) == nil { // else a later shim counts more
			_ = os.Rename(s.dir+"/"+heldFile+".new", s.dir+"/"+heldFile)
		}
		s.held = held
	}
	return s.held
}

// heldBefore is how long the limits stood still under the shims before.
func heldBefore(dir string, now time.Time) time.Duration {
	path := dir + "/" + heldFile
	note, err := readBounded(path, 64)
	info, infoErr := os.Lstat(path)
	var ms int64
	var held bool
	_, scanErr := fmt.Sscanf(string(note), "%d %t", &ms, &held)
	if errors.Join(err, infoErr, scanErr) != nil || ms < 0 {
		return 0
	}
	total := time.Duration(ms) * time.Millisecond
	if held {
		total += max(now.Sub(info.ModTime()), 0)
	}
	return total
}

// due is how long nothing is due for want of an answer.
func (r *Run) due(now time.Time) time.Duration {
	next := time.Hour
	if r.talk == nil {
		return next
	}
	next = r.talk.pace.due(now)
	for _, q := range r.talk.conv.Open() {
		if q.People && q.Due > 0 && !r.stopped && !r.talk.torn {
			next = min(next, max(time.Duration(q.Due-r.talk.now(now))*time.Millisecond, time.Millisecond))
		}
	}
	return next
}
