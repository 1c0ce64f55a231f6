package daemon

import (
	"context"
	_ "embed"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/worker"
)

// demoRun is what the real Codex printed; see test/corpus/codex.
//
//go:embed demo/run.jsonl
var demoRun string

// DemoEnd is a format for the id of the run: what to try after the demonstration.
//
//go:embed demo/end.txt
var DemoEnd string

// Demo runs `linesman play` as an agent, and calls watch meanwhile, which returns at the end
// of the run. It returns the id of the run.
func (d *Daemon) Demo(
	ctx context.Context, c Config, watch func(ctx context.Context, s *Session, run string) error,
) (run string, err error) {
	s, err := d.Session(ctx, c)
	if err != nil {
		return "", err
	}
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	dir, err := s.Create(ctx, worker.Spec{
		Attributes: runs.Attributes{Agent: "codex", Title: "A recorded run of Codex",
			Labels: runs.LabelsOf(map[string]string{"demo": "recorded"}), Dir: c.Settings.DataDir}, Source: runs.SourceRun,
		Attended: true, Argv: []string{self, "play"}, Env: c.Environ,
	})
	if err != nil {
		return "", err
	}
	driven := make(chan error, 1)
	go func() { driven <- s.Drive(ctx, dir) }()
	err = watch(ctx, s, dir.Spec.Run)
	return dir.Spec.Run, errors.Join(<-driven, err)
}

// Play prints the recorded run at about the pace of an agent.
func Play(ctx context.Context, w io.Writer) error {
	for line := range strings.Lines(demoRun) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(300 * time.Millisecond):
		}
		if _, err := io.WriteString(w, line); err != nil {
			return err
		}
	}
	return nil
}
