package natsapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	strict "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/runs"
)

// Limits of requests and outcomes. An outcome fits into one message of every
// server that linesman accepts, except results with both output and events, or
// with much output.
const (
	maxRequest = 1 << 20 // bytes
	// maxSubmission is the same of a task: its prompt may take six times its size in JSON.
	maxSubmission = 8 << 20
	maxWait       = 3600      // seconds
	maxEvents     = 1000      // of a page
	maxPage       = 100       // runs
	maxOpen       = 1000      // working runs, and queued runs, of an overview
	maxOutput     = 256 << 10 // bytes of output

	// Bytes of output of results. With much of it they do not fit each server.
	minResultOutput = 1 << 10
	maxResultOutput = 1 << 20

	maxEventBytes    = 400 << 10 // of a page, unless a single event takes more
	maxQuestionBytes = 400 << 10
	maxOverviewBytes = 170 << 10 // of each list
)

// VerbEndpoints are the endpoints of the service: each takes a request of package
// api as JSON, and answers with an outcome of package api, or an [api.Error], as
// JSON. Decoding is strict: an unknown field is an error.
func VerbEndpoints(s *responder.Service) []Endpoint {
	v := verbs{s}
	return []Endpoint{
		verb(s, "status", "State of a run, from memory", v.status),
		verb(s, "describe", "State of a run, with the details of its record", v.describe),
		verb(s, "overview", "Runs that work, that wait and that ended last", v.overview),
		verb(s, "resolve", "Id of the run that a reference names", v.resolve),
		verb(s, "seen", "Mark a run that has ended as opened by its owner", v.seen),
		verb(s, "list", "Page of runs, the newest first", v.list),
		verb(s, "submit", "Queue a task", v.submit),
		verb(s, "submit_cloud", "Submit a task to Codex Cloud", s.SubmitCloud),
		verb(s, "cancel", "End a run", v.cancel),
		verb(s, "wait", "Wait for the end of a run", v.wait),
		verb(s, "results", "What came of a run", v.results),
		verb(s, "events", "Page of the events of a run, or of all runs", v.events),
		verb(s, "detail", "Page of what the events of a run omit", v.detail),
		verb(s, "output", "Part of what the agent of a run printed", v.output),
		verb(s, "diff", "What a run changed in its directory",
			func(ctx context.Context, q api.RunRequest) (*api.Diff, error) { return s.Diff(ctx, q.Run) }),
		verb(s, "waiting", "Runs that wait for an answer from outside", v.waiting),
		verb(s, "answer", "Answer a run that waits", v.answer),
		verb(s, "workers", "Workers that take tasks", func(context.Context, api.Nothing) (api.Workers, error) {
			return s.Workers(), nil
		}),
		verb(s, "environments", "Environments of Codex Cloud that a local file names",
			func(context.Context, api.Nothing) (api.Environments, error) { return s.Environments() }),
		verb(s, "forget", "Erase a run that has ended", func(ctx context.Context, q api.RunRequest) (runs.Forgotten, error) {
			return s.Forget(ctx, q.Run)
		}),
		verb(s, "cleanup", "End stuck runs and remove old ones", v.cleanup),
	}
}

// verb makes an endpoint of a function from a request to an outcome.
func verb[Q, A any](s *responder.Service, name, about string, do func(context.Context, Q) (A, error)) Endpoint {
	return Endpoint{
		Name: name, Metadata: map[string]string{"description": about}, Refuse: refusal,
		Do: func(ctx context.Context, body []byte) Answer {
			q, err := read[Q](body)
			if c, ok := any(q).(interface{ Check() error }); ok && err == nil {
				err = c.Check()
			}
			if err == nil {
				err = s.Ready(ctx)
			}
			if err != nil {
				return answerOf(nil, err)
			}
			return answerOf(do(ctx, q))
		},
	}
}

// refusal is the error of a verb that was not carried out, or whose outcome
// does not fit into a message.
func refusal(code int, text string) []byte {
	e := &api.Error{Code: api.TooMany, Message: text, Retryable: true}
	if code == http.StatusRequestEntityTooLarge {
		e = api.Invalid("limit", "the answer is larger than a message may be: ask for less")
	}
	return answerOf(nil, e).Body
}

// answerOf is the answer of a verb.
func answerOf(outcome any, err error) Answer {
	var e *api.Error
	switch {
	case err == nil:
		if body, err := bounds.Encode(outcome); err == nil {
			return Answer{Body: body}
		}
		e = &api.Error{Code: api.Internal, Message: "the answer cannot be encoded"}
	case !errors.As(err, &e): // breaks the contract, so its text is not shown
		e = &api.Error{Code: api.Internal, Message: "internal error; see linesman's log"}
	}
	body, err := bounds.Encode(e)
	if err != nil { // strings and numbers
		panic("natsapi: encode an error: " + err.Error())
	}
	return Answer{body, status[e.Code], string(e.Code) + ": " + line(e.Error())}
}

