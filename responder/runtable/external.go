package runtable

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/linesman/linesman/runs"
)

// ErrNotAsked reports a run that does not await an external answer.
var ErrNotAsked = errors.New("the run does not wait for an answer from outside")

// Ask starts a run that awaits an external answer until due; a zero due means
// no deadline. Repeating an Ask is not an error: it completes a start that a
// crash interrupted. The error is one or several [runs.FieldError], or an error
// of NATS.
func (r *Table) Ask(ctx context.Context, run string, q runs.Question, labels runs.Labels, due time.Time) error {
	line, err := q.Line()
	if err = errors.Join(err, checkRun(run, labels)); err != nil {
		return err
	}
	// The prompt is the asking program's own. Its phase and its agent are labels anyway.
	asks := strings.TrimSpace(cmp.Or(labels.Value("phase_name"), labels.Value("phase")) + " " + labels.Value("agent_name"))
	start := runs.Start{Source: runs.SourceExternal, Attributes: runs.Attributes{Title: runs.Title(asks), Labels: labels}}
	if !due.IsZero() {
		start.Due = due.UnixMilli()
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	m, _, err := r.begin(ctx, runs.AgentExternal, run, start)
	if err != nil {
		return err
	}
	_, err = r.cfg.Streams.AppendIf(ctx, runs.AgentExternal, run, m, func(m runs.Mark) *runs.Entry {
		if m.Out != 0 || m.Cancelled || m.Exited {
			return nil
		}
		return newEntry(runs.Out, line)
	})
	return err
}

func checkRun(run string, labels runs.Labels) error {
	if err := runs.CheckID(run); err != nil {
		return &runs.FieldError{Field: "run", Problem: err.Error()}
	}
	if err := labels.Check(); err != nil {
		return &runs.FieldError{Field: "labels", Problem: strings.ReplaceAll(err.Error(), "\n", "; ")}
	}
	return nil
}

// Answer stores the external answer of a run that awaits it, ends the run, and
// returns its state. The first answer wins. Repeating the same answer is not an
// error; a different answer, or one after the run's deadline, is an
// [EndedError], because the asking program may have given up and be
// unreachable. It is [ErrNotAsked] for a run that does not await an external
// answer, [runs.ErrNoRun] for an unknown run, and a [runs.FieldError] for an
// invalid answer. Late also accepts an answer after the deadline: one that the
// asking program has already received.
func (r *Table) Answer(ctx context.Context, run string, reply runs.Reply, late bool) (runs.State, error) {
	line, err := reply.Line()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	news, stop := r.index.listen(run)
	defer stop()
	for {
		v, err := r.Look(ctx, run)
		switch {
		case err != nil:
			return "", err
		case v.Agent != runs.AgentExternal:
			return v.State, ErrNotAsked
		case v.State.Final():
			return r.repeatedAnswer(ctx, run, reply, v.State)
		}
		state, err := r.answer(ctx, run, reply, line, late)
		if err != nil || state.Final() {
			return state, err
		}
		select { // another writer was first: check the outcome
		case <-ctx.Done():
			return state, ctx.Err()
		case <-news:
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// answer appends a reply to the log of a run, unless the log has entries that
// the record does not include yet, or the deadline has passed: then it returns
// the state of a run that continues, or is about to end.
func (r *Table) answer(ctx context.Context, run string, reply runs.Reply, line []byte, late bool) (runs.State, error) {
	record, err := r.Record(ctx, run)
	switch {
	case errors.Is(err, runs.ErrNoRun), err == nil && record.Lines == 0:
		m, err := r.cfg.Streams.AppendIf(ctx, runs.AgentExternal, run, runs.Mark{},
			func(runs.Mark) *runs.Entry { return nil })
		if err == nil && m.Out == 0 && !m.Exited && !m.Cancelled {
			err = fmt.Errorf("%w yet", ErrNotAsked)
		}
		return runs.StateInputRequired, err // otherwise the record lags behind the log
	case err != nil:
		return "", err
	case record.State.Final():
		return r.repeatedAnswer(ctx, run, reply, record.State)
	}
	stored, over := false, false
	_, err = r.cfg.Streams.AppendIf(ctx, record.Agent, run, record.Header().Mark(), func(m runs.Mark) *runs.Entry {
		now := time.Now().UnixMilli()
		over = !late && record.Due != 0 && now >= record.Due
		if stored = m.Seq == record.Seq && !over; !stored {
			return nil
		}
		return &runs.Entry{Kind: runs.Out, Time: now, Offset: record.Bytes, Body: line}
	})
	if over && err == nil {
		err = r.Expire(ctx, run)
	}
	if err != nil || !stored {
		return record.State, err
	}
	soon, cancel := context.WithTimeout(ctx, 2*time.Second) // until the table shows the end
	defer cancel()
	if _, err := r.Wait(soon, run, nil); err != nil {
		r.log.Debug("the record of an answered run lags behind", zap.String("run", run), zap.Error(err))
	}
	if reply.Status != runs.ReplySuccess {
		return runs.StateFailed, nil
	}
	return runs.StateCompleted, nil
}

// repeatedAnswer is the outcome of an answer to a run that has already ended.
func (r *Table) repeatedAnswer(ctx context.Context, run string, reply runs.Reply, state runs.State) (runs.State,
	error) {
	if state == runs.StateCompleted || state == runs.StateFailed {
		if have, err := r.Reply(ctx, run); err == nil && have == reply {
			return state, nil
		}
	}
	return state, &EndedError{state}
}

// Reply reads the complete external answer of a run. The error is
// [runs.ErrNoReply] if RAW does not hold one.
func (r *Table) Reply(ctx context.Context, run string) (runs.Reply, error) {
	record, err := r.Record(ctx, run)
	if err != nil {
		return runs.Reply{}, err
	}
	stdout, _, err := r.Output(ctx, record, 4*runs.MaxReply)
	if err != nil {
		return runs.Reply{}, err
	}
	if stdout.Tail != nil {
		return runs.FindReply(stdout.Tail)
	}
	return runs.FindReply(stdout.Head)
}

// Expire ends a run whose answer is no longer awaited, with the state timeout.
// It is not an error if the run has ended or was answered.
func (r *Table) Expire(ctx context.Context, run string) error {
	v, err := r.Look(ctx, run)
	if errors.Is(err, runs.ErrNoRun) || err == nil && v.State.Final() {
		return nil
	}
	if err != nil {
		return err
	}
	if v.Agent != runs.AgentExternal {
		return ErrNotAsked
	}
	_, err = r.exit(ctx, v, runs.ReasonHard, func(m runs.Mark) bool { return m.Cancelled })
	return err
}

// Waiting reads the records of those runs that await an answer, from outside or by people, and that pick selects; nil:
// all. They are the oldest first, at most limit of them. Unread are the ids of runs whose records are damaged.
func (r *Table) Waiting(ctx context.Context, limit int, pick func(runs.Header) bool) (
	all []*runs.Record, unread []string, err error,
) {
	working, _ := r.index.open()
	for _, row := range working {
		if row.State != runs.StateInputRequired || row.Agent != runs.AgentExternal && len(row.Questions) == 0 ||
			len(all)+len(unread) == limit || pick != nil && !pick(row) {
			continue
		}
		record, err := r.Record(ctx, row.ID)
		switch {
		case errors.Is(err, runs.ErrNoRun):
		case errors.Is(err, runs.ErrBadRecord), err == nil && record.Live == nil && row.Agent != runs.AgentExternal:
			unread = append(unread, row.ID)
		case err != nil:
			return all, unread, err
		case record.State == runs.StateInputRequired:
			all = append(all, record)
		}
	}
	return all, unread, nil
}

// Decide gives the answer to a question of a live run to its owner, or stores it in place of one that is away, and
// returns what became of it. The error is [ErrNotAsked] for a run that is not live, an [EndedError] for one that has
// ended, and [runs.ErrNoRun] for an unknown run.
func (r *Table) Decide(ctx context.Context, run string, c runs.Command) (runs.Ruling, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	v, err := r.Look(ctx, run)
	switch {
	case err != nil:
		return runs.Ruling{}, err
	case v.Agent == runs.AgentExternal:
		return runs.Ruling{}, ErrNotAsked
	case v.State.Final():
		return r.decided(ctx, v, c)
	}
	ruling, err := r.cfg.Streams.AskAnswer(ctx, run, c)
	if err != nil && r.cfg.Absent != nil && !errors.Is(err, runs.ErrFilling) {
		if !errors.Is(err, runs.ErrNoOwner) {
			r.log.Warn("the owner did not take the answer; it is stored instead", zap.String("run", run), zap.Error(err))
		}
		ruling, err = r.cfg.Absent(ctx, v.Agent, run, c) // the question is open until the agent gets that
		if err == nil && ruling.Holds {                  // an owner that is back acts on it at once
			soon, done := context.WithTimeout(ctx, time.Second)
			defer done()
			if again, err := r.cfg.Streams.AskAnswer(soon, run, c); err == nil && again.Holds {
				return again, nil
			}
		}
		return ruling, err
	}
	if err != nil || !ruling.Holds {
		return ruling, err
	}
	soon, done := context.WithTimeout(ctx, time.Second) // until the table shows it
	defer done()
	if _, err := r.Until(soon, run, nil, func(v runs.Header) bool {
		return v.State.Final() || v.Seq >= ruling.Seq || c.Question != "" && !slices.Contains(v.Questions, c.Question)
	}); err != nil {
		r.log.Debug("the record of an answered run lags behind", zap.String("run", run), zap.Error(err))
	}
	return ruling, nil
}

// decided returns what became of a command, perhaps given before, of a run that has ended. The error is an [EndedError]
// if the run did not get the command, or its log has expired. Any other error means that the log could not be read.
func (r *Table) decided(ctx context.Context, v runs.Header, c runs.Command) (runs.Ruling, error) {
	if r.cfg.Absent != nil {
		ruling, err := r.cfg.Absent(ctx, v.Agent, v.ID, c)
		switch {
		case err != nil && !errors.Is(err, runs.ErrNoOwner):
			return runs.Ruling{}, err
		case err == nil && (ruling.Holds || ruling.Why == runs.WhyDecided || ruling.Why == runs.WhyKey):
			return ruling, nil
		}
	}
	return runs.Ruling{}, &EndedError{v.State}
}

// maxOverdue bounds how many waiting runs one check reads.
const maxOverdue = 10_000

// endOverdue ends waiting runs whose deadline has passed by more than grace and
// whose bridge has not ended them.
func (r *Table) endOverdue(ctx context.Context, grace time.Duration) {
	all, _, err := r.Waiting(ctx, maxOverdue, nil)
	if err != nil && ctx.Err() == nil {
		r.log.Warn("runs that await an answer cannot be read", zap.Error(err))
	}
	for _, record := range all {
		if record.Due == 0 || time.Since(time.UnixMilli(record.Due)) < grace {
			continue
		}
		if err := r.Expire(ctx, record.ID); err != nil && ctx.Err() == nil {
			r.log.Warn("a run past its deadline could not be ended", zap.String("run", record.ID), zap.Error(err))
			return // the next will most likely fail, too
		}
	}
}
