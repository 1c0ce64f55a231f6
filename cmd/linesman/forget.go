package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/console"
	"github.com/linesman/linesman/runs"
)

type forgetCmd struct {
	Run_ runID `arg:"" name:"run" help:"Id of the run."`
	JSON bool  `name:"json" help:"Print how much was erased as JSON."`
}

// Help is printed by `linesman forget --help`.
func (forgetCmd) Help() string {
	return `Erases a run that has ended: what its agent wrote, its events, its record, the requests that began it with a key, and its
notifications. It cannot be undone. A run that has not ended is refused, and so is one whose task waits to be gone on with:
cancel it first. Of a task of several runs the one that ended it goes last. Its id stays, as a mark that it was
removed, and so does what its thread had used by then, as numbers. What subscribers have read already is theirs.

Examples:

    linesman forget T-local-0mwqeheq41ojmir

Exit status: 0 done, 1 failed, or the run has not ended, 2 bad flags or settings, 3 NATS is out of reach, 4 there is no
such run.`
}

func (c *forgetCmd) Run(ctx context.Context, a *app) error {
	a.whisper()
	run := string(c.Run_)
	b, err := a.client(ctx, embedded.OperatorUser)
	if err != nil {
		return err
	}
	defer b.Close()
	open := func(err error) error {
		return exitWith(exitFailed, fmt.Errorf("run %s: %w: `linesman cancel %s` ends it", run, err, run))
	}
	spool := filepath.Join(a.runsDir(), run)
	if _, err := os.Lstat(spool); err == nil {
		if record, ok, err := b.Record(ctx, run); err == nil && ok && record.EndedAt == 0 {
			return open(runs.ErrOpen)
		}
		return exitWith(exitFailed, fmt.Errorf(
			"run %s: its worker has not published all that is in %s: start it, with `linesman up` or `linesman "+
				"worker`, and try again", run, spool))
	}
	f, err := b.Forget(ctx, run)
	switch {
	case errors.Is(err, runs.ErrNoRun):
		return exitWith(exitNoRun, fmt.Errorf("there is no run %s", run))
	case errors.Is(err, runs.ErrOpen):
		return open(err)
	case err != nil:
		return err
	}
	if c.JSON {
		return console.PrintJSON(a.stdout, f)
	}
	_, err = fmt.Fprintf(a.stdout, "%s forgotten: %d entries of its raw log, %d events\n", run, f.Entries, f.Events)
	return err
}
