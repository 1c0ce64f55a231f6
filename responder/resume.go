package responder

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

// Agents returns the agents that take tasks.
func (s *Service) Agents() agent.Table { return s.cfg.Agents }

// Resumable returns the thread of a run that its agent can resume. The error is
// [api.Unsupported] if its agent takes no tasks, and [api.Conflict] if the run has no
// thread, or none that its agent accepts.
func (s *Service) Resumable(v runs.Header) (thread string, err error) {
	refuse := func(code api.Code, why string) (string, error) {
		return "", &api.Error{Code: code, Message: why, Run: v.ID, State: v.State,
			Retryable: code == api.Conflict && !v.State.Final()}
	}
	a, known := s.cfg.Agents.Find(v.Agent)
	switch {
	case !known:
		return refuse(api.Unsupported, "runs of "+v.Agent+" cannot be resumed, only those of "+
			strings.Join(s.cfg.Agents.Names(), ", "))
	case v.Thread == "" && v.State.Final():
		return refuse(api.Conflict, "it ended before it had a thread: submit a new task")
	case v.Thread == "":
		return refuse(api.Conflict, "it has no thread yet: wait until it works, or has ended")
	case a.LiveOnly() && a.Live.Forgets:
		return refuse(api.Unsupported, a.Name+" continues no session")
	case a.Check == nil:
		return v.Thread, nil
	}
	if e, ok := errors.AsType[*runs.FieldError](a.Check(runs.Task{Attributes: runs.Attributes{Thread: v.Thread}})); ok {
		return refuse(api.Conflict, "its thread cannot be resumed: it "+e.Problem)
	}
	return v.Thread, nil
}

// taken returns why the thread of a task cannot be continued now: an open run has it, and one of both is live. Two
// processes would write to one session.
func (s *Service) taken(ctx context.Context, t runs.QueuedTask) error {
	if t.Thread == "" {
		return nil
	}
	v, ok := s.table.Thread(t.Thread)
	if !ok || v.State.Final() || v.ID == t.Run {
		return nil
	}
	if !t.Live {
		if record, err := s.table.Record(ctx, v.ID); err != nil || record.Live == nil {
			return nil // a record that cannot be read stops nobody
		}
	}
	return &api.Error{Code: api.Conflict, Message: "its thread is that of an open run, which has to end before", Run: v.ID,
		State: v.State, Retryable: true}
}

// agentOf returns the agent of a task that names none: that of the thread to resume, if it
// is known, else the default.
func (s *Service) agentOf(thread string) string {
	v, ok := s.table.Told(thread)
	if !ok { // perhaps it was asked for by name before
		v, ok = s.table.Thread(thread)
	}
	if ok {
		if _, takesTasks := s.cfg.Agents.Find(v.Agent); takesTasks {
			return v.Agent
		}
	}
	return api.DefaultAgent
}

// foreign returns why an agent cannot resume a thread that is another agent's; "": it is not.
func (s *Service) foreign(thread, kind string) string {
	v, ok := s.table.Told(thread)
	if !ok || v.Agent == kind {
		return ""
	}
	a, _ := s.cfg.Agents.Find(v.Agent)
	return "belongs to " + cmp.Or(a.Name, v.Agent) + ", which alone can resume it"
}
