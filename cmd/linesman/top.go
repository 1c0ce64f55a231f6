package main

import (
	"context"

	"go.uber.org/zap"

	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/cmd/top"
	"github.com/linesman/linesman/worker"
)

type topCmd struct {
	Filter string `placeholder:"TEXT" help:"Show only runs that match, as the key / does: words, state:working, agent:claude, label:ticket=42, dir:src."`
}

func (c *topCmd) Run(ctx context.Context, a *app) error {
	screen := top.Config{Stdin: a.stdin, Stdout: a.stdout, Environ: a.environ, Getenv: a.getenv, Filter: c.Filter,
		Inside: worker.InAgent(a.environ)}
	if err := screen.Check(); err != nil {
		return exitWith(exitUsage, err)
	}
	a.dialer.Log = zap.NewNop() // the screen shows outages
	return a.ask(ctx, func(l *client.Client) error { return top.Run(ctx, l, screen) })
}
