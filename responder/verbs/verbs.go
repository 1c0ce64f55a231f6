// Package verbs is the service by request and reply: for each verb a request of
// package api as JSON, and an outcome of package api as JSON. It reads strictly:
// a field that the request does not have is a mistake, not a wish that is
// ignored. It knows no transport.
//
//	body ──▶ read ──▶ responder.Service ──▶ outcome, or *api.Error
package verbs

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/runs"
)

// Limits of requests and outcomes. An outcome fits one message of every server
// that linesman takes but for results with both output
// and events.
const (
	MaxRequest = 1 << 20   // bytes
	MaxWait    = 3600      // seconds
	MaxEvents  = 1000      // of a page
	MaxPage    = 100       // runs
	MaxOutput  = 256 << 10 // bytes of output

	maxEventBytes    = 400 << 10 // of a page, unless a single event takes more
	maxQuestionBytes = 400 << 10
)

// Verb is one operation.
type Verb struct {
	Name  string
	About string // what it does, for people

	// Do carries out a request. The error is an [*api.Error].
	Do func(ctx context.Context, s *responder.Service, body []byte) (any, error)

	// Quick is Do for what is answered from memory alone, nil for other verbs.
	// It reports false where there is more to do; then nothing was done.
	Quick func(s *responder.Service, body []byte) (any, bool)
}

// All returns the verbs.
func All() []Verb {
	status := verb("status", "State of a run, from memory", status)
	status.Quick = quickStatus
	return []Verb{
		status,
		verb("describe", "State of a run, with the details of its record", describe),
		verb("list", "Page of runs, the newest first", list),
		verb("submit", "Queue a task", submit),
		verb("submit_cloud", "Submit a task to Codex Cloud", (*responder.Service).SubmitCloud),
		verb("cancel", "End a run", (*responder.Service).Cancel),
		verb("wait", "Wait for the end of a run", wait),
		verb("results", "What came of a run", results),
		verb("events", "Page of the events of a run", events),
		verb("output", "Part of what the agent of a run printed", output),
		verb("waiting", "Runs that wait for an answer from outside", waiting),
		verb("answer", "Answer a run that waits", answer),
		verb("workers", "Workers that take tasks", workers),
		verb("environments", "Environments of Codex Cloud that a local file names", environments),
		verb("forget", "Erase a run that has ended", forget),
		verb("cleanup", "End stuck runs and remove old ones", cleanup),
	}
}

// verb makes a verb of a function from a request to an outcome.
func verb[Q, A any](name, about string, do func(*responder.Service, context.Context, Q) (A, error)) Verb {
	return Verb{Name: name, About: about, Do: func(ctx context.Context, s *responder.Service, body []byte) (any, error) {
		q, err := read[Q](body)
		if err != nil {
			return nil, err
		}
		if c, ok := any(q).(interface{ Check() error }); ok {
			if err := c.Check(); err != nil {
				return nil, err
			}
		}
		if err := s.Ready(ctx); err != nil {
			return nil, err
		}
		return do(s, ctx, q)
	}}
}

// read decodes a request; no bytes are an empty one.
func read[Q any](body []byte) (q Q, err error) {
	wrong := func(field, problem string) error { return api.Invalid(field, problem) }
	switch {
	case len(body) > MaxRequest:
		return q, wrong("request", "at most "+strconv.Itoa(MaxRequest)+" bytes")
	case len(bytes.TrimSpace(body)) == 0:
		return q, nil
	case !utf8.Valid(body):
		return q, wrong("request", "must be UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	err = d.Decode(&q)
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &kind) && kind.Field != "":
		return q, wrong(kind.Field, "must be of type "+kind.Type.String())
	case err != nil:
		return q, wrong("request", "must be a JSON object with the fields of this request and no others")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return q, wrong("request", "must be one JSON object")
	}
	return q, nil
}

func status(s *responder.Service, ctx context.Context, q api.RunRequest) (*api.Run, error) {
	v, err := s.Look(ctx, q.Run)
	if err != nil {
		return nil, err
	}
	return responder.Summarize(v), nil
}

func quickStatus(s *responder.Service, body []byte) (any, bool) {
	q, err := read[api.RunRequest](body)
	if err != nil {
		return nil, false
	}
	v, ok := s.Get(q.Run)
	if !ok {
		return nil, false
	}
	return responder.Summarize(v), true
}

func describe(s *responder.Service, ctx context.Context, q api.RunRequest) (*api.Run, error) {
	v, err := s.Look(ctx, q.Run)
	if err != nil {
		return nil, err
	}
	return described(ctx, s, v)
}

