package main

import (
	"context"
	"fmt"

	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/daemon"
)

type rebuildCmd struct {
	JSON bool `name:"json" help:"Print the result as JSON."`
}

// Help is printed by `linesman rebuild --help`.
func (rebuildCmd) Help() string {
	return `Derives events and run records from the raw log once more, under another prefix, and compares them with those that are
kept, as far as the raw log still reaches. Says what differs; changes nothing that is there, and removes what it made.

Examples:

    linesman rebuild

Exit status: 0 all the same, 1 failed or something differs, 2 bad flags or settings, 3 NATS is out of reach.`
}

func (c *rebuildCmd) Run(ctx context.Context, a *app) error {
	a.whisper()
	b, err := a.client(ctx, embedded.OperatorUser)
	if err != nil {
		return err
	}
	defer b.Close()
	r, err := daemon.Rebuild(ctx, b, daemon.Config{Settings: a.config, Log: a.log})
	if err != nil {
		return err
	}
	if c.JSON {
		r.Differences = append([]string{}, r.Differences...) // none is a list, too
		if err := printJSON(a.stdout, r); err != nil {
			return err
		}
	} else {
		for _, d := range r.Differences {
			fmt.Fprintln(a.stdout, d)
		}
		fmt.Fprintf(a.stdout, "%d raw records read, %d runs and %d events compared, %d runs only kept in part, %d "+
			"differences\n",
			r.Entries, r.Runs, r.Events, r.Partial, len(r.Differences))
	}
	if len(r.Differences) > 0 {
		return exitWith(exitFailed, nil)
	}
	return nil
}
