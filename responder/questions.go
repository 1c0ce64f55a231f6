package responder

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

// Bounds of the questions that are looked at.
const (
	maxQuestions = 1000
	maxSearched  = 1000                   // runs that have ended, among which a request is looked for
	questionSize = 2 * 6 * runs.MaxPrompt // bytes of output, in which the question is
)

// Ask begins a run that waits for an answer from outside, until due; the zero
// time is for ever. A run that was begun so before is no error: what a crash
// has left out is done. The error is [api.Validation] for a wrong question.
func (s *Service) Ask(ctx context.Context, run string, q runs.Question, labels map[string]string, due time.Time) error {
	err := s.table.Ask(ctx, run, q, labels, due)
	return s.explain("ask", renamed(err, taskFields))
}

// Answer gives a run that waits for it an answer from outside: the run has
// ended then. The first answer counts; the same one once more is no error. The
// error is [api.Ended] for another answer, or one that comes after the due time
// unless late allows that; [api.NotWaiting] for a run that asks nothing; and
// [api.Validation] for what is no answer.
func (s *Service) Answer(ctx context.Context, run string, reply runs.Reply, late bool) (api.Answered, error) {
	state, err := s.table.Answer(ctx, run, reply, late)
	if field, ok := errors.AsType[*runs.FieldError](err); ok {
		err = api.Invalid(field.Field, field.Problem)
	}
	return api.Answered{Run: run, State: state}, s.about(run, "answer", err)
}

// Reply reads the answer of a run that was answered from outside, all of it.
// The error wraps [runs.ErrNoReply] where RAW does not hold one.
func (s *Service) Reply(ctx context.Context, run string) (runs.Reply, error) {
	r, err := s.table.Reply(ctx, run)
	if errors.Is(err, runs.ErrNoReply) {
		return r, &api.Error{Code: api.NotFound, Message: err.Error(), Run: run, Err: err}
	}
	return r, s.about(run, "read a reply", err)
}

// Expire ends a run whose answer is no longer wanted: its state is timeout. A
// run that has ended is no error.
func (s *Service) Expire(ctx context.Context, run string) error {
	return s.about(run, "expire", s.table.Expire(ctx, run))
}

// Questions returns the runs that wait for an answer, the oldest first, or the
// one that id names: by its run or its request. The error is [api.NotFound]
// where that one does not wait.
func (s *Service) Questions(ctx context.Context, id string) ([]api.Question, error) {
	records, err := s.table.Waiting(ctx, maxQuestions)
	if err != nil {
		return nil, s.explain("list questions", err)
	}
	all := []api.Question{}
	for _, record := range records {
		request := record.Labels["request_id"]
		if record.Lines == 0 || id != "" && id != record.ID && id != request { // nothing is asked yet
			continue
		}
		q := api.Question{
			Run: record.ID, Request: request, Agent: record.Labels["agent_name"], Phase: record.Labels["phase"],
			Asked: api.Time(record.StartedAt), Due: api.Time(record.Due),
		}
		out, _, err := s.table.Output(ctx, record, questionSize)
		if err != nil {
			return nil, s.explain("read a question", err)
		}
		if asked, ok := runs.FindQuestion(out.Head); ok {
			q.Prompt, q.Model = asked.Prompt, asked.Model
		}
		all = append(all, q)
	}
	if id != "" && len(all) == 0 {
		return nil, notFound(id)
	}
	return all, nil
}

// RunOfRequest returns the run of a request: of those that wait, else of those
// that ended last. The id may be the run's own. The error is [api.NotFound]
// where there is none.
func (s *Service) RunOfRequest(ctx context.Context, id string) (string, error) {
	if runs.CheckID(id) == nil {
		v, err := s.table.Look(ctx, id)
		if err == nil {
			return v.ID, nil
		}
		if !errors.Is(err, runs.ErrNoRun) {
			return "", s.explain("look up a run", err)
		}
	}
	records, err := s.table.Waiting(ctx, maxQuestions)
	if err != nil {
		return "", s.explain("list questions", err)
	}
	found := ""
	for _, record := range records {
		if record.Labels["request_id"] != id {
			continue
		}
		if found != "" {
			return "", &api.Error{
				Code:    api.Conflict,
				Message: fmt.Sprintf("several runs are of this request, among them %s and %s: name one of them", found, record.ID),
			}
		}
		found = record.ID
	}
	if found != "" {
		return found, nil
	}
	for _, v := range s.table.Snapshot(maxSearched, asksOutside).Ended {
		record, err := s.table.Record(ctx, v.ID)
		if errors.Is(err, runs.ErrNoRun) {
			continue
		}
		if err != nil {
			return "", s.explain("read a record", err)
		}
		if record.Labels["request_id"] == id {
			return v.ID, nil
		}
	}
	return "", notFound(id)
}

func asksOutside(r runs.Row) bool { return r.Agent == runs.AgentExternal }
