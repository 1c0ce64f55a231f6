package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder"
)

const (
	// maxSessions bounds the sessions of clients before 2026-07-28; one caller
	// has at most three quarters of them. At the bound the one that was idle
	// for the longest time is closed: its client gets a 404 and starts a new
	// session, as the protocol requires.
	maxSessions = 256

	// maxRest is the idle timeout of a session, without a POST. It is long,
	// since the number is bounded too, and many clients handle a lost session
	// badly.
	maxRest = 12 * time.Hour

	// writeTime bounds one write to a client: one that reads nothing gives its connection back.
	writeTime = 30 * time.Second

	versionHeader = "Mcp-Protocol-Version"
	sessionHeader = "Mcp-Session-Id"

	// requestHeader tells the middleware which HTTP request a call belongs to.
	// A value from the client is overwritten.
	requestHeader = "Linesman-Request"
)

// metaVersion is the path of the revision in a request of 2026-07-28.
const metaVersion = `params._meta.io\.modelcontextprotocol/protocolVersion`

// Endpoint serves MCP over streamable HTTP at one path. It checks neither
// tokens nor hosts: the HTTP server does.
type Endpoint struct {
	modern   *sdk.StreamableHTTPHandler
	legacy   *sdk.StreamableHTTPHandler
	sessions *sessions
	patience time.Duration // with one write
	rest     time.Duration

	count    atomic.Uint64
	requests sync.Map // of *request, by the value of requestHeader
	closed   atomic.Bool
}

// request is an HTTP request in progress.
type request struct {
	session string
	caller  string
	answers bool // the caller may answer questions
	end     context.CancelFunc
	stream  stream
	onEnd   func(func()) (stop func() bool)
}

// Handler serves both revisions at one path: a request that names 2026-07-28,
// in its header or its body, is served without a session, all others within
// one. A call ends with its HTTP request, because its answer could not be
// delivered. Call [Endpoint.Close] when the HTTP server has ended.
func Handler(server *sdk.Server) *Endpoint {
	return newEndpoint(server, maxSessions, maxRest)
}

// Beside returns an endpoint of another server, which shares the bound of sessions, before either of them serves.
func (e *Endpoint) Beside(server *sdk.Server) *Endpoint { return endpoint(server, e.sessions, e.rest) }

func newEndpoint(server *sdk.Server, most int, rest time.Duration) *Endpoint {
	return endpoint(server, &sessions{most: most, known: make(map[string]*use), opening: make(map[string]int)}, rest)
}

func endpoint(server *sdk.Server, all *sessions, rest time.Duration) *Endpoint {
	all.servers = append(all.servers, server)
	get := func(*http.Request) *sdk.Server { return server }
	e := &Endpoint{
		// The HTTP server has already checked host and origin.
		modern: sdk.NewStreamableHTTPHandler(get, &sdk.StreamableHTTPOptions{
			Stateless: true, PropagateRequestCancellation: true, MaxRequestBodyBytes: -1, DisableLocalhostProtection: true,
		}),
		legacy: sdk.NewStreamableHTTPHandler(get, &sdk.StreamableHTTPOptions{
			SessionTimeout: rest, MaxRequestBodyBytes: -1, DisableLocalhostProtection: true,
		}),
		sessions: all, patience: writeTime, rest: rest,
	}
	server.AddReceivingMiddleware(e.tie)
	return e
}

// ServeHTTP serves one request.
func (e *Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if e.closed.Load() {
		refuse(w, http.StatusServiceUnavailable, nil, jsonrpc.CodeInternalError, "linesman is stopping")
		return
	}
	modern := r.Header.Get(versionHeader) >= stateless
	if r.Method == http.MethodPost {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxMessage))
		var over *http.MaxBytesError
		switch {
		case errors.As(err, &over):
			refuse(w, http.StatusRequestEntityTooLarge, nil, jsonrpc.CodeInvalidRequest, fmt.Sprintf("body over %d bytes",
				maxMessage))
			return
		case err != nil:
			refuse(w, http.StatusBadRequest, nil, jsonrpc.CodeParseError, "the body is incomplete")
			return
		}
		if id, wrong := checkBody(body); wrong != nil {
			refuse(w, http.StatusBadRequest, id, wrong.Code, wrong.Message)
			return
		}
		if replies(gjson.ParseBytes(body)) && !e.asked(r) {
			refuse(w, http.StatusBadRequest, nil, jsonrpc.CodeInvalidRequest, "this caller was asked nothing")
			return
		}
		modern = modern || gjson.GetBytes(body, metaVersion).String() >= stateless
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	out := stream{w, make(chan struct{}, 1), e.patience}
	r, leave := e.enter(r, out)
	defer leave()
	if modern {
		e.modern.ServeHTTP(out, r)
		return
	}
	e.serveSession(out, r)
}

