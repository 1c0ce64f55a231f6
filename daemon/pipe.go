package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sync/errgroup"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/local"
	"github.com/linesman/linesman/worker"
)

// Pipe publishes what it reads from in as a run, and returns the ID of the run once
// all of it is stored; with wait, once its completion is stored, too. It reads
// while it connects, because the writer waits for nothing. The error is
// [worker.ErrKnown] if the ID of the run is in use. After other errors the next
// `linesman up` publishes what was read.
func Pipe(ctx context.Context, c Config, in io.Reader, spec worker.Spec, wait bool) (run string, err error) {
	var s *Session
	if c.Settings.NATS != "" || !c.Settings.Background.Start { // else a server is running, or will be started
		if s, err = Open(ctx, c); err != nil {
			return "", err
		}
		defer s.Close()
	}
	spec.Run = cmp.Or(spec.Run, newID())
	run = spec.Run
	d, err := c.create(spec)
	if err != nil {
		return "", err
	}
	path := d.Path()
	reading, stop := context.WithCancel(ctx)
	defer stop()
	var read errgroup.Group
	read.Go(func() error { return worker.Pipe(reading, in, d) })
	if s == nil {
		if s, err = Open(ctx, c); err == nil {
			defer s.Close()
		}
	}
	if err == nil {
		if err = s.checkUnknown(ctx, run); err == nil {
			err = s.Drive(ctx, d)
		} else if errors.Is(err, worker.ErrKnown) {
			stop()
			_ = read.Wait() // what was read is not wanted
			return "", errors.Join(err, d.Remove())
		}
	}
	away := errors.Is(err, local.ErrUnavailable)
	if err == nil || !away && !bus.IsAway(err) {
		stop()
	}
	if readErr := read.Wait(); err == nil {
		err = readErr
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return "", fmt.Errorf("run %s: interrupted; what was read is in %s, and the next `linesman up` takes it", run, path)
	case away:
		return "", fmt.Errorf("run %s: what was read is in %s, and the next `linesman up` takes it: %w", run, path, err)
	case err != nil:
		return "", fmt.Errorf("run %s: %w", run, err)
	case !wait:
		return run, nil
	}
	for _, err := range s.Client().Follow(ctx, client.Filter{Run: run, Kinds: []string{api.Completion}, Follow: true}) {
		if err != nil {
			return "", err
		}
	}
	return run, ctx.Err()
}
