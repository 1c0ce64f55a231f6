package responder

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/runs"
)

// Limits of the runs that are read.
const (
	maxQuestions = 1000
	maxUnread    = 100                         // runs that an answer lists as damaged
	maxSearched  = 1000                        // ended runs that are searched for a request
	questionSize = 2 * 6 * runs.MaxShortPrompt // bytes of output that contain the question
)

// maxAsk is the longest time in milliseconds in which a question from outside can be answered.
const maxAsk = 1_000_000_000

// Ask creates a run that waits for its answer from outside. To ask again is no error.
func (s *Service) Ask(ctx context.Context, q api.AskRequest) (api.Submitted, error) {
	if q.Timeout < 1 || q.Timeout > maxAsk {
		return api.Submitted{}, api.Invalid("timeoutMs", fmt.Sprintf("must be 1 to %d", maxAsk))
	}
	if err := CheckLabels(q.Labels); err != nil {
		return api.Submitted{}, err
	}
	if v, err := s.Look(ctx, q.Run); err == nil && v.Agent != runs.AgentExternal {
		return api.Submitted{}, &api.Error{Code: api.Conflict, Field: api.FieldRun, Run: q.Run,
			Message: "the run is one of an agent"}
	}
	now := time.Now()
	due := now.Add(time.Duration(q.Timeout) * time.Millisecond)
	err := s.table.Ask(ctx, q.Run, runs.Question{Prompt: q.Prompt, Model: q.Model}, q.Labels, due)
	return api.Submitted{Run: q.Run, At: now.UnixMilli()}, s.explain("ask the question", validation(err))
}

// answer stores the external answer of a run that awaits it, and ends the run. The
// first answer wins; repeating the same one is not an error. The error is [api.Ended]
// for a different answer, or one after the deadline unless late is set;
// [api.NotWaiting] for a run that does not await an answer; and [api.Validation] for
// an invalid answer.
func (s *Service) answer(ctx context.Context, run string, reply runs.Reply, late bool) (api.Answered, error) {
	state, err := s.table.Answer(ctx, run, reply, late)
	if field, ok := errors.AsType[*runs.FieldError](err); ok {
		err = api.Invalid(field.Field, field.Problem)
	}
	return api.Answered{Run: run, State: state}, s.explainRun(run, "answer", err)
}

// AnswerLate stores the answer that the asking program of a run has: it counts after the deadline, too.
func (s *Service) AnswerLate(ctx context.Context, q api.LateAnswer) (api.Answered, error) {
	return s.answer(ctx, q.Run, runs.Reply{Status: q.Status, Text: q.Text, Error: q.Error}, true)
}

// early is how long before the deadline of a question its asker may have given up: clocks differ.
const early = 5 * time.Second

// Expire ends a run whose answer from outside is no longer awaited, with the state timeout. It is
// not an error if the run has ended, or does not exist. The error is [api.Conflict] before its deadline.
func (s *Service) Expire(ctx context.Context, q api.RunRequest) (api.Nothing, error) {
	record, err := s.table.Record(ctx, q.Run)
	if err == nil && !record.State.Final() && record.Due > time.Now().Add(early).UnixMilli() {
		return api.Nothing{}, &api.Error{Code: api.Conflict, Field: api.FieldRun, Run: q.Run,
			Message: "the time of the question is not over"}
	}
	return api.Nothing{}, s.explainRun(q.Run, "expire", s.table.Expire(ctx, q.Run))
}

// piece returns as much of a text as fits into a message, as JSON.
func piece(text string) string {
	for most := maxPageBytes; ; most /= 2 {
		some := text[:bounds.Cut(text, most)]
		if b, err := json.Marshal(some); err != nil || len(b) <= maxPageBytes {
			return some
		}
	}
}

// Reply returns a piece of the reply of a run that has ended. Without a reply the error is [api.NotFound], of
// the field [api.FieldReply].
func (s *Service) Reply(ctx context.Context, q api.ReplyRequest) (api.Reply, error) {
	v, err := s.Settled(ctx, q.Run)
	if err != nil {
		return api.Reply{}, err
	}
	if !v.State.Final() {
		return api.Reply{}, &api.Error{Code: api.NotEnded, Field: api.FieldRun, Run: q.Run, State: v.State,
			Message: "the run has not ended: it is " + string(v.State)}
	}
	record, err := s.table.Record(ctx, q.Run)
	if err != nil {
		return api.Reply{}, s.explainRun(q.Run, "read a record", err)
	}
	whole, err := s.reply(ctx, record)
	if errors.Is(err, errNoText) || errors.Is(err, runs.ErrNoReply) {
		return api.Reply{}, &api.Error{Code: api.NotFound, Field: api.FieldReply, Run: q.Run, Message: err.Error()}
	}
	if err != nil {
		return api.Reply{}, s.explainRun(q.Run, "read a reply", err)
	}
	if q.Offset < 0 || q.Offset > len(whole.Text) {
		return api.Reply{}, api.Invalid("offset", "is not in the reply")
	}
	rest := whole.Text[q.Offset:]
	out := api.Reply{Status: whole.Status, Error: whole.Error, Text: piece(rest),
		Offset: q.Offset, Bytes: len(whole.Text)}
	if end := q.Offset + len(out.Text); end < out.Bytes {
		out.Next = end
	}
	return out, nil
}

