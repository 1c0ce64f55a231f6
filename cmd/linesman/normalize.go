package main

import "context"

type normalizeCmd struct {
	Agent        agentKind `default:"codex" placeholder:"KIND" help:"The dialect of the input."`
	ExitCode     *int      `name:"exit-code" placeholder:"N" help:"Exit code of the process that printed it: the completion then has a status."`
	MaxLineBytes string    `name:"max-line-bytes" setting:"max_line_bytes" placeholder:"SIZE" help:"${max_line_bytes}"`
}

// Help is printed by `linesman normalize --help`.
func (normalizeCmd) Help() string {
	return `A pure function: the same lines give the same bytes. Every event is a line on stdout, and so is the completion,
which comes last.

Examples:

    linesman normalize <recorded.jsonl
    linesman normalize --exit-code 1 <failed.jsonl | jq .event.kind

Exit status: 0 done, 1 failed, 2 bad flags or settings. A bad line is an Error event and no failure.`
}

func (c *normalizeCmd) Run(ctx context.Context, a *app) error { return errNotBuilt }
