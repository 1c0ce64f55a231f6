package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/normalizer/codex"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/a2a"
	"github.com/linesman/linesman/responder/adcp"
	"github.com/linesman/linesman/responder/cloud"
	"github.com/linesman/linesman/responder/idempotency"
	"github.com/linesman/linesman/responder/mcp"
	"github.com/linesman/linesman/responder/natsapi"
	"github.com/linesman/linesman/responder/push"
	"github.com/linesman/linesman/responder/rest"
	"github.com/linesman/linesman/responder/runtable"
	"github.com/linesman/linesman/responder/tools"
	v36 "github.com/linesman/linesman/responder/v36"
	"github.com/linesman/linesman/responder/web"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/worker/launch"
)

// desk is a responder with its surfaces.
type desk struct {
	*responder.Service
	app   *app
	bus   *bus.Bus
	tools *tools.Set
	cloud *cloud.Driver
	push  *push.Pusher
	front *front // nil: no HTTP
	mcp   *mcp.Endpoint

	listening chan struct{} // closed once requests over NATS arrive

	requests atomic.Uint64 // that came over HTTP from callers with a token
	serving  atomic.Int64  // of them, how many are being answered
}

// newDesk makes a responder that works over a bus. With listen it serves HTTP
// there, and has the address when it returns.
func (a *app) newDesk(b *bus.Bus, listen string) (*desk, error) {
	var f *front
	if listen != "" {
		var err error
		if f, err = a.newFront(listen); err != nil {
			return nil, err
		}
	}
	return a.newDeskBehind(b, f, nil)
}

// newDeskBehind is newDesk with an HTTP server that may serve already, or none.
// Dir chooses the directory of tasks that name none; nil: workers do.
func (a *app) newDeskBehind(b *bus.Bus, f *front, dir func() (string, error)) (*desk, error) {
	c := a.config
	d := &desk{app: a, bus: b, listening: make(chan struct{})}
	var err error
	d.cloud, err = cloud.New(cloud.Config{Command: c.Agents.Codex.Command, Scratch: filepath.Join(c.DataDir, "cloud"), Logs: cloudLogs{b}, Log: a.log})
	if err != nil {
		return nil, err
	}
	cfg := responder.Config{
		Streams: b, Queue: c.Work.Queue, LostAfter: c.LostAfter, StuckAfter: c.StuckAfter, Idle: c.Work.Idle, Hard: c.Work.Hard,
		MaxIdle: c.Work.MaxLimit, MaxHard: c.Work.MaxLimit, Danger: c.Work.Danger, GitGate: c.Work.GitGate, Outside: d.outside,
		Cloud: d.cloud, Environments: c.Environments, Cause: b.Cause, Away: func() bool { return !b.Connected() }, Log: a.log,
		Requests: &idempotency.Requests{Store: b.RequestStore(), TTL: c.IdempotencyTTL},
		Webhooks: push.NewRegistry(b.PushStore(), push.AdCP, c.Push.AllowPrivate), Dir: dir,
		LastMessage: map[string]func([]byte) (string, bool){codex.Backend{}.Agent(): codex.LastMessage},
	}
	d.Service = responder.New(cfg)
	d.tools = tools.New(d.Service)
	d.push = push.New(push.Config{
		Registrations: b.PushStore(), Outbox: b.PushStore(), Runs: d.Standing(), Private: c.Push.AllowPrivate, GiveUp: c.Push.GiveUp, Log: a.log,
		Encoders: map[string]push.Encoder{push.AdCP: adcp.NewNotices(d.Service), push.A2A: a2a.NewNotices(d.Service)},
	})
	if f == nil {
		return d, nil
	}
	d.front = f
	d.mcp = mcp.Handler(mcp.NewServer(d.mcpConfig()))
	f.web.Handle("/mcp", d.named(d.mcp))
	if err := d.serveREST(); err != nil {
		return nil, err
	}
	if err := d.serveA2A(); err != nil {
		return nil, err
	}
	f.desk.Store(d)
	f.web.Release()
	return d, nil
}

// withDesk does something with a responder beside the `linesman up` of the data
// directory, or at the server of --nats. The responder ends when do does.
func (a *app) withDesk(ctx context.Context, do func(context.Context, *desk) error) error {
	b, err := a.client(ctx, embedded.ResponderUser)
	if err != nil {
		return err
	}
	defer b.Close()
	var dir func() (string, error)
	if a.config.NATS == "" {
		dir = a.clientDir()
	}
	d, err := a.newDeskBehind(b, nil, dir)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return d.Run(ctx) })
	group.Go(func() error {
		defer cancel()
		return do(ctx, d)
	})
	return group.Wait()
}

