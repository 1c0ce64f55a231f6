package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/worker"
)

// isKnown reports whether a run ID is in use.
func (a *app) isKnown(ctx context.Context, b *bus.Bus, run string) (is bool, err error) {
	err = a.insist(ctx, func(ctx context.Context) error {
		is, err = b.Known(ctx, run)
		return err
	})
	return is, err
}

// createRun creates the directory of a run whose ID is not in use. If another
// process takes the ID meanwhile, the fence of the raw log detects it.
func (a *app) createRun(ctx context.Context, b *bus.Bus, spec worker.Spec) (*worker.Dir, error) {
	switch is, err := a.isKnown(ctx, b, spec.Run); {
	case err != nil:
		return nil, err
	case is:
		return nil, errKnown(spec.Run)
	}
	return a.createDir(spec)
}

// createDir is createRun without a request to the server.
func (a *app) createDir(spec worker.Spec) (*worker.Dir, error) {
	d, err := worker.Create(a.runsDir(), spec)
	if errors.Is(err, fs.ErrExist) {
		return nil, errKnown(spec.Run)
	}
	return d, err
}

func errKnown(run string) error {
	return fmt.Errorf("run %s: %w: choose another id", run, worker.ErrKnown)
}
