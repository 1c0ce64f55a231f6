// Package rest is the HTTP API below /v1: runs as resources, in plain JSON. It
// owns their paths, names and status codes; what they say comes from the
// responder, and so from the streams. What begins, ends or goes on with a run
// is asked of the tools, so that all surfaces take and refuse the same.
//
//	request ──▶ query, body ──▶ Responder, Streams, Tools ──▶ Answer ──▶ JSON, problem details,
//	            (400, 406, …)                                            AdCP envelope
//	                                    events, output ──▶ written as they are
//
// The one rule: openapi.json comes first, and every answer is one that it
// describes. Tokens and their scopes are checked before, by the HTTP server.
package rest

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/delegator"
	"github.com/linesman/linesman/runs"
)

// Document is the OpenAPI 3.1 description of what this package serves.
//
//go:embed openapi.json
var Document []byte

// Limits of requests and answers.
const (
	MaxBody   = 1 << 20 // bytes of a request's body
	MaxPage   = 100     // runs
	MaxEvents = 1000    // of a page
	MaxOutput = 1 << 20 // bytes of output of an answer
	MaxWait   = time.Hour
	MaxHeld   = 256 // event streams and waits at a time; one more is refused with 503

	maxQuery      = 8 << 10 // bytes
	maxEventBytes = 4 << 20 // of a page of events, unless one alone takes more
	writeTime     = 30 * time.Second
	askTime       = 30 * time.Second // for the streams to answer
)

// Streams is what is read of the bus beyond what a responder reads.
type Streams interface {
	// EventsAfter calls each with the events of a run behind a sequence, the
	// completion being one; with follow also with those that come, until ctx ends.
	EventsAfter(ctx context.Context, agent, run string, after uint64, follow bool, each func(seq uint64, token string, body []byte) error) error
	// EventsEnd returns the sequence of a run's completion, 0 without one, and
	// the last one that the stream has given.
	EventsEnd(ctx context.Context, agent, run string) (completion, last uint64, err error)
	// OutputAt reads a run's output from an offset on, or from the next byte
	// that is there, at, on.
	OutputAt(ctx context.Context, agent, run string, kind runs.Kind, offset int64, most int) (at int64, data []byte, err error)
}

// Tools is what begins and ends runs; see [delegator.Delegator.Call].
type Tools interface {
	Call(ctx context.Context, tool string, args json.RawMessage, progress func(delegator.Progress)) (delegator.Answer, error)
}

// Config is what an [API] needs.
type Config struct {
	Responder *responder.Responder
	Streams   Streams
	Tools     Tools
	Away      func() bool        // whether NATS is away; nil: nobody knows
	Why       func(error) string // what kept the streams from answering, as in [delegator.Config]; nil: nothing is known
	Patience  time.Duration      // to wait for the run table after the responder's start; default 10 s
	Beat      time.Duration      // between comments in a silent stream of events; default 15 s
	Held      int                // instead of MaxHeld, unless it is 0
	Log       *zap.Logger        // default: none
}

// API answers requests.
type API struct {
	Config
	log  *zap.Logger
	held *responder.Slots // one for each stream and wait
}

// New returns an API that answers once the responder is at work.
func New(c Config) *API {
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	if c.Patience == 0 {
		c.Patience = 10 * time.Second
	}
	if c.Beat == 0 {
		c.Beat = 15 * time.Second
	}
	if c.Held == 0 {
		c.Held = MaxHeld
	}
	return &API{Config: c, log: c.Log.Named("rest"), held: responder.NewSlots(c.Held)}
}

// Route is one operation of the API.
type Route struct {
	Pattern string // of [http.ServeMux]
	Scope   string // read, submit or raw
	Handler http.Handler
}

// Routes are all of them.
func (a *API) Routes() []Route {
	return []Route{
		a.route("GET /v1/openapi.json", "describe", "read", nil, describe),
		a.route("GET /v1/runs", "listRuns", "read", []string{"state", "agent", "workingDir", "threadId", "limit", "cursor"}, listRuns),
		a.route("POST /v1/runs", "submitRun", "submit", nil, submitRun),
		a.route("GET /v1/runs/{id}", "getRun", "read", nil, getRun),
		a.route("GET /v1/runs/{id}/events", "getEvents", "read", []string{"after", "limit"}, getEvents),
		a.route("GET /v1/runs/{id}/output", "getOutput", "raw", []string{"stream", "offset", "limit"}, getOutput),
		a.route("GET /v1/runs/{id}/wait", "waitForRun", "read", []string{"timeout"}, waitForRun),
		a.route("POST /v1/runs/{id}/cancel", "cancelRun", "submit", nil, cancelRun),
		a.route("POST /v1/runs/{id}/resume", "resumeRun", "submit", nil, resumeRun),
		a.route("GET /v1/workers", "listWorkers", "read", nil, listWorkers),
	}
}

// request is one that is being answered.
type request struct {
	*API
	w         http.ResponseWriter
	r         *http.Request
	operation string
	query     *query
	form      string          // of the answer: jsonType or adcpType
	stream    bool            // server-sent events are wanted
	body      json.RawMessage // of a POST
	key       string          // of a POST, from the header Idempotency-Key
}

// route makes a handler of a function that returns an answer, or nil where it
// has written one itself.
func (a *API) route(pattern, operation, scope string, query []string, answer func(*request) (*Answer, error)) Route {
	return Route{pattern, scope, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := &request{API: a, w: w, r: r, operation: operation}
		got, err := q.answer(query, answer)
		if err != nil {
			problem := q.explain(err)
			got = &Answer{Status: problem.Status, Problem: problem}
		}
		if got != nil {
			q.write(got)
		}
	})}
}

func (q *request) answer(query []string, answer func(*request) (*Answer, error)) (*Answer, error) {
	if err := q.accept(); err != nil {
		return nil, err
	}
	var err error
	if q.query, err = readQuery(q.r.URL.RawQuery, query); err != nil {
		return nil, err
	}
	if q.r.Method == http.MethodPost {
		if q.key, err = readKey(q.r.Header); err != nil {
			return nil, err
		}
		if q.body, err = q.readBody(); err != nil {
			return nil, err
		}
	}
	if q.operation != "describe" {
		if err := q.Responder.ReadyWithin(q.r.Context(), q.Patience); err != nil {
			return nil, unavailable(err.Error())
		}
	}
	return answer(q)
}

// find is the run that the path names, as the table knows it. What is asked of
// one run is read from the streams: where NATS is away, that is said at once.
func (q *request) find(ctx context.Context) (responder.View, error) {
	if q.Away != nil && q.Away() {
		return responder.View{}, unavailable("NATS is away")
	}
	v, err := q.Responder.Look(ctx, q.r.PathValue("id"))
	if errors.Is(err, runs.ErrNoRun) {
		return v, noRun()
	}
	return v, err
}

// hold takes a slot for a request that is answered for long.
func (q *request) hold() (free func(), err error) {
	free, ok := q.held.Take(delegator.Caller(q.r.Context()))
	if !ok {
		return nil, unavailable("there are as many event streams and waits as there may be")
	}
	return free, nil
}

func describe(*request) (*Answer, error) {
	return &Answer{Status: http.StatusOK, Body: json.RawMessage(Document), tagged: true, cache: "private, max-age=300"}, nil
}
