package worker

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/runs"
)

// Logs opens the raw logs of runs.
type Logs interface {
	// Open continues the raw log of a run from m: it reads what came after.
	Open(ctx context.Context, agent, run string, m runs.Mark) (Log, error)
}

// Log is the raw log of one run. One goroutine uses it at a time.
type Log interface {
	// Mark returns what the log is known to hold.
	Mark() runs.Mark

	// Append stores e behind the last entry that is known. It blocks until e
	// is stored, ctx ends, or somebody else turns out to have written: then
	// the error is a [runs.ErrMoved], e was not stored, and Mark tells what
	// the log holds now. It does not keep e.Body.
	Append(ctx context.Context, e runs.Entry) error
}

var (
	// ErrKnown reports a new run whose id the raw log knows already. Its
	// directory was removed, and nothing was started.
	ErrKnown = errors.New("the run is known already")
	// ErrEnded reports a run whose raw log has an exit entry already, stored
	// by somebody else or right before we were killed. The agent was stopped
	// and the directory removed.
	ErrEnded = errors.New("the run has ended in its log already")
	// ErrNoAgent reports that there is no agent that could get a signal.
	ErrNoAgent = errors.New("the run has no agent now")
)

// Control is where the owner of a run can be asked for its end.
type Control interface {
	// Listen passes on what is asked until stop is called.
	Listen(run string, cancel func(ctx context.Context, reason string) error) (stop func(), err error)
}

// Stores returns the identities of the stores that know the ended runs of Logs,
// each of which changes when that store is made anew. What was imported is
// imported again once all of them have changed.
type Stores func(ctx context.Context) ([]string, error)

// Config is what a [Worker] needs.
type Config struct {
	Root    string        // where the run directories are
	Ledger  string        // the file that says which files were imported; default: imported.jsonl beside Root
	Logs    Logs          // where their output goes
	Stores  Stores        // where an ended run is known; may be nil
	Control Control       // where they are asked to end; may be nil
	Shim    []string      // the command that calls [Shim] with the path that is added as last argument
	Program func() string // the file to execute under the name Shim[0], asked for at each start; default: Shim[0]
	Name    string        // who this is, in start entries: the same whenever Root is the same
	MaxRuns int           // runs that Adopt drives at a time; default 4096
	Log     *zap.Logger   // default: none
}

// Worker drives runs. Its methods may be called from several goroutines.
type Worker struct {
	cfg     Config
	log     *zap.Logger
	files   notifier
	ledger  ledger
	trouble trouble // with tasks

	mu      sync.Mutex
	driven  map[string]*Run // by run id
	tasks   int             // of them, how many came by a queue
	freed   chan struct{}   // one of those is over
	adopted chan struct{}   // closed once Adopt has looked for runs
	looked  sync.Once
	orphans []orphan // shims we started and have to reap, of runs no longer driven; at most one a run
	blind   bool     // it was said that there are no file notifications
}

// New returns a worker. It starts nothing.
func New(cfg Config) (*Worker, error) {
	if cfg.Logs == nil {
		return nil, errors.New("worker: needs logs")
	}
	root, err := filepath.Abs(cfg.Root)
	if err != nil || cfg.Root == "" {
		return nil, fmt.Errorf("worker: root: must be a directory, got %q", cfg.Root)
	}
	cfg.Root = root
	if len(cfg.Shim) > 0 && cfg.Program == nil { // the shim has another working directory
		path, err := exec.LookPath(cfg.Shim[0])
		if err == nil {
			path, err = filepath.Abs(path)
		}
		if err != nil {
			return nil, fmt.Errorf("worker: shim: %w", err)
		}
		cfg.Shim = append([]string{path}, cfg.Shim[1:]...)
	}
	if cfg.Ledger == "" {
		cfg.Ledger = filepath.Join(filepath.Dir(root), "imported.jsonl")
	}
	if cfg.MaxRuns <= 0 {
		cfg.MaxRuns = 4096
	}
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	log := cfg.Log.Named("worker")
	return &Worker{
		cfg: cfg, log: log, ledger: ledger{path: cfg.Ledger, max: maxLedger, log: log},
		driven: make(map[string]*Run), freed: make(chan struct{}, 1), adopted: make(chan struct{}),
	}, nil
}