// status is the HTTP status of a code of package api.
var status = map[api.Code]int{
	api.Validation: http.StatusBadRequest, api.NotFound: http.StatusNotFound, api.Ended: http.StatusConflict,
	api.NotEnded: http.StatusConflict, api.NotWaiting: http.StatusConflict, api.Conflict: http.StatusConflict,
	api.Timeout: http.StatusRequestTimeout, api.Unsupported: http.StatusNotImplemented,
	api.ProgramFailed: http.StatusBadGateway,
	api.NotSignedIn:   http.StatusBadGateway, api.QueueFull: http.StatusServiceUnavailable,
	api.TooMany:     http.StatusServiceUnavailable,
	api.KeyConflict: http.StatusConflict, api.KeyInFlight: http.StatusConflict, api.KeyExpired: http.StatusGone,
	api.RateLimited: http.StatusTooManyRequests, api.OutcomeUnknown: http.StatusInternalServerError,
	api.Unavailable: http.StatusServiceUnavailable, api.Internal: http.StatusInternalServerError,
}

// read decodes a request. No bytes are an empty request.
func read[Q any](body []byte) (q Q, err error) {
	limit := maxRequest
	if _, task := any(q).(api.Submission); task {
		limit = maxSubmission
	}
	switch {
	case len(body) > limit:
		return q, api.Invalid("request", fmt.Sprintf("at most %d bytes", limit))
	case len(bytes.TrimSpace(body)) == 0:
		return q, nil
	case !utf8.Valid(body):
		return q, api.Invalid("request", "must be UTF-8")
	}
	err = strict.Unmarshal(body, &q, strict.RejectUnknownMembers(true))
	var mistake *strict.SemanticError
	switch {
	case err == nil:
		return q, nil
	case errors.Is(err, jsontext.ErrDuplicateName): // other readers of the same JSON may use another one of the values
		return q, api.Invalid("request", "must not have a name twice in an object")
	case errors.As(err, &mistake) && mistake.GoType != nil && mistake.JSONPointer != "" &&
		!errors.Is(err, strict.ErrUnknownName):
		return q, api.Invalid(fieldOf(reflect.TypeFor[Q](), mistake.JSONPointer), "must be of type "+mistake.GoType.String())
	}
	return q, api.Invalid("request", "must be a JSON object with the fields of this request and no others")
}

// fieldOf is the name of a field of a request, with dots between those of nested objects. It has
// no names that the caller chose, such as those of labels.
func fieldOf(t reflect.Type, at jsontext.Pointer) string {
	var names []string
	for token := range at.Tokens() {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		switch t.Kind() {
		case reflect.Slice:
			t = t.Elem()
			continue
		case reflect.Struct:
			for _, f := range reflect.VisibleFields(t) {
				if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name == token {
					names = append(names, token)
					t = f.Type
					break
				}
			}
		}
	}
	return strings.Join(names, ".")
}

// within refuses a number that is not from 1 to most; 0 is the default.
func within(field string, n, most int64) error {
	if n < 0 || n > most {
		return api.Invalid(field, fmt.Sprintf("must be 1 to %d", most))
	}
	return nil
}

// verbs carries out the requests that need more than one call of the service.
type verbs struct{ *responder.Service }

func (s verbs) status(ctx context.Context, q api.RunRequest) (*api.Run, error) {
	v, err := s.Look(ctx, q.Run)
	if err != nil {
		return nil, err
	}
	return responder.Summarize(v), nil
}

func (s verbs) describe(ctx context.Context, q api.RunRequest) (*api.Run, error) {
	v, err := s.Settled(ctx, q.Run)
	if err != nil {
		return nil, err
	}
	return s.described(ctx, v)
}

// described is a run with its details, if it has a record.
func (s verbs) described(ctx context.Context, v runs.Header) (*api.Run, error) {
	record, err := s.Record(ctx, v.ID)
	if errors.Is(err, runs.ErrNoRun) { // the record is not written yet
		return responder.Summarize(v), nil
	}
	if err != nil {
		return nil, err
	}
	return responder.Describe(v, record), nil
}

func (s verbs) overview(_ context.Context, q api.OverviewRequest) (*api.Overview, error) {
	if err := within("limit", int64(q.Limit), maxPage); err != nil {
		return nil, err
	}
	keep, err := s.Filter(api.List{
		States: q.States, Agent: q.Agent, Dir: q.Dir, Labels: q.Labels, Since: q.Since, Until: q.Until, Unseen: q.Unseen,
	})
	if err != nil {
		return nil, err
	}
	all := s.Snapshot(cmp.Or(q.Limit, 10), func(r runs.Header) bool {
		return !responder.IsCloud(r) && (!q.Queue || r.Source == "queue") && keep(r)
	})
	return &api.Overview{
		Working: summarize(all.Working), Queued: summarize(all.Queued), Ended: summarize(all.Ended),
		Counts: api.Counts{Working: len(all.Working), Queued: len(all.Queued), Ended: all.Total},
	}, nil
}

func (s verbs) resolve(ctx context.Context, q api.ResolveRequest) (api.Resolved, error) {
	run, err := s.Resolve(ctx, q.Ref)
	return api.Resolved{Run: run}, err
}

