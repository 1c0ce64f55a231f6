package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/config"
	"github.com/linesman/linesman/daemon/datadir"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/a2a"
	"github.com/linesman/linesman/responder/httpserver"
	"github.com/linesman/linesman/responder/rest"
	"github.com/linesman/linesman/responder/tools"
	"github.com/linesman/linesman/responder/webhook"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/web"
	"github.com/linesman/linesman/worker"
)

// responderRole is a service that is reached over NATS, and over HTTP: MCP, REST and
// A2A. While it has no connection, HTTP answers the health checks.
type responderRole struct {
	config  Config
	connect connector

	http *httpserver.Server // nil: no HTTP
	addr net.Addr

	built   chan struct{}           // closed once there is a service
	service atomic.Pointer[service] // nil until then
	mcp     mcpEndpoints            // nil without HTTP

	requests atomic.Uint64 // over HTTP from callers with a token
	serving  atomic.Int64  // those of them that are being answered
}

// listenError reports an address to listen on that is in use.
type listenError struct {
	Flag string // the flag or setting of the address: "--http", "--nats-listen" or "monitor_http"
	Err  error
}

func (e *listenError) Error() string {
	return e.Flag + ": " + e.Err.Error() + "; choose another address, or port 0 for a free one"
}

// Unwrap returns the cause.
func (e *listenError) Unwrap() error { return e.Err }

// newResponder builds a responder and listens on its address. Run calls connect
// for the connection of the responder's user, and closes that at its end; later also for the agents' account. The
// error is a [listenError] if the address is in use.
func newResponder(c Config, connect connector) (*responderRole, error) {
	if _, err := c.webhookKey(); err != nil { // now, not once there is a connection
		return nil, err
	}
	r := &responderRole{config: c, connect: connect, built: make(chan struct{})}
	if c.Settings.HTTP == "" {
		return r, nil
	}
	if err := worker.MakeDir(c.Settings.DataDir); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	token, err := httpserver.TokenFile(tokenFile(c.Settings))
	if err != nil {
		return nil, err
	}
	served := ""
	if c.Settings.NATS != "" { // else linesman.json tells where it is
		served = c.Settings.DataDir
	}
	r.http, err = httpserver.New(httpserver.Config{
		Listen: c.Settings.HTTP, Token: token, Tokens: datadir.TokensFile(c.Settings.DataDir), Log: r.config.Log,
		Version: c.Version, Page: web.Page(), Metrics: c.metrics(),
		Ready: r.ready, Refuse: rest.Refuse, Served: served,
	})
	if err != nil {
		return nil, err
	}
	if r.addr, err = r.http.Listen(); err != nil {
		return nil, &listenError{"--http", err}
	}
	r.http.Hold()
	return r, nil
}

// tokenFile is the file with the token for callers over HTTP that may do everything.
func tokenFile(s config.Config) string { return filepath.Join(s.DataDir, "token") }

// run answers requests until ctx ends, and then returns nil.
func (r *responderRole) run(ctx context.Context) error {
	defer r.config.stages.enter("the responder")()
	var b *bus.Bus
	defer func() {
		if b != nil {
			b.Close()
		}
	}()
	group, ctx := errgroup.WithContext(ctx)
	if r.http != nil {
		group.Go(func() error { return r.http.Serve(ctx) })
	}
	group.Go(func() (err error) {
		if b, err = r.connect(ctx, embedded.ResponderUser); err != nil {
			return quiet(err)
		}
		s, err := r.build(ctx, b)
		if err != nil {
			return err
		}
		group.Go(func() error { s.announce(ctx, r.connect); return nil })
		return s.answer(ctx)
	})
	err := group.Wait()
	if r.mcp != nil {
		r.mcp.Close()
	}
	return err
}

// pathADCP is where MCP is served to clients of AdCP. Its tools show no output, so it takes no scope raw.
const pathADCP = "/adcp/mcp"

// build makes the service, and adds its surfaces to the HTTP server.
func (r *responderRole) build(ctx context.Context, b *bus.Bus) (*service, error) {
	s, err := newService(b, r.config)
	if err != nil {
		return nil, err
	}
	if r.http != nil {
		r.mcp = newMCPEndpoints(s)
		r.http.Handle("/mcp", s.calls.HTTP("/mcp", r.called(r.mcp)))
		r.http.HandleFor(httpserver.Read|httpserver.Submit, pathADCP,
			s.calls.HTTP(pathADCP, r.called(r.mcp[tools.ADCPTools])))
		if err := r.addSurfaces(s); err != nil {
			return nil, err
		}
	}
	r.service.Store(s)
	close(r.built)
	if r.http != nil {
		if r.config.Settings.NATS != "" { // there may be other responders
			r.http.Share(ctx, b.AccessStore())
		}
		r.http.Release()
	}
	return s, nil
}

