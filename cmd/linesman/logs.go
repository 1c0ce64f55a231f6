package main

import (
	"context"
	"errors"
)

type logsCmd struct {
	Run_   runRef `arg:"" name:"run" help:"${run}"`
	Follow bool   `short:"f" help:"Also print what comes, until the run has ended."`
	Last   int    `placeholder:"N" help:"Begin with the last N items, 1 to 1000. By default with the first one."`
	Diffs  bool   `help:"Also print the diffs of changed files, as far as the agent tells them."`
	Full   bool   `help:"Print texts and output as far as they are kept, and all events."`
	jsonFlag
}

func (c *logsCmd) Run(ctx context.Context, a *app) error { return errors.New("not yet") }

type attachCmd struct {
	Run_ runRef `arg:"" name:"run" help:"${run}"`
	jsonFlag
}

func (c *attachCmd) Run(ctx context.Context, a *app) error { return errors.New("not yet") }

type diffCmd struct {
	Run_ runRef `arg:"" name:"run" help:"${run}"`
	Stat bool   `help:"Print only the files with the number of changed lines."`
	jsonFlag
}

func (c *diffCmd) Run(ctx context.Context, a *app) error { return errors.New("not yet") }
