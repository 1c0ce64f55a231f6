package main

import "context"

type tailCmd struct {
	Agent agentKind `default:"codex" placeholder:"KIND" help:"The dialect of the files."`
	Once  bool      `help:"Stop at the end of each file, instead of waiting for more."`
	Path  []string  `arg:"" name:"path" help:"JSONL files."`
}

// Help is printed by `linesman tail --help`.
func (tailCmd) Help() string {
	return `Every file is one run. A file that is tailed again goes on where the stream ends, also after it was rotated: a line
is published once.

Examples:

    linesman tail session.jsonl
    linesman tail --once --agent codex recorded/*.jsonl

Exit status: 0 done, 1 failed, 2 bad flags or settings, 3 NATS is out of reach.`
}

func (c *tailCmd) Run(ctx context.Context, a *app) error { return errNotBuilt }
