package main

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/linesman/linesman/bus"
)

// withDesk does something with a responder: one beside the `linesman up` of
// the data directory, or at the server of --nats; where nothing runs, one of an
// `up` that this process becomes for so long, with HTTP on httpListen if that
// is not "". The responder ends when do does.
func (a *app) withDesk(ctx context.Context, httpListen string, do func(context.Context, *desk) error) error {
	if a.config.NATS == "" {
		lock, err := lockData(a.config.DataDir)
		switch {
		case err == nil:
			defer lock.Close()
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			return a.everything(ctx, "127.0.0.1:0", httpListen, func(ctx context.Context, _ instance, d *desk) error {
				defer cancel()
				return do(ctx, d)
			})
		case !errors.Is(err, errLocked):
			return err
		}
	}
	b, err := a.connectSoon(ctx, bus.ResponderUser)
	if err != nil {
		return err
	}
	defer b.Close()
	d, err := a.newDesk(b, "")
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
