package responder

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

// Limits of outcomes. One fits into one message of every NATS server that linesman accepts, except
// results with both output and events, or with much output.
const (
	maxWait      = 3600      // seconds
	maxEventPage = 1000      // events
	maxPage      = 100       // runs
	maxOpen      = 1000      // working runs, and queued runs, of an overview
	maxOutput    = 256 << 10 // bytes of output

	// Bytes of output of results. With much of it they do not fit each server.
	minResultOutput = 1 << 10
	maxResultOutput = 1 << 20

	maxPageBytes     = 400 << 10 // of a page, unless a single event takes more
	maxQuestionBytes = 400 << 10
	maxOverviewBytes = 170 << 10 // of each list
)

// Bound is an operation and the function that carries it out.
type Bound struct {
	api.Entry
	New     func() any   // a pointer to an empty request
	Outcome reflect.Type // of what Do returns
	Do      func(ctx context.Context, request any) (outcome any, err error)
}

// bind returns an operation with its function.
func bind[Q, A any](op api.Op[Q, A], do func(context.Context, Q) (A, error)) Bound {
	return Bound{
		api.Entry(op), func() any { return new(Q) }, reflect.TypeFor[A](),
		func(ctx context.Context, q any) (any, error) { return do(ctx, *q.(*Q)) },
	}
}

// Operations returns all operations. Their outcomes are in the limits of NATS.
func (s *Service) Operations() []Bound {
	o := operations{s}
	return []Bound{
		bind(api.OpStatus, o.status), bind(api.OpDescribe, o.describe), bind(api.OpOverview, o.overview),
		bind(api.OpResolve, o.resolve), bind(api.OpSeen, s.Seen), bind(api.OpList, o.list),
		bind(api.OpSessions, s.Sessions),
		bind(api.OpSubmit, o.submit), bind(api.OpSubmitCloud, s.SubmitCloud), bind(api.OpCancel, o.cancel),
		bind(api.OpWait, o.wait), bind(api.OpResults, o.results), bind(api.OpEvents, o.events),
		bind(api.OpDetail, o.detail), bind(api.OpOutput, o.output), bind(api.OpDiff, s.Diff),
		bind(api.OpWaiting, s.Waiting), bind(api.OpAnswer, s.Decide), bind(api.OpRequest, s.Request),
		bind(api.OpAsk, s.Ask), bind(api.OpAnswerLate, s.AnswerLate), bind(api.OpExpire, s.Expire),
		bind(api.OpReply, s.Reply),
		bind(api.OpSend, s.Send), bind(api.OpMessages, o.messages), bind(api.OpEdit, s.Send),
		bind(api.OpUnsend, s.Unsend), bind(api.OpRelease, s.Release), bind(api.OpStop, s.StopTurn), bind(api.OpEnd, s.End),
		bind(api.OpSet, s.SetOptions), bind(api.OpWorkers, o.workers),
		bind(api.OpEnvironments, s.Environments), bind(api.OpForget, s.Forget), bind(api.OpCleanup, o.cleanup),
	}
}

// within refuses a number that is not from 1 to most; 0 is the default.
func within(field string, n, most int64) error {
	if n < 0 || n > most {
		return api.Invalid(field, fmt.Sprintf("must be 1 to %d", most))
	}
	return nil
}

// operations carries out the requests that need more than a call of the service.
type operations struct{ *Service }

func (s operations) status(ctx context.Context, q api.RunRequest) (*api.Run, error) {
	v, err := s.Look(ctx, q.Run)
	if err != nil {
		return nil, err
	}
	return Summarize(v), nil
}

func (s operations) describe(ctx context.Context, q api.RunRequest) (*api.Run, error) {
	v, err := s.Settled(ctx, q.Run)
	if err != nil {
		return nil, err
	}
	return s.described(ctx, v)
}

// described is a run with its details, if it has a record.
func (s operations) described(ctx context.Context, v runs.Header) (*api.Run, error) {
	record, err := s.Record(ctx, v.ID)
	if errors.Is(err, runs.ErrNoRun) { // the record is not written yet
		return Summarize(v), nil
	}
	if err != nil {
		return nil, err
	}
	return Describe(v, record), nil
}

