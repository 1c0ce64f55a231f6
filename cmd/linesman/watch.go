package main

import (
	"context"
	"time"

	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/cmd/watch"
	"github.com/linesman/linesman/config"
)

type watchCmd struct {
	On           []string      `placeholder:"KINDS" help:"${watch_on}"`
	StalledAfter time.Duration `placeholder:"DURATION" help:"${watch_stalled_after}"`
	Budget       []string      `placeholder:"BUDGETS" help:"${watch_budget}"`
	CancelOn     []string      `placeholder:"KINDS" help:"${watch_cancel_on}"`
	Exec         string        `placeholder:"CMD" help:"${watch_exec}"`
	Webhook      string        `placeholder:"URL" help:"${watch_webhook}"`
	SecretFile   string        `placeholder:"FILE" help:"${watch_secret_file}"`
	State        string        `placeholder:"FILE" help:"${watch_state}"`
	Once         bool          `help:"Look once and exit, for a timer: needs --state to report the ends since the last time."`
	jsonFlag
}

func (c *watchCmd) configure(a *app) (watch.Config, error) {
	return watch.Configure(a.config, config.Watch{
		On: c.On, StalledAfter: c.StalledAfter, Budgets: c.Budget, CancelOn: c.CancelOn, Exec: c.Exec, Webhook: c.Webhook,
		SecretFile: c.SecretFile, State: c.State,
	}, watch.Surroundings{Environ: a.environ, Stdout: a.stdout, Stderr: a.stderr, JSON: a.json, Log: a.log})
}

func (c *watchCmd) check(a *app) error {
	_, err := c.configure(a)
	return err
}

func (c *watchCmd) Run(ctx context.Context, a *app) error {
	cfg, err := c.configure(a)
	if err != nil {
		return err
	}
	return a.ask(ctx, func(l *client.Client) error {
		cfg.Runs = l
		return watch.Run(ctx, cfg, c.Once)
	})
}
