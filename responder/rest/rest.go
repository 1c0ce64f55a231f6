// Package rest is the HTTP API below /v1: runs as resources, in plain JSON. It
// owns their paths, names and status codes; their contents come from the
// service, and so from the streams. The bodies of requests that begin, resume or
// cancel a run are read as the tools read them: package request.
//
//	request ──▶ query, body ──▶ responder.Service ──▶ reply ──▶ JSON, problem details,
//	            (400, 406, …)                                    AdCP envelope
//	                                   events, output ──▶ written as they are
//
// The one rule: every answer is one that openapi.json describes, which test/openapi
// makes of the routes and the types. Tokens and their scopes are checked before, by the HTTP server.
package rest

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/request"
	"github.com/linesman/linesman/runs"
)

// Document is the OpenAPI 3.1 description of what this package serves.
//
//go:embed openapi.json
var Document []byte

// Limits of requests and answers.
const (
	maxBody   = 1 << 20 // bytes of a request's body
	maxTask   = 8 << 20 // the same of a task: its prompt may take six times its size in JSON
	maxPage   = 100     // runs
	maxRecent = 1000    // ended runs that a stream begins with
	maxEvents = 1000    // of a page
	maxOutput = 1 << 20 // bytes of output of an answer
	maxWait   = time.Hour
	MaxHeld   = 1024 // concurrent event streams and waits; further ones are refused with 503
	maxLarge  = 64   // answers of more than largeAnswer at the same time, also

	maxQuery      = 8 << 10 // bytes
	maxSequence   = 1 << 62 // of an event
	maxOffset     = 1 << 60 // bytes
	maxEventBytes = 4 << 20 // of a page of events, unless a single one takes more
	largeAnswer   = 256 << 10
	writeTime     = 30 * time.Second
	askTime       = 30 * time.Second // for the streams to answer
)

// Config is what an [API] needs.
type Config struct {
	Service *responder.Service
	// Allows reports whether the caller of a request has a scope that its route does not
	// need: answer. nil: always.
	Allows func(ctx context.Context, scope string) bool
	Beat   time.Duration // interval of comments in an idle event stream; default 15 s
	Held   int           // replaces MaxHeld, unless 0
	Log    *zap.Logger   // default: none
}

// API answers requests.
type API struct {
	Config
	log   *zap.Logger
	held  *responder.Slots // one for each stream and wait
	large *responder.Slots // one for each large answer until its client has read it
}

// New returns an API. It can answer once the service is running.
func New(c Config) *API {
	c.Log = cmp.Or(c.Log, zap.NewNop())
	c.Beat = cmp.Or(c.Beat, 15*time.Second)
	c.Held = cmp.Or(c.Held, MaxHeld)
	return &API{
		Config: c, log: c.Log.Named("rest"), held: responder.NewSlots(c.Held), large: responder.NewSlots(maxLarge),
	}
}

// Route is one operation of the API.
type Route struct {
	Pattern string // of [http.ServeMux]
	ID      string // unique
	Scope   string // read, submit, raw or answer
	Query   []request.Param
	Media   []string // types of the answer, the preferred one first
	Handler http.Handler
}

// Routes returns all routes: those of the operations, and three that are no operation of their own.
func (a *API) Routes() []Route {
	forms := []string{jsonType, adcpType}
	streams := append(slices.Clip(forms), streamType)
	own := map[string]struct { // by the names of package api
		id     string
		query  []request.Param
		media  []string
		answer handler
	}{
		"list":     {"listRuns", listParams, streams, listRuns},
		"sessions": {"listSessions", sessionParams, []string{jsonType}, listSessions},
		"submit":   {"submitRun", nil, forms, submitRun},
		"describe": {"getRun", nil, forms, getRun},
		"detail":   {"getDetail", detailParams, streams, getDetail},
		"output":   {"getOutput", outputParams, []string{bytesType}, getOutput},
		"diff":     {"getDiff", nil, []string{jsonType, patchType}, getDiff},
		"wait":     {"waitForRun", waitParams, forms, waitForRun},
		"cancel":   {"cancelRun", nil, forms, cancelRun},
		"waiting":  {"listQuestions", questionParams, []string{jsonType}, listQuestions},
		"request":  {"getRequest", requestParams, []string{jsonType}, getRequest},
		"answer":   {"answerQuestion", nil, []string{jsonType}, answerQuestion},
		"messages": {"messages", nil, forms, listMessages},
		"send":     {"sendMessage", nil, []string{jsonType}, sendMessage},
		"edit":     {"editMessage", nil, []string{jsonType}, editMessage},
		"unsend":   {"unsendMessage", nil, []string{jsonType}, unsendMessage},
		"stop":     {"cancelTurn", nil, []string{jsonType}, cancelTurn},
		"set":      {"setOptions", nil, []string{jsonType}, setOptions},
		"events":   {"listEvents", allEventParams, streams, listEvents},
	}
	routes := []Route{
		a.route(Route{"GET /v1/openapi.json", "describe", "read", nil, forms[:1], nil}, describe),
		a.route(Route{"GET /v1/runs/{id}/events", "getEvents", "read", eventParams, streams, nil}, getEvents),
		a.route(Route{"POST /v1/runs/{id}/resume", "resumeRun", "submit", nil, forms, nil}, resumeRun),
	}
	for _, op := range a.Service.Operations() {
		if op.Route == "" {
			continue
		}
		o, known := own[op.Name]
		if !known {
			o.id, o.media, o.answer = op.Name, forms, carryOut(op)
		}
		routes = append(routes, a.route(Route{op.Route, o.id, op.Scope, o.query, o.media, nil}, o.answer))
	}
	return routes
}

