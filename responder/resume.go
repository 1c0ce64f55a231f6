package responder

import (
	"cmp"
	"context"
	"errors"
	"path"
	"path/filepath"
	"strings"
	"time"

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

// quiet is how long the session of somebody else must not have changed before a run continues it: whether its program
// still runs is not known.
const quiet = time.Minute

// taken returns why the thread of a task cannot be continued now: see busy. Of two runs that are not live the worker
// decides.
func (s *Service) taken(ctx context.Context, t runs.QueuedTask, force bool) error {
	if t.Thread == "" {
		return nil
	}
	v, ok := s.table.Thread(t.Thread)
	if !ok || v.ID == t.Run {
		return nil
	}
	if !t.Live && v.Source != runs.SourceSession && !v.State.Final() {
		if record, err := s.table.Record(ctx, v.ID); err != nil || record.Live == nil {
			return nil // a record that cannot be read stops nobody
		}
	}
	if told, _ := s.table.Told(t.Thread); v.State.Final() && told.Source == runs.SourceSession {
		v = told // a later one ended before it had the thread
	}
	return conflict(v, force)
}

// earlier returns a task with the last thread, if that is asked for. The error is [api.NotFound] if there is none, and
// [api.Conflict] if its newest run works.
func (s *Service) earlier(ctx context.Context, t runs.QueuedTask, q api.Submission) (runs.QueuedTask, error) {
	field, to := api.FieldResume, &t.Thread
	if q.Fork.Last() {
		field, to = api.FieldFork, &t.ForkedFrom
	} else if !q.Resume.Last() {
		return t, nil
	}
	if t.Dir == "" {
		return t, api.Invalid(api.FieldDir, "is required for the last session")
	}
	if err := s.current(ctx); err != nil { // a run that has just ended
		return t, err
	}
	dirs := []string{t.Dir}
	if real, err := filepath.EvalSymlinks(t.Dir); err == nil && real != path.Clean(t.Dir) {
		dirs = append(dirs, real)
	}
	v, ok := s.table.LastOf(t.Agent, dirs, func(v runs.Header) bool {
		_, err := s.Resumable(v)
		return err == nil
	})
	if !ok {
		return t, &api.Error{Code: api.NotFound, Field: field, Message: "no session found"}
	}
	if err := conflict(v, q.Force); err != nil {
		return t, err
	}
	*to, t.Dir = v.Thread, v.Dir // without the links of its worker's machine, which may be another one
	return t, validation(t.Check())
}

// conflict returns the error if the thread whose newest run is v cannot be continued now. Force is for the session of
// somebody else.
func conflict(v runs.Header, force bool) error {
	why := busy(v)
	if why == "" || force && v.Source == runs.SourceSession {
		return nil
	}
	return &api.Error{Code: api.Conflict, Message: why, Run: v.ID, State: v.State, Retryable: true}
}

// busy returns why the thread whose newest run is v cannot be continued now; "": it can. An open run has it, or
// somebody else used it just now: two processes would write to one session.
func busy(v runs.Header) string {
	switch {
	case v.Source != runs.SourceSession && !v.State.Final():
		return "its thread is that of an open run, which has to end before"
	case v.Source == runs.SourceSession && time.Since(time.UnixMilli(int64(v.ActiveAt))) < quiet:
		return "its session changed less than a minute ago, and its program may still use it: end that, or use force"
	}
	return ""
}

// Sessions returns a page of the threads that tasks can continue, the newest first: of each its newest run, if that
// fits the list.
func (s *Service) Sessions(_ context.Context, q api.List) (api.Sessions, error) {
	if err := within("limit", int64(q.Limit), maxPage); err != nil {
		return api.Sessions{}, err
	}
	some := among(q)
	some.Sessions = true
	page, err := s.list(q, some, func(v runs.Header) bool {
		_, err := s.Resumable(v)
		return err == nil
	})
	all := api.Sessions{Sessions: []api.Session{}, Next: page.Next}
	for _, v := range page.Runs {
		all.Sessions = append(all.Sessions, api.Session{Newest: v.Summary, Refused: busy(v)})
	}
	return all, err
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
