package main

import "context"

type normalizerCmd struct{}

// Help is printed by `linesman normalizer --help`.
func (normalizerCmd) Help() string {
	return `Derives the events and the run table from the raw log. Start as many as you like: one works, the others stand by, and
no event is stored twice whoever works.

Examples:

    linesman normalizer --nats nats://cluster:4222 --creds normalizer.creds

Exit status: 0 ended by a signal, 1 failed, 2 bad flags or settings, 3 NATS is out of reach.`
}

func (c *normalizerCmd) Run(ctx context.Context, a *app) error { return errNotBuilt }
