// Package daemon assembles the roles of linesman from the packages that implement
// them: server, worker and responder, and a [Daemon] with all three in one
// process, which is `linesman up`.
//
//	          ┌───────────────── Server ─────────────────┐
//	Worker ──▶│ RAW ──▶ normalizer ──▶ EVENTS and RUNS ──┼──▶ Responder ◀──▶ NATS; HTTP: MCP, REST, A2A
//	   ▲      └────────────── embedded NATS ─────────────┘      │  └─────▶ webhooks, Codex Cloud
//	   └───────────────────────── WORK ◀──────────────────────────┘
//
// It owns no rule and no protocol: only how they are connected, which of them run
// together, and in which order they end. With a NATS cluster of one's own a process
// runs [RunNormalizer], [RunWorker] or [RunResponder].
//
// A [Session] is what a command needs beside these: it starts runs of its own, and
// changes what is stored.
//
// A worker starts this program again with the arguments "shim DIR", as the owner of
// one agent process: a program with a worker must then call [worker.Shim] with DIR.
//
// A daemon needs its data directory for itself: two at the same time damage the
// streams. The caller prevents that, as the lock of `linesman up` does.
package daemon

import (
	"cmp"
	"context"
	"errors"
	"os"
	"time"

	"github.com/linesman/linesman/agent"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/config"
	"github.com/linesman/linesman/daemon/datadir"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/telemetry/metrics"
	"github.com/linesman/linesman/worker/launch"
	"github.com/linesman/linesman/worker/programs"
)

// Config is what the roles are built from.
type Config struct {
	// Settings are the settings of linesman: [config.Default] with a DataDir is
	// enough. A [natsServer] listens on NATSListen and a [responderRole] on HTTP; an empty
	// HTTP means no HTTP server. The roles do not read NATS and the credentials:
	// connections are made by the caller.
	Settings config.Config

	// Sources are where Settings come from, for the next `linesman up` of the data directory.
	Sources config.Sources

	// Agents are the known agents. Default: those of Settings, as of [config.Config.Table].
	Agents agent.Table

	// Version is the version that peers see. Default: "dev".
	Version string

	// Environ is the environment of which agents of tasks get a part, in the form
	// of [os.Environ]. Default: none.
	Environ []string

	// Log is the log. Default: none.
	Log *zap.Logger

	// Reload reads the settings of Sources again, at SIGHUP: the roles then change scrub, and Level to
	// log_level. Level is that of Log. nil: the roles do not listen for signals.
	Reload func(config.Sources) (config.Config, error)
	Level  zap.AtomicLevel

	// Registry has the metrics of this process. Default: a new one, with those of Go, of the
	// process and of the build.
	Registry *prometheus.Registry

	// Dialer connects to the server where the caller gives no connection. Its
	// settings are Settings.
	Dialer *datadir.Dialer

	// rules returns the rules of the worker of the data directory, false if it takes
	// no tasks or is not known. While no other worker serves the queue, a responder
	// refuses tasks that break them. Default: those of the instance file.
	rules func() (launch.Rules, bool)

	eraser responder.Eraser // of the verb forget; nil: it is not offered

	now *changeable // of Settings

	signals chan os.Signal // for obey; see Heed

	versions *programs.Versions // default: those of the data directory

	learnTime time.Duration // default: the constant

	counts *metrics.Worker // of the worker that takes tasks; nil: nothing is counted

	stages *stages // what this process waits for
}

func (c Config) withDefaults() Config {
	c.Version = cmp.Or(c.Version, "dev")
	c.learnTime = cmp.Or(c.learnTime, learnTime)
	if c.Agents == nil {
		c.Agents = c.Settings.Table()
	}
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	if c.Registry == nil {
		c.Registry = newRegistry(c.Version)
	}
	if c.now == nil {
		c.now = newChangeable(c.Settings)
	}
	if c.stages == nil {
		c.stages = &stages{}
	}
	if c.rules == nil {
		c.rules = c.instanceRules
	}
	if c.versions == nil {
		c.versions = &programs.Versions{File: datadir.VersionsFile(c.Settings.DataDir)}
	}
	return c
}

func (c Config) names() bus.Names { return bus.Names{Prefix: c.Settings.Prefix} }

// Daemon is all roles in one process.
type Daemon struct {
	Server    *natsServer
	worker    *taskWorker
	Responder *responderRole
}

// New starts an embedded server and builds the other roles on it. They work from
// Run on. The error is [embedded.ErrListen] if the address of the server is in
// use, and a [listenError] for either address.
func New(ctx context.Context, c Config) (*Daemon, error) {
	c = c.withDefaults()
	s, err := newServer(ctx, c)
	if err != nil {
		return nil, err
	}
	d := &Daemon{Server: s}
	if err := d.addRoles(ctx, c); err != nil {
		s.close()
		return nil, err
	}
	return d, nil
}

func (d *Daemon) addRoles(ctx context.Context, c Config) error {
	b, err := d.Server.Connect(ctx, embedded.WorkerUser)
	if err != nil {
		return err
	}
	if d.worker, err = newWorker(b, c); err != nil {
		return err
	}
	if b, err = d.Server.Connect(ctx, embedded.ResponderUser); err != nil {
		return err
	}
	if err := d.Server.operator.RemoveScratch(ctx, time.Time{}); err != nil {
		c.Log.Warn("streams of a killed rebuild were not removed", zap.String("why", b.Explain(err)))
	}
	c.rules = d.worker.rules
	c.eraser = eraser{&Session{c, d.Server.operator}}
	d.Responder, err = newResponder(c, func(ctx context.Context, user string) (*bus.Bus, error) {
		if user == embedded.ResponderUser {
			return b, nil
		}
		return d.Server.Connect(ctx, user)
	})
	return err
}

// Run works until ctx ends, and then returns nil, or until something breaks that
// waiting does not repair. The server ends last, once its normalizer has stored
// what it read.
func (d *Daemon) Run(ctx context.Context) error {
	working, end := context.WithCancel(ctx)
	defer end()
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var server errgroup.Group
	server.Go(func() error {
		defer end() // a normalizer that ends by itself has found something that no waiting repairs
		return d.Server.run(serving)
	})
	err := d.work(working)
	stop()
	return errors.Join(err, server.Wait())
}

func (d *Daemon) work(ctx context.Context) error {
	if d.Server.started(ctx) != nil { // no writes before the normalizer has read where the streams end
		return nil
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return d.worker.run(ctx) })
	group.Go(func() error { return d.Responder.run(ctx) })
	return group.Wait()
}

// Ready waits until requests arrive and are answered. The error is that of ctx.
func (d *Daemon) Ready(ctx context.Context) error { return d.Responder.listening(ctx) }

// Busy reports whether anybody uses the daemon, or it has work to do: clients of
// the server, requests and sessions over HTTP, runs that are not idle, and
// webhooks to be sent. Call it after Ready.
func (d *Daemon) Busy(ctx context.Context) bool {
	return d.Server.clients() || d.worker.worker.Runs() > 0 || d.Responder.busy(ctx)
}

// Requests is the number of requests over HTTP so far.
func (d *Daemon) Requests() uint64 { return d.Responder.requests.Load() }

// Close stops the server and releases its addresses, after Run has returned or
// instead of it.
func (d *Daemon) Close() {
	d.Responder.close()
	d.Server.close()
}