// addSurfaces adds REST and A2A. The agent card of A2A is for all callers; an
// operation of A2A that needs more than the scope of its route checks that itself.
func (r *responderRole) addSurfaces(s *service) (err error) {
	add := func(scope, pattern string, h http.Handler) {
		needed, bad := httpserver.ScopeOf(scope)
		if err = errors.Join(err, bad); bad == nil {
			r.http.HandleFor(needed, pattern, s.calls.HTTP(pattern, r.called(h)))
		}
	}
	for _, route := range rest.New(rest.Config{
		Service: s.Service, Allows: allows, Held: min(rest.MaxHeld, r.http.MaxConnections()/2), Log: r.config.Log,
	}).Routes() {
		add(route.Scope, route.Pattern, route.Handler)
	}
	for _, route := range a2a.New(a2a.Config{
		Service: s.Service, Tools: s.tools, URL: r.cardURL(), Version: r.config.Version, Allows: allows, Log: r.config.Log,
		Slots: s.held, Push: webhook.NewRegistry(s.bus.PushStore(), webhook.A2A, s.hooks),
	}).Routes() {
		if route.Scope == "" {
			r.http.HandlePublic(route.Pattern, s.calls.HTTP(route.Pattern, route.Handler))
		} else {
			add(route.Scope, route.Pattern, route.Handler)
		}
	}
	if s.hooks.Key != nil {
		const pattern = "GET /.well-known/jwks.json"
		r.http.HandlePublic(pattern, s.calls.HTTP(pattern, s.hooks.Key))
	}
	return err
}

func allows(ctx context.Context, scope string) bool {
	needed, err := httpserver.ScopeOf(scope)
	return err == nil && httpserver.Allows(ctx, needed)
}

// called adds the caller to the context, because each has idempotency keys of its own,
// and counts the requests.
func (r *responderRole) called(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.requests.Add(1)
		r.serving.Add(1)
		defer r.serving.Add(-1)
		ctx := responder.WithSurface(responder.WithCaller(q.Context(), httpserver.Caller(q.Context())), surfaceOf(q))
		ctx = responder.WithAnswers(ctx, httpserver.Allows(ctx, httpserver.Answer))
		h.ServeHTTP(w, q.WithContext(responder.WithTraceparent(ctx, q.Header.Get(responder.Traceparent))))
	})
}

// surfaceOf returns the surface of a request: below /v1 one with a cookie is the page's.
func surfaceOf(q *http.Request) string {
	switch below := strings.HasPrefix(q.URL.Path, "/v1/"); {
	case below && q.Header.Get("Authorization") == "":
		return responder.OverPage
	case below:
		return responder.OverREST
	case q.URL.Path == "/mcp", q.URL.Path == pathADCP:
		return responder.OverMCP
	}
	return responder.OverA2A
}

// listening waits until requests arrive and are answered. The error is that of ctx.
func (r *responderRole) listening(ctx context.Context) error {
	if err := await(ctx, r.built); err != nil {
		return err
	}
	return r.service.Load().open(ctx)
}

// Service returns the service, after Ready.
func (r *responderRole) Service() *service { return r.service.Load() }

// URL is where HTTP is served, "" if it is not.
func (r *responderRole) URL() string {
	if r.http == nil {
		return ""
	}
	return "http://" + r.addr.String()
}

// cardURL is the address in the agent card. A server that listens on every address
// of the machine has no single one: its card names the one of the request.
func (r *responderRole) cardURL() string {
	if addr, ok := r.addr.(*net.TCPAddr); ok && addr.IP.IsUnspecified() {
		return ""
	}
	return r.URL()
}

// busy reports whether HTTP is in use, runs need the responder, or webhooks are to
// be sent.
func (r *responderRole) busy(ctx context.Context) bool {
	if r.serving.Load() > 0 || r.mcp != nil && r.mcp.Sessions() > 0 {
		return true
	}
	s := r.service.Load()
	open := s.Snapshot(0, func(row runs.Header) bool {
		// a request that waits for an answer, and a file that no process follows, need no server
		return !row.State.Final() && !row.Unowned() && row.Source != runs.SourceTail &&
			row.Source != runs.SourceSession
	})
	if len(open.Working)+len(open.Queued) > 0 {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	waiting, err := s.bus.PushStore().Waiting(ctx)
	return err != nil || waiting > 0
}

// close releases the address, if run was not called.
func (r *responderRole) close() {
	if r.http != nil {
		r.http.Close()
	}
}