// serveSession serves a request of a session, or the one that creates it.
func (e *Endpoint) serveSession(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get(sessionHeader)
	if id == "" && r.Method == http.MethodPost {
		caller := responder.Caller(r.Context())
		if !e.sessions.begin(caller) {
			w.Header().Set("Retry-After", "10")
			refuse(w, http.StatusServiceUnavailable, nil, jsonrpc.CodeInternalError,
				"too many sessions, of all callers or of this one, and all of them busy")
			return
		}
		defer func() { e.sessions.begun(caller, w.Header().Get(sessionHeader)) }()
	}
	if id != "" && r.Method == http.MethodDelete {
		// The SDK waits for the session's calls.
		e.end(func(o *request) bool { return o.session == id })
	}
	defer e.sessions.use(id)()
	e.legacy.ServeHTTP(w, r)
}

// Sessions returns the number of open sessions, of all endpoints that share their bound.
func (e *Endpoint) Sessions() int { return len(e.sessions.live()) }

// Close ends the sessions, and returns when their calls have ended. Later
// requests are refused.
func (e *Endpoint) Close() {
	e.closed.Store(true)
	e.end(func(*request) bool { return true })
	e.sessions.close()
}

// enter gives r a context that linesman can cancel, and an id by which its call
// is found.
func (e *Endpoint) enter(r *http.Request, out stream) (*http.Request, func()) {
	ctx, cancel := context.WithCancel(r.Context())
	key := strconv.FormatUint(e.count.Add(1), 36)
	r = r.WithContext(ctx)
	r.Header = r.Header.Clone()
	r.Header.Set(requestHeader, key)
	o := &request{
		caller: responder.Caller(ctx), answers: responder.MayAnswer(ctx), end: cancel, stream: out,
		onEnd: func(f func()) func() bool { return context.AfterFunc(ctx, f) },
	}
	if r.Method != http.MethodDelete { // which ends the other requests of its session
		o.session = r.Header.Get(sessionHeader)
	}
	e.requests.Store(key, o)
	return r, func() {
		e.requests.Delete(key)
		cancel()
	}
}

// tie cancels the context of a call when its HTTP request ends, which the SDK
// does only for the revision without sessions, and sets its caller. One who may not answer questions
// is offered no tool for that.
func (e *Endpoint) tie(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		extra := req.GetExtra()
		if method != "tools/call" && method != "tools/list" || extra == nil || extra.Header.Get(requestHeader) == "" {
			return next(ctx, method, req)
		}
		found, ok := e.requests.Load(extra.Header.Get(requestHeader))
		if !ok {
			return nil, context.Canceled // it ended before the call began
		}
		o := found.(*request)
		ctx, cancel := context.WithCancel(responder.WithSurface(responder.WithCaller(ctx, o.caller), responder.OverMCP))
		defer cancel()
		defer o.onEnd(cancel)()
		ctx = responder.WithAnswers(context.WithValue(ctx, streamKey{}, o.stream), o.answers) // not those of the session
		res, err := next(ctx, method, req)
		if list, ok := res.(*sdk.ListToolsResult); ok && !o.answers {
			list.Tools = slices.DeleteFunc(list.Tools, func(t *sdk.Tool) bool { return t.Name == api.ToolAgentAnswer })
		}
		return res, err
	}
}

// stream is the response to a request.
type stream struct {
	http.ResponseWriter
	recalled chan struct{} // signals that a request to the client was taken back
	patience time.Duration
}

type streamKey struct{}

// Unwrap is for [http.ResponseController].
func (s stream) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// Write writes one message.
func (s stream) Write(b []byte) (int, error) {
	_ = http.NewResponseController(s.ResponseWriter).SetWriteDeadline(time.Now().Add(s.patience))
	n, err := s.ResponseWriter.Write(b)
	if bytes.Contains(b[:min(len(b), 256)], []byte(`"method":"notifications/cancelled"`)) {
		select {
		case s.recalled <- struct{}{}:
		default:
		}
	}
	return n, err
}

// recalled waits until a client was told that a request to it was taken back. The SDK does that in a goroutine, and
// over HTTP not after the response to the call.
func recalled(ctx context.Context) {
	over, ok := ctx.Value(streamKey{}).(stream)
	if !ok {
		return
	}
	late := time.NewTimer(lastAnswers)
	defer late.Stop()
	select {
	case <-over.recalled:
	case <-ctx.Done():
	case <-late.C:
	}
}

