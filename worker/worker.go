package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/telemetry/metrics"
)

// logs opens the raw logs of runs.
type logs interface {
	// Open opens the raw log of a run and reads what was appended after m.
	Open(ctx context.Context, agent, run string, m runs.Mark) (Log, error)
}

// Log is the raw log of one run. One goroutine uses it at a time.
type Log interface {
	// Mark returns what the log is known to hold.
	Mark() runs.Mark

	// Append stores e after the last known entry. It blocks until e is stored, ctx
	// ends, or another writer has appended: then the error is a [runs.ErrMoved], e
	// was not stored, and Mark returns what the log holds now. Append does not keep
	// e.Body.
	Append(ctx context.Context, e runs.Entry) error
}

// burstAppender is a [Log] that stores several entries faster than one by one.
type burstAppender interface {
	Log
	// AppendAll appends entries in order, like Append. After [runs.ErrMoved], Mark shows
	// which of them are stored; after another error, more may be.
	AppendAll(ctx context.Context, entries []runs.Entry) error
}

// remoteLog is a [Log] on a connection that may be lost.
type remoteLog interface {
	ReadLog
	// Reconnected reports whether the connection was restored since the log was last read: meanwhile another writer may
	// have decided for a worker that was not to be reached.
	Reconnected() bool
}

var (
	// ErrKnown reports a new run whose id already has a raw log. Its directory was
	// removed, and no agent was started.
	ErrKnown = errors.New("the run is known already")
	// ErrEnded reports a run whose raw log already has an exit entry, stored by
	// another writer or by this one right before a kill. The agent was stopped and
	// the directory removed.
	ErrEnded = errors.New("the raw log of the run already has an exit entry")
	// errNotFollowed reports that a run is not that of a session that is followed.
	errNotFollowed = errors.New("the run does not follow a session")
	// errGoesOn reports that a run was not ended as it was asked for.
	errGoesOn = errors.New("the raw log does not have the end of the run yet")
	// errNoAgent reports that no agent is running that could get a signal.
	errNoAgent = errors.New("the run has no running agent")
)

// control receives the requests to a run.
type control interface {
	// Listen passes them on to the owner of the run, a [Run], until stop is called.
	Listen(run string, owner owner) (stop func(), err error)
}

// owner carries out what is asked of a run. It is an alias because a [control] has the same one.
type owner = interface {
	Cancel(ctx context.Context, reason string) error
	Unfollow(ctx context.Context) error
	Answer(ctx context.Context, c runs.Command) (runs.Ruling, error)
}

// stores returns the IDs of the stores that know the ended runs of Logs. The
// ID of a store changes when the store is recreated. Files are imported again
// when the IDs of all stores have changed.
type stores func(ctx context.Context) ([]string, error)

// Config configures a [Worker].
type Config struct {
	Root    string        // directory of the run directories
	Ledger  string        // file that records imported files; default: imported.jsonl next to Root
	Logs    logs          // raw logs of the runs
	Stores  stores        // where ended runs are known; may be nil
	Control control       // where requests to runs come from; may be nil
	Shim    []string      // command that calls [Shim] with the path that is added as last argument
	Program func() string // returns the file to execute as Shim[0], called at each start; default: Shim[0]
	Name    string        // name of this worker in start entries; it must not change while Root is the same
	MaxRuns int           // maximum of runs that Adopt drives at a time; default 4096
	Awake   int           // maximum of processes of runs that go on after a turn; default 8
	Diff    bool          // note what each agent changes in a git work tree

	Metrics *metrics.Worker // nil: nothing is counted

	// Self is the version of this program, for agents that ask.
	Self string
	// Version returns the version of the agent of a run that is about to start, "" if it is
	// not known, at once. Nil: none is known.
	Version func(s *Spec) string
	// Agents are the agents whose session logs tell what a run has used. Nil: none is read.
	Agents agent.Table

	Log *zap.Logger // default: none
}

