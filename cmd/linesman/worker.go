package main

import (
	"context"

	"go.uber.org/zap"

	"github.com/linesman/linesman/bus/embedded"
)

type workerCmd struct {
	MaxRuns   string `name:"max-runs" setting:"work.max_runs" placeholder:"N" help:"${work_max_runs}"`
	LostAfter string `name:"lost-after" setting:"lost_after" placeholder:"DURATION" help:"${lost_after}"`
}

// Help is printed by `linesman worker --help`.
func (workerCmd) Help() string {
	return `Takes tasks from the work queue, as many at a time as it has slots, and runs them. It adopts the run directories of this
data directory whose owner is gone, and carries their runs to the end. Ended and started again it goes on where it was;
agents that run go on meanwhile. A task that names no directory runs in the one where the worker was started.

Examples:

    linesman worker --nats nats://cluster:4222 --creds worker.creds

While NATS is away or refuses the credentials, and while streams are missing, it says so once and tries again.

Exit status: 0 ended by a signal, 1 failed, 2 bad flags or settings, 3 no server is named, and no "linesman up" is running here.`
}

func (c *workerCmd) Run(ctx context.Context, a *app) error {
	b, err := a.connectWithRetry(ctx, embedded.WorkerUser)
	if err != nil {
		return quiet(err)
	}
	defer b.Close()
	w, err := a.worker(b)
	if err != nil {
		return err
	}
	tasks, err := a.tasks(b)
	if err != nil {
		return err
	}
	a.log.Info("worker ready", zap.String("name", w.Name()), zap.Int("slots", tasks.Slots))
	return a.carry(ctx, b, w, tasks)
}
