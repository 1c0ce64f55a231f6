package main

import (
	"context"

	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/watch"
)

type watchCmd struct {
	On           string `name:"on" setting:"watch.on" placeholder:"KINDS" help:"${watch_on}"`
	StalledAfter string `name:"stalled-after" setting:"watch.stalled_after" placeholder:"DURATION" help:"${watch_stalled_after}"`
	Budget       string `name:"budget" setting:"watch.budget" placeholder:"BUDGETS" help:"${watch_budget}"`
	CancelOn     string `name:"cancel-on" setting:"watch.cancel_on" placeholder:"KINDS" help:"${watch_cancel_on}"`
	Exec         string `name:"exec" setting:"watch.exec" placeholder:"CMD" help:"${watch_exec}"`
	Webhook      string `name:"webhook" setting:"watch.webhook" placeholder:"URL" help:"${watch_webhook}"`
	SecretFile   string `name:"secret-file" setting:"watch.secret_file" placeholder:"FILE" help:"${watch_secret_file}"`
	State        string `name:"state" setting:"watch.state" placeholder:"FILE" help:"${watch_state}"`
	Once         bool   `help:"Look once and exit, for a timer: needs --state to report the ends since the last time."`
	jsonFlag
}

func (c *watchCmd) configure(a *app) (watch.Config, error) {
	return watch.Configure(a.config, watch.Surroundings{
		Environ: a.environ, Stdout: a.stdout, Stderr: a.stderr, JSON: a.json, Log: a.log,
	})
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
