package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/worker/sessionlog"
)

// TailSpec configures Tail.
type TailSpec struct {
	Paths  []string // JSONL files of other programs
	Agent  string   // agent kind of their content
	Labels runs.Labels
	Title  string // of the runs of all files; "": of the log of a session its prompt, else the name of each file
	Once   bool   // import the files: read each to its end, end its run, and return
	Again  bool   // with Once: also import unchanged files that were imported before

	// Began is called with the run of each file that is started or resumed, Skipped
	// with the last run of each file that Once skips. They are called from several
	// goroutines, and may be nil.
	Began, Skipped func(run, path string)

	// Waiting is called at most once, with the first file that Once waits for
	// because another process imports it. It may be nil.
	Waiting func(path string)
}

// errTooMany reports that there are too few file descriptors to follow the
// files.
var errTooMany = errors.New("too many files to follow")

// A followed file uses three descriptors; spare is the number reserved for
// everything else.
const (
	perFile = 3
	spare   = 256
)

// Tail reads files that other programs write, in place; each file is a run. A
// file that is renamed or removed is read to its end, which ends its run. The
// next file at the path is a new run, and so is a file whose content was
// replaced. The run of a file resumes when the tailing process restarts.
//
// With Once, a file that was imported before and has not changed is skipped.
// If it has grown, the added lines become another run. The error names each
// path that could not be read, or that another process follows
// ([errFollowed]).
//
// Without Once, Tail waits for files to appear, and returns nil when ctx ends;
// the runs stay open.
func (w *Worker) Tail(ctx context.Context, spec TailSpec) error {
	if err := errors.Join(runs.CheckAgent(spec.Agent), spec.Labels.Check()); err != nil {
		return fmt.Errorf("tail: %w", err)
	}
	paths, err := absolutePaths(spec.Paths)
	if err != nil {
		return fmt.Errorf("tail: %w", err)
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
			return (&importing{
				w: w, spec: spec, path: path, open: open[path], ledger: index, force: spec.Again, waiting: waiting,
			}).run(ctx)
		}
	} else if need := uint64(perFile*slots + spare); slots > 1 && need > descriptors {
		return fmt.Errorf("tail: %w: %d files need %d file descriptors, the limit is %d (ulimit -n)",
			errTooMany, slots, need, descriptors)
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

// absolutePaths returns the absolute paths without duplicates.
func absolutePaths(paths []string) (all []string, err error) {
	seen := make(map[string]bool)
	for _, path := range paths {
		path, err := filepath.Abs(path)
		if err != nil {
			return nil, err
		}
		if !seen[path] {
			seen[path] = true
			all = append(all, path)
		}
	}
	return all, nil
}

// tailedBefore returns the run directories of tailed files that have not
// ended, by path.
func (w *Worker) tailedBefore() map[string][]string {
	open := make(map[string][]string)
	names, left, _ := runDirs(w.cfg.Root) // Create reports an unusable root
	for _, name := range left {
		w.removeLeftover(filepath.Join(w.cfg.Root, name))
	}
	for _, name := range names {
		dir := filepath.Join(w.cfg.Root, name)
		if spec, err := readSpec(dir); err == nil && spec.Source == runs.SourceTail {
			open[spec.File.Path] = append(open[spec.File.Path], dir)
		}
	}
	return open
}

// tailedPath is a tailed path and its runs, one after the other.
type tailedPath struct {
	w      *Worker
	spec   TailSpec
	path   string
	open   []string // run directories to resume, oldest first
	last   *ignored // its run was ended by another writer; nil: none
	logged bool     // the missing file
}

// ignored is a file that is not followed until it is replaced, or its content is.
type ignored struct {
	file
	size int64 // at the last look
	head []byte
}

// still reports whether a file is the ignored one with its content.
func (i *ignored) still(f *os.File, now file, size int64) bool {
	if i == nil || i.file != now || size < i.size {
		return false
	}
	head := make([]byte, min(size, maxHead))
	n, _ := f.ReadAt(head, 0) // one that cannot be read is another one
	if !bytes.HasPrefix(head[:n], i.head) {
		return false
	}
	i.size, i.head = size, head[:n]
	return true
}

func (t *tailedPath) tail(ctx context.Context) error {
	for pause := time.Duration(0); ; {
		err := t.one(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil {
			pause = 0
			continue
		}
		pause = longerDelay(pause)
		t.w.log.Error("tail", zap.String("path", t.path), zap.Error(err), zap.Duration("retry", pause))
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// one drives one run of the path to its end.
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
	t.w.removeImportLock(t.w.importPath(d.Spec.File.inode)) // unless the run goes on
	foreign := errors.Is(err, ErrEnded) || errors.Is(err, ErrKnown)
	if err != nil && !foreign {
		t.open = append(t.open, d.Path())
		return err
	}
	if foreign || ex.Reason == runs.ReasonCancelled {
		t.last = &ignored{*d.Spec.File, r.out.size, r.progress.Out.Head}
	}
	return nil
}

// next returns the directory of a run to resume, or of a new run when there is
// a file.
func (t *tailedPath) next(ctx context.Context) (*Dir, error) {
	for len(t.open) > 0 {
		d, err := openRetrying(ctx, t.open[0])
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		t.open = t.open[1:]
		if err == nil {
			return d, nil
		}
	}
	file, title, err := t.appear(ctx)
	if err != nil {
		return nil, err
	}
	if d, err := t.create(ctx, file, title); d != nil || err != nil {
		return d, err
	}
	return t.next(ctx)
}

// create makes the directory of a new run. If another process has done so meanwhile, that run is the next one, and both
// results are nil.
func (t *tailedPath) create(ctx context.Context, file file, title string) (*Dir, error) {
	lock, err := t.w.lockImport(ctx, file.inode, func() {})
	if err != nil {
		return nil, err
	}
	defer lock.release()
	if run := lock.run(); run != "" {
		dir := t.w.runDir(run)
		if spec, err := readSpec(dir); err == nil && spec.File != nil && spec.File.Path == t.path {
			t.open = append(t.open, dir)
			return nil, nil
		}
	}
	spec := Spec{
		Run:        runs.LocalID(time.Now().UnixMilli(), rand.Uint64()),
		Attributes: runs.Attributes{Agent: t.spec.Agent, Title: title, Labels: t.spec.Labels},
		Source:     runs.SourceTail,
		File:       &file,
	}
	if err := lock.setRun(spec.Run); err != nil {
		return nil, err
	}
	return Create(t.w.cfg.Root, spec)
}

// title returns the title of the run of a file; "": the lines tell it, as those of a session do.
func (w *Worker) title(spec TailSpec, path string, f io.ReaderAt) string {
	if spec.Title != "" {
		return runs.Title(spec.Title)
	}
	if a, known := w.cfg.Agents.Find(spec.Agent); known && a.Sessions.Origin != nil {
		if o, err := sessionlog.Origin(a.Sessions, f); err == nil && o.Session != "" {
			return ""
		}
	}
	return fileTitle(path)
}

// fileTitle returns the title of a file: its name without its extension.
func fileTitle(path string) string {
	name := filepath.Base(path)
	return runs.Title(strings.TrimSuffix(name, filepath.Ext(name)))
}

// appear waits for a file at the path, and returns the title of its run, too.
func (t *tailedPath) appear(ctx context.Context) (found file, title string, err error) {
	watch := t.w.files.watch(t.path) // fails if the directory is missing too
	defer watch.close()
	tick := time.NewTicker(t.w.tailPause)
	defer tick.Stop()
	for {
		f, file, size, err := openRegular(t.path)
		if errors.Is(err, fs.ErrNotExist) {
			t.last = nil // the next one may get its inode
		}
		if err == nil {
			err = refuseCompressed(f)
		}
		begins := err == nil && !t.last.still(f, file, size)
		if begins {
			title = t.w.title(t.spec, t.path, f)
		}
		f.Close() // f may be nil
		if begins {
			t.logged, t.last = false, nil
			return file, title, nil
		}
		if err != nil && !t.logged {
			t.logged = true
			t.w.log.Warn("wait for file", zap.String("path", t.path), zap.Error(err))
		}
		select {
		case <-ctx.Done():
			return file, "", ctx.Err()
		case <-watch.C:
		case <-tick.C:
		}
	}
}

// openRegular opens the regular file at path, and returns its identity and
// size.
func openRegular(path string) (*os.File, file, int64, error) {
	f, info, err := sessionlog.Open(path)
	if err != nil {
		return nil, file{}, 0, err
	}
	return f, fileOf(path, info), info.Size(), nil
}

// refuseCompressed returns an error for a file that is compressed, whose bytes are no lines.
func refuseCompressed(f io.ReaderAt) error {
	var magic [4]byte
	_, _ = f.ReadAt(magic[:], 0) // a shorter file is not compressed
	for name, begin := range map[string]string{"zstd": "\x28\xb5\x2f\xfd", "gzip": "\x1f\x8b"} {
		if strings.HasPrefix(string(magic[:]), begin) {
			return fmt.Errorf("the file is compressed (%s): decompress it, and name the result", name)
		}
	}
	return nil
}

// OpenLog opens a file that an agent or the user keeps. Anything but a regular file is an
// error; a FIFO does not block it.
func OpenLog(path string) (*os.File, error) {
	f, _, _, err := openRegular(path)
	return f, err
}

// openRetrying opens a run directory, and retries while Adopt checks it.
func openRetrying(ctx context.Context, path string) (*Dir, error) {
	const tries, pause = 20, 50 * time.Millisecond
	for try := 1; ; try++ {
		d, err := open(path)
		if try == tries || !errors.Is(err, errOwned) {
			return d, err
		}
		if err := sleep(ctx, pause); err != nil {
			return nil, err
		}
	}
}

// tailed is a file that another program writes.
type tailed struct {
	out     *stream
	once    bool
	idle    time.Duration // the log of a session ends when it has not changed for this time; 0: other files
	attend  *attendance   // who sits at the session; nil: not known
	pause   time.Duration // see Worker.tailPause
	stopped bool
	gone    time.Time // since when path names another file or none
	free    int64     // the end of what was there before a run took the session
	looked  time.Time // all up to free was found by a look at this time; zero: by none of this process
	bounded bool      // a run has taken it: free is final
}

// bound leaves out of what was found what a run that has taken the session added; what is before at is stored.
func (t *tailed) bound(at int64) error {
	const often = 10 * time.Second // more than the longest time between two looks, unless an append takes longer
	s := t.out
	switch {
	case s.f == nil:
		return nil
	case !t.attend.taken():
		t.free = s.end()
		return nil
	case !t.bounded:
		by, base := &t.attend.taker, s.segment.Base
		sure := !t.looked.IsZero() && time.UnixMilli(by.created).Sub(t.looked) < often
		free, err := by.before(s.f, max(t.free, at, base)-base, s.size, s.mod, sure)
		if err != nil {
			return fmt.Errorf("whose lines these are: %w", err)
		}
		t.free, t.bounded = base+free, true
	}
	s.size = min(s.size, max(t.free, at)-s.segment.Base)
	return nil
}

func (t *tailed) ended(now time.Time) (*runs.Exit, error) {
	eof := &runs.Exit{Reason: runs.ReasonEOF}
	if t.stopped || t.out.replaced || t.once || t.attend.taken() {
		return eof, nil
	}
	if t.out.f == nil {
		return nil, nil
	}
	if at := t.attend.path(); at != "" && at != t.out.path {
		if moved, err := sameFile(t.out.f, at); err != nil || !moved {
			return eof, err // the agent goes on in a copy
		}
		t.out.path = at
	}
	current, err := sameFile(t.out.f, t.out.path)
	switch {
	case err != nil:
		return nil, err
	case current && t.idle > 0 && (t.attend.left(now, t.out) || now.Sub(t.out.grown) >= t.idle && !t.attend.busy(t.out)):
		return eof, nil
	case current:
		t.gone = time.Time{}
	case t.gone.IsZero():
		t.gone = now
	case now.Sub(t.gone) >= t.pause && now.Sub(t.out.grown) >= t.pause:
		return eof, nil
	}
	return nil, nil
}

func (t *tailed) stop() { t.stopped = true }

func (t *tailed) pollInterval() time.Duration {
	switch {
	case !t.gone.IsZero():
		return t.pause / 10
	case time.Since(t.out.grown) > time.Minute: // there may be thousands; notifications report changes sooner
		return 5 * time.Second
	}
	return time.Second
}