// replies reports whether a body is a response, or a list with one.
func replies(body gjson.Result) (found bool) {
	isOne := func(m gjson.Result) bool { return m.IsObject() && !m.Get("method").Exists() }
	if !body.IsArray() {
		return isOne(body)
	}
	body.ForEach(func(_, m gjson.Result) bool {
		found = isOne(m)
		return !found
	})
	return found
}

// asked reports whether the user of a client may have been asked something by a call of this caller: a session is known
// to whoever knows its id, and what its user answers is an answer of the caller of the call.
func (e *Endpoint) asked(r *http.Request) (asked bool) {
	session, caller := r.Header.Get(sessionHeader), responder.Caller(r.Context())
	e.requests.Range(func(_, v any) bool {
		o := v.(*request)
		asked = session != "" && o.session == session && o.caller == caller && o.answers
		return !asked
	})
	return asked
}

// end cancels the matching requests.
func (e *Endpoint) end(match func(*request) bool) {
	e.requests.Range(func(_, v any) bool {
		if o := v.(*request); match(o) {
			o.end()
		}
		return true
	})
}

// checkBody returns the first error of [idScanner.check] for the messages of a
// body, and the id of its request. Old clients send several messages in one
// body.
func checkBody(body []byte) (id json.RawMessage, wrong *jsonrpc.Error) {
	root := gjson.ParseBytes(body)
	if !root.IsArray() {
		found := new(idScanner)
		_, _ = found.Write(body)
		if wrong = found.check(body); wrong != nil {
			id, _ = found.answer()
		}
		return id, wrong
	}
	root.ForEach(func(_, message gjson.Result) bool {
		if message.IsObject() {
			id, wrong = checkBody([]byte(message.Raw))
		}
		return wrong == nil
	})
	return id, wrong
}

// refuse answers a request before the protocol layer. The HTTP status
// identifies the request for the client, so the answer has an id only if the id
// is the problem; MCP has no null id.
func refuse(w http.ResponseWriter, status int, id json.RawMessage, code int64, message string) {
	body, err := json.Marshal(refusal{"2.0", id, &jsonrpc.Error{Code: code, Message: message}})
	if err != nil {
		panic(err) // JSON, strings and a number
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// sessions bounds the number of HTTP sessions of its servers. The SDK stores them,
// and closes idle ones; it does not count them.
type sessions struct {
	servers []*sdk.Server
	most    int

	mu    sync.Mutex
	known map[string]*use
	// opening are those that begin, by their callers.
	opening map[string]int
}

// use is the state of a session.
type use struct {
	caller   string    // who began it
	requests int       // in progress
	since    time.Time // the end of the last request
}

// begin reserves a session, if necessary by closing the one that was idle for
// the longest time: one of the caller if that has three quarters of all. It
// reports whether that was possible. Then begun must follow.
func (s *sessions) begin(caller string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	live, open, own := s.live(), 0, s.opening[caller]
	for _, n := range s.opening {
		open += n
	}
	for id, u := range s.known {
		if live[id] == nil {
			delete(s.known, id)
			continue
		}
		if open++; u.caller == caller {
			own++
		}
	}
	if all := own >= s.most-s.most/4; all || open >= s.most {
		oldest := ""
		for id, u := range s.known {
			if u.requests == 0 && (u.caller == caller || !all) && (oldest == "" || u.since.Before(s.known[oldest].since)) {
				oldest = id
			}
		}
		if oldest == "" {
			return false
		}
		// Under the lock, so that no request of it begins meanwhile: it has no
		// calls, and Close does not wait.
		_ = live[oldest].Close()
		delete(s.known, oldest)
	}
	s.opening[caller]++
	return true
}

// begun reports the id of the session that begin reserved; "": none was
// created.
func (s *sessions) begun(caller, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opening[caller]--; s.opening[caller] == 0 {
		delete(s.opening, caller)
	}
	if id != "" {
		s.known[id] = &use{caller: caller, since: time.Now()}
	}
}

// use counts a request of a session until the returned function is called.
func (s *sessions) use(id string) (done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.known[id]
	if u == nil {
		return func() {}
	}
	u.requests++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		u.requests--
		u.since = time.Now()
	}
}

// close ends all sessions.
func (s *sessions) close() {
	for _, session := range s.live() {
		_ = session.Close()
	}
}

// live returns the sessions that the SDK has, by id. Stdio and requests
// without a session have none.
func (s *sessions) live() map[string]*sdk.ServerSession {
	live := make(map[string]*sdk.ServerSession)
	for _, server := range s.servers {
		for session := range server.Sessions() {
			if id := session.ID(); id != "" {
				live[id] = session
			}
		}
	}
	return live
}
