package worker

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/linesman/linesman/internal/files"
	"github.com/linesman/linesman/runs"
)

// Adopt drives all run directories without an owner until ctx ends, then it
// returns nil. It drives at most MaxRuns runs at a time; the others wait.
// Directories that are not valid run directories are quarantined under another
// name.
//
// Adopt leaves the runs of followed files to the next Tail, unless the file
// was replaced meanwhile: then it ends the run. It completes interrupted
// imports.
func (w *Worker) Adopt(ctx context.Context) error {
	a := &adoption{w: w, failures: make(map[string]*retryDelay), left: make(map[string]leftForTail)}
	tick := time.NewTicker(w.adoptEvery)
	defer tick.Stop()
	for {
		a.scan(ctx)
		w.adoptOnce.Do(func() { close(w.adopted) })
		w.reap()
		select {
		case <-ctx.Done():
			return a.group.Wait()
		case <-tick.C:
		}
	}
}

type adoption struct {
	w       *Worker
	group   errgroup.Group
	driving atomic.Int32           // runs
	left    map[string]leftForTail // directories that were left to the next Tail

	logged    bool       // the error of listing the root
	openRetry retryDelay // after errors of opening directories

	mu       sync.Mutex
	failures map[string]*retryDelay // after local errors of driven runs, by directory name
}

// leftForTail is a directory of a followed file, as it was when it was read.
type leftForTail struct {
	spec os.FileInfo
	file *file
}

func (a *adoption) scan(ctx context.Context) {
	names, left, err := runDirs(a.w.cfg.Root)
	if err != nil && !a.logged {
		a.w.log.Error("list run directories", zap.Error(err))
	}
	if a.logged = err != nil; !a.logged {
		gone := func(name string) bool { // the names are sorted
			_, found := slices.BinarySearch(names, name)
			return !found
		}
		a.mu.Lock()
		maps.DeleteFunc(a.failures, func(name string, _ *retryDelay) bool { return gone(name) })
		a.mu.Unlock()
		maps.DeleteFunc(a.left, func(name string, _ leftForTail) bool { return gone(name) })
	}
	for _, name := range left {
		a.w.removeLeftover(filepath.Join(a.w.cfg.Root, name))
	}
	for _, name := range names {
		if ctx.Err() != nil {
			return
		}
		failure := a.failure(name)
		if _, driven := a.w.drivenRun(name); driven || failure != nil && failure.remaining() > 0 {
			continue
		}
		if int(a.driving.Load()) >= a.w.cfg.MaxRuns || a.isLeft(name) {
			continue
		}
		d := a.open(name)
		if d == nil {
			continue
		}
		r := a.w.Run(d)
		r.retried = failure != nil
		a.w.register(r) // counted from now on
		a.driving.Add(1)
		a.group.Go(func() error {
			defer a.driving.Add(-1)
			a.drive(ctx, name, r)
			return nil
		})
		if failure == nil {
			a.w.cfg.Metrics.Adopted()
		}
	}
}

func (a *adoption) failure(name string) *retryDelay {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.failures[name]
}

