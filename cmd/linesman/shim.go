package main

import (
	"context"
	"errors"

	"github.com/linesman/linesman/worker"
)

// shimCmd is the process that owns one agent. A worker starts it; nobody else
// has a reason to.
type shimCmd struct {
	Dir string `arg:"" name:"dir" help:"The run's directory."`
}

func (c *shimCmd) Run(context.Context, *app) error {
	err := worker.Shim(c.Dir)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, worker.ErrNotNeeded):
		return exitWith(worker.NotNeeded, err)
	}
	return exitWith(exitLinesman, err)
}
