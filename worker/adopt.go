package worker

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/linesman/linesman/filelock"
)

// adoptEvery is how often Adopt looks for directories without an owner.
const adoptEvery = 2 * time.Second

// Adopt drives every run directory that nobody owns, and goes on to do so
// until ctx ends; then it returns nil. At most MaxRuns are driven at a time,
// the others wait. What is no run directory is set aside under another name.
//
// A file that was followed is left for whoever follows it next, unless it was
// replaced meanwhile: then its run ends. An import is carried to its end.
func (w *Worker) Adopt(ctx context.Context) error {
	a := &adoption{w: w, busy: make(map[string]bool)}
	a.group.SetLimit(w.cfg.MaxRuns)
	tick := time.NewTicker(adoptEvery)
	defer tick.Stop()
	for {
		a.scan(ctx)
		w.looked.Do(func() { close(w.adopted) })
		w.reap()
		select {
		case <-ctx.Done():
			return a.group.Wait()
		case <-tick.C:
		}
	}
}

type adoption struct {
	w     *Worker
	group errgroup.Group

	mu   sync.Mutex
	busy map[string]bool // by directory name; at most MaxRuns
	said bool            // that the root cannot be read

	trouble trouble // with opening directories
}

func (a *adoption) scan(ctx context.Context) {
	names, left, err := runDirs(a.w.cfg.Root)
	if err != nil && !a.said {
		a.w.log.Error("look for runs", zap.Error(err))
	}
	a.said = err != nil
	for _, name := range left {
		a.w.clear(filepath.Join(a.w.cfg.Root, name))
	}
	for _, name := range names {
		if ctx.Err() != nil {
			return
		}
		if !a.take(name) {
			continue
		}
		d := a.open(name)
		if d == nil {
			a.give(name)
			continue
		}
		r := a.w.Run(d)
		a.w.enter(r) // who counts the tasks sees it at once
		if !a.group.TryGo(func() error { a.drive(ctx, name, r); return nil }) {
			a.w.leave(r)
			d.Close()
			a.give(name)
		}
	}
}

// take reports whether the directory is not yet in anybody's hands here.
func (a *adoption) take(name string) bool {
	if _, driven := a.w.Lookup(name); driven {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.busy[name] {
		return false
	}
	a.busy[name] = true
	return true
}

func (a *adoption) give(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.busy, name)
}

// open opens the directory if it is one to be driven, else it returns nil.
func (a *adoption) open(name string) *Dir {
	path := filepath.Join(a.w.cfg.Root, name)
	d, err := Open(path)
	switch {
	case errors.Is(err, ErrBad):
		a.w.setAside(path, err)
		return nil
	case errors.Is(err, ErrOwned), errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		a.trouble.had()
		if a.trouble.new() {
			a.w.log.Error("adopt run", zap.String("run", name), zap.Error(err))
		}
		return nil
	}
	if d.Spec.Source == SourceTail && d.Spec.Part == nil {
		if info, err := os.Stat(d.Spec.File.Path); err == nil && d.Spec.File.is(info) {
			d.Close()
			return nil
		}
	}
	return d
}

// drive carries one run to its end, again and again where something of ours
// stands in the way.
func (a *adoption) drive(ctx context.Context, name string, r *Run) {
	defer a.give(name)
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = time.Second, time.Minute
	for {
		_, err := r.Drive(ctx)
		if err == nil || ctx.Err() != nil || errors.Is(err, ErrKnown) || errors.Is(err, ErrEnded) {
			return
		}
		pause := wait.NextBackOff()
		a.w.log.Error("drive run", zap.String("run", name), zap.Error(err), zap.Duration("retry", pause))
		if sleep(ctx, pause) != nil {
			return
		}
		d := a.open(name)
		if d == nil {
			return
		}
		r = a.w.Run(d)
		r.again = true
	}
}

// leftover reports whether a name in the root may be left by a killed process.
func leftover(name string) bool {
	return strings.HasPrefix(name, newPrefix) || strings.HasPrefix(name, gonePrefix) || strings.HasPrefix(name, importPrefix)
}

// clear deletes what a killed process left: an incomplete run directory, one
// that was being deleted, the lock file of an import.
func (w *Worker) clear(path string) {
	if strings.HasPrefix(filepath.Base(path), importPrefix) {
		w.clearImport(path)
		return
	}
	const complete = time.Minute // no Create takes so long
	if strings.HasPrefix(filepath.Base(path), newPrefix) {
		info, err := os.Lstat(path)
		if err != nil || time.Since(info.ModTime()) < complete {
			return
		}
	}
	if busy, err := filelock.Held(filepath.Join(path, ownerFile)); busy || err != nil {
		return
	}
	if err := os.RemoveAll(path); err != nil {
		w.log.Warn("clear away", zap.String("dir", filepath.Base(path)), zap.Error(err))
	}
}

// setAside renames what is no run directory, so that it is said only once.
func (w *Worker) setAside(path string, why error) {
	to := filepath.Join(filepath.Dir(path), badPrefix+filepath.Base(path))
	if exists(to) {
		to += "-" + strconv.FormatInt(time.Now().UnixMilli(), 36)
	}
	if err := os.Rename(path, to); err != nil {
		why = errors.Join(why, err)
	}
	w.log.Error("not a run directory, set aside", zap.String("run", filepath.Base(path)),
		zap.String("as", filepath.Base(to)), zap.Error(why))
}
