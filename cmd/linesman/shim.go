package main

import (
	"context"

	"github.com/linesman/linesman/worker"
)

// shimCmd is the process that owns one agent. A worker starts it; nobody else
// has a reason to.
type shimCmd struct {
	Dir string `arg:"" name:"dir" help:"The run's directory."`
}

func (c *shimCmd) Run(context.Context, *app) error {
	if err := worker.Shim(c.Dir); err != nil {
		return exitWith(exitLinesman, err)
	}
	return nil
}