func (s verbs) seen(ctx context.Context, q api.RunRequest) (api.Seen, error) {
	return s.Seen(ctx, q.Run)
}

// summarize returns as many of the first runs as an overview may have.
func summarize(list []runs.Header) []*api.Run {
	some, size := []*api.Run{}, 0
	for _, v := range list[:min(len(list), maxOpen)] {
		run := responder.Summarize(v)
		b, err := json.Marshal(run)
		if size += len(b); err != nil || size > maxOverviewBytes {
			break
		}
		some = append(some, run)
	}
	return some
}

func (s verbs) list(_ context.Context, q api.List) (*api.RunPage, error) {
	if err := within("limit", int64(q.Limit), maxPage); err != nil {
		return nil, err
	}
	page, err := s.List(q)
	if err != nil {
		return nil, err
	}
	answer := &api.RunPage{Runs: []*api.Run{}, Next: page.Next}
	for _, v := range page.Runs {
		answer.Runs = append(answer.Runs, responder.Summarize(v))
	}
	return answer, nil
}

func (s verbs) cancel(ctx context.Context, q api.Cancel) (api.Cancelled, error) {
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

func (s verbs) wait(ctx context.Context, q api.WaitRequest) (*api.Run, error) {
	if err := within("timeoutSec", q.Timeout, maxWait); err != nil {
		return nil, err
	}
	waiting, cancel := context.WithTimeout(ctx, time.Duration(cmp.Or(q.Timeout, 60))*time.Second)
	defer cancel()
	v, err := s.Wait(waiting, q.Run, nil)
	if err != nil && !v.State.Final() {
		return nil, err
	}
	return s.described(ctx, v)
}

func (s verbs) results(ctx context.Context, q api.ResultsRequest) (*api.Result, error) {
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
		Run:    responder.Describe(v, r.Record),
		Output: r.Output, Events: r.Events, Partial: r.Partial, Basis: r.Basis,
	}, nil
}

func (s verbs) events(ctx context.Context, q api.EventsRequest) (api.EventPage, error) {
	if err := within("limit", int64(q.Limit), maxEvents); err != nil {
		return api.EventPage{}, err
	}
	if q.Run == "" || q.Agent != "" || len(q.Kinds) > 0 || len(q.Labels) > 0 {
		return s.AllEvents(ctx, q, cmp.Or(q.Limit, 100), maxEventBytes)
	}
	return s.Events(ctx, q.Run, q.After, cmp.Or(q.Limit, 100), maxEventBytes)
}

func (s verbs) detail(ctx context.Context, q api.DetailRequest) (api.DetailPage, error) {
	return s.DetailPage(ctx, q, maxEventBytes)
}

func (s verbs) output(ctx context.Context, q api.OutputRequest) (api.OutputPart, error) {
	if err := within("limit", int64(q.Limit), maxOutput); err != nil {
		return api.OutputPart{}, err
	}
	if q.Offset < 0 {
		return api.OutputPart{}, api.Invalid("offset", "must not be negative")
	}
	q.Limit = cmp.Or(q.Limit, responder.DefaultOutput)
	return s.Output(ctx, q)
}

func (s verbs) waiting(ctx context.Context, q api.QuestionsRequest) (api.Questions, error) {
	all, err := s.Questions(ctx, q.Request)
	if err != nil {
		return api.Questions{}, err
	}
	size := 0
	for i, one := range all {
		if size += 6*len(one.Prompt) + 1024; size > maxQuestionBytes && i > 0 { // the longest possible JSON
			return api.Questions{Requests: all[:i], Unlisted: len(all) - i}, nil
		}
	}
	return api.Questions{Requests: all}, nil
}

// submit refuses labels that are reserved for linesman. Its errors quote none.
func (s verbs) submit(ctx context.Context, q api.Submission) (api.Submitted, error) {
	if err := responder.CheckLabels(q.Labels); err != nil {
		return api.Submitted{}, err
	}
	return s.Submit(ctx, q)
}

func (s verbs) cleanup(ctx context.Context, q api.CleanupRequest) (api.CleanedUp, error) {
	return s.Cleanup(ctx, api.Cleanup{
		Stuck: time.Duration(cmp.Or(q.StuckSec, 3600)) * time.Second, Old: time.Duration(cmp.Or(q.OldHours, 24)) * time.Hour,
		DryRun: q.DryRun,
	})
}

func (s verbs) answer(ctx context.Context, q api.AnswerRequest) (api.Answered, error) {
	switch {
	case q.Request == "":
		return api.Answered{}, api.Invalid("request", "is required")
	case (q.Text == nil) == (q.Error == nil):
		return api.Answered{}, api.Invalid("text", "or error is required, and not both")
	}
	reply := runs.Reply{Status: runs.ReplySuccess}
	if q.Error != nil {
		reply.Status, reply.Error = runs.ReplyError, *q.Error
	} else {
		reply.Text = *q.Text
	}
	run, err := s.RunOfRequest(ctx, q.Request)
	if err != nil {
		return api.Answered{}, err
	}
	return s.Answer(ctx, run, reply, false)
}
