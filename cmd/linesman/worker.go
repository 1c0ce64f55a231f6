package main

import (
	"context"

	"go.uber.org/zap"

	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/daemon"
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
	roles, err := a.roles()
	if err != nil {
		return err
	}
	w, err := daemon.NewWorker(b, roles)
	if err != nil {
		return err
	}
	a.log.Info("worker ready", zap.String("name", w.Name()), zap.Int("slots", a.config.Work.MaxRuns))
	return w.Run(ctx)
}