// Name is who this is, in start entries.
func (w *Worker) Name() string { return w.cfg.Name }

// Run returns the run of d, to be driven. The run owns d from now on.
func (w *Worker) Run(d *Dir) *Run {
	r := &Run{
		w:       w,
		dir:     d,
		log:     w.log.With(zap.String("run", d.Spec.Run), zap.String("agent", d.Spec.Agent)),
		cancels: make(chan string, 1),
		noted:   make(chan struct{}),
		over:    make(chan struct{}),
		place:   &d.mark.place,
	}
	r.out = stream{path: d.file(outFile), spot: &r.place.Out}
	r.err = stream{path: d.file(errFile), spot: &r.place.Err}
	switch d.Spec.Source {
	case SourcePipe:
		r.source = &piped{dir: d}
	case SourceTail:
		r.out.path, r.out.only = d.Spec.File.Path, d.Spec.File
		r.source = &tailed{out: &r.out, once: d.Spec.Part != nil}
		if d.Spec.Part != nil { // the byte at From has the log's offset 0
			r.out.part, r.out.spot.Base = d.Spec.Part, -d.Spec.Part.From
		}
	default:
		s := &spawned{dir: d, shim: w.cfg.Shim, program: w.cfg.Program, log: r.log, out: &r.out, err: &r.err}
		keys := d.mark.Keys
		s.keys.Store(&keys)
		r.source = s
	}
	return r
}

// Lookup returns the run that is being driven under this id.
func (w *Worker) Lookup(run string) (*Run, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r, ok := w.driven[run]
	return r, ok
}

func (w *Worker) enter(r *Run) {
	w.reap()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.driven[r.dir.Spec.Run] == r {
		return
	}
	w.driven[r.dir.Spec.Run] = r
	if r.dir.Spec.Source == SourceQueue {
		w.tasks++
	}
}

func (w *Worker) leave(r *Run) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.driven[r.dir.Spec.Run] == r {
		delete(w.driven, r.dir.Spec.Run)
		if r.dir.Spec.Source == SourceQueue {
			w.tasks--
			select {
			case w.freed <- struct{}{}:
			default: // it is known already
			}
		}
	}
	if s, ok := r.source.(*spawned); ok {
		s.hangUp()
		if s.running() {
			w.orphans = append(w.orphans, orphan{s.child, r.log})
		}
	}
}

// Tasks is how many runs are being driven that came by a queue.
func (w *Worker) Tasks() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tasks
}

// Runs is how many runs are being driven.
func (w *Worker) Runs() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.driven)
}

// orphan is a shim whose run has ended.
type orphan struct {
	pid int
	log *zap.Logger // of the run
}

// reap takes in the shims that ended after their runs had. One that failed
// left its reason in a run directory that is gone.
func (w *Worker) reap() {
	w.mu.Lock()
	defer w.mu.Unlock()
	var left []orphan
	for _, o := range w.orphans {
		switch ended, code := reaped(o.pid); {
		case !ended:
			left = append(left, o)
		case mayLeave(code):
			o.log.Warn("shim failed after the end of the run, processes of the run may be left", zap.Int("code", code))
		}
	}
	w.orphans = left
}

// reaped reports whether the child process pid has ended, and takes it in. The
// code is its exit code; -1: a signal ended it, or it is not known.
func reaped(pid int) (ended bool, code int) {
	for {
		var status unix.WaitStatus
		got, err := unix.Wait4(pid, &status, unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return true, -1
		default:
			return got == pid, status.ExitStatus()
		}
	}
}

// watch watches the paths for r, and says so once when that cannot be done.
func (w *Worker) watch(paths ...string) *watch {
	v := w.files.watch(paths...)
	if v.blind == nil {
		return v
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.blind {
		w.blind = true
		w.log.Warn("no file notifications, looking more often instead", zap.Error(v.blind))
	}
	return v
}

// sleep waits for d or until ctx ends, which it reports.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
