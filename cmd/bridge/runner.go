package bridge

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/runs"
)

// tasks are the runs of requests: tasks of the work queue or, if external is true, runs that wait for an answer from
// outside. It is a [runner].
type tasks struct {
	client   *client.Client
	table    agent.Table
	task     api.Submission
	external bool
}

// maxOlder is how often [await] asks a responder that answers other requests. After that it is of an older version;
// one that is starting has all of them within a second.
const maxOlder = 3

// await waits until a responder answers. The error is that it cannot serve a bridge, or that of ctx.
func await(ctx context.Context, l *client.Client, log *zap.Logger) error {
	for told, older := false, 0; ; {
		_, err := api.OpReply.Call(ctx, l, api.ReplyRequest{Run: "T-none"})
		if errors.Is(err, client.ErrNoResponder) {
			if _, known := l.Status(ctx, "T-none"); is(known, api.NotFound) {
				older++
			}
			if older == maxOlder {
				return errors.New("the responder is of an older version than the bridge: start `linesman up` again")
			}
		}
		if !isMomentary(err) {
			if err == nil || is(err, api.NotFound) {
				return nil
			}
			return err
		}
		if !told {
			told = true
			log.Warn("no responder answers, waiting for one", zap.Error(err))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

// isMomentary reports whether the same request may succeed a moment later.
func isMomentary(err error) bool {
	e, ok := errors.AsType[*api.Error](err)
	return ok && (e.Retryable && (e.Code == api.Unavailable || e.Code == api.TooMany) || e.Code == api.NotEnded)
}

// Submit queues a task for a job, or creates a run that waits for its answer until the timeout of the job is over.
func (r *tasks) Submit(ctx context.Context, j job) error {
	if r.external {
		_, err := api.OpAsk.Call(ctx, r.client, api.AskRequest{
			Run: j.Run, Prompt: j.Prompt, Model: j.Model, Labels: j.Labels,
			Timeout: max(time.Until(j.Due).Milliseconds(), 1),
		})
		if is(err, api.Conflict) { // an earlier bridge has given it to an agent
			return nil
		}
		return refused(err)
	}
	q := r.task
	q.Run, q.Prompt, q.Labels = j.Run, j.Prompt, j.Labels
	q.Hard = max(int64((j.Timeout+time.Second-1)/time.Second), 1) // rounded up
	q.Model = cmp.Or(q.Model, j.Model)
	if q.Agent == "" {
		q.Agent = api.DefaultAgent
		if a, known := r.table.OfModel(q.Model); known {
			q.Agent = a.Kind()
		}
	}
	_, err := r.client.Submit(ctx, q)
	return refused(err)
}

// refused is the error of a submission in the form that a bridge expects.
func refused(err error) error {
	e, ok := errors.AsType[*api.Error](err)
	if errors.Is(err, client.ErrDenied) {
		return &refusedError{Why: err.Error()}
	}
	if !ok || e.Code != api.Validation {
		return err
	}
	var why []string
	for _, i := range e.AllIssues() {
		why = append(why, i.Field+": "+i.Problem)
	}
	return &refusedError{Why: strings.Join(why, "; ")}
}

// is reports whether an error has one of the codes.
func is(err error, codes ...api.Code) bool {
	e, ok := errors.AsType[*api.Error](err)
	return ok && slices.Contains(codes, e.Code)
}

// Wait waits for the end of a run, and returns the answer of its agent, or the one that was sent for it.
func (r *tasks) Wait(ctx context.Context, run string) (outcome, error) {
	v, err := r.client.Wait(ctx, run, nil)
	if err != nil {
		return outcome{}, err
	}
	o := outcome{Status: statusError, Message: v.Sentence, Meta: map[string]string{"agent": v.Agent}}
	if v.Thread != "" {
		o.Meta["thread_id"] = v.Thread
	}
	if v.StartedAt > 0 {
		o.Took = time.Duration(max(int64(v.EndedAt-v.StartedAt), 1)) * time.Millisecond
	}
	if v.Exit != nil && v.Exit.Spawn == runs.SpawnNotFound {
		if a, known := r.table.Find(v.Agent); known {
			o.Message += ": " + a.Program + " of " + a.Name + "; install it on the worker's machine, or name another " +
				"agent with --agent"
		}
	}
	switch v.State {
	case runs.StateTimeout:
		o.Status, o.Message = statusTimeout, ""
		if !r.external && v.Reason == string(runs.ReasonIdle) {
			o.Message = "Agent execution timeout: " + v.Sentence
		}
		return o, nil
	case runs.StateCancelled:
		o.Message = "the run was cancelled"
		return o, nil
	}
	if r.external || v.State == runs.StateCompleted {
		return reply(ctx, r.client, v, o)
	}
	return o, nil
}

// reply completes the outcome of a run with what it replied.
func reply(ctx context.Context, l *client.Client, v *api.Run, o outcome) (outcome, error) {
	var text strings.Builder
	for q := (api.ReplyRequest{Run: v.ID}); ; {
		piece, err := api.OpReply.Call(ctx, l, q)
		if e, ok := errors.AsType[*api.Error](err); ok && e.Code == api.NotFound && e.Field == api.FieldReply {
			if v.State == runs.StateCompleted {
				o.Message = e.Message
			}
			return o, nil
		}
		if err != nil {
			return o, err
		}
		text.WriteString(piece.Text)
		if q.Offset = piece.Next; q.Offset == 0 {
			o.Status, o.Text, o.Message = piece.Status, text.String(), piece.Error // the statuses are the same
			o.Taken = v.Agent == runs.AgentExternal
			return o, nil
		}
	}
}

// Cancel cancels a run. It is no error if the run has ended or does not exist.
func (r *tasks) Cancel(ctx context.Context, run, reason string) error {
	_, err := r.client.Cancel(ctx, api.Cancel{Run: run, Reason: reason})
	if is(err, api.NotFound, api.Ended) {
		return nil
	}
	return err
}

// Expire cancels the run of a request that timed out, or ends the one that waits for an answer.
func (r *tasks) Expire(ctx context.Context, run string) error {
	if !r.external {
		return r.Cancel(ctx, run, "the request timed out")
	}
	_, err := api.OpExpire.Call(ctx, r.client, api.RunRequest{Run: run})
	return err
}

// Overtaken cancels the run of a request that another program has answered, or stores what it wrote into the response
// file as the answer of the run.
func (r *tasks) Overtaken(ctx context.Context, run string, o outcome) error {
	if !r.external {
		return r.Cancel(ctx, run, "another program has answered the request")
	}
	q := api.LateAnswer{Run: run, Status: o.Status, Text: o.Text, Error: cmp.Or(o.Message, "no reason was given")}
	_, err := api.OpAnswerLate.Call(ctx, r.client, q)
	if e, ok := errors.AsType[*api.Error](err); ok && e.Code == api.Validation { // readers have it, whatever its size
		q = api.LateAnswer{Run: run, Status: runs.ReplyError, Error: "answered by a file: " + e.Message}
		_, err = api.OpAnswerLate.Call(ctx, r.client, q)
	}
	if is(err, api.NotFound, api.Ended) {
		return nil
	}
	return err
}
