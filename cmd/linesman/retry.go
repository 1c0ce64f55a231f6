package main

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.uber.org/zap"

	"github.com/linesman/linesman/bus"
)

// connectWithRetry is connect for a role: it tries again, with pauses, while the
// server is away or refuses the credentials, for both can heal. Files are read
// anew each time; one that is missing or damaged is an error, as is a server that
// will not do. Each reason is logged once. Where ctx ends the error is ctx's.
func (a *app) connectWithRetry(ctx context.Context, user string) (*bus.Bus, error) {
	delays := backoff.NewExponentialBackOff()
	delays.InitialInterval, delays.MaxInterval = 200*time.Millisecond, 5*time.Second
	said := ""
	for {
		b, err := a.connect(ctx, user)
		switch {
		case ctx.Err() != nil:
			if b != nil {
				b.Close()
			}
			return nil, ctx.Err()
		case !errors.Is(err, bus.ErrUnreachable):
			if err == nil && said != "" {
				a.log.Info("connected")
			}
			return b, err
		}
		if why := err.Error(); why != said {
			said = why
			a.log.Warn("no connection yet, trying again", zap.String("why", why))
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(delays.NextBackOff()):
		}
	}
}
