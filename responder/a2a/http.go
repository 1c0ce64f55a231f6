package a2a

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	sdklog "github.com/a2aproject/a2a-go/v2/log"
	"github.com/tidwall/gjson"
)

// The paths of the surface.
const (
	pathCard = a2asrv.WellKnownAgentCardPath
	pathRPC  = "/a2a"
	pathREST = "/a2a/v1"
)

// route is a pattern that is served.
type route struct {
	Pattern string // of [http.ServeMux]
	Scope   string // required scope; "": not even a token
	Handler http.Handler
}

// Routes returns all routes. If an operation needs more than the scope of its
// route, [Config.Allows] is asked.
func (h *handler) Routes() []route {
	beat := a2asrv.WithTransportKeepAlive(h.Beat)
	rpc := transport{newer: a2asrv.NewJSONRPCHandler(h, beat), older: a2av0.NewJSONRPCHandler(h, beat), rpc: true,
		slow: h.Slow}
	rest := transport{newer: a2asrv.NewRESTHandler(h, beat), slow: h.Slow}
	return []route{
		{"GET " + pathCard, "", http.HandlerFunc(h.serveCard)},
		{"POST " + pathRPC, scopeRead, rpc},
		{"POST " + pathRPC + "/{$}", scopeRead, rpc},
		{pathREST + "/", scopeRead, http.StripPrefix(pathREST, rest)},
	}
}

// transport passes a request to a2a-go's transport for its version. HTTP+JSON
// is served in 1.0 only: a2a-go's layer for 0.3 rewrites names inside data.
type transport struct {
	newer, older http.Handler // older is nil if 0.3 is not supported
	rpc          bool
	slow         time.Duration
}

// version is a supported protocol version.
type version int

const (
	version1 version = iota
	version03
	versionUnknown
)

// call is the part of a request that a2a-go does not parse.
type call struct {
	version    version
	extensions []string       // requested extensions
	parts      []gjson.Result // of its message, unparsed; at most maxParts
	query      url.Values     // of HTTP+JSON
}

type callKey struct{}

// callOf returns the call of a request; an internal request has none, and
// version 1.
func callOf(ctx context.Context) *call {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		return c
	}
	return &call{}
}

func (t transport) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	if !t.rpc && !t.verb(w, r) {
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		status, why := http.StatusBadRequest, "the body is incomplete"
		if over := (*http.MaxBytesError)(nil); errors.As(err, &over) {
			status, why = http.StatusRequestEntityTooLarge, "the body is over "+strconv.Itoa(maxBody)+" bytes"
		}
		t.refuse(w, status, why)
		return
	}
	c := &call{version: t.version(r, body), query: r.URL.Query()}
	for _, list := range r.Header.Values(sdk.SvcParamExtensions) {
		for uri := range strings.SplitSeq(list, ",") {
			c.extensions = append(c.extensions, strings.TrimSpace(uri))
		}
	}
	if c.asks(profileURI) { // tell the client that it is active
		w.Header().Set(sdk.SvcParamExtensions, profileURI)
	}
	parts := "message.parts"
	if t.rpc {
		parts = "params.message.parts"
	}
	gjson.GetBytes(body, parts).ForEach(func(_, part gjson.Result) bool {
		c.parts = append(c.parts, part)
		return len(c.parts) < maxParts
	})
	ctx := sdklog.AttachLogger(r.Context(), slog.New(slog.DiscardHandler)) // a2a-go would log mistakes of clients
	r = r.WithContext(context.WithValue(ctx, callKey{}, c))
	r.Body = io.NopCloser(bytes.NewReader(body))
	next := t.newer
	switch {
	case c.version == version03 && t.older == nil:
		c.version = versionUnknown
	case c.version == version03:
		next = t.older
	}
	p := &deadlineWriter{w, http.NewResponseController(w), t.slow}
	switch method := gjson.GetBytes(body, "method").String(); {
	case !t.rpc:
		next.ServeHTTP(&deferredStream{deadlineWriter: p}, r)
	case nothing[method] != "":
		all := &bufferedAnswer{ResponseWriter: p}
		next.ServeHTTP(all, r)
		all.send(nothing[method])
	case takesJSON(r):
		next.ServeHTTP(&deferredStream{deadlineWriter: p, rpc: true}, r)
	default:
		next.ServeHTTP(p, r)
	}
}

// nothing is the result of the methods of JSON-RPC that return none.
var nothing = map[string]string{
	"DeleteTaskPushNotificationConfig": "{}", "tasks/pushNotificationConfig/delete": "null",
}

// verb refuses unknown verbs on tasks: a2a-go would treat the verb in the path
// as part of the task id. The A2A proto subscribes by GET and a2a-go by POST
// only, so both are accepted.
func (t transport) verb(w http.ResponseWriter, r *http.Request) bool {
	rest, ok := strings.CutPrefix(r.URL.EscapedPath(), "/tasks/")
	name, err := url.PathUnescape(rest)
	_, verb, there := strings.Cut(name, ":")
	switch subscribe := verb == "subscribe"; {
	case !ok, err != nil, !there, strings.Contains(rest, "/"), r.Method == http.MethodPost &&
		(subscribe || verb == "cancel"):
	case r.Method == http.MethodGet && subscribe:
		r.Method = http.MethodPost
	case subscribe, verb == "cancel":
		w.Header().Set("Allow", map[bool]string{true: "GET, POST", false: "POST"}[subscribe])
		t.refuse(w, http.StatusMethodNotAllowed, "this path does not take "+r.Method)
		return false
	default:
		t.refuse(w, http.StatusBadRequest, "a task takes the verbs cancel and subscribe alone")
		return false
	}
	return true
}

// takesJSON reports whether a client accepts a response that is not a stream.
// The official SDKs accept streams only, and the Go SDK ignores an error
// outside a stream: these clients get errors as the only event of a stream.
func takesJSON(r *http.Request) bool {
	accept := strings.Join(r.Header.Values("Accept"), ",")
	for part := range strings.SplitSeq(accept, ",") {
		media, _, _ := strings.Cut(strings.ToLower(part), ";")
		switch strings.TrimSpace(media) {
		case "application/json", "application/*", "*/*":
			return true
		}
	}
	return strings.TrimSpace(accept) == ""
}

// version returns the version of a request, from its header or its query. A
// request without one is 0.3, unless its method exists only in 1.0.
func (t transport) version(r *http.Request, body []byte) version {
	named := r.Header.Get(sdk.SvcParamVersion)
	if named == "" {
		named = r.URL.Query().Get(sdk.SvcParamVersion)
	}
	switch part := strings.Split(named, "."); {
	case named == "" && t.rpc && !strings.Contains(gjson.GetBytes(body, "method").String(), "/"):
		return version1
	case named == "":
		return version03
	case len(part) <= 3 && part[0] == "1" && (len(part) == 1 || part[1] == "0"): // patch versions are compatible
		return version1
	case (len(part) == 2 || len(part) == 3) && part[0] == "0" && part[1] == "3":
		return version03
	}
	return versionUnknown
}

// refuse answers a request that cannot be parsed.
func (t transport) refuse(w http.ResponseWriter, status int, why string) {
	var body any = map[string]any{"error": map[string]any{"code": status, "status": "INVALID_ARGUMENT", "message": why}}
	if t.rpc {
		body = map[string]any{"jsonrpc": "2.0", "id": nil, "error": map[string]any{"code": -32600, "message": why}}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// asks reports whether a request asks for an extension. All known extensions
// belong to 1.0.
func (c *call) asks(extension string) bool {
	return c.version == version1 && slices.Contains(c.extensions, extension)
}