// Worker drives runs. Its methods may be called from several goroutines.
type Worker struct {
	cfg       Config
	log       *zap.Logger
	files     notifier
	ledger    ledger
	buffers   buffers
	taskRetry retryDelay // after failures to take or drive tasks

	// slowAppend is a time after which the next piece of a backlog is smaller: a cancel
	// waits until a piece is stored.
	slowAppend time.Duration
	// oldDirs is how many directories of former processes a run keeps.
	oldDirs int

	// adoptEvery is the interval at which Adopt looks for run directories without
	// an owner.
	adoptEvery time.Duration
	// lookEvery is the interval at which the log of a live run in a turn, or that waits for people, is read.
	lookEvery time.Duration
	// tailPause is the polling interval for a missing file, and how long a renamed
	// or removed file must be unchanged until it counts as ended.
	tailPause time.Duration
	// maxSessions is the maximum number of logs of sessions that are followed at a time.
	// Others wait until one of them is silent.
	maxSessions int
	// settle is how long after the log of a session is found the run that its agent prints to,
	// if there is one, knows the session.
	settle time.Duration
	// usageTime limits the reading of the logs of a run's session; what is not read makes the
	// numbers partial.
	usageTime time.Duration
	// takeTime limits the snapshot of a directory: the start of the agent waits that long.
	takeTime time.Duration
	// compareTime limits the comparison of a directory with its snapshot: the end of the run waits that long.
	compareTime time.Duration
	// closeTime limits how long an agent may take to close its session.
	closeTime time.Duration
	// startTime limits how long the agent of a kept run may take until it can take a prompt.
	startTime time.Duration

	mu           sync.Mutex
	driven       map[string]*Run // by run id
	slots        atomic.Int64    // of Serve
	slotFreed    chan struct{}   // signalled when a task has ended, or sleeps
	snapshots    chan struct{}   // has an element for each snapshot that is being taken
	adopted      chan struct{}   // closed after the first scan of Adopt
	adoptOnce    sync.Once
	exitingShims []exitingShim // running shims of ended runs, to be reaped; at most one per run
	watchError   sync.Once     // that there are no file notifications was logged
}

// New returns a worker. It starts no goroutine or process. It fails in a process that is to be a shim.
func New(cfg Config) (*Worker, error) {
	if os.Getenv(shimVariable) != "" {
		return nil, errors.New("worker: this process is to be a shim: the main function must call worker.Shim " +
			"if its first argument is that of Config.Shim")
	}
	if cfg.Logs == nil {
		return nil, errors.New("worker: Logs must be set")
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
	if cfg.Awake <= 0 {
		cfg.Awake = 8
	}
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	if cfg.Version == nil {
		cfg.Version = func(*Spec) string { return "" }
	}
	if cfg.Stores == nil {
		cfg.Stores = func(context.Context) ([]string, error) { return nil, nil }
	}
	log := cfg.Log.Named("worker")
	w := &Worker{
		cfg: cfg, log: log, ledger: ledger{path: cfg.Ledger, max: maxLedger, log: log},
		slowAppend: 250 * time.Millisecond, adoptEvery: 2 * time.Second, lookEvery: 30 * time.Second, tailPause: time.Second,
		oldDirs:     maxOldDirs,
		maxSessions: 512, settle: 5 * time.Second, usageTime: usageTime, takeTime: takeTime,
		compareTime: compareTime, closeTime: closeTime, startTime: startTime,
		driven: make(map[string]*Run), slotFreed: make(chan struct{}, 1), adopted: make(chan struct{}),
		snapshots: make(chan struct{}, maxSnapshots), buffers: newBuffers(),
	}
	cfg.Metrics.Read(w.state)
	return w, nil
}

// Name returns the name of this worker in start entries.
func (w *Worker) Name() string { return w.cfg.Name }

// Run returns the run of d, to be driven. The run owns d from now on.
func (w *Worker) Run(d *Dir) *Run {
	r := &Run{
		w:            w,
		dir:          d,
		log:          w.log.With(zap.String("run", d.Spec.Run), zap.String("agent", d.Spec.Agent)),
		cancels:      make(chan string, 1),
		unfollow:     make(chan struct{}, 1),
		answers:      make(chan answer),
		nudge:        make(chan struct{}, 1),
		cancelStored: make(chan struct{}),
		cancelTold:   make(chan struct{}),
		done:         make(chan struct{}),
		progress:     &d.mark.progress,
	}
	if d.Spec.Live {
		r.n.Store(int32(d.process()))
	}
	r.openFiles()
	switch d.Spec.Source {
	case runs.SourcePipe:
		r.source = &piped{dir: d}
	case runs.SourceTail:
		r.out.path, r.out.only = d.Spec.File.Path, d.Spec.File
		r.source = &tailed{out: &r.out, once: d.Spec.Part != nil, pause: w.tailPause}
		if d.Spec.Part != nil { // the byte at From has the offset 0
			r.out.part, r.out.segment.Base = d.Spec.Part, -d.Spec.Part.From
		}
		if s := d.Spec.Session; s != nil {
			r.out.segment.Base = -s.From
			r.source.(*tailed).idle = s.Idle
		}
	}
	return r
}

// openFiles sets where the output of the run is, and of a run with an agent its process.
func (r *Run) openFiles() {
	w, d := r.w, r.dir
	r.out = stream{path: r.file(outFile), segment: &r.progress.Out}
	r.err = stream{path: r.file(errFile), segment: &r.progress.Err}
	if !d.Spec.process() {
		return
	}
	r.out.most = d.Spec.Limits.Spool + overshoot
	s := &spawned{
		dir: d, path: r.files(), shim: w.cfg.Shim, program: w.cfg.Program, log: r.log, metrics: w.cfg.Metrics,
		out: &r.out, err: &r.err,
	}
	keys := d.mark.Keys
	s.keys.Store(&keys)
	if old, ok := r.source.(*spawned); ok {
		old.closeExitPipe()
		w.leave(old, r.log)
	}
	r.source = s
	r.backlog = &backlog{dir: r.files(), created: d.Spec.Created}
}

// leave reaps the shim of a process that has ended, once it has.
func (w *Worker) leave(s *spawned, log *zap.Logger) {
	if !s.running() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.exitingShims = append(w.exitingShims, exitingShim{s.child, log})
}

// drivenRun returns the driven run with this id.
func (w *Worker) drivenRun(run string) (*Run, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r, ok := w.driven[run]
	return r, ok
}

func (w *Worker) register(r *Run) {
	w.reap()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.driven[r.dir.Spec.Run] = r
}

func (w *Worker) unregister(r *Run) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.driven[r.dir.Spec.Run] == r {
		delete(w.driven, r.dir.Spec.Run)
		if r.dir.Spec.Source == runs.SourceQueue {
			w.freeSlot()
		}
	}
	if s, ok := r.source.(*spawned); ok {
		s.closeExitPipe()
		if s.running() {
			w.exitingShims = append(w.exitingShims, exitingShim{s.child, r.log})
		}
	}
}