// carryOut answers with the outcome of an operation whose request is empty, or the run of the path. A body has no
// members but a key, of which there is no need.
func carryOut(op responder.Bound) handler {
	return func(ctx context.Context, q *exchange) (*reply, error) {
		if q.posts() && q.form == jsonType {
			if _, err := q.written([]request.Param{request.KeyParam}); err != nil {
				return nil, err
			}
		}
		empty := op.New()
		if run, ok := empty.(*api.RunRequest); ok {
			if err := q.Service.Connected(); err != nil {
				return nil, err
			}
			run.Run = q.run()
		}
		outcome, err := op.Do(ctx, empty)
		if err != nil {
			return nil, err
		}
		return &reply{Status: http.StatusOK, Body: outcome}, nil
	}
}

// exchange is a request in progress.
type exchange struct {
	*API
	Route
	w      http.ResponseWriter
	r      *http.Request
	query  *query
	form   string          // of the answer: jsonType or adcpType
	errors string          // form of an error
	stream bool            // server-sent events are requested
	patch  bool            // only the patch of a diff is requested
	body   json.RawMessage // of a POST
	fields *request.Args   // those of every request of AdCP; nil: the client reads none of its answers
	key    string          // of a POST, from the header Idempotency-Key
}

// handler answers a request within [askTime]. It returns nil if it has written the
// answer itself.
type handler func(ctx context.Context, q *exchange) (*reply, error)

// route returns a route with its handler.
func (a *API) route(route Route, answer handler) Route {
	route.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := &exchange{API: a, Route: route, w: w, r: r}
		got, err := q.answer(answer)
		if err != nil {
			problem := q.explain(err)
			got = &reply{Status: problem.Status, Problem: problem}
		}
		if got != nil {
			q.write(got)
		}
	})
	return route
}

func (q *exchange) answer(answer handler) (*reply, error) {
	if err := q.accept(); err != nil {
		return nil, err
	}
	var err error
	if q.posts() {
		if q.body, err = q.readBody(); err != nil {
			return nil, err
		}
	}
	rest, refused := q.readFields(q.r.Context())
	if refused != nil {
		return refused, nil
	}
	if q.query, err = readQuery(rest, q.Query); err != nil {
		return nil, err
	}
	if q.posts() {
		if q.key, err = readKey(q.r.Header); err != nil {
			return nil, err
		}
	}
	if q.ID != "describe" {
		if err := q.Service.Ready(q.r.Context()); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(q.r.Context(), askTime)
	defer cancel()
	return answer(ctx, q)
}

// run is the run id in the path.
func (q *exchange) run() string { return q.r.PathValue("id") }

// find returns the row of the run in the path. Requests for one run read the
// streams, so without a connection to NATS it fails immediately.
func (q *exchange) find(ctx context.Context) (runs.Header, error) {
	if err := q.Service.Connected(); err != nil {
		return runs.Header{}, err
	}
	v, err := q.Service.Look(ctx, q.run())
	if err == nil && !q.posts() && q.context() != "" && !q.Service.InContext(v, q.context()) {
		return v, invalid(request.ContextID, "the task belongs to another thread")
	}
	return v, err
}

// context is the name of the context of a request of AdCP, or "".
func (q *exchange) context() string {
	if q.fields == nil {
		return ""
	}
	return q.fields.Text(request.ContextID)
}

// hold takes a slot for a long-lived request.
func (q *exchange) hold() (free func(), err error) {
	free, ok := q.held.Take(responder.Caller(q.r.Context()))
	if !ok {
		return nil, &api.Error{
			Code: api.TooMany, Message: "there are as many event streams and waits as there may be", Retryable: true,
		}
	}
	return free, nil
}

func describe(context.Context, *exchange) (*reply, error) {
	return &reply{Status: http.StatusOK, Body: json.RawMessage(Document), tagged: true, cache: "private, max-age=300"},
		nil
}
