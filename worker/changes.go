package worker

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/worker/snapshot"
)

// Limits of the snapshots of the directories of runs.
const (
	takeTime     = 5 * time.Second  // before the agent starts, see Worker.takeTime
	compareTime  = 10 * time.Second // after it has ended, see Worker.compareTime
	maxSnapshots = 4                // that this worker takes at a time
)

// takeSnapshot takes a snapshot of the directory of an agent that is about to start, if it is in a
// git work tree. Without one the agent is started all the same, unless the run is cancelled meanwhile; the error is
// that of ctx.
func (r *Run) takeSnapshot(ctx context.Context) error {
	dir := r.dir.Spec.Dir
	if begun := r.process() > 1 || r.AgentBegun(); begun || !r.w.cfg.Diff || !r.dir.Spec.process() || r.stopped ||
		r.cancelRequested() || !snapshot.InWorkTree(dir) {
		return nil
	}
	taking, end := context.WithCancel(ctx)
	defer end()
	done := make(chan error, 1)
	go func() {
		done <- r.w.limited(taking, r.w.takeTime, func(ctx context.Context) error {
			return snapshot.Take(ctx, dir, r.dir.file(diffDir), filepath.Dir(r.w.cfg.Root))
		})
	}()
	var err error
	select {
	case err = <-done:
	case reason := <-r.cancels:
		r.cancelReason = &reason
		end()
		err = <-done
	}
	if r.cancelReason != nil { // there will be nothing to compare
		return errors.Join(ctx.Err(), os.RemoveAll(r.dir.file(diffDir)))
	}
	if err != nil && ctx.Err() == nil {
		r.log.Warn("no snapshot of the directory: the run will have no diff", zap.Error(pathless(err)))
	}
	return ctx.Err()
}

// noteChanges adds notes with what the agent has changed to the raw log, if the directory was in a
// git work tree when it started. The notes have the time of the exit, which may be long ago.
func (r *Run) noteChanges(ctx context.Context, ex runs.Exit) error {
	if !r.dir.Spec.process() {
		return nil
	}
	d := runs.Diff{}
	switch scratch := r.dir.file(diffDir); {
	case exists(scratch):
		err := r.w.limited(ctx, r.w.compareTime, func(ctx context.Context) (err error) {
			d, err = snapshot.Diff(ctx, r.dir.Spec.Dir, scratch)
			return err
		})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			d.Reason = snapshot.Reason(err)
			r.log.Warn("no diff of the directory", zap.Error(pathless(err)))
		}
	case !r.w.cfg.Diff && snapshot.InWorkTree(r.dir.Spec.Dir):
		d.Reason = runs.DiffOff
	default:
		return nil
	}
	for _, body := range d.Notes(rand.Text()) {
		if err := r.noteEnd(ctx, ex, body); err != nil {
			return err
		}
	}
	return nil
}

// noteEnd adds a note with the time of the exit, unless the raw log has lost what is before.
func (r *Run) noteEnd(ctx context.Context, ex runs.Exit, body []byte) error {
	for {
		err := r.append(ctx, r.exitTime(ex, time.Now()), runs.Note, 0, body)
		if !onlyMoved(err) {
			return err
		}
	}
}

// pathless returns an error for the log, which has no paths of a work tree.
func pathless(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// limited calls f when fewer than maxSnapshots calls are running, or when a time limit that includes
// the wait has passed.
func (w *Worker) limited(ctx context.Context, within time.Duration, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	select {
	case w.snapshots <- struct{}{}:
		defer func() { <-w.snapshots }()
	case <-ctx.Done():
	}
	return f(ctx)
}
