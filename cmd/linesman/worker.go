package main

import "context"

type workerCmd struct{}

// Help is printed by `linesman worker --help`.
func (workerCmd) Help() string {
	return `Takes runs off the work queue, starts their agents here and publishes what they print. Ended and started again on the
same data directory it goes on where it was; agents that run go on meanwhile.

Examples:

    linesman worker --nats nats://cluster:4222 --creds worker.creds

Exit status: 0 ended by a signal, 1 failed, 2 bad flags or settings, 3 NATS is out of reach.`
}

func (c *workerCmd) Run(ctx context.Context, a *app) error { return errNotBuilt }
