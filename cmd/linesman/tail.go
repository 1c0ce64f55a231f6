package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/worker"
)

type tailCmd struct {
	Agent agentKind `default:"codex" placeholder:"KIND" help:"The dialect of the files."`
	Label labels    `placeholder:"K=V" mapsep:"none" help:"Label of the runs; can be repeated."`
	Once  bool      `help:"Import the files: stop at the end of each, instead of waiting for more."`
	Again bool      `help:"With --once: also import files that were imported before and have not changed."`
	Path  []string  `arg:"" name:"path" help:"JSONL files."`
}

// Help is printed by `linesman tail --help`.
func (tailCmd) Help() string {
	return `Every file is one run, which ends when the file is renamed or removed, once it is read to its end. Started again, it goes
on with the runs that have not ended where the stream ends: a line of them is published once. A file whose run has ended
begins another. The id of each run and the path of its file are printed as a line.

With --once any number of files is imported, a few at a time: each is read to its end, which ends its run. Interrupted
and repeated, it imports each file once. A file that was imported before and has not changed (device, inode, size,
checksum of its beginning and end) is skipped, and printed as "skipped RUN PATH". For a file that has grown, another run
holds the lines added since the import; if its last line was unfinished, that run begins with this line. A file with
other content is imported from its beginning. A file is imported again with another --agent, and into another NATS,
prefix or new streams. A file that another process imports is waited for. One that another "linesman tail" follows is an
error; the other files are imported. Without --once each file needs three file descriptors (ulimit -n).

Examples:

    linesman tail session.jsonl
    linesman tail --once --agent codex recorded/*.jsonl
    linesman tail --once --again recorded/broken.jsonl
    find sessions -name '*.jsonl' -print0 | xargs -0 linesman tail --once

Exit status: 0 done, 1 failed, 2 bad flags or settings, 3 NATS is out of reach.`
}

func (c *tailCmd) check(a *app) error {
	_, err := a.backend(c.Agent)
	if c.Again && !c.Once {
		err = errors.Join(err, errors.New("--again: needs --once"))
	}
	return err
}

func (c *tailCmd) Run(ctx context.Context, a *app) error {
	if c.Once {
		a.whisper()
	}
	b, err := a.client(ctx, embedded.OperatorUser)
	if err != nil {
		return err
	}
	defer b.Close()
	w, stop, err := a.driver(ctx, b)
	if err != nil {
		return err
	}
	defer stop()
	var mu sync.Mutex
	skipped := 0
	spec := worker.TailSpec{
		Paths: c.Path, Agent: string(c.Agent), Labels: c.Label, Once: c.Once, Again: c.Again,
		Began: func(run, path string) {
			mu.Lock()
			defer mu.Unlock()
			fmt.Fprintf(a.stdout, "%s %s\n", run, path)
		},
		Skipped: func(run, path string) {
			mu.Lock()
			defer mu.Unlock()
			skipped++
			fmt.Fprintf(a.stdout, "skipped %s %s\n", run, path)
		},
		Waiting: func(path string) {
			mu.Lock()
			defer mu.Unlock()
			fmt.Fprintf(a.stderr, "linesman: waiting: another process imports %s\n", path)
		},
	}
	err = quiet(w.Tail(ctx, spec))
	if skipped > 0 {
		fmt.Fprintf(a.stderr, "linesman: files skipped: %d, imported before and unchanged; --again imports them anew\n",
			skipped)
	}
	if c.Once && ctx.Err() != nil {
		err = errors.Join(err, errors.New("interrupted: the same call imports the rest"))
	}
	return err
}