func (s operations) overview(_ context.Context, q api.OverviewRequest) (*api.Overview, error) {
	if err := within("limit", int64(q.Limit), maxPage); err != nil {
		return nil, err
	}
	list := api.List{
		States: q.States, Agent: q.Agent, Dir: q.Dir, Labels: q.Labels, Since: q.Since, Until: q.Until, Unseen: q.Unseen,
	}
	all, err := s.Overview(list, cmp.Or(q.Limit, 10), q.Queue)
	if err != nil {
		return nil, err
	}
	return &api.Overview{
		Working: summarize(all.Working), Queued: summarize(all.Queued), Ended: summarize(all.Ended),
		Counts: api.Counts{Working: len(all.Working), Queued: len(all.Queued), Ended: all.Total},
	}, nil
}

func (s operations) resolve(ctx context.Context, q api.ResolveRequest) (api.Resolved, error) {
	run, err := s.Resolve(ctx, q.Ref)
	return api.Resolved{Run: run}, err
}

// summarize returns as many of the first runs as an overview may have.
func summarize(list []runs.Header) []*api.Run {
	some, size := []*api.Run{}, 0
	for _, v := range list[:min(len(list), maxOpen)] {
		run := Summarize(v)
		b, err := json.Marshal(run)
		if size += len(b); err != nil || size > maxOverviewBytes {
			break
		}
		some = append(some, run)
	}
	return some
}

func (s operations) list(ctx context.Context, q api.List) (p api.RunPage, err error) {
	if err := within("limit", int64(q.Limit), maxPage); err != nil {
		return p, err
	}
	if q.Covers { // before the list, which may have later runs, too
		if p.Covers, err = s.Covers(ctx); err != nil {
			return p, err
		}
	}
	page, err := s.List(q)
	if err != nil {
		return p, err
	}
	p.Runs, p.Next = []*api.Run{}, page.Next
	for _, v := range page.Runs {
		p.Runs = append(p.Runs, Summarize(v))
	}
	return p, nil
}

func (s operations) cancel(ctx context.Context, q api.Cancel) (api.Cancelled, error) {
	const field = "reason"
	unprintable := func(c rune) bool { return unicode.IsControl(c) && c != '\n' && c != '\r' && c != '\t' }
	switch n := len(q.Reason); {
	case n > runs.MaxReason:
		return api.Cancelled{}, api.Invalid(field, fmt.Sprintf("at most %d bytes, got %d", runs.MaxReason, n))
	case n > 0 && strings.TrimSpace(q.Reason) == "":
		return api.Cancelled{}, api.Invalid(field, "must not be blank")
	case strings.ContainsFunc(q.Reason, unprintable):
		return api.Cancelled{}, api.Invalid(field, "must be text without control characters")
	}
	return s.Cancel(ctx, q)
}

func (s operations) wait(ctx context.Context, q api.WaitRequest) (*api.Run, error) {
	if err := within("timeoutSec", q.Timeout, maxWait); err != nil {
		return nil, err
	}
	if !slices.Contains([]string{"", api.UntilEnd, api.UntilTurn, api.UntilInput}, q.Until) {
		return nil, api.Invalid("until", "must be end, turn or input")
	}
	waiting, cancel := context.WithTimeout(ctx, time.Duration(cmp.Or(q.Timeout, 60))*time.Second)
	defer cancel()
	v, err := s.WaitUntil(waiting, q.Run, nil, Reached(q))
	if err != nil && !v.State.Final() {
		return nil, err
	}
	return s.described(ctx, v)
}

func (s operations) results(ctx context.Context, q api.ResultsRequest) (*api.Result, error) {
	if q.MaxBytes != 0 && (q.MaxBytes < minResultOutput || q.MaxBytes > maxResultOutput) {
		return nil, api.Invalid("maxOutputBytes", fmt.Sprintf("must be %d to %d", minResultOutput, maxResultOutput))
	}
	q.Count = true
	r, err := s.Result(ctx, q.Run, q.ResultRequest)
	if err != nil {
		return nil, err
	}
	v := r.Record.Header()
	if now, ok := s.Get(q.Run); ok {
		v.Unseen = now.Unseen
	}
	return &api.Result{
		Run:    Describe(v, r.Record),
		Output: r.Output, Events: r.Events, Partial: r.Partial, Basis: r.Basis,
	}, nil
}

func (s operations) events(ctx context.Context, q api.EventsRequest) (api.EventPage, error) {
	if err := within("limit", int64(q.Limit), maxEventPage); err != nil {
		return api.EventPage{}, err
	}
	if q.Run == "" || q.Agent != "" || len(q.Kinds) > 0 || len(q.Labels) > 0 {
		return s.AllEvents(ctx, q, cmp.Or(q.Limit, 100), maxPageBytes)
	}
	return s.Events(ctx, q.Run, q.After, cmp.Or(q.Limit, 100), maxPageBytes)
}