// freeSlot has the queue look whether there is a slot.
func (w *Worker) freeSlot() {
	select {
	case w.slotFreed <- struct{}{}:
	default: // already signalled
	}
}

// Tasks returns the number of driven runs from a queue. Runs that go on after a turn do not count, unless more of them
// have a process than Awake: they mostly wait for people, and must not stop the queue.
func (w *Worker) Tasks() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, kept := 0, 0
	for _, r := range w.driven {
		switch {
		case r.awake():
			kept++
		case r.dir.Spec.Keep: // it sleeps
		case r.dir.Spec.Source == runs.SourceQueue:
			n++
		}
	}
	return n + max(kept-w.cfg.Awake, 0)
}

// Runs returns the number of driven runs that do not sleep.
func (w *Worker) Runs() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.driven {
		if !r.doze.asleep || r.doze.wakes {
			n++
		}
	}
	return n
}

// exitingShim is a running shim of an ended run.
type exitingShim struct {
	pid int
	log *zap.Logger // of the run
}

// reap reaps the shims that exited after their runs. A failed one can only be
// logged without its reason, because the run directory is gone.
func (w *Worker) reap() {
	w.mu.Lock()
	defer w.mu.Unlock()
	var left []exitingShim
	for _, o := range w.exitingShims {
		switch ended, code := reaped(o.pid); {
		case !ended:
			left = append(left, o)
		case mayLeaveProcesses(code):
			o.log.Warn("shim failed after the end of the run, processes of the run may be left", zap.Int("code", code))
		}
	}
	w.exitingShims = left
}

// reaped reports whether the child process pid has exited, and reaps it. The
// code is its exit code, or -1 if a signal ended it or it is unknown.
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

// watch watches the paths, and logs once if that is not possible.
func (w *Worker) watch(paths ...string) *watch {
	v := w.files.watch(paths...)
	if v.err != nil {
		w.watchError.Do(func() { w.log.Warn("no file notifications, polling more often", zap.Error(v.err)) })
	}
	return v
}

// sleep waits for d, or returns the error of ctx when that ends first.
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

// retryDelay is an exponential backoff that all runs share, for local errors
// that affect all of them, such as a full disk or too many open files. It also
// limits how often such errors are logged.
type retryDelay struct {
	mu     sync.Mutex
	pause  time.Duration // of the last failure; 0: none since the last success
	until  time.Time
	logged time.Time
}

const (
	minRetryDelay = time.Second
	maxRetryDelay = time.Minute
)

// longerDelay returns the delay before the next attempt, after one that waited
// for d.
func longerDelay(d time.Duration) time.Duration { return min(max(2*d, minRetryDelay), maxRetryDelay) }

// failed doubles the delay, unless it is still running. It returns true at most
// once a minute: then the failure should be logged.
func (t *retryDelay) failed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if !now.Before(t.until) { // else it is the same failure
		t.pause = longerDelay(t.pause)
		t.until = now.Add(t.pause)
	}
	if !t.logged.IsZero() && now.Sub(t.logged) < time.Minute {
		return false
	}
	t.logged = now
	return true
}

// succeeded resets the delay.
func (t *retryDelay) succeeded() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pause, t.until = 0, time.Time{}
}

// remaining returns the time until the next attempt.
func (t *retryDelay) remaining() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return max(0, time.Until(t.until))
}
