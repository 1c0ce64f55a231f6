package runner

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bridge"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/runs"
)

// External has no agent work: its runs wait for an answer from outside. It is a
// [bridge.Runner].
type External struct{ Service *responder.Service }

// Submit makes a run that waits for its answer until the time of the job is over.
func (r *External) Submit(ctx context.Context, j bridge.Job) error {
	if err := r.Service.Filled(ctx); err != nil {
		return err
	}
	err := r.Service.Ask(ctx, j.Run, runs.Question{Prompt: j.Prompt, Model: j.Model}, j.Labels, time.Now().Add(j.Timeout))
	return refused(err)
}

// Wait waits for the end of a run, and returns the answer that it was given.
func (r *External) Wait(ctx context.Context, run string) (bridge.Outcome, error) {
	if err := r.Service.Filled(ctx); err != nil {
		return bridge.Outcome{}, err
	}
	if _, err := r.Service.Wait(ctx, run, nil); err != nil {
		return bridge.Outcome{}, err
	}
	record, err := r.Service.Record(ctx, run)
	if err != nil {
		return bridge.Outcome{}, err
	}
	o := bridge.Outcome{
		Status: bridge.StatusError, Message: record.Summary(), Meta: map[string]string{"agent": record.Agent},
		Took: time.Duration(max(record.EndedAt-record.StartedAt, 1)) * time.Millisecond,
	}
	switch record.State {
	case runs.StateTimeout:
		o.Status, o.Message = bridge.StatusTimeout, ""
		return o, nil
	case runs.StateCancelled:
		o.Message = "the run was cancelled"
		return o, nil
	}
	reply, err := r.Service.Reply(ctx, run)
	switch {
	case errors.Is(err, runs.ErrNoReply) && record.State == runs.StateCompleted: // RAW has aged out
		text, err := r.Service.WholeFinalText(ctx, record)
		if errors.Is(err, responder.ErrNoText) {
			o.Message = err.Error()
			return o, nil
		}
		o.Status, o.Text = bridge.StatusSuccess, text
		return o, err
	case errors.Is(err, runs.ErrNoReply):
		return o, nil
	case err != nil:
		return o, err
	}
	o.Status, o.Text, o.Message, o.Taken = reply.Status, reply.Text, reply.Error, true // the words are the same
	return o, nil
}

// Cancel cancels a run. A run that has ended, or that does not exist, is no error.
func (r *External) Cancel(ctx context.Context, run, reason string) error {
	return cancel(ctx, r.Service, run, reason)
}

// Expire ends a run whose time is over without an answer.
func (r *External) Expire(ctx context.Context, run string) error {
	if err := r.Service.Filled(ctx); err != nil {
		return err
	}
	return r.Service.Expire(ctx, run)
}

// Overtaken gives the run the answer that somebody wrote into the response
// file by hand.
func (r *External) Overtaken(ctx context.Context, run string, o bridge.Outcome) error {
	if err := r.Service.Filled(ctx); err != nil {
		return err
	}
	reply := runs.Reply{Status: o.Status, Text: o.Text, Error: cmp.Or(o.Message, "no reason was given")}
	_, err := r.Service.Answer(ctx, run, reply, true)
	var e *api.Error
	if errors.As(err, &e) && e.Code == api.Validation { // readers have it, whatever its size
		reply = runs.Reply{Status: runs.ReplyError, Error: "answered by a file: " + e.Message}
		_, err = r.Service.Answer(ctx, run, reply, true)
	}
	if is(err, api.NotFound) || is(err, api.Ended) {
		return nil
	}
	return err
}