// clientDir returns a function that chooses the directory of a task that names
// none: this client's own directory if the `linesman up` of the data directory
// runs in the background, else "", which means the directory of that `up`. It is
// called at each submission, because one `up` can replace the other.
func (a *app) clientDir() func() (string, error) {
	dir, err := os.Getwd()
	return func() (string, error) {
		if here, unread := readInstance(a.config.DataDir); unread == nil && !here.Background {
			return "", nil
		}
		return dir, err
	}
}

// outside is [launch.Rules.Outside] by the rules of the `linesman up` of the data
// directory. Those of any other worker of the queue are not known here, and
// where there is one, workers decide.
func (d *desk) outside(t runs.Task, workers []runtable.Worker) error {
	c := d.app.config
	here, err := readInstance(c.DataDir)
	if c.NATS != "" || err != nil || len(here.Roots) == 0 {
		return nil
	}
	name, err := d.app.workerName()
	other := func(w runtable.Worker) bool { return w.Queue == c.Work.Queue && w.Name != name }
	if err != nil || slices.ContainsFunc(workers, other) {
		return nil
	}
	return launch.Rules{Dir: here.Dir, Roots: here.Roots}.Outside(t)
}

// serveREST hangs the REST API on the server, each operation for its scope.
func (d *desk) serveREST() error {
	api := rest.New(rest.Config{Service: d.Service, Log: d.app.log})
	for _, r := range api.Routes() {
		scope, err := web.ScopeOf(r.Scope)
		if err != nil {
			return err
		}
		d.front.web.HandleFor(scope, r.Pattern, d.named(r.Handler))
	}
	return nil
}

// named tells a surface who calls: idempotency keys are each caller's own. And
// it counts the requests.
func (d *desk) named(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.requests.Add(1)
		d.serving.Add(1)
		defer d.serving.Add(-1)
		h.ServeHTTP(w, r.WithContext(responder.WithCaller(r.Context(), web.Caller(r.Context()))))
	})
}

func (a *app) tokenFile() string { return filepath.Join(a.config.DataDir, "token") }

func (d *desk) mcpConfig() mcp.Config {
	return mcp.Config{Tools: d.tools, List: d.tools.List(), Schemas: v36.Schemas(), Version: build().Version, Log: d.app.log}
}

// ready says what is missing for requests to be answered.
func (d *desk) ready(ctx context.Context) error {
	if !d.bus.Connected() {
		return errors.New("NATS is away")
	}
	return d.open(ctx)
}

// open waits until requests arrive and can be answered.
func (d *desk) open(ctx context.Context) error {
	if err := d.Filled(ctx); err != nil {
		return err
	}
	select {
	case <-d.listening:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the NATS service does not listen yet: %w", ctx.Err())
	}
}

// url is where HTTP is served, "" where it is not.
func (d *desk) url() string {
	if d.front == nil {
		return ""
	}
	return "http://" + d.front.addr.String()
}

// serve answers requests until ctx ends: then it returns nil.
func (d *desk) serve(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return d.Run(ctx) })
	group.Go(func() error {
		return natsapi.Serve(ctx, natsapi.Config{
			Conn: d.bus.Inside(), Root: d.bus.API(), Endpoints: slices.Concat(natsapi.VerbEndpoints(d.Service), natsapi.ToolEndpoints(d.tools, d.tools.List())), Version: build().Version, Log: d.app.log,
			Listening: func() { close(d.listening) },
		})
	})
	group.Go(func() error {
		return d.bus.AskCloud(ctx, func(ctx context.Context) error { return d.cloud.Follow(ctx, d.OpenCloud) })
	})
	group.Go(func() error { return d.push.Run(ctx) })
	if d.front != nil {
		group.Go(func() error {
			defer d.mcp.Close()
			return d.front.serve(ctx)
		})
	}
	return group.Wait()
}

// cloudLogs lets the cloud driver write to a bus.
type cloudLogs struct{ bus *bus.Bus }

func (l cloudLogs) Open(ctx context.Context, agent, run string, m runs.Mark) (cloud.Log, error) {
	return l.bus.OpenLog(ctx, agent, run, m)
}

func (l cloudLogs) Output(ctx context.Context, agent, run string) ([]byte, error) {
	out, _, err := l.bus.Output(ctx, agent, run, cloud.MaxOutput, false)
	return out.Head, err
}
