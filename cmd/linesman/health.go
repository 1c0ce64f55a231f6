package main

import (
	"context"

	"github.com/linesman/linesman/bus"
)

type healthCmd struct{}

// Help is printed by `linesman health --help`.
func (healthCmd) Help() string {
	return `Asks the "linesman up" of this data directory, or the NATS server of --nats, whether it takes and stores: the streams are
there and have room, a write is acknowledged, and a normalizer keeps up.

Examples:

    linesman health && echo fine

Exit status: 0 fine, 2 bad flags or settings, 3 not; what is wrong is on stderr.`
}

func (c *healthCmd) Run(ctx context.Context, a *app) error {
	a.whisper()
	ctx, cancel := soon(ctx)
	defer cancel()
	b, err := a.connect(ctx, bus.OperatorUser)
	if err != nil {
		return exitWith(exitNATS, err)
	}
	defer b.Close()
	if err := b.Health(ctx); err != nil {
		return exitWith(exitNATS, err)
	}
	return nil
}
