package codexcloud

import (
	"bytes"
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/linesman/linesman/runs"
)

// task is a run whose task is polled: its log, and the state that the log has.
// The log is read before the service is asked, so that its fence refuses
// results that are older than another driver's entry.
type task struct {
	Open
	log  Log // nil: not read
	view view

	torn  uint64 // the log's last sequence when it ended within a line
	tries int    // failed requests for its diff
}

// maxTries is how often a missing diff is requested.
const maxTries = 5

// load reads the log of t, unless it is already read. If another driver writes
// between the two readings, the fence is older than the view, and refuses the
// next append.
func (d *Driver) load(ctx context.Context, t *task) error {
	if t.log != nil {
		return nil
	}
	log, err := d.logs.Open(ctx, Agent, t.Run, runs.Mark{Out: t.Bytes})
	if err != nil {
		return err
	}
	out, err := d.logs.Output(ctx, Agent, t.Run)
	if err != nil {
		return err
	}
	t.log, t.view = log, view{}
	t.view.take(out)
	if t.view.id != "" {
		t.ID = t.view.id
	}
	return nil
}

// over reports whether the log of t has ended.
func (t *task) over() bool { return t.log != nil && t.log.Mark().Exited }

// advance appends the service's answer to the log, and ends the log when the
// task has ended. It reports whether anything changed. After an [runs.ErrMoved]
// another driver has written the same, or something newer.
func (d *Driver) advance(ctx context.Context, t *task, a answer) (news bool, err error) {
	defer func() {
		if err != nil {
			t.log, t.view = nil, view{} // the state is unknown: read it again
		}
	}()
	switch {
	case t.over():
		return false, nil
	case t.log.Mark().Cancelled:
		return true, d.end(ctx, t, runs.ReasonCancelled)
	case len(t.view.begun) > 0:
		if seq := t.log.Mark().Seq; t.torn != seq { // its writer may still be active
			t.torn = seq
			return false, runs.ErrMoved
		}
		return true, d.writeDiff(ctx, t)
	}
	if t.view.status != a.status {
		news = true
		if err := t.write(ctx, encodeStatus(a)); err != nil {
			return false, err
		}
		d.log.Info("changed", zap.String("run", t.Run), zap.String("status", a.status))
	}
	switch a.status {
	case runs.CloudPending:
		return news, nil
	case runs.CloudReady, runs.CloudApplied:
		if !t.view.differ && a.files+a.added+a.removed > 0 {
			if err := d.writeDiff(ctx, t); err != nil {
				return news, err
			}
		}
	}
	return true, d.end(ctx, t, runs.ReasonEOF)
}

// writeDiff writes the line of the task's diff, or the rest of an unfinished
// one. A diff that is missing after some attempts is omitted.
func (d *Driver) writeDiff(ctx context.Context, t *task) error {
	begun := t.view.begun
	c := call{args: []string{"diff", t.ID}, limit: maxDiffOut, timeout: lookTimeout}
	o, err := d.call(ctx, c)
	if err == nil && o.exit != 0 {
		err = c.failed(o)
	}
	if failure, ok := errors.AsType[*Failure](err); ok {
		t.tries++
		if failure.Reason != reasonNoDiff && t.tries < maxTries {
			return err
		}
		d.log.Warn("no diff", zap.String("run", t.Run), zap.Error(failure))
		if len(begun) > 0 {
			return t.write(ctx, closing(begun))
		}
		return nil
	}
	if err != nil {
		return err
	}
	line := encodeDiff(o.stdout, !o.cut)
	if rest, ok := bytes.CutPrefix(line, begun); ok {
		return t.write(ctx, rest)
	}
	return t.write(ctx, closing(begun)) // the diff has changed
}

// write appends bytes of a line to the log, and to the view.
func (t *task) write(ctx context.Context, line []byte) error {
	for len(line) > 0 {
		n := chunk(line)
		e := runs.Entry{Kind: runs.Out, Time: time.Now().UnixMilli(), Offset: t.log.Mark().Out, Body: line[:n]}
		if err := t.log.Append(ctx, e); err != nil {
			return err
		}
		t.view.take(line[:n])
		line = line[n:]
	}
	return nil
}

func (d *Driver) end(ctx context.Context, t *task, reason runs.Reason) error {
	e := runs.Entry{Kind: runs.Exited, Time: time.Now().UnixMilli(), Body: runs.Encode(runs.Exit{Reason: reason})}
	if err := t.log.Append(ctx, e); err != nil {
		return err
	}
	d.log.Info("ended", zap.String("run", t.Run), zap.String("reason", string(reason)))
	return nil
}

// status asks the service about one task.
func (d *Driver) status(ctx context.Context, id string) (answer, error) {
	return ask(ctx, d, call{args: []string{"status", id}, timeout: lookTimeout}, func(o output) (answer, bool) {
		return readStatus(o.stdout)
	})
}

// ask calls the program and parses its output.
func ask[T any](ctx context.Context, d *Driver, c call, read func(output) (T, bool)) (v T, err error) {
	o, err := d.call(ctx, c)
	if err != nil {
		return v, err
	}
	v, ok := read(o)
	if !ok {
		return v, c.failed(o)
	}
	return v, nil
}
