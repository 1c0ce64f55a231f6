// Package verbs offers the service as verbs: each takes a request of package api
// as JSON and returns an outcome of package api as JSON. Decoding is strict: an
// unknown field is an error. The package knows no transport.
//
//	body ──▶ read ──▶ responder.Service ──▶ outcome, or *api.Error
package verbs

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/runs"
)

// Limits of requests and outcomes. An outcome fits into one message of every
// server that linesman accepts, except results with both output and events, or
// with much output.
const (
	MaxRequest = 1 << 20   // bytes
	maxWait    = 3600      // seconds
	maxEvents  = 1000      // of a page
	maxPage    = 100       // runs
	maxOpen    = 1000      // working runs, and queued runs, of an overview
	maxOutput  = 256 << 10 // bytes of output

	// Bytes of output of results. With much of it they do not fit each server.
	minResultOutput = 1 << 10
	maxResultOutput = 1 << 20

	maxEventBytes    = 400 << 10 // of a page, unless a single event takes more
	maxQuestionBytes = 400 << 10
	maxOverviewBytes = 170 << 10 // of each list
)

// Verb is one operation.
type Verb struct {
	Name  string
	About string // what it does, for people

	// Do carries out a request. The error is an [*api.Error].
	Do func(ctx context.Context, s *responder.Service, body []byte) (any, error)

	// Quick is Do for requests that memory alone can answer, nil for other
	// verbs. It reports false, and does nothing, if that is not enough.
	Quick func(s *responder.Service, body []byte) (any, bool)
}

// All returns the verbs.
func All() []Verb {
	status := verb("status", "State of a run, from memory", status)
	status.Quick = quickStatus
	return []Verb{
		status,
		verb("describe", "State of a run, with the details of its record", describe),
		verb("overview", "Runs that work, that wait and that ended last", overview),
		verb("list", "Page of runs, the newest first", list),
		verb("submit", "Queue a task", submit),
		verb("submit_cloud", "Submit a task to Codex Cloud", (*responder.Service).SubmitCloud),
		verb("cancel", "End a run", cancel),
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

// read decodes a request. No bytes are an empty request.
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

// described is a run with its details, if it has a record.
func described(ctx context.Context, s *responder.Service, v responder.View) (*api.Run, error) {
	record, err := s.Record(ctx, v.ID)
	if errors.Is(err, runs.ErrNoRun) { // the record is not written yet
		return responder.Summarize(v), nil
	}
	if err != nil {
		return nil, err
	}
	return responder.Describe(v, record), nil
}

func overview(s *responder.Service, _ context.Context, q api.OverviewRequest) (*api.Overview, error) {
	switch {
	case q.Limit < 0 || q.Limit > maxPage:
		return nil, api.Invalid("limit", "must be 1 to "+strconv.Itoa(maxPage))
	case q.Limit == 0:
		q.Limit = 10
	}
	all := s.Snapshot(q.Limit, func(r runs.Row) bool {
		return !responder.IsCloud(r) && (!q.Queue || r.Source == "queue")
	})
	return &api.Overview{
		Working: summarize(all.Working), Queued: summarize(all.Queued), Ended: summarize(all.Ended),
		Counts: api.Counts{Working: len(all.Working), Queued: len(all.Queued), Ended: all.Total},
	}, nil
}

// summarize returns as many of the first runs as an overview may have.
func summarize(list []responder.View) []*api.Run {
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

func list(s *responder.Service, _ context.Context, q api.List) (*api.RunPage, error) {
	if q.Limit < 0 || q.Limit > maxPage {
		return nil, api.Invalid("limit", "must be 1 to "+strconv.Itoa(maxPage))
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

func cancel(s *responder.Service, ctx context.Context, q api.Cancel) (api.Cancelled, error) {
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

func wait(s *responder.Service, ctx context.Context, q api.WaitRequest) (*api.Run, error) {
	if q.Timeout < 0 || q.Timeout > maxWait {
		return nil, api.Invalid("timeoutSec", "must be 1 to "+strconv.Itoa(maxWait))
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
	if q.MaxBytes != 0 && (q.MaxBytes < minResultOutput || q.MaxBytes > maxResultOutput) {
		return nil, api.Invalid("maxOutputBytes", fmt.Sprintf("must be %d to %d", minResultOutput, maxResultOutput))
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
	if q.Limit < 0 || q.Limit > maxEvents {
		return api.EventPage{}, api.Invalid("limit", "must be 1 to "+strconv.Itoa(maxEvents))
	}
	if q.Limit == 0 {
		q.Limit = 100
	}
	return s.Events(ctx, q.Run, q.After, q.Limit, maxEventBytes)
}

func output(s *responder.Service, ctx context.Context, q api.OutputRequest) (api.OutputPart, error) {
	switch {
	case q.Limit < 0 || q.Limit > maxOutput:
		return api.OutputPart{}, api.Invalid("limit", "must be 1 to "+strconv.Itoa(maxOutput))
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
		if size += 6*len(one.Prompt) + 1024; size > maxQuestionBytes && i > 0 { // the longest possible JSON
			return api.Questions{Requests: all[:i], Unlisted: len(all) - i}, nil
		}
	}
	return api.Questions{Requests: all}, nil
}

// submit refuses labels that are reserved for linesman. Its errors quote none.
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
