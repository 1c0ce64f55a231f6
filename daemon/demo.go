package daemon

import (
	"context"
	"errors"
	"os"

	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/worker"
)

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