func (s operations) detail(ctx context.Context, q api.DetailRequest) (api.DetailPage, error) {
	return s.DetailPage(ctx, q, maxPageBytes)
}

func (s operations) output(ctx context.Context, q api.OutputRequest) (api.OutputPart, error) {
	if err := within("limit", int64(q.Limit), maxOutput); err != nil {
		return api.OutputPart{}, err
	}
	if q.Offset < 0 {
		return api.OutputPart{}, api.Invalid("offset", "must not be negative")
	}
	q.Limit = cmp.Or(q.Limit, DefaultOutput)
	return s.Output(ctx, q)
}

// Waiting returns the questions that await an answer, as many as fit into a message.
func (s *Service) Waiting(ctx context.Context, q api.QuestionsRequest) (api.Questions, error) {
	all, unread, err := s.questions(ctx, q.Request)
	if err != nil {
		return api.Questions{}, err
	}
	size := 0
	for i, one := range all {
		if size += len(runs.Encode(one)); size > maxQuestionBytes && i > 0 {
			return api.Questions{Requests: all[:i], Unlisted: len(all) - i, Unread: unread}, nil
		}
	}
	return api.Questions{Requests: all, Unread: unread}, nil
}

// messages leaves out texts that do not fit into a message.
func (s operations) messages(ctx context.Context, q api.RunRequest) (api.Messages, error) {
	all, err := s.Messages(ctx, q)
	size := 0
	for i := range all.Messages {
		m := &all.Messages[i]
		n := len(runs.Encode(m.Text))
		if size+n > maxPageBytes && i > 0 {
			m.Text, m.Bytes, n = "", len(m.Text), 0
		}
		size += n
	}
	return all, err
}

// submit refuses labels that are reserved for linesman. Its errors quote none.
func (s operations) submit(ctx context.Context, q api.Submission) (api.Submitted, error) {
	if err := CheckLabels(q.Labels); err != nil {
		return api.Submitted{}, cmp.Or(s.checkCapabilities(q), err)
	}
	return s.Submit(ctx, q)
}

func (s operations) cleanup(ctx context.Context, q api.CleanupRequest) (api.CleanedUp, error) {
	return s.Cleanup(ctx, api.Cleanup{
		Stuck: time.Duration(cmp.Or(q.StuckSec, 3600)) * time.Second, Old: time.Duration(cmp.Or(q.OldHours, 24)) * time.Hour,
		DryRun: q.DryRun,
	})
}

// Decide answers a question of any kind.
func (s *Service) Decide(ctx context.Context, q api.AnswerRequest) (api.Answered, error) {
	if q.Request == "" {
		return api.Answered{}, api.Invalid("request", "is required")
	}
	run, err := s.RunOfRequest(ctx, q.Request)
	if err != nil {
		return api.Answered{}, err
	}
	record, err := s.table.Record(ctx, run)
	switch {
	case err != nil && !errors.Is(err, runs.ErrNoRun):
		return api.Answered{}, s.explain("read a record", err)
	case err == nil && record.Live != nil:
		if q.Text != nil || q.Error != nil {
			return api.Answered{}, api.Invalid("option", "or content is required: the question is no text")
		}
		return s.decide(ctx, record, q)
	case q.Option != "" || q.Content != nil || q.Question != "" && q.Question != "q1":
		if err == nil && record.State.Final() {
			return api.Answered{}, ended(run, record.State)
		}
		if err != nil || record.Agent != runs.AgentExternal {
			return api.Answered{}, &api.Error{Code: api.NotWaiting, Field: api.FieldRun, Run: run,
				Message: "the run has no open question"}
		}
		return api.Answered{}, api.Invalid("text", "or error is required: the question is a text")
	case (q.Text == nil) == (q.Error == nil):
		return api.Answered{}, api.Invalid("text", "or error is required, and not both")
	}
	reply := runs.Reply{Status: runs.ReplySuccess}
	if q.Error != nil {
		reply.Status, reply.Error = runs.ReplyError, *q.Error
	} else {
		reply.Text = *q.Text
	}
	return s.answer(ctx, run, reply, false)
}

func (s operations) workers(context.Context, api.Nothing) (api.Workers, error) {
	return s.Workers(), nil
}
