// Package runner has the two ways in which a bridge gets its answers: [Agents] runs
// tasks of the work queue, [External] waits for answers from outside.
package runner

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/bridge"
	"github.com/linesman/linesman/runs"
)

// Agents runs the requests of a bridge as tasks of the work queue. It is a
// [bridge.Runner].
type Agents struct {
	Service *responder.Service
	// Task is what all tasks have in common. Without an agent each has the agent that its model
	// tells, or else [api.DefaultAgent].
	Task api.Submission
}

// External lets no agent work: its runs wait for an answer from outside. It is a
// [bridge.Runner].
type External struct{ Service *responder.Service }

// Submit queues a task for a job.
func (r *Agents) Submit(ctx context.Context, j bridge.Job) error {
	if err := r.Service.Filled(ctx); err != nil {
		return err
	}
	q := r.Task
	q.Run, q.Prompt, q.Labels = j.Run, j.Prompt, j.Labels
	q.Hard = max(int64((j.Timeout+time.Second-1)/time.Second), 1) // rounded up
	q.Model = cmp.Or(q.Model, j.Model)
	if q.Agent == "" {
		q.Agent = api.DefaultAgent
		if a, known := r.Service.Agents().OfModel(q.Model); known {
			q.Agent = a.Kind()
		}
	}
	_, err := r.Service.Submit(ctx, q)
	return refused(err)
}

// Submit creates a run that waits for its answer until the timeout of the job.
func (r *External) Submit(ctx context.Context, j bridge.Job) error {
	if err := r.Service.Filled(ctx); err != nil {
		return err
	}
	err := r.Service.Ask(ctx, j.Run, runs.Question{Prompt: j.Prompt, Model: j.Model}, j.Labels, time.Now().Add(j.Timeout))
	return refused(err)
}

// refused is the error of a submission in the form that a bridge expects.
func refused(err error) error {
	e, ok := errors.AsType[*api.Error](err)
	if !ok || e.Code != api.Validation {
		return err
	}
	var why []string
	for _, i := range e.AllIssues() {
		why = append(why, i.Field+": "+i.Problem)
	}
	return &bridge.RefusedError{Why: strings.Join(why, "; ")}
}

// is reports whether an error has one of the codes.
func is(err error, codes ...api.Code) bool {
	e, ok := errors.AsType[*api.Error](err)
	return ok && slices.Contains(codes, e.Code)
}

// Wait waits for the end of a run, and returns the answer of its agent.
func (r *Agents) Wait(ctx context.Context, run string) (bridge.Outcome, error) {
	record, o, err := wait(ctx, r.Service, run)
	switch {
	case err != nil:
	case record.State == runs.StateCompleted:
		return finalText(ctx, r.Service, record, o)
	case record.State == runs.StateTimeout && record.Reason == string(runs.ReasonIdle):
		o.Message = "Agent execution timeout: " + record.Summary()
	}
	return o, err
}

// Wait waits for the end of a run, and returns the answer that was sent for it.
func (r *External) Wait(ctx context.Context, run string) (bridge.Outcome, error) {
	record, o, err := wait(ctx, r.Service, run)
	if err != nil || record.State == runs.StateTimeout || record.State == runs.StateCancelled {
		return o, err
	}
	reply, err := r.Service.Reply(ctx, run)
	switch {
	case errors.Is(err, runs.ErrNoReply) && record.State == runs.StateCompleted: // RAW has expired
		return finalText(ctx, r.Service, record, o)
	case errors.Is(err, runs.ErrNoReply):
		return o, nil
	case err != nil:
		return o, err
	}
	o.Status, o.Text, o.Message, o.Taken = reply.Status, reply.Text, reply.Error, true // the statuses are the same
	return o, nil
}

