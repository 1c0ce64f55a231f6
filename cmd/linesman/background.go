package main

import (
	"context"
	"errors"

	"go.uber.org/zap"

	"github.com/linesman/linesman/config"
	"github.com/linesman/linesman/local"
)

// inBackground is an `up` that another command started with [app.client].
func (a *app) inBackground(ctx context.Context) error {
	d, err := local.Detach(ctx, &a.config, config.Sources{Environ: a.environ, File: a.file}, a.stdout)
	a.lock = d.Lock // until the process ends
	switch {
	case errors.Is(err, local.ErrLocked):
		d.Close()
		return exitWith(exitBusy, nil)
	case err != nil:
		d.Close()
		return err
	}
	defer d.Close()
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
