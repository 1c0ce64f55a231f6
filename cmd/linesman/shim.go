package main

import "context"

// shimCmd is the process that owns one agent. A worker starts it; nobody else
// has a reason to.
type shimCmd struct {
	Dir string `arg:"" name:"dir" help:"The run's directory."`
}

func (c *shimCmd) Run(ctx context.Context, a *app) error { return exitWith(exitLinesman, errNotBuilt) }
