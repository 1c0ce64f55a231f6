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

// Agents runs the requests of a bridge as tasks of the work queue. It is a [Runner].
type Agents struct {
	Client *client.Client
	Table  agent.Table
	// Task is what all tasks have in common. Without an agent each has the agent that its model
	// tells, or else [api.DefaultAgent].
	Task api.Submission
}

// External lets no agent work: its runs wait for an answer from outside. It is a [Runner].
type External struct {
	Client *client.Client
	Table  agent.Table
}

// maxOlder is how often [Await] asks a responder that answers other requests. After that it is of an older version;
// one that is starting has all of them within a second.
const maxOlder = 3

// Await waits until a responder answers. The error is that it cannot serve a bridge, or that of ctx.
func Await(ctx context.Context, l *client.Client, log *zap.Logger) error {
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

// Submit queues a task for a job.
func (r *Agents) Submit(ctx context.Context, j Job) error {
	q := r.Task
	q.Run, q.Prompt, q.Labels = j.Run, j.Prompt, j.Labels
	q.Hard = max(int64((j.Timeout+time.Second-1)/time.Second), 1) // rounded up
	q.Model = cmp.Or(q.Model, j.Model)
	if q.Agent == "" {
		q.Agent = api.DefaultAgent
		if a, known := r.Table.OfModel(q.Model); known {
			q.Agent = a.Kind()
		}
	}
	_, err := r.Client.Submit(ctx, q)
	return refused(err)
}

// Submit creates a run that waits for its answer until the timeout of the job is over.
func (r *External) Submit(ctx context.Context, j Job) error {
	_, err := api.OpAsk.Call(ctx, r.Client, api.AskRequest{
		Run: j.Run, Prompt: j.Prompt, Model: j.Model, Labels: j.Labels,
		Timeout: max(time.Until(j.Due).Milliseconds(), 1),
	})
	if is(err, api.Conflict) { // an earlier bridge has given it to an agent
		return nil
	}
	return refused(err)
}

// refused is the error of a submission in the form that a bridge expects.
func refused(err error) error {
	e, ok := errors.AsType[*api.Error](err)
	if errors.Is(err, client.ErrDenied) {
		return &RefusedError{Why: err.Error()}
	}
	if !ok || e.Code != api.Validation {
		return err
	}
	var why []string
	for _, i := range e.AllIssues() {
		why = append(why, i.Field+": "+i.Problem)
	}
	return &RefusedError{Why: strings.Join(why, "; ")}
}

// is reports whether an error has one of the codes.
func is(err error, codes ...api.Code) bool {
	e, ok := errors.AsType[*api.Error](err)
	return ok && slices.Contains(codes, e.Code)
}

// Wait waits for the end of a run, and returns the answer of its agent.
func (r *Agents) Wait(ctx context.Context, run string) (Outcome, error) {
	v, o, err := wait(ctx, r.Client, r.Table, run)
	switch {
	case err != nil:
	case v.State == runs.StateCompleted:
		return reply(ctx, r.Client, v, o)
	case v.State == runs.StateTimeout && v.Reason == string(runs.ReasonIdle):
		o.Message = "Agent execution timeout: " + v.Sentence
	}
	return o, err
}

// Wait waits for the end of a run, and returns the answer that was sent for it.
func (r *External) Wait(ctx context.Context, run string) (Outcome, error) {
	v, o, err := wait(ctx, r.Client, r.Table, run)
	if err != nil || v.State == runs.StateTimeout || v.State == runs.StateCancelled {
		return o, err
	}
	return reply(ctx, r.Client, v, o)
}

// wait waits for the end of a run. The outcome is that of a run without an answer.
func wait(ctx context.Context, l *client.Client, table agent.Table, run string) (*api.Run, Outcome, error) {
	v, err := l.Wait(ctx, run, nil)
	if err != nil {
		return nil, Outcome{}, err
	}
	o := Outcome{Status: StatusError, Message: v.Sentence, Meta: map[string]string{"agent": v.Agent}}
	if v.Thread != "" {
		o.Meta["thread_id"] = v.Thread
	}
	if v.StartedAt > 0 {
		o.Took = time.Duration(max(int64(v.EndedAt-v.StartedAt), 1)) * time.Millisecond
	}
	if v.Exit != nil && v.Exit.Spawn == runs.SpawnNotFound {
		if a, known := table.Find(v.Agent); known {
			o.Message += ": " + a.Program + " of " + a.Name + "; install it on the worker's machine, or name another " +
				"agent with --agent"
		}
	}
	switch v.State {
	case runs.StateTimeout:
		o.Status, o.Message = StatusTimeout, ""
	case runs.StateCancelled:
		o.Message = "the run was cancelled"
	}
	return v, o, nil
}

// reply completes the outcome of a run with what it replied.
func reply(ctx context.Context, l *client.Client, v *api.Run, o Outcome) (Outcome, error) {
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
func (r *Agents) Cancel(ctx context.Context, run, reason string) error {
	return cancel(ctx, r.Client, run, reason)
}

// Cancel cancels a run. It is no error if the run has ended or does not exist.
func (r *External) Cancel(ctx context.Context, run, reason string) error {
	return cancel(ctx, r.Client, run, reason)
}

func cancel(ctx context.Context, l *client.Client, run, reason string) error {
	_, err := l.Cancel(ctx, api.Cancel{Run: run, Reason: reason})
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
	_, err := api.OpExpire.Call(ctx, r.Client, api.RunRequest{Run: run})
	return err
}

// Overtaken cancels the run of a request that another program has answered.
func (r *Agents) Overtaken(ctx context.Context, run string, _ Outcome) error {
	return r.Cancel(ctx, run, "another program has answered the request")
}

// Overtaken stores the answer that another program wrote into the response file
// as the answer of the run.
func (r *External) Overtaken(ctx context.Context, run string, o Outcome) error {
	q := api.LateAnswer{Run: run, Status: o.Status, Text: o.Text, Error: cmp.Or(o.Message, "no reason was given")}
	_, err := api.OpAnswerLate.Call(ctx, r.Client, q)
	if e, ok := errors.AsType[*api.Error](err); ok && e.Code == api.Validation { // readers have it, whatever its size
		q = api.LateAnswer{Run: run, Status: runs.ReplyError, Error: "answered by a file: " + e.Message}
		_, err = api.OpAnswerLate.Call(ctx, r.Client, q)
	}
	if is(err, api.NotFound, api.Ended) {
		return nil
	}
	return err
}
