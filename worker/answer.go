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
	sent   int64 // bytes for the agent, with the answer
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
		got.ruling.Delivered = got.err == nil && got.ruling.By != "" && r.fedUpTo(ctx, got.sent)
		return got.ruling, got.err
	case <-r.done:
		return runs.Ruling{}, ErrEnded
	case <-ctx.Done():
		return runs.Ruling{}, ctx.Err()
	}
}

// fedUpTo reports whether the agent has the first n bytes that are for it. It waits a moment for that.
func (r *Run) fedUpTo(ctx context.Context, n int64) bool {
	const tries, pause = 100, 5 * time.Millisecond
	for range tries {
		f, err := os.Open(r.file(fedFile))
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
		if got.err = r.converse(ctx); got.err == nil {
			got.ruling = r.talk.conv.Rule(&c)
			got.sent, _ = r.talk.conv.Due()
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

// Rule stores the answer to a question of a live run whose owner is away, unless it is decided: the next owner gives it
// to the agent. Of several that do so at once, the log takes one. Read reads the log from its beginning, up to about
// its end.
func Rule(
	ctx context.Context, log ReadLog, read func(each func(seq uint64, e runs.Entry) error) error, a acp.Agent, c runs.Command,
) (runs.Ruling, error) {
	conv := live.New(live.Config{Agent: a})
	apply := func(seq uint64, e runs.Entry) error {
		conv.Apply(seq, e)
		return nil
	}
	err := read(apply)
	for err == nil {
		if err = log.Entries(ctx, conv.Seen(), apply); err != nil {
			break
		}
		ruling := conv.Rule(&c)
		if !ruling.Open {
			return ruling, nil
		}
		at := max(time.Now().UnixMilli(), log.Mark().At)
		err = log.Append(ctx, runs.Entry{Kind: runs.Ordered, Time: at, Body: runs.Encode(c)})
		if errors.Is(err, runs.ErrMoved) {
			err = nil
		}
	}
	return runs.Ruling{}, fmt.Errorf("answer without the owner of the run: %w", err)
}

// While people are asked, the limits of an agent stand still. The worker says so in the file asking, with the time
// until which that holds at most: the shim acts on it, also while the worker is away.

// noteAsked keeps the file asking.
func (r *Run) noteAsked() error {
	until := int64(-1) // nobody is asked
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
	case until >= 0:
		if err := writeFile(path, strconv.AppendInt(nil, until, 10), false); err != nil {
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

// asks reports whether people are asked, by the agent whose files are in dir.
func asks(dir string, now time.Time) bool {
	b, err := readBounded(dir+"/"+askingFile, 32)
	if err != nil {
		return false
	}
	const late = time.Minute // for the worker to decide
	until, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	return err == nil && (until == math.MaxInt64 || now.UnixMilli() < until+late.Milliseconds())
}

// due is how long nothing is due for want of an answer.
func (r *Run) due(now time.Time) time.Duration {
	next := time.Hour
	if r.talk == nil {
		return next
	}
	for _, q := range r.talk.conv.Open() {
		if q.People && q.Due > 0 {
			next = min(next, max(time.UnixMilli(q.Due).Sub(now), time.Millisecond))
		}
	}
	return next
}
