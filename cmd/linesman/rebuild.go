package main

import "context"

type rebuildCmd struct{}

// Help is printed by `linesman rebuild --help`.
func (rebuildCmd) Help() string {
	return `Derives events and run records from the raw log once more, under another prefix, and compares them with those that are
kept. Says what differs; changes nothing that is there.

Examples:

    linesman rebuild

Exit status: 0 all the same, 1 failed or something differs, 2 bad flags or settings, 3 NATS is out of reach.`
}

func (c *rebuildCmd) Run(ctx context.Context, a *app) error { return errNotBuilt }
