package main

import (
	"context"
	"errors"
)

type downCmd struct{}

// Help is printed by `linesman down --help`.
func (downCmd) Help() string {
	return `Stops the "linesman up" of this data directory, in the background or in a terminal, as SIGTERM does, and waits until it
has ended. Running agents continue under their limits, and the next "linesman up" finds them. A command that is still
connected, such as "linesman run" or "linesman mcp", starts another one in the background when it needs it.

Examples:

    linesman down

Exit status: 0 no up is running, 1 failed, 2 bad flags or settings.`
}

func (c *downCmd) check(a *app) error {
	if a.config.NATS != "" {
		return errors.New("nats: `down` stops the `linesman up` of a data directory; it cannot stop another server")
	}
	return nil
}

func (c *downCmd) Run(ctx context.Context, a *app) error {
	a.whisper()
	return a.dialer().Stop(ctx)
}