// reply is the whole reply of a run that has ended.
func (s *Service) reply(ctx context.Context, record *runs.Record) (runs.Reply, error) {
	if record.Agent == runs.AgentExternal {
		if reply, err := s.table.Reply(ctx, record.ID); !errors.Is(err, runs.ErrNoReply) { // else RAW has expired
			return reply, err
		}
	}
	if record.State != runs.StateCompleted {
		return runs.Reply{}, fmt.Errorf("%w: the run did not complete", errNoText)
	}
	text, err := s.WholeFinalText(ctx, record)
	return runs.Reply{Status: runs.ReplySuccess, Text: text}, err
}

// ofRequest selects the runs that an id names: its own, or that of its request; "" names all.
func ofRequest(id string) func(runs.Header) bool {
	return func(r runs.Header) bool {
		return id == "" || r.ID == id || asksOutside(r) && r.Labels.Value("request_id") == id
	}
}

// questions returns the questions that await an answer, oldest first, or only those of one run, by the id of the run or
// of its request. Unread are runs whose questions cannot be read. The error is [api.NotFound] if that one awaits none.
func (s *Service) questions(ctx context.Context, id string) (all []api.Question, unread []string, err error) {
	records, unread, err := s.table.Waiting(ctx, maxQuestions, ofRequest(id))
	if err != nil {
		return nil, nil, s.explain("list questions", err)
	}
	all = []api.Question{}
	for _, record := range records {
		if record.Live != nil {
			if all, err = s.liveQuestions(ctx, record, all); err != nil {
				return nil, nil, err
			}
			continue
		}
		if record.Lines == 0 { // nothing is asked yet
			continue
		}
		q, err := s.textQuestion(ctx, record)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, q)
	}
	if unread = unread[:min(len(unread), maxUnread)]; len(unread) > 0 {
		s.log.Warn("questions cannot be read: records are damaged", zap.Strings("runs", unread))
	}
	if id != "" && len(all)+len(unread) == 0 {
		return nil, nil, notFound(id)
	}
	slices.SortStableFunc(all, func(a, b api.Question) int { return cmp.Compare(a.Asked, b.Asked) })
	return all, unread, nil
}

// textQuestion is what a request of a file bridge asks.
func (s *Service) textQuestion(ctx context.Context, record *runs.Record) (api.Question, error) {
	q := api.Question{
		Run: record.ID, ID: "q1", Kind: api.KindText, RunTitle: record.Title, Request: record.Labels.Value("request_id"),
		Agent: record.Labels.Value("agent_name"), Phase: record.Labels.Value("phase"),
		Asked: runs.Time(record.StartedAt), Due: runs.Time(record.Due),
	}
	out, _, err := s.table.Output(ctx, record, questionSize)
	if err != nil {
		return q, s.explain("read a question", err)
	}
	if asked, ok := runs.FindQuestion(out.Head); ok {
		q.Prompt, q.Model = asked.Prompt, asked.Model
	}
	return q, nil
}

// RunOfRequest returns the run of a request: one that awaits an answer, or else one
// that ended recently. The id may be a run id. The error is [api.NotFound] if there
// is none.
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
	records, waiting, err := s.table.Waiting(ctx, maxQuestions, ofRequest(id))
	if err != nil {
		return "", s.explain("list questions", err)
	}
	for _, r := range records {
		waiting = append(waiting, r.ID)
	}
	switch len(waiting) {
	case 0:
	case 1:
		return waiting[0], nil
	default:
		return "", &api.Error{Code: api.Conflict, Message: fmt.Sprintf(
			"several runs are of this request, among them %s and %s: name one of them", waiting[0], waiting[1])}
	}
	for _, v := range s.table.Snapshot(maxSearched, asksOutside).Ended {
		if v.Labels.Value("request_id") == id {
			return v.ID, nil
		}
	}
	return "", notFound(id)
}

func asksOutside(r runs.Header) bool { return r.Agent == runs.AgentExternal }
