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

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/linesman/linesman/filelock"
	"github.com/linesman/linesman/runs"
)

// adoptEvery is the interval at which Adopt looks for run directories without
// an owner.
const adoptEvery = 2 * time.Second

// Adopt drives all run directories without an owner until ctx ends, then it
// returns nil. It drives at most MaxRuns runs at a time; the others wait.
// Directories that are not valid run directories are quarantined under another
// name.
//
// Adopt leaves the runs of followed files to the next Tail, unless the file
// was replaced meanwhile: then it ends the run. It completes interrupted
// imports.
func (w *Worker) Adopt(ctx context.Context) error {
	a := &adoption{w: w, busy: make(map[string]bool)}
	a.group.SetLimit(w.cfg.MaxRuns)
	tick := time.NewTicker(adoptEvery)
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
	w     *Worker
	group errgroup.Group

	mu     sync.Mutex
	busy   map[string]bool // by directory name; at most MaxRuns
	logged bool            // the error of listing the root

	openRetry retryDelay // after errors of opening directories
}

func (a *adoption) scan(ctx context.Context) {
	names, left, err := runDirs(a.w.cfg.Root)
	if err != nil && !a.logged {
		a.w.log.Error("list run directories", zap.Error(err))
	}
	a.logged = err != nil
	for _, name := range left {
		a.w.removeLeftover(filepath.Join(a.w.cfg.Root, name))
	}
	for _, name := range names {
		if ctx.Err() != nil {
			return
		}
		if !a.claim(name) {
			continue
		}
		d := a.open(name)
		if d == nil {
			a.release(name)
			continue
		}
		r := a.w.Run(d)
		a.w.register(r) // counted from now on
		if !a.group.TryGo(func() error { a.drive(ctx, name, r); return nil }) {
			a.w.unregister(r)
			d.Close()
			a.release(name)
		}
	}
}

// claim reserves the directory, and reports false if this worker already
// drives it.
func (a *adoption) claim(name string) bool {
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

func (a *adoption) release(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.busy, name)
}

// open opens the directory, or returns nil if there is nothing to drive.
func (a *adoption) open(name string) *Dir {
	path := filepath.Join(a.w.cfg.Root, name)
	d, err := Open(path)
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
	if d.Spec.Source == SourceTail && d.Spec.Part == nil {
		if info, err := os.Stat(d.Spec.File.Path); err == nil && d.Spec.File.is(info) {
			d.Close()
			return nil
		}
	}
	return d
}

// drive drives one run to its end, and retries after local errors.
func (a *adoption) drive(ctx context.Context, name string, r *Run) {
	defer a.release(name)
	wait := newBackoff()
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
		r.retried = true
	}
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
	if busy, err := filelock.Held(filepath.Join(path, ownerFile)); busy || err != nil {
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

// Backlog is the amount of local data that is not yet in the raw log.
type Backlog struct {
	Runs  int   // directories of runs
	Bytes int64 // of stdout that are not published yet, according to the marks
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
// changes nothing. Marks are written concurrently, so the result is an
// estimate, and never too low. It does not count the bytes of tailed files.
func ReadBacklog(root string) (b Backlog, err error) {
	names, _, err := runDirs(root)
	if err != nil {
		return b, err
	}
	for _, name := range names {
		b.Runs++
		dir := filepath.Join(root, name)
		out, err := os.Stat(filepath.Join(dir, outFile))
		if err != nil { // a tailed file, or the run has just ended
			continue
		}
		m := mark{}
		line, err := readBounded(filepath.Join(dir, markFile), markSize)
		if err != nil || copy(m.line[:], line) < markSize || !m.decode() {
			m.progress = progress{}
		}
		b.Bytes += max(m.Out.Base+out.Size()-m.Log.Out, 0)
	}
	return b, nil
}

// StillWriting returns the number of runs below root with a process that can
// still write output: an agent, its children, or a pipe.
func StillWriting(root string) (n int) {
	names, _, _ := runDirs(root)
	for _, name := range names {
		if busy, err := filelock.Held(filepath.Join(root, name, outFile)); busy && err == nil {
			n++
		}
	}
	return n
}

// Unsupervised names the runs below root that have agent processes but no
// shim, and so no limits. A worker that drives such a run starts a shim within
// two seconds.
func Unsupervised(root string) (list []string, err error) {
	names, _, err := runDirs(root)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		dir := filepath.Join(root, name)
		if !exists(filepath.Join(dir, startedFile)) {
			continue
		}
		if supervised, err := filelock.Held(filepath.Join(dir, shimFile)); supervised || err != nil {
			continue
		}
		writing, err := filelock.Held(filepath.Join(dir, outFile))
		if err != nil {
			continue
		}
		m := &members{id: readIdentity(dir), dir: dir}
		if _, running := m.agent(); writing || running {
			list = append(list, name)
		}
	}
	return list, nil
}
