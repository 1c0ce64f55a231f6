package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/client"
)

type threadsCmd struct {
	Agent agentKind `placeholder:"NAME" help:"Only sessions of this agent."`
	Dir   string    `placeholder:"DIR" help:"Only sessions in this working directory."`
	Limit int       `default:"20" placeholder:"N" help:"How many sessions to list, 1 to 100 (default 20)."`
	jsonFlag
}

func (c *threadsCmd) Run(ctx context.Context, a *app) error {
	q := api.List{Agent: string(c.Agent), Dir: c.Dir, Limit: c.Limit}
	var err error
	switch {
	case c.Limit == 0: // the default of a request
		return exitWith(exitUsage, errors.New("--limit: must be 1 to 100"))
	case c.Dir != "":
		if q.Dir, err = filepath.Abs(c.Dir); err != nil {
			return fmt.Errorf("--dir: %w", err)
		}
	}
	return a.ask(ctx, func(l *client.Client) error {
		all, err := api.OpSessions.Call(ctx, l, q)
		if err != nil {
			return explain(err, map[string]string{"limit": "--limit"}, "")
		}
		return a.print(all, func() error { return a.shown(a.stdout).Sessions(all) })
	})
}
