package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/daemon"
	"github.com/linesman/linesman/worker"
)

// demoRun is what the real Codex printed; see test/corpus/codex.
//
//go:embed demo/run.jsonl
var demoRun string

//go:embed demo/end.txt
var demoEnd string

// demo plays the recorded run through the whole path, as an agent of its own.
func (a *app) demo(ctx context.Context, up *daemon.Daemon) error {
	s, err := up.Session(ctx, a.host())
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	d, err := s.Create(ctx, worker.Spec{
		Agent: "codex", Source: worker.SourceRun, Attended: true, Labels: map[string]string{"demo": "recorded"},
		Argv: []string{self, "play"}, Dir: a.config.DataDir, Env: a.environ,
	})
	if err != nil {
		return err
	}
	id := d.Spec.Run
	driven := make(chan error, 1)
	go func() { driven <- s.Drive(ctx, d) }()
	_, watchErr := a.printer(s.Client(), false, nil)(ctx, client.Filter{Run: id, Follow: true})
	if err := errors.Join(<-driven, watchErr); err != nil || ctx.Err() != nil {
		return err
	}
	_, err = fmt.Fprintf(a.stdout, demoEnd, id)
	return err
}

// playCmd prints the recorded run at about the pace of an agent.
type playCmd struct{}

func (playCmd) Run(ctx context.Context, a *app) error {
	for line := range strings.Lines(demoRun) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(300 * time.Millisecond):
		}
		if _, err := io.WriteString(a.stdout, line); err != nil {
			return err
		}
	}
	return nil
}