// wait waits for the end of a run. The outcome is that of a run without an answer.
func wait(ctx context.Context, s *responder.Service, run string) (*runs.Record, bridge.Outcome, error) {
	if err := s.Filled(ctx); err != nil {
		return nil, bridge.Outcome{}, err
	}
	if _, err := s.Wait(ctx, run, nil); err != nil {
		return nil, bridge.Outcome{}, err
	}
	record, err := s.Record(ctx, run)
	if err != nil {
		return nil, bridge.Outcome{}, err
	}
	o := bridge.Outcome{
		Status: bridge.StatusError, Message: record.Summary(), Meta: map[string]string{"agent": record.Agent},
	}
	if record.Thread != "" {
		o.Meta["thread_id"] = record.Thread
	}
	if record.StartedAt > 0 {
		o.Took = time.Duration(max(record.EndedAt-record.StartedAt, 1)) * time.Millisecond
	}
	if x := record.Exit; x != nil && x.Spawn == runs.SpawnNotFound {
		if a, known := s.Agents().Find(record.Agent); known {
			o.Message += ": " + a.Program + " of " + a.Name + "; install it on the worker's machine, or name another " +
				"agent with --agent"
		}
	}
	switch record.State {
	case runs.StateTimeout:
		o.Status, o.Message = bridge.StatusTimeout, ""
	case runs.StateCancelled:
		o.Message = "the run was cancelled"
	}
	return record, o, nil
}

// finalText completes the outcome of a run that completed.
func finalText(
	ctx context.Context, s *responder.Service, record *runs.Record, o bridge.Outcome,
) (bridge.Outcome, error) {
	text, err := s.WholeFinalText(ctx, record)
	switch {
	case errors.Is(err, responder.ErrNoText):
		o.Message = err.Error()
		return o, nil
	case err != nil:
		return o, err
	}
	o.Status, o.Text, o.Message = bridge.StatusSuccess, text, ""
	return o, nil
}

// Cancel cancels a run. It is no error if the run has ended or does not exist.
func (r *Agents) Cancel(ctx context.Context, run, reason string) error {
	return cancel(ctx, r.Service, run, reason)
}

// Cancel cancels a run. It is no error if the run has ended or does not exist.
func (r *External) Cancel(ctx context.Context, run, reason string) error {
	return cancel(ctx, r.Service, run, reason)
}

func cancel(ctx context.Context, s *responder.Service, run, reason string) error {
	if err := s.Filled(ctx); err != nil {
		return err
	}
	_, err := s.Cancel(ctx, api.Cancel{Run: run, Reason: reason})
	if is(err, api.NotFound, api.Ended) {
		return nil
	}
	return err
}

// Expire cancels the run of a request that timed out.
func (r *Agents) Expire(ctx context.Context, run string) error {
	return r.Cancel(ctx, run, "the request timed out")
}

// Expire ends the run of a request that timed out without an answer.
func (r *External) Expire(ctx context.Context, run string) error {
	if err := r.Service.Filled(ctx); err != nil {
		return err
	}
	return r.Service.Expire(ctx, run)
}

// Overtaken cancels the run of a request that another program has answered.
func (r *Agents) Overtaken(ctx context.Context, run string, _ bridge.Outcome) error {
	return r.Cancel(ctx, run, "another program has answered the request")
}

// Overtaken stores the answer that another program wrote into the response file
// as the answer of the run.
func (r *External) Overtaken(ctx context.Context, run string, o bridge.Outcome) error {
	if err := r.Service.Filled(ctx); err != nil {
		return err
	}
	reply := runs.Reply{Status: o.Status, Text: o.Text, Error: cmp.Or(o.Message, "no reason was given")}
	_, err := r.Service.Answer(ctx, run, reply, true)
	if e, ok := errors.AsType[*api.Error](err); ok && e.Code == api.Validation { // readers have it, whatever its size
		reply = runs.Reply{Status: runs.ReplyError, Error: "answered by a file: " + e.Message}
		_, err = r.Service.Answer(ctx, run, reply, true)
	}
	if is(err, api.NotFound, api.Ended) {
		return nil
	}
	return err
}
