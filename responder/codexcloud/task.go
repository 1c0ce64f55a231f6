package codexcloud

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/linesman/linesman/runs"
)

// task is a run whose task is looked at: its log, and what that says. The log
// is read before the service is asked, so that its fence refuses what was
// learned before somebody else wrote.
type task struct {
	Open
	log  Log // nil: not read
	view view

	torn  uint64 // the log's last sequence when it was found to end within a line
	tries int    // that its diff was asked for in vain
}

// maxTries is how often a diff that should be there is asked for.
const maxTries = 5

// load reads the log of t, unless what was read still counts. Somebody may
// write between the two readings: then the fence is older than the view, and
// refuses what would be told.
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

// over reports whether nothing more is to be told of t.
func (t *task) over() bool { return t.log != nil && t.log.Mark().Exited }

// advance tells the log what the service says of t, and ends it when the task
// has. It reports whether there was news. After an [runs.ErrMoved] somebody
// else has told it, or something newer.
func (d *Driver) advance(ctx context.Context, t *task, a answer) (news bool, err error) {
	defer func() {
		if err != nil {
			t.log, t.view = nil, view{} // what is in doubt is read again
		}
	}()
	switch {
	case t.over():
		return false, nil
	case t.log.Mark().Cancelled:
		return true, d.end(ctx, t, runs.ReasonCancelled)
	case len(t.view.begun) > 0:
		if seq := t.log.Mark().Seq; t.torn != seq { // whoever began it may be at it still
			t.torn = seq
			return false, runs.ErrMoved
		}
		return true, d.tellDiff(ctx, t)
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
			if err := d.tellDiff(ctx, t); err != nil {
				return news, err
			}
		}
	}
	return true, d.end(ctx, t, runs.ReasonEOF)
}

// tellDiff writes the line of the task's diff, or the rest of one that was
// begun. A diff that cannot be had after some tries is left out.
func (d *Driver) tellDiff(ctx context.Context, t *task) error {
	begun := t.view.begun
	c := call{args: []string{"diff", t.ID}, limit: maxDiffOut, timeout: lookTimeout}
	o, err := d.call(ctx, c)
	if err == nil && o.exit != 0 {
		err = c.failed(o)
	}
	var failure *Failure
	if errors.As(err, &failure) {
		t.tries++
		if failure.Reason != ReasonNoDiff && t.tries < maxTries {
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
	return t.write(ctx, closing(begun)) // it has changed
}

// write stores bytes of a line, and reads them.
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

// status asks the service for one task.
func (d *Driver) status(ctx context.Context, id string) (answer, error) {
	c := call{args: []string{"status", id}, timeout: lookTimeout}
	o, err := d.call(ctx, c)
	if err != nil {
		return answer{}, err
	}
	a, ok := readStatus(o.stdout)
	if !ok {
		return answer{}, c.failed(o)
	}
	return a, nil
}

// Refresh looks at one task now, and tells its run what is new. The id may be
// "" where the log of the run tells it. For a run that has ended it does
// nothing. The error is a [*Failure] where the program gave no answer.
func (d *Driver) Refresh(ctx context.Context, run, id string) error {
	t := &task{Open: Open{Run: run, ID: id}}
	if err := d.refresh(ctx, t); err != nil && !errors.Is(err, runs.ErrMoved) {
		return fmt.Errorf("run %s: %w", run, err)
	}
	return nil
}

func (d *Driver) refresh(ctx context.Context, t *task) error {
	if err := d.load(ctx, t); err != nil || t.over() {
		return err
	}
	if err := runs.CheckCloudTask(t.ID); err != nil {
		return err
	}
	a, err := d.status(ctx, t.ID)
	if err != nil {
		return err
	}
	_, err = d.advance(ctx, t, a)
	return err
}
