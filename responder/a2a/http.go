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

// Where it is served.
const (
	pathCard = a2asrv.WellKnownAgentCardPath
	pathRPC  = "/a2a"
	pathREST = "/a2a/v1"
)

// Route is one place where requests come in.
type Route struct {
	Pattern string // of [http.ServeMux]
	Scope   string // that every request needs; "": not even a token
	Handler http.Handler
}

// Routes are all of them. What an operation needs beyond the scope of its
// route is asked of [Config.Allows].
func (h *Handler) Routes() []Route {
	beat := a2asrv.WithTransportKeepAlive(h.Beat)
	rpc := transport{newer: a2asrv.NewJSONRPCHandler(h, beat), older: a2av0.NewJSONRPCHandler(h, beat), rpc: true, slow: h.Slow}
	rest := transport{newer: a2asrv.NewRESTHandler(h, beat), slow: h.Slow}
	return []Route{
		{"GET " + pathCard, "", http.HandlerFunc(h.serveCard)},
		{"POST " + pathRPC, scopeRead, rpc},
		{"POST " + pathRPC + "/{$}", scopeRead, rpc},
		{pathREST + "/", scopeRead, http.StripPrefix(pathREST, rest)},
	}
}

// transport gives a request to a2a-go's transport for its version. HTTP+JSON is
// served in 1.0 alone: a2a-go's layer for 0.3 rewrites the names within data.
type transport struct {
	newer, older http.Handler // older may be nil
	rpc          bool
	slow         time.Duration
}

// version is one of those that are spoken.
type version int

const (
	version1 version = iota
	version03
	versionUnknown
)

// call is what a request holds beside what a2a-go reads of it.
type call struct {
	version    version
	extensions []string       // that it asks for
	parts      []gjson.Result // of its message, as they were written; at most MaxParts
	query      url.Values     // of HTTP+JSON
}

type callKey struct{}

// callOf is the call of a request; one without came from within, in version 1.
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
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	if err != nil {
		status, why := http.StatusBadRequest, "the body broke off"
		if over := (*http.MaxBytesError)(nil); errors.As(err, &over) {
			status, why = http.StatusRequestEntityTooLarge, "the body is over "+strconv.Itoa(MaxBody)+" bytes"
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
	if c.asks(ProfileURI) { // it is activated
		w.Header().Set(sdk.SvcParamExtensions, ProfileURI)
	}
	parts := "message.parts"
	if t.rpc {
		parts = "params.message.parts"
	}
	gjson.GetBytes(body, parts).ForEach(func(_, part gjson.Result) bool {
		c.parts = append(c.parts, part)
		return len(c.parts) < MaxParts
	})
	ctx := sdklog.AttachLogger(r.Context(), slog.New(slog.DiscardHandler)) // what it would log, clients did
	r = r.WithContext(context.WithValue(ctx, callKey{}, c))
	r.Body = io.NopCloser(bytes.NewReader(body))
	next := t.newer
	switch {
	case c.version == version03 && t.older == nil:
		c.version = versionUnknown
	case c.version == version03:
		next = t.older
	}
	p := &patient{w, http.NewResponseController(w), t.slow}
	switch method := gjson.GetBytes(body, "method").String(); {
	case !t.rpc:
		next.ServeHTTP(&opening{patient: p}, r)
	case method == "DeleteTaskPushNotificationConfig":
		all := &whole{ResponseWriter: p}
		next.ServeHTTP(all, r)
		all.send("{}")
	case method == "tasks/pushNotificationConfig/delete":
		all := &whole{ResponseWriter: p}
		next.ServeHTTP(all, r)
		all.send("null")
	case takesJSON(r):
		next.ServeHTTP(&opening{patient: p, rpc: true}, r)
	default:
		next.ServeHTTP(p, r)
	}
}

// verb refuses a request for what cannot be done with a task: a2a-go would take
// the verb in its path for a part of the task's id. The proto of A2A subscribes
// by GET and a2a-go by POST alone, so both are taken.
func (t transport) verb(w http.ResponseWriter, r *http.Request) bool {
	rest, ok := strings.CutPrefix(r.URL.EscapedPath(), "/tasks/")
	name, err := url.PathUnescape(rest)
	_, verb, there := strings.Cut(name, ":")
	switch subscribe := verb == "subscribe"; {
	case !ok, err != nil, !there, strings.Contains(rest, "/"), r.Method == http.MethodPost && (subscribe || verb == "cancel"):
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

// takesJSON reports whether a client takes an answer that is no stream. The
// official SDKs ask for streams alone, and that for Go overlooks an error that
// is none: to those an error is the one event of a stream.
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

// version is the one that a request names, by its header or its query. One
// that names none is of 0.3, but for a method that only 1.0 has.
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
	case len(part) <= 3 && part[0] == "1" && (len(part) == 1 || part[1] == "0"): // a patch changes nothing
		return version1
	case (len(part) == 2 || len(part) == 3) && part[0] == "0" && part[1] == "3":
		return version03
	}
	return versionUnknown
}

// refuse answers a request that cannot even be read.
func (t transport) refuse(w http.ResponseWriter, status int, why string) {
	var body any = map[string]any{"error": map[string]any{"code": status, "status": "INVALID_ARGUMENT", "message": why}}
	if t.rpc {
		body = map[string]any{"jsonrpc": "2.0", "id": nil, "error": map[string]any{"code": -32600, "message": why}}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// asks reports whether a request asks for an extension. Those that there are
// belong to 1.0.
func (c *call) asks(extension string) bool {
	return c.version == version1 && slices.Contains(c.extensions, extension)
}
