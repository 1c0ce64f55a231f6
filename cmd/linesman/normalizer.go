package main

import (
	"context"

	"github.com/linesman/linesman/bus"
)

type normalizerCmd struct{}

// Help is printed by `linesman normalizer --help`.
func (normalizerCmd) Help() string {
	return `Makes events and run records from the raw log. Any number can run against one NATS cluster: one works, the others stand
by, and the next one takes over where the last event ends. It makes the streams that are missing.

Examples:

    linesman normalizer --nats nats://cluster:4222 --creds normalizer.creds

Exit status: 0 ended by a signal, 1 failed, 2 bad flags or settings, 3 NATS is out of reach.`
}

func (c *normalizerCmd) Run(ctx context.Context, a *app) error {
	b, err := a.connect(ctx, bus.NormalizerUser)
	if err != nil {
		return err
	}
	defer b.Close()
	if a.config.NATS != "" { // those of an embedded server are there
		if err := a.ensure(ctx, b, a.limits("")); err != nil {
			return err
		}
	}
	a.log.Info("normalizer ready")
	return a.normalizer(b).Run(ctx)
}
