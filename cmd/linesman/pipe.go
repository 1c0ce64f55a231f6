package main

import "context"

type pipeCmd struct {
	Agent agentKind `default:"codex" placeholder:"KIND" help:"The dialect of the input."`
	Run_  runID     `name:"run" placeholder:"ID" help:"Id of the run: 1 to 64 of A-Z a-z 0-9 _ -. By default a new one."`
	Label labels    `placeholder:"K=V" mapsep:"none" help:"Label of the run; can be repeated."`
	Wait  bool      `help:"End only once the run's completion is stored."`
}

// Help is printed by `linesman pipe --help`.
func (pipeCmd) Help() string {
	return `Reads stdin to its end and never makes the writer wait for NATS: what NATS does not take yet is kept on disk.

Examples:

    codex exec --json "Go." </dev/null | linesman pipe
    linesman pipe --run T-local-1 --wait <recorded.jsonl

Exit status: 0 done, 1 failed, 2 bad flags or settings, 3 NATS is out of reach.`
}

func (c *pipeCmd) Run(ctx context.Context, a *app) error { return errNotBuilt }