// described is a run with its details, as far as there is a record.
func described(ctx context.Context, s *responder.Service, v responder.View) (*api.Run, error) {
	record, err := s.Record(ctx, v.ID)
	if errors.Is(err, runs.ErrNoRun) { // it is not made yet
		return responder.Summarize(v), nil
	}
	if err != nil {
		return nil, err
	}
	return responder.Describe(v, record), nil
}

func list(s *responder.Service, _ context.Context, q api.List) (*api.RunPage, error) {
	if q.Limit < 0 || q.Limit > MaxPage {
		return nil, api.Invalid("limit", "must be 1 to "+strconv.Itoa(MaxPage))
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

func wait(s *responder.Service, ctx context.Context, q api.WaitRequest) (*api.Run, error) {
	if q.Timeout < 0 || q.Timeout > MaxWait {
		return nil, api.Invalid("timeoutSec", "must be 1 to "+strconv.Itoa(MaxWait))
	}
	timeout := time.Minute
	if q.Timeout > 0 {
		timeout = time.Duration(q.Timeout) * time.Second
	}
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	v, err := s.Wait(waiting, q.Run, nil)
	if err != nil && !v.State.Final() {
		return nil, err
	}
	return described(ctx, s, v)
}

func results(s *responder.Service, ctx context.Context, q api.ResultsRequest) (*api.Result, error) {
	if q.MaxBytes < 0 || q.MaxBytes > MaxOutput {
		return nil, api.Invalid("maxOutputBytes", "must be 1 to "+strconv.Itoa(MaxOutput))
	}
	q.Count = true
	r, err := s.Result(ctx, q.Run, q.ResultRequest)
	if err != nil {
		return nil, err
	}
	return &api.Result{
		Run:    responder.Describe(responder.View{Row: r.Record.Row()}, r.Record),
		Output: r.Output, Events: r.Events, Partial: r.Partial, Basis: r.Basis,
	}, nil
}

func events(s *responder.Service, ctx context.Context, q api.EventsRequest) (api.EventPage, error) {
	if q.Limit < 0 || q.Limit > MaxEvents {
		return api.EventPage{}, api.Invalid("limit", "must be 1 to "+strconv.Itoa(MaxEvents))
	}
	if q.Limit == 0 {
		q.Limit = 100
	}
	return s.Events(ctx, q.Run, q.After, q.Limit, maxEventBytes)
}

func output(s *responder.Service, ctx context.Context, q api.OutputRequest) (api.OutputPart, error) {
	switch {
	case q.Limit < 0 || q.Limit > MaxOutput:
		return api.OutputPart{}, api.Invalid("limit", "must be 1 to "+strconv.Itoa(MaxOutput))
	case q.Offset < 0:
		return api.OutputPart{}, api.Invalid("offset", "must not be negative")
	case q.Limit == 0:
		q.Limit = responder.DefaultOutput
	}
	return s.Output(ctx, q)
}

func waiting(s *responder.Service, ctx context.Context, q api.QuestionsRequest) (api.Questions, error) {
	all, err := s.Questions(ctx, q.Request)
	if err != nil {
		return api.Questions{}, err
	}
	size := 0
	for i, one := range all {
		if size += 6*len(one.Prompt) + 1024; size > maxQuestionBytes && i > 0 { // as JSON at most
			return api.Questions{Requests: all[:i], Unlisted: len(all) - i}, nil
		}
	}
	return api.Questions{Requests: all}, nil
}

// submit refuses labels that are linesman's own, and quotes none.
func submit(s *responder.Service, ctx context.Context, q api.Submission) (api.Submitted, error) {
	for name := range q.Labels {
		if strings.HasPrefix(name, "linesman.") {
			return api.Submitted{}, api.Invalid(api.FieldLabels, "names that begin with linesman. are reserved")
		}
	}
	if runs.CheckLabels(q.Labels) != nil {
		return api.Submitted{}, api.Invalid(api.FieldLabels, "must be few and short: see the limits of labels")
	}
	return s.Submit(ctx, q)
}

func cleanup(s *responder.Service, ctx context.Context, q api.CleanupRequest) (api.CleanedUp, error) {
	return s.Cleanup(ctx, api.Cleanup{
		Stuck: time.Duration(cmp.Or(q.StuckSec, 3600)) * time.Second, Old: time.Duration(cmp.Or(q.OldHours, 24)) * time.Hour,
		DryRun: q.DryRun,
	})
}

func answer(s *responder.Service, ctx context.Context, q api.AnswerRequest) (api.Answered, error) {
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

func workers(s *responder.Service, _ context.Context, _ api.Nothing) (api.Workers, error) {
	return api.Workers{Workers: s.Workers()}, nil
}

func environments(s *responder.Service, _ context.Context, _ api.Nothing) (api.Environments, error) {
	return s.Environments()
}

func forget(s *responder.Service, ctx context.Context, q api.RunRequest) (runs.Forgotten, error) {
	return s.Forget(ctx, q.Run)
}
