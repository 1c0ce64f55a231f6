package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/linesman/linesman/console"
	"github.com/linesman/linesman/daemon"
	"github.com/linesman/linesman/runs"
)

type forgetCmd struct {
	Run_ runID `arg:"" name:"run" help:"Id of the run."`
	JSON bool  `name:"json" help:"Print how much was erased as JSON."`
}

func (c *forgetCmd) Run(ctx context.Context, a *app) error {
	return a.session(ctx, func(s *daemon.Session) error {
		f, err := s.Forget(ctx, string(c.Run_))
		switch {
		case errors.Is(err, runs.ErrNoRun):
			return errNoRun(c.Run_)
		case errors.Is(err, runs.ErrOpen):
			return fmt.Errorf("run %s: %w: `linesman cancel %[1]s` ends it", c.Run_, err)
		case err != nil:
			return err
		case c.JSON:
			return console.PrintJSON(a.stdout, f)
		}
		_, err = fmt.Fprintf(a.stdout, "%s forgotten: %d entries of its raw log, %d events\n", c.Run_, f.Entries, f.Events)
		return err
	})
}

type rebuildCmd struct {
	JSON bool `name:"json" help:"Print the result as JSON."`
}

func (c *rebuildCmd) Run(ctx context.Context, a *app) error {
	return a.session(ctx, func(s *daemon.Session) error {
		r, err := s.Rebuild(ctx)
		switch {
		case err != nil:
			return err
		case c.JSON:
			r.Differences = append([]string{}, r.Differences...) // an empty list is a list in JSON, too
			err = console.PrintJSON(a.stdout, r)
		default:
			for _, d := range r.Differences {
				fmt.Fprintln(a.stdout, d)
			}
			_, err = fmt.Fprintf(a.stdout, "%d raw records read, %d runs and %d events compared, %d runs only kept in part, "+
				"%d differences\n", r.Entries, r.Runs, r.Events, r.Partial, len(r.Differences))
		}
		if err == nil && len(r.Differences) > 0 {
			return exitWith(exitFailed, nil)
		}
		return err
	})
}
