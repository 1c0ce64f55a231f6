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
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/a2a"
	"github.com/linesman/linesman/responder/adcp"
	"github.com/linesman/linesman/responder/cloud"
	"github.com/linesman/linesman/responder/delegator"
	"github.com/linesman/linesman/responder/mcp"
	"github.com/linesman/linesman/responder/natsapi"
	"github.com/linesman/linesman/responder/push"
	"github.com/linesman/linesman/responder/rest"
	"github.com/linesman/linesman/responder/web"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/worker/launch"
)

// desk is a responder with its surfaces.
type desk struct {
	*responder.Responder
	app   *app
	bus   *bus.Bus
	tools *delegator.Delegator
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
	return a.newDeskBehind(b, f)
}

// newDeskBehind is newDesk with an HTTP server that may serve already, or none.
func (a *app) newDeskBehind(b *bus.Bus, f *front) (*desk, error) {
	c := a.config
	d := &desk{app: a, bus: b, listening: make(chan struct{})}
	d.Responder = responder.New(responder.Config{
		Streams: b, Queue: c.Work.Queue, LostAfter: c.LostAfter, StuckAfter: c.StuckAfter,
		MaxIdle: c.Work.MaxLimit, MaxHard: c.Work.MaxLimit, Danger: c.Work.Danger, Outside: d.outside, Log: a.log,
	})
	var err error
	d.cloud, err = cloud.New(cloud.Config{Command: c.Agents.Codex.Command, Scratch: filepath.Join(c.DataDir, "cloud"), Logs: cloudLogs{b}, Log: a.log})
	if err != nil {
		return nil, err
	}
	d.tools = delegator.New(delegator.Config{
		Responder: d.Responder, Cloud: d.cloud, Environments: c.Environments, Idle: c.Work.Idle, Hard: c.Work.Hard, GitGate: c.Work.GitGate, Why: d.bus.Cause, Log: a.log,
		Requests: &adcp.Requests{Store: b.RequestStore(), TTL: c.IdempotencyTTL},
		Push:     push.NewRegistry(b.PushStore(), push.AdCP, c.Push.AllowPrivate),
	})
	d.push = push.New(push.Config{
		Registrations: b.PushStore(), Outbox: b.PushStore(), Runs: d.Standing(), Private: c.Push.AllowPrivate, GiveUp: c.Push.GiveUp, Log: a.log,
		Encoders: map[string]push.Encoder{push.AdCP: push.NewAdCP(d.tools), push.A2A: a2a.NewNotices(d.tools)},
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
	d, err := a.newDesk(b, "")
	if err != nil {
		return err
	}
	if a.config.NATS == "" {
		d.tools.Dir = a.clientDir()
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
func (d *desk) outside(t runs.Task) error {
	c := d.app.config
	here, err := readInstance(c.DataDir)
	if c.NATS != "" || err != nil || len(here.Roots) == 0 {
		return nil
	}
	name, err := d.app.workerName()
	other := func(w responder.Worker) bool { return w.Queue == c.Work.Queue && w.Name != name }
	if err != nil || slices.ContainsFunc(d.Workers(), other) {
		return nil
	}
	return launch.Rules{Dir: here.Dir, Roots: here.Roots}.Outside(t)
}

// serveREST hangs the REST API on the server, each operation for its scope.
func (d *desk) serveREST() error {
	api := rest.New(rest.Config{
		Responder: d.Responder, Streams: d.bus, Tools: d.tools, Away: func() bool { return !d.bus.Connected() }, Why: d.bus.Cause, Log: d.app.log,
	})
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
		h.ServeHTTP(w, r.WithContext(delegator.WithCaller(r.Context(), web.Caller(r.Context()))))
	})
}

func (a *app) tokenFile() string { return filepath.Join(a.config.DataDir, "token") }

func (d *desk) mcpConfig() mcp.Config {
	return mcp.Config{Tools: d.tools, List: d.tools.Tools(), Schemas: delegator.Schemas(), Version: build().Version, Log: d.app.log}
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
	if err := d.Ready(ctx); err != nil {
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
			Conn: d.bus.Inside(), Root: d.bus.API(), Tools: d.tools, List: d.tools.Tools(), Version: build().Version, Log: d.app.log,
			Listening: func() { close(d.listening) },
		})
	})
	group.Go(func() error {
		return d.bus.AskCloud(ctx, func(ctx context.Context) error { return d.cloud.Follow(ctx, d.openCloud) })
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

// openCloud are the runs in the cloud that have not ended.
func (d *desk) openCloud(ctx context.Context) ([]cloud.Open, error) {
	if err := d.Ready(ctx); err != nil {
		return nil, err
	}
	var all []cloud.Open
	for _, v := range d.Snapshot(0, func(r runs.Row) bool { return r.Agent == cloud.Agent }).Working {
		record, err := d.Record(ctx, v.ID)
		if errors.Is(err, runs.ErrNoRun) {
			continue
		}
		if err != nil {
			return nil, err
		}
		one := cloud.Open{Run: v.ID, Bytes: record.Bytes}
		if record.Cloud != nil {
			one.ID = record.Cloud.ID
		}
		all = append(all, one)
	}
	return all, nil
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
