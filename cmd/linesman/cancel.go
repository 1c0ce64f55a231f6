package main

import (
	"context"
	"fmt"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

type cancelCmd struct {
	Run_   runID  `arg:"" name:"run" help:"Id of the run."`
	Reason string `placeholder:"TEXT" help:"Why, for whoever looks at the run later."`
	JSON   bool   `name:"json" help:"Print the responder's answer, a v3.6 envelope, on one line."`
}

// Help is printed by `linesman cancel --help`.
func (cancelCmd) Help() string {
	return `Ends a run: one that waits in the queue is never started, one that works gets a SIGTERM, with all its processes, and a
SIGKILL a little later. Prints the run and its state: cancelled, or cancelling while the agent is being ended. A run that
has ended stays as it is. Codex Cloud can be asked on its web page only, whose address is told.

Examples:

    linesman cancel T-local-0mwqeheq41ojmir --reason "wrong branch"

Exit status: 0 done, 1 failed, or the run has ended already, 2 bad flags or settings, 3 NATS or the responder is out of
reach, 4 there is no such run.`
}

func (c *cancelCmd) Run(ctx context.Context, a *app) error {
	a.whisper()
	l, err := a.responder(ctx)
	if err != nil {
		return err
	}
	defer l.Close()
	flags := map[string]string{"reason": "--reason"}
	if c.JSON {
		args := map[string]any{"task_id": c.Run_}
		if c.Reason != "" {
			args["reason"] = c.Reason
		}
		e, err := l.Tool(ctx, c.Run_.tool("cancel"), args)
		return a.printEnvelope(e, err, flags, c.Run_)
	}
	done, err := l.Cancel(ctx, api.Cancel{Run: string(c.Run_), Reason: c.Reason})
	if err != nil {
		return explain(err, flags, c.Run_)
	}
	state := "cancelling"
	if done.State == runs.StateCancelled {
		state = "cancelled"
	}
	_, err = fmt.Fprintf(a.stdout, "%s %s\n", c.Run_, state)
	return err
}
