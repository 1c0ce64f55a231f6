package worker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/runs"
)

// TailSpec says what to tail.
type TailSpec struct {
	Paths  []string // JSONL files that others write
	Agent  string   // agent kind of what they hold
	Labels map[string]string
	Once   bool // import the files: read each to its end, end its run, and return
	Again  bool // with Once: also those that were imported and have not changed

	// Began is called with the run of each file that is begun or resumed,
	// Skipped with the last run of each file that Once leaves out. They are
	// called from several goroutines, and may be nil.
	Began, Skipped func(run, path string)

	// Waiting is called at most once, with the first file that Once waits for
	// because another process imports it. It may be nil.
	Waiting func(path string)
}

// ErrTooMany reports more files to follow than there are descriptors for.
var ErrTooMany = errors.New("too many files to follow")

// A file that is followed takes three descriptors; spare are those for all else.
const (
	perFile = 3
	spare   = 256
)

// tailPause is how often Tail looks for a file that is not there, and how long
// a file that was renamed or removed must be silent to be at its end.
const tailPause = time.Second

// Tail reads files that others write, in place; each file is a run. A file
// that is renamed or removed is read to its end, which ends its run; the next
// file at the path is a new run, and so is one whose content was replaced.
// A run goes on when the tailing process is started again.
//
// With Once a file that was imported before and has not changed is skipped,
// and of one that has grown the lines that were added are another run. The
// error names each path that could not be read, or that is followed, which is
// an [ErrFollowed]. Otherwise Tail
// waits for files to appear and returns nil when ctx ends; the runs stay open.
func (w *Worker) Tail(ctx context.Context, spec TailSpec) error {
	if err := errors.Join(runs.CheckAgent(spec.Agent), runs.CheckLabels(spec.Labels)); err != nil {
		return fmt.Errorf("tail: %w", err)
	}
	var paths []string
	seen := make(map[string]bool)
	for _, path := range spec.Paths {
		path, err := filepath.Abs(path)
		if err != nil {
			return fmt.Errorf("tail: %w", err)
		}
		if !seen[path] {
			seen[path] = true
			paths = append(paths, path)
		}
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("tail: %w", err)
	}
	descriptors := uint64(limit.Cur) // signed on FreeBSD
	open := w.tailedBefore()
	follow := func(ctx context.Context, path string) error {
		return (&tailedPath{w: w, spec: spec, path: path, open: open[path]}).tail(ctx)
	}
	slots := len(paths)
	if spec.Once {
		index, err := w.ledgerOf(ctx, spec, paths)
		if err != nil {
			return fmt.Errorf("tail: %w", err)
		}
		defer index.close()
		slots = importSlots(descriptors)
		var once sync.Once
		waiting := func(path string) {
			if spec.Waiting != nil {
				once.Do(func() { spec.Waiting(path) })
			}
		}
		follow = func(ctx context.Context, path string) error {
			return (&importing{w: w, spec: spec, path: path, open: open[path], ledger: index, anew: spec.Again, waiting: waiting}).run(ctx)
		}
	} else if need := uint64(perFile*slots + spare); slots > 1 && need > descriptors {
		return fmt.Errorf("tail: %w: %d files need %d file descriptors, the limit is %d (ulimit -n)", ErrTooMany, slots, need, descriptors)
	}

	var all errgroup.Group
	all.SetLimit(max(1, slots))
	errs := make([]error, len(paths))
	for i, path := range paths {
		if ctx.Err() != nil {
			break
		}
		all.Go(func() error {
			if err := follow(ctx, path); err != nil && ctx.Err() == nil {
				errs[i] = fmt.Errorf("tail %s: %w", path, err)
			}
			return nil
		})
	}
	_ = all.Wait() // each path has its own error
	return errors.Join(errs...)
}

// tailedBefore finds the run directories of files that were tailed before and
// not to their end.
func (w *Worker) tailedBefore() map[string][]string {
	open := make(map[string][]string)
	names, left, _ := runDirs(w.cfg.Root) // Create reports a root that cannot be used
	for _, name := range left {
		w.clear(filepath.Join(w.cfg.Root, name))
	}
	for _, name := range names {
		dir := filepath.Join(w.cfg.Root, name)
		if spec, err := readSpec(dir); err == nil && spec.Source == SourceTail {
			open[spec.File.Path] = append(open[spec.File.Path], dir)
		}
	}
	return open
}

// tailedPath is one path that is tailed: one run after the other.
type tailedPath struct {
	w    *Worker
	spec TailSpec
	path string
	open []string // run directories to go on with, oldest first
	last *File    // whose run was ended by somebody: left alone while it is there
	said bool     // that the file is not there
}

