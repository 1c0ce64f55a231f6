package daemon

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/pipeline"
	"github.com/linesman/linesman/responder/httpserver"
	"github.com/linesman/linesman/telemetry/metrics"
)

// newRegistry returns a registry with the metrics of every Go process, and of this build.
func newRegistry(version string) *prometheus.Registry {
	b := BuildOf(version)
	return metrics.NewRegistry(b.Version, b.Revision, b.Go)
}

// Limits of /metrics.
const (
	maxScrapes = 4
	scrapeTime = 10 * time.Second
)

// metrics answers with the metrics of this process.
func (c Config) metrics() http.Handler {
	return promhttp.HandlerFor(c.Registry, promhttp.HandlerOpts{
		MaxRequestsInFlight: maxScrapes, Timeout: scrapeTime, EnableOpenMetrics: true,
	})
}

// connected is a role that has a connection, or connects by itself.
type connected interface {
	ready(context.Context) error // why it does not work, nil if it does
	doing() string               // what it does then
}

// monitored runs a role. If the settings have an address for it, the health
// checks and the metrics are served there meanwhile, without a token. The role calls dialed
// once it is connected. The error is a
// [listenError] with flag if the address is in use.
func (c Config) monitored(
	ctx context.Context, flag string, role func(_ context.Context, dialed func(connected)) error,
) error {
	var now atomic.Pointer[connected] // nil: none yet
	dialed := func(r connected) { now.Store(&r) }
	if c.Settings.MonitorHTTP == "" {
		return role(ctx, dialed)
	}
	s, err := httpserver.New(httpserver.Config{
		Listen: c.Settings.MonitorHTTP, Metrics: c.metrics(), Monitor: true, Log: c.Log,
		Ready: func(ctx context.Context) error {
			if r := now.Load(); r != nil {
				return (*r).ready(ctx)
			}
			return errNoNATS
		},
		Role: func() string { return (*now.Load()).doing() },
	})
	if err != nil {
		return err
	}
	if _, err := s.Listen(); err != nil {
		return &listenError{flag, err}
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.Serve(ctx) })
	group.Go(func() error {
		defer end()
		return role(ctx, dialed)
	})
	return group.Wait()
}

var errNoNATS = errors.New("NATS is away")

// ready returns why requests are not answered.
func (r *responderRole) ready(ctx context.Context) error { return r.service.Load().ready(ctx) }

func (*responderRole) doing() string { return "ok" }

// ready returns why the worker can neither take tasks nor store output.
func (w *taskWorker) ready(ctx context.Context) error {
	if !w.bus.Connected() {
		return errNoNATS
	}
	if err := w.bus.Reachable(ctx, w.bus.Raw()); err != nil {
		return err
	}
	if w.tasks.Slots > 0 {
		if err := w.config.room(); err != nil {
			return err
		}
		if err := w.bus.Queue(w.tasks.Name).Ready(ctx); err != nil {
			return err
		}
	}
	if !w.worker.Adopted() {
		return errors.New("the runs of the data directory are not adopted yet")
	}
	return nil
}

func (*taskWorker) doing() string { return "ok" }

// single is a normalizer in a process of its own.
type single struct{ *pipeline.Normalizer }

// ready returns why the normalizer is neither active nor a standby.
func (n single) ready(ctx context.Context) error {
	if !n.Bus.Connected() {
		return errNoNATS
	}
	switch n.State() {
	case pipeline.Active:
		return nil
	case pipeline.Starting:
		return errors.New("it has the lease, and does not read RAW yet")
	}
	held, err := n.Bus.LeaseHeld(ctx, bus.NormalizerLease)
	if err == nil && !held {
		err = errors.New("no normalizer has the lease yet")
	}
	return err
}

func (n single) doing() string {
	if n.State() == pipeline.Active {
		return "active"
	}
	return "standby"
}
