package main

import (
	"context"
	"errors"

	"go.uber.org/zap"

	"github.com/linesman/linesman/config"
	"github.com/linesman/linesman/local"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/worker"
)

// inBackground is an `up` that another command started with [app.client].
func (a *app) inBackground(ctx context.Context) error {
	d, err := local.Detach(ctx, &a.config, config.Sources{Environ: a.environ, File: a.file}, a.stdout)
	defer d.Close()
	a.lock = d.Lock // until the process ends
	switch {
	case errors.Is(err, local.ErrLocked):
		return exitWith(exitBusy, nil)
	case err != nil:
		return err
	}
	a.background, a.stderr, a.log = true, d.Log, newLogger(a.config, d.Log)

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err = a.everything(ctx, d.NATSListen, d.HTTPListen, func(ctx context.Context, u *upRole) error {
		a.log.Info("ready", zap.String("nats", u.here.NATS), zap.String("http", u.here.HTTP))
		if err := d.Ready(u.here.NATS); err != nil {
			return err
		}
		if u.registration.AwaitIdle(ctx, u, a.config.Background.Idle) {
			a.log.Info("idle, ending", zap.Duration("for", a.config.Background.Idle))
			cancel()
		}
		return nil
	})
	if err != nil && !d.Log.IsStderr() { // else stderr is the log
		a.log.Error("cannot start", zap.Error(err))
	}
	return err
}

// Requests counts the requests over HTTP.
func (u *upRole) Requests() uint64 { return u.desk.requests.Load() }

// Busy reports whether the `up` has clients or work.
func (u *upRole) Busy(ctx context.Context) bool {
	d := u.desk
	if u.server.Others(u.buses) > 0 || d.serving.Load() > 0 || d.mcp != nil && d.mcp.Sessions() > 0 || u.worker.Runs() > 0 {
		return true
	}
	open := d.Snapshot(0, func(r runs.Row) bool {
		switch { // a request to somebody outside, and a file that nobody follows, go on without a server
		case r.State == runs.StateInputRequired, r.Source == worker.SourceTail:
			return false
		}
		return !r.State.Final()
	})
	if len(open.Working)+len(open.Queued) > 0 {
		return true
	}
	ctx, cancel := soon(ctx)
	defer cancel()
	waiting, err := d.bus.PushStore().Waiting(ctx)
	return err != nil || waiting > 0
}