func (t *tailedPath) tail(ctx context.Context) error {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = time.Second, time.Minute
	for {
		err := t.one(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			wait.Reset()
		default:
			pause := wait.NextBackOff()
			t.w.log.Error("tail", zap.String("path", t.path), zap.Error(err), zap.Duration("retry", pause))
			if err := sleep(ctx, pause); err != nil {
				return err
			}
		}
	}
}

// one carries one run of the path to its end.
func (t *tailedPath) one(ctx context.Context) error {
	d, err := t.next(ctx)
	if err != nil {
		return err
	}
	if t.spec.Began != nil {
		t.spec.Began(d.Spec.Run, t.path)
	}
	r := t.w.Run(d)
	ex, err := r.Drive(ctx)
	foreign := errors.Is(err, ErrEnded) || errors.Is(err, ErrKnown)
	if err != nil && !foreign {
		t.open = append(t.open, d.Path())
		return err
	}
	if foreign || ex.Reason == runs.ReasonCancelled {
		t.last = d.Spec.File
	}
	return nil
}

// next returns the directory to go on with: one from before, else that of a
// new run once there is a file.
func (t *tailedPath) next(ctx context.Context) (*Dir, error) {
	for len(t.open) > 0 {
		d, err := openSoon(ctx, t.open[0])
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		t.open = t.open[1:]
		if err == nil {
			return d, nil
		}
	}
	file, err := t.appear(ctx)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	return Create(t.w.cfg.Root, Spec{
		Run:    runs.LocalID(now.UnixMilli(), rand.Uint64()),
		Agent:  t.spec.Agent,
		Source: SourceTail,
		Labels: t.spec.Labels,
		File:   &file,
	})
}

// appear waits until there is a file to read.
func (t *tailedPath) appear(ctx context.Context) (File, error) {
	watch := t.w.files.watch(t.path) // blind when the directory is missing too
	defer watch.close()
	tick := time.NewTicker(tailPause)
	defer tick.Stop()
	for {
		file, err := readableFile(t.path)
		if err == nil && (t.last == nil || *t.last != file) {
			t.said, t.last = false, nil
			return file, nil
		}
		if err != nil && !t.said {
			t.said = true
			t.w.log.Warn("wait for file", zap.String("path", t.path), zap.Error(err))
		}
		select {
		case <-ctx.Done():
			return file, ctx.Err()
		case <-watch.C:
		case <-tick.C:
		}
	}
}

// readableFile returns the identity of the regular file at path, which this
// process may read.
func readableFile(path string) (File, error) {
	f, file, _, err := openRegular(path)
	if err != nil {
		return File{}, err
	}
	return file, f.Close()
}

// openRegular opens the regular file at path, and tells its identity and size.
func openRegular(path string) (*os.File, File, int64, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // a FIFO would not let us go on
	if err != nil {
		return nil, File{}, 0, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("not a regular file")
	}
	if err != nil {
		return nil, File{}, 0, errors.Join(err, f.Close())
	}
	return f, fileOf(path, info), info.Size(), nil
}

// openSoon opens a run directory, over an Adopt that only looks at it.
func openSoon(ctx context.Context, path string) (*Dir, error) {
	const tries, pause = 20, 50 * time.Millisecond
	for range tries - 1 {
		d, err := Open(path)
		if !errors.Is(err, ErrOwned) {
			return d, err
		}
		if err := sleep(ctx, pause); err != nil {
			return nil, err
		}
	}
	return Open(path)
}

// tailed is a file that somebody else writes.
type tailed struct {
	out     *stream
	once    bool
	stopped bool
	gone    time.Time // since when the path names another file, or none
}

func (t *tailed) ended(now time.Time) (*runs.Exit, error) {
	eof := &runs.Exit{Reason: runs.ReasonEOF}
	if t.stopped || t.out.replaced || t.once {
		return eof, nil
	}
	if t.out.f == nil {
		return nil, nil
	}
	there, err := sameFile(t.out.f, t.out.path)
	switch {
	case err != nil:
		return nil, err
	case there:
		t.gone = time.Time{}
	case t.gone.IsZero():
		t.gone = now
	case now.Sub(t.gone) >= tailPause && now.Sub(t.out.grown) >= tailPause:
		return eof, nil
	}
	return nil, nil
}

func (t *tailed) stop() { t.stopped = true }

func (t *tailed) next() time.Duration {
	switch {
	case !t.gone.IsZero():
		return tailPause / 10
	case time.Since(t.out.grown) > time.Minute: // there may be thousands; what happens now is told by the watch
		return 5 * time.Second
	}
	return time.Second
}

func (t *tailed) lasting() bool { return false }
