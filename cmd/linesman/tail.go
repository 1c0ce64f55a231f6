package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/linesman/linesman/worker"
)

type tailCmd struct {
	Agent agentKind `default:"codex" placeholder:"KIND" help:"The dialect of the files."`
	Label labels    `placeholder:"K=V" mapsep:"none" help:"Label of the runs; can be repeated."`
	Once  bool      `help:"Stop at the end of each file, instead of waiting for more."`
	Path  []string  `arg:"" name:"path" help:"JSONL files."`
}

// Help is printed by `linesman tail --help`.
func (tailCmd) Help() string {
	return `Every file is one run, which ends when the file is renamed or removed, once it is read to its end. Started again, it goes
on with the runs that have not ended where the stream ends: a line of them is published once. A file whose run has ended,
as all have after --once, begins another. The id of each run and the path of its file are printed as a line.

Examples:

    linesman tail session.jsonl
    linesman tail --once --agent codex recorded/*.jsonl

Exit status: 0 done, 1 failed, 2 bad flags or settings, 3 NATS is out of reach.`
}

func (c *tailCmd) check(a *app) error {
	_, err := a.backend(c.Agent)
	return err
}

func (c *tailCmd) Run(ctx context.Context, a *app) error {
	if c.Once {
		a.whisper()
	}
	t, err := a.attach(ctx, false)
	if err != nil {
		return err
	}
	w, err := a.worker(t.bus)
	if err == nil {
		defer a.alive(ctx, t.bus, w, worker.Tasks{})()
		var mu sync.Mutex
		began := func(run, path string) {
			mu.Lock()
			defer mu.Unlock()
			fmt.Fprintf(a.stdout, "%s %s\n", run, path)
		}
		err = quiet(w.Tail(ctx, worker.TailSpec{Paths: c.Path, Agent: string(c.Agent), Labels: c.Label, Once: c.Once, Began: began}))
	}
	return errors.Join(err, t.close())
}