// drive drives one run. After a local error the next scans retry it.
func (a *adoption) drive(ctx context.Context, name string, r *Run) {
	_, err := r.Drive(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil || ctx.Err() != nil || errors.Is(err, ErrKnown) || errors.Is(err, ErrEnded) {
		delete(a.failures, name)
		return
	}
	if a.failures[name] == nil {
		a.failures[name] = new(retryDelay)
	}
	_ = a.failures[name].failed()
	a.w.log.Error("drive run", zap.String("run", name), zap.Error(err),
		zap.Duration("retry", a.failures[name].remaining()))
}

// open opens the directory, or returns nil if there is nothing to drive.
func (a *adoption) open(name string) *Dir {
	path := filepath.Join(a.w.cfg.Root, name)
	if owned, err := files.Held(filepath.Join(path, ownerFile)); owned && err == nil { // which open takes longer to find
		return nil
	}
	d, err := open(path)
	switch {
	case errors.Is(err, errBad):
		a.w.quarantine(path, err)
		return nil
	case errors.Is(err, errOwned), errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		if a.openRetry.failed() {
			a.w.log.Error("adopt run", zap.String("run", name), zap.Error(err))
		}
		return nil
	}
	if d.Spec.Source == runs.SourceTail && d.Spec.Part == nil {
		if info, err := os.Stat(d.Spec.File.Path); err == nil && d.Spec.File.is(info) {
			if spec, err := os.Lstat(d.file(specFile)); err == nil {
				a.left[name] = leftForTail{spec, d.Spec.File}
			}
			d.Close()
			return nil
		}
	}
	return d
}

// isLeft reports whether a directory is still one that is left to the next Tail: then it is not read again.
func (a *adoption) isLeft(name string) bool {
	known, ok := a.left[name]
	if !ok {
		return false
	}
	spec, err := os.Lstat(filepath.Join(a.w.cfg.Root, name, specFile))
	if err == nil && os.SameFile(spec, known.spec) && spec.ModTime().Equal(known.spec.ModTime()) {
		if info, err := os.Stat(known.file.Path); err == nil && known.file.is(info) {
			return true
		}
	}
	delete(a.left, name)
	return false
}

// isLeftover reports whether a killed process may have left this entry of the
// root.
func isLeftover(name string) bool {
	return strings.HasPrefix(name, newPrefix) || strings.HasPrefix(name, gonePrefix) ||
		strings.HasPrefix(name, importPrefix)
}

// removeLeftover deletes what a killed process left: an incomplete run
// directory, a directory that was being removed, or the lock file of an
// import.
func (w *Worker) removeLeftover(path string) {
	if strings.HasPrefix(filepath.Base(path), importPrefix) {
		w.removeImportLock(path)
		return
	}
	const complete = time.Minute // Create never takes this long
	if strings.HasPrefix(filepath.Base(path), newPrefix) {
		info, err := os.Lstat(path)
		if err != nil || time.Since(info.ModTime()) < complete {
			return
		}
	}
	if busy, err := files.Held(filepath.Join(path, ownerFile)); busy || err != nil {
		return
	}
	if err := os.RemoveAll(path); err != nil {
		w.log.Warn("remove leftovers of a killed process", zap.String("dir", filepath.Base(path)), zap.Error(err))
	}
}

// quarantine renames an entry that is not a run directory, so it is logged
// only once.
func (w *Worker) quarantine(path string, why error) {
	to := filepath.Join(filepath.Dir(path), badPrefix+filepath.Base(path))
	if exists(to) {
		to += "-" + strconv.FormatInt(time.Now().UnixMilli(), 36)
	}
	if err := os.Rename(path, to); err != nil {
		why = errors.Join(why, err)
	}
	w.log.Error("not a run directory, quarantined", zap.String("run", filepath.Base(path)),
		zap.String("as", filepath.Base(to)), zap.Error(why))
}

// backlogReport describes the run directories of a worker.
type backlogReport struct {
	Runs    int   // directories
	Bytes   int64 // of stdout that are not published yet, according to the marks
	Writing int   // runs with a process that can still write output: an agent, its children, or a pipe

	// Unsupervised names the runs that have agent processes but no shim, and so no
	// limits. A worker that drives such a run starts a shim within two seconds.
	Unsupervised []string
}

// runDirs lists the run directories in root, and the entries that a killed
// process may have left there. A missing root is empty.
func runDirs(root string) (names, left []string, err error) {
	entries, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	for _, e := range entries {
		switch name := e.Name(); {
		case isLeftover(name):
			left = append(left, name)
		case e.IsDir() && runs.CheckID(name) == nil:
			names = append(names, name)
		}
	}
	return names, left, err
}

// ReadBacklog reads the run directories below root, whoever owns them, and
// changes nothing. Marks are written concurrently, so Bytes is an estimate, and
// never too low. It does not include the bytes of tailed files.
func ReadBacklog(root string) (b backlogReport, err error) {
	names, _, err := runDirs(root)
	if err != nil {
		return b, err
	}
	for _, name := range names {
		b.Runs++
		run := filepath.Join(root, name)
		dir := run // of the files of the agent
		if d := (&Dir{path: run}); exists(d.processDir(1)) {
			dir = d.processDir(d.process())
		}
		if out, err := os.Stat(filepath.Join(dir, outFile)); err == nil { // else a tailed file, or the run has just ended
			m := mark{}
			line, err := readBounded(filepath.Join(run, markFile), markSize)
			if err != nil || copy(m.line[:], line) < markSize || !m.decode() {
				m.progress = progress{}
			}
			b.Bytes += max(m.Out.Base+out.Size()-m.Log.Out, 0)
		}
		// In this order: a shim takes its lock before it claims the start, and
		// releases it after the agent has ended.
		begun := exists(filepath.Join(dir, startedFile))
		supervised, err := files.Held(filepath.Join(dir, shimFile))
		writing, werr := files.Held(filepath.Join(dir, outFile))
		if writing {
			b.Writing++
		}
		if !begun || supervised || err != nil || werr != nil {
			continue
		}
		id, _ := readIdentity(dir)
		m := &members{id: id, dir: dir}
		if _, running := m.agent(); writing || running {
			b.Unsupervised = append(b.Unsupervised, name)
		}
	}
	return b, nil
}
