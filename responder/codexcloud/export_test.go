package codexcloud

import (
	"context"
	"errors"
	"fmt"

	"github.com/linesman/linesman/runs"
)

// Refresh polls one task now, and writes changes to its run. The id may be ""
// if the log of the run has it. It does nothing for a run that has ended. The
// error is a [*Failure] if the program gave no answer.
func (d *Driver) Refresh(ctx context.Context, run, id string) error {
	t := &task{Open: Open{Run: run, ID: id}}
	if err := d.refresh(ctx, t); err != nil && !errors.Is(err, runs.ErrMoved) {
		return fmt.Errorf("run %s: %w", run, err)
	}
	return nil
}

func (d *Driver) refresh(ctx context.Context, t *task) error {
	if err := d.load(ctx, t); err != nil || t.over() {
		return err
	}
	if err := runs.CheckCloudTask(t.ID); err != nil {
		return err
	}
	a, err := d.status(ctx, t.ID)
	if err != nil {
		return err
	}
	_, err = d.advance(ctx, t, a)
	return err
}
