package main

import (
	"context"
	"fmt"
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
	caller, err := a.caller(ctx)
	if err != nil {
		return err
	}
	defer caller.bus.Close()
	args := map[string]any{"task_id": c.Run_}
	if c.Reason != "" {
		args["reason"] = c.Reason
	}
	done, err := caller.ask(ctx, answerTime, c.Run_.tool("cancel"), args)
	if err != nil {
		return err
	}
	return caller.finish(done, c.JSON, map[string]string{"reason": "--reason"}, c.Run_, func() error {
		var data struct {
			State string
		}
		if err := done.read(&data); err != nil {
			return err
		}
		_, err := fmt.Fprintf(a.stdout, "%s %s\n", c.Run_, safeWord(data.State))
		return err
	})
}
