package main

import (
	"context"

	"github.com/linesman/linesman/bus"
)

type workerCmd struct{}

// Help is printed by `linesman worker --help`.
func (workerCmd) Help() string {
	return `Adopts the run directories of this data directory whose owner is gone, and carries their runs to the end. Ended and
started again it goes on where it was; agents that run go on meanwhile.

Examples:

    linesman worker --nats nats://cluster:4222 --creds worker.creds

Exit status: 0 ended by a signal, 1 failed, 2 bad flags or settings, 3 NATS is out of reach.`
}

func (c *workerCmd) Run(ctx context.Context, a *app) error {
	b, err := a.connect(ctx, bus.WorkerUser)
	if err != nil {
		return err
	}
	defer b.Close()
	w, err := a.worker(b)
	if err != nil {
		return err
	}
	a.log.Info("worker ready")
	return quiet(w.Adopt(ctx))
}
