package main

import (
	"context"

	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/daemon"
)

type normalizerCmd struct{}

// Help is printed by `linesman normalizer --help`.
func (normalizerCmd) Help() string {
	return `Makes events and run records from the raw log. Any number can run against one NATS cluster: one works, the others stand
by, and the next one takes over where the last event ends. It makes the streams that are missing.

Examples:

    linesman normalizer --nats nats://cluster:4222 --creds normalizer.creds

While NATS is away or refuses the credentials, and while streams are missing, it says so once and tries again.

Exit status: 0 ended by a signal, 1 failed, 2 bad flags or settings, 3 no server is named, and no "linesman up" is running here.`
}

func (c *normalizerCmd) Run(ctx context.Context, a *app) error {
	b, err := a.connectWithRetry(ctx, embedded.NormalizerUser)
	if err != nil {
		return quiet(err)
	}
	defer b.Close()
	roles := daemon.Config{Settings: a.config, Log: a.log}
	n := daemon.NewNormalizer(b, roles)
	if a.config.NATS != "" { // an embedded server's own normalizer makes them
		daemon.WithStreams(n, roles)
	}
	a.log.Info("normalizer ready")
	return n.Run(ctx)
}
