package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bridge"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/runs"
)

// bridgeRunner has the requests of a bridge done as tasks of the work queue.
type bridgeRunner struct {
	desk *desk
	task api.Submission // what all have in common
}

func (r *bridgeRunner) Submit(ctx context.Context, j bridge.Job) error {
	if err := r.desk.Filled(ctx); err != nil {
		return err
	}
	q := r.task
	q.Run, q.Prompt, q.Labels, q.Hard = j.Run, j.Prompt, j.Labels, max(wholeSeconds(j.Timeout), 1)
	if q.Model == "" {
		q.Model = j.Model
	}
	_, err := r.desk.Submit(ctx, q)
	return refused(err)
}

// refused is the error of a submission as a bridge takes it.
func refused(err error) error {
	var e *api.Error
	if !errors.As(err, &e) || e.Code != api.Validation {
		return err
	}
	var why []string
	for _, i := range e.AllIssues() {
		why = append(why, i.Field+": "+i.Problem)
	}
	return &bridge.RefusedError{Why: strings.Join(why, "; ")}
}

// isCode reports whether an error has a code of the service.
func isCode(err error, code api.Code) bool {
	var e *api.Error
	return errors.As(err, &e) && e.Code == code
}

func (r *bridgeRunner) Wait(ctx context.Context, run string) (bridge.Outcome, error) {
	if err := r.desk.Filled(ctx); err != nil {
		return bridge.Outcome{}, err
	}
	if _, err := r.desk.Wait(ctx, run, nil); err != nil {
		return bridge.Outcome{}, err
	}
	record, err := r.desk.Record(ctx, run)
	if err != nil {
		return bridge.Outcome{}, err
	}
	o := bridge.Outcome{Status: bridge.StatusError, Meta: map[string]string{"agent": record.Agent}}
	if record.Thread != "" {
		o.Meta["thread_id"] = record.Thread
	}
	if record.StartedAt > 0 {
		o.Took = time.Duration(max(record.EndedAt-record.StartedAt, 1)) * time.Millisecond
	}
	switch record.State {
	case runs.StateCompleted:
		text, err := r.desk.WholeFinalText(ctx, record)
		if errors.Is(err, responder.ErrNoText) {
			o.Message = err.Error()
			return o, nil
		}
		if err != nil {
			return o, err
		}
		o.Status, o.Text = bridge.StatusSuccess, text
	case runs.StateTimeout:
		o.Status = bridge.StatusTimeout
		if record.Reason == string(runs.ReasonIdle) {
			o.Message = "Agent execution timeout: " + record.Summary()
		}
	case runs.StateCancelled:
		o.Message = "the run was cancelled"
	default:
		o.Message = record.Summary()
	}
	return o, nil
}

func (r *bridgeRunner) Cancel(ctx context.Context, run, reason string) error {
	if err := r.desk.Filled(ctx); err != nil {
		return err
	}
	_, err := r.desk.Cancel(ctx, api.Cancel{Run: run, Reason: reason})
	if isCode(err, api.NotFound) || isCode(err, api.Ended) {
		return nil
	}
	return err
}

func (r *bridgeRunner) Expire(ctx context.Context, run string) error {
	return r.Cancel(ctx, run, "the request's time is over")
}

func (r *bridgeRunner) Overtaken(ctx context.Context, run string, _ bridge.Outcome) error {
	return r.Cancel(ctx, run, "somebody else has answered the request")
}
