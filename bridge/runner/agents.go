// Package runner has the two ways in which a bridge gets its answers: [Agents] runs
// tasks of the work queue, [External] asks somebody outside.
package runner

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

// Agents runs the requests of a bridge as tasks of the work queue. It is a
// [bridge.Runner].
type Agents struct {
	Service *responder.Service
	Task    api.Submission // what all tasks have in common
}

// Submit queues a task for a job.
func (r *Agents) Submit(ctx context.Context, j bridge.Job) error {
	if err := r.Service.Filled(ctx); err != nil {
		return err
	}
	q := r.Task
	q.Run, q.Prompt, q.Labels, q.Hard = j.Run, j.Prompt, j.Labels, wholeSeconds(j.Timeout)
	if q.Model == "" {
		q.Model = j.Model
	}
	_, err := r.Service.Submit(ctx, q)
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

// is reports whether an error has a code of the service.
func is(err error, code api.Code) bool {
	var e *api.Error
	return errors.As(err, &e) && e.Code == code
}

// wholeSeconds is a timeout in seconds, rounded up, at least one.
func wholeSeconds(d time.Duration) int64 { return max(int64((d+time.Second-1)/time.Second), 1) }

// Wait waits for the end of a run, and returns what its agent answered.
func (r *Agents) Wait(ctx context.Context, run string) (bridge.Outcome, error) {
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
	o := bridge.Outcome{Status: bridge.StatusError, Meta: map[string]string{"agent": record.Agent}}
	if record.Thread != "" {
		o.Meta["thread_id"] = record.Thread
	}
	if record.StartedAt > 0 {
		o.Took = time.Duration(max(record.EndedAt-record.StartedAt, 1)) * time.Millisecond
	}
	switch record.State {
	case runs.StateCompleted:
		text, err := r.Service.WholeFinalText(ctx, record)
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

// Cancel cancels a run. A run that has ended, or that does not exist, is no error.
func (r *Agents) Cancel(ctx context.Context, run, reason string) error {
	return cancel(ctx, r.Service, run, reason)
}

func cancel(ctx context.Context, s *responder.Service, run, reason string) error {
	if err := s.Filled(ctx); err != nil {
		return err
	}
	_, err := s.Cancel(ctx, api.Cancel{Run: run, Reason: reason})
	if is(err, api.NotFound) || is(err, api.Ended) {
		return nil
	}
	return err
}

// Expire cancels the run of a request whose time is over.
func (r *Agents) Expire(ctx context.Context, run string) error {
	return r.Cancel(ctx, run, "the request's time is over")
}

// Overtaken cancels the run of a request that somebody else has answered.
func (r *Agents) Overtaken(ctx context.Context, run string, _ bridge.Outcome) error {
	return r.Cancel(ctx, run, "somebody else has answered the request")
}
