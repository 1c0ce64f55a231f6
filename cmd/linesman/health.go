package main

import "context"

type healthCmd struct{}

// Help is printed by `linesman health --help`.
func (healthCmd) Help() string {
	return `Asks the "linesman up" of this data directory, or the NATS server of --nats, whether it takes and stores.

Examples:

    linesman health && echo fine

Exit status: 0 fine, 2 bad flags or settings, 3 not; what is wrong is on stderr.`
}

func (c *healthCmd) Run(ctx context.Context, a *app) error { return exitWith(exitNATS, errNotBuilt) }
