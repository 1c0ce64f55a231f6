package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/responder"
)

const (
	// maxSessions bounds the sessions of clients before 2026-07-28. At the
	// bound the one that rested longest makes room: its client gets a 404 and
	// begins anew, as the protocol tells it to.
	maxSessions = 256

	// maxRest is how long a session lasts without a POST. It can be generous,
	// since the number is bounded too, and many clients take a lost session badly.
	maxRest = 12 * time.Hour

	versionHeader = "Mcp-Protocol-Version"
	sessionHeader = "Mcp-Session-Id"

	// requestHeader tells the middleware which HTTP request brought a call.
	// Whatever a client sends under this name is overwritten.
	requestHeader = "Linesman-Request"
)

// metaVersion is where a request of 2026-07-28 says its revision.
const metaVersion = `params._meta.io\.modelcontextprotocol/protocolVersion`

// Endpoint serves MCP over streamable HTTP at one path. It checks neither
// tokens nor hosts: that is the HTTP server's.
type Endpoint struct {
	modern   *sdk.StreamableHTTPHandler
	legacy   *sdk.StreamableHTTPHandler
	sessions *sessions

	count    atomic.Uint64
	requests sync.Map // of *request, by the value of requestHeader
	closed   atomic.Bool
}

// request is an HTTP request that is being served.
type request struct {
	session string
	caller  string
	end     context.CancelFunc
	onEnd   func(func()) (stop func() bool)
}

// Handler serves both revisions at one path: what names 2026-07-28, in its
// header or its body, is served without a session, all else within one. A call
// ends with the HTTP request that brought it, for nobody could get the answer.
// Call [Endpoint.Close] when the HTTP server has ended.
func Handler(server *sdk.Server) *Endpoint {
	return newEndpoint(server, maxSessions, maxRest)
}

func newEndpoint(server *sdk.Server, most int, rest time.Duration) *Endpoint {
	get := func(*http.Request) *sdk.Server { return server }
	e := &Endpoint{
		// Host and origin are checked before us, for all paths alike.
		modern: sdk.NewStreamableHTTPHandler(get, &sdk.StreamableHTTPOptions{
			Stateless: true, PropagateRequestCancellation: true, MaxRequestBodyBytes: -1, DisableLocalhostProtection: true,
		}),
		legacy: sdk.NewStreamableHTTPHandler(get, &sdk.StreamableHTTPOptions{
			SessionTimeout: rest, MaxRequestBodyBytes: -1, DisableLocalhostProtection: true,
		}),
		sessions: &sessions{server: server, most: most, known: make(map[string]*use)},
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
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxMessage))
		var over *http.MaxBytesError
		switch {
		case errors.As(err, &over):
			refuse(w, http.StatusRequestEntityTooLarge, nil, jsonrpc.CodeInvalidRequest, fmt.Sprintf("body over %d bytes", MaxMessage))
			return
		case err != nil:
			refuse(w, http.StatusBadRequest, nil, jsonrpc.CodeParseError, "the body broke off")
			return
		}
		if id, wrong := checkBody(body); wrong != nil {
			refuse(w, http.StatusBadRequest, id, wrong.Code, wrong.Message)
			return
		}
		modern = modern || gjson.GetBytes(body, metaVersion).String() >= stateless
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	r, leave := e.enter(r)
	defer leave()
	if modern {
		e.modern.ServeHTTP(w, r)
		return
	}
	e.serveSession(w, r)
}

// serveSession serves a request of a session, or the one that opens it.
func (e *Endpoint) serveSession(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get(sessionHeader)
	if id == "" && r.Method == http.MethodPost {
		if !e.sessions.begin() {
			w.Header().Set("Retry-After", "10")
			refuse(w, http.StatusServiceUnavailable, nil, jsonrpc.CodeInternalError, "too many sessions, and all of them busy")
			return
		}
		defer func() { e.sessions.begun(w.Header().Get(sessionHeader)) }()
	}
	if id != "" && r.Method == http.MethodDelete {
		// The SDK waits for the session's calls.
		e.end(func(o *request) bool { return o.session == id })
	}
	defer e.sessions.use(id)()
	e.legacy.ServeHTTP(w, r)
}

// Sessions is how many sessions are open.
func (e *Endpoint) Sessions() int { return len(e.sessions.live()) }

// Close ends the sessions, and returns when their calls have ended. Requests
// that come later are refused.
func (e *Endpoint) Close() {
	e.closed.Store(true)
	e.end(func(*request) bool { return true })
	e.sessions.close()
}

// enter gives r a context that linesman can end, and a mark by which the call
// it brings is found.
func (e *Endpoint) enter(r *http.Request) (*http.Request, func()) {
	ctx, cancel := context.WithCancel(r.Context())
	key := strconv.FormatUint(e.count.Add(1), 36)
	r = r.WithContext(ctx)
	r.Header = r.Header.Clone()
	r.Header.Set(requestHeader, key)
	o := &request{caller: responder.Caller(ctx), end: cancel, onEnd: func(f func()) func() bool { return context.AfterFunc(ctx, f) }}
	if r.Method != http.MethodDelete { // which ends the others of its session
		o.session = r.Header.Get(sessionHeader)
	}
	e.requests.Store(key, o)
	return r, func() {
		e.requests.Delete(key)
		cancel()
	}
}

// tie ends the context of a call when the request that brought it ends, which
// the SDK does for the revision without sessions only, and names its caller.
func (e *Endpoint) tie(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		extra := req.GetExtra()
		if method != "tools/call" || extra == nil || extra.Header.Get(requestHeader) == "" {
			return next(ctx, method, req)
		}
		found, ok := e.requests.Load(extra.Header.Get(requestHeader))
		if !ok {
			return nil, context.Canceled // it ended before the call began
		}
		o := found.(*request)
		ctx, cancel := context.WithCancel(responder.WithCaller(ctx, o.caller))
		defer cancel()
		defer o.onEnd(cancel)()
		return next(ctx, method, req)
	}
}

// end ends the requests that match.
func (e *Endpoint) end(match func(*request) bool) {
	e.requests.Range(func(_, v any) bool {
		if o := v.(*request); match(o) {
			o.end()
		}
		return true
	})
}

// checkBody is the first error of [idScanner.check] for a message of a body, and
// the id of its request. Old clients send several messages in one body.
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

// refuse answers a request that never reaches the protocol. The HTTP status
// tells the client which of its requests that is, so there is an id only where
// it is what is wrong; MCP knows no null id.
func refuse(w http.ResponseWriter, status int, id json.RawMessage, code int64, message string) {
	body, err := json.Marshal(refusal{"2.0", id, &jsonrpc.Error{Code: code, Message: message}})
	if err != nil {
		panic(err) // JSON, strings and a number
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
