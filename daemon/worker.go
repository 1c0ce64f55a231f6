package daemon

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/daemon/datadir"
	"github.com/linesman/linesman/internal/files"
	"github.com/linesman/linesman/internal/lazy"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/telemetry/metrics"
	"github.com/linesman/linesman/worker"
	"github.com/linesman/linesman/worker/launch"
	"github.com/linesman/linesman/worker/programs"
)

// taskWorker takes tasks from the work queue, and runs them. It adopts the run
// directories of its data directory that no living process drives.
type taskWorker struct {
	config Config
	bus    *bus.Bus
	worker *worker.Worker
	tasks  worker.Tasks

	installed atomic.Pointer[installed]
	lookEvery time.Duration // interval at which programs are looked for
}

// newWorker builds a worker over the connection of its user. A task that names no
// directory runs in the current one.
func newWorker(b *bus.Bus, c Config) (*taskWorker, error) {
	c.counts = metrics.NewWorker(c.Registry)
	w, err := driver(b, c)
	if err != nil {
		return nil, err
	}
	dir, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("working directory: %w", err)
	}
	s := c.Settings
	rules := launch.Rules{Dir: dir, Roots: s.Work.Roots, Danger: s.Work.Danger, Boxed: s.Work.ExternalSandbox}
	if len(s.Work.AddRoots) > 0 {
		rules.Roots = slices.Concat(rules.Allowed(), s.Work.AddRoots)
	}
	from := b.Queue(s.Work.Queue)
	from.Room = c.room
	tasks := worker.Tasks{
		Queue: queue{from}, Name: s.Work.Queue, Slots: s.Work.MaxRuns,
		Agents:  s.Launches(c.Agents),
		Rules:   rules,
		Environ: c.Environ, MaxLimit: s.Work.MaxLimit, Policy: s.Live.Policy, Always: s.Live.Always,
		Limits: c.limits(s.Work.Idle, s.Work.Hard),
	}
	t := &taskWorker{config: c, bus: b, worker: w, tasks: tasks, lookEvery: 10 * time.Second}
	if t.tasks.Slots > 0 {
		t.look(func(programs.Program) {})
		t.sayWithheld()
	}
	return t, nil
}

// sayWithheld logs which credentials are set that tasks of an installed agent do not get.
func (w *taskWorker) sayWithheld() {
	for _, kind := range w.installed.Load().kinds {
		how := w.tasks.Agents[kind]
		passed := launch.Environ(runs.EnvPolicy{}, how.Env, w.tasks.Environ)
		if withheld := how.Withheld(w.tasks.Environ, passed); withheld != nil {
			w.config.Log.Info(withheld.String())
		}
	}
}

// capabilities returns those of tasks, by the kinds of their agents.
func (w *taskWorker) capabilities(kinds []string) map[string][]string {
	all := map[string][]string{}
	for _, kind := range kinds {
		all[kind] = w.tasks.Agents[kind].Capabilities(w.tasks.Rules.Allows()...)
	}
	return all
}

// limits returns the limits of a run, as configured but for two of them.
func (c Config) limits(idle, hard time.Duration) worker.Limits {
	l := c.Settings.Limits
	return worker.Limits{
		Idle: idle, Hard: hard, Grace: l.Grace, Finish: l.AfterResult, Keep: l.KeepLeft,
		Answer: c.Settings.Live.Answer, Rest: c.Settings.Live.EndAfter, Sleep: c.Settings.Live.SleepAfter,
		Spool: int64(c.Settings.Spool.MaxBytes),
	}
}

// rules are the rules for tasks, false if it takes none.
func (w *taskWorker) rules() (launch.Rules, bool) { return w.tasks.Rules, w.tasks.Slots > 0 }

// run works until ctx ends, and then returns nil. Agents continue; the next worker
// of the data directory finds them.
func (w *taskWorker) run(ctx context.Context) error {
	defer w.config.stages.enter("the worker")()
	defer beat(ctx, w.bus, w.config, func() runs.Heartbeat {
		v := w.config.beat(w.worker)
		if w.tasks.Slots > 0 {
			v.ID, v.Queue, v.Slots, v.Busy = w.worker.Name(), w.tasks.Name, w.tasks.Slots, w.worker.Tasks()
			found := w.installed.Load()
			v.Agents, v.AgentVersions = found.kinds, found.versions
			v.Capabilities = w.capabilities(found.kinds)
			v.Roots, v.Modes = runs.BoundRoots(w.tasks.Rules.Allowed()), w.tasks.Rules.Modes()
			v.Host, _ = os.Hostname() // without it only this process knows the roots
		}
		return v
	})()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return quiet(w.worker.Adopt(ctx)) })
	if w.tasks.Slots > 0 {
		group.Go(func() error { return w.worker.Serve(ctx, w.tasks) })
		group.Go(func() error { return w.watchPrograms(ctx) })
	}
	return group.Wait()
}

func driver(b *bus.Bus, c Config) (*worker.Worker, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	name, err := workerName(c.Settings.DataDir)
	if err != nil {
		return nil, err
	}
	return worker.New(worker.Config{
		Root: datadir.RunsDir(c.Settings.DataDir), Logs: logs{b}, Stores: b.Stores, Control: b, Name: name,
		Log: c.Log, Self: c.Version,
		Shim: []string{self, "shim"}, Program: func() string { return datadir.SameProgram(self) }, Version: c.version,
		Diff: c.Settings.Diff, Metrics: c.counts, Agents: c.Agents, Awake: c.Settings.Live.Processes,
	})
}

// beat sends heartbeats until the returned function is called.
func beat(ctx context.Context, b *bus.Bus, c Config, say func() runs.Heartbeat) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var beats sync.WaitGroup
	beats.Go(func() { b.SendHeartbeats(ctx, c.Settings.LostAfter, say) })
	return func() {
		cancel()
		beats.Wait()
	}
}

// beat is the heartbeat of a worker without slots. There may be several of one
// name, each in a process of its own.
func (c Config) beat(w *worker.Worker) runs.Heartbeat {
	return runs.Heartbeat{ID: fmt.Sprintf("%s-%d", w.Name(), os.Getpid()), Name: w.Name(), Version: c.Version}
}

// workerName is the name of the worker of a data directory. It is the same after
// every start, because the owner of the run directories owns the runs.
func workerName(data string) (string, error) {
	path := filepath.Join(data, "worker")
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err = makeName(path); err == nil || errors.Is(err, fs.ErrExist) {
			b, err = os.ReadFile(path)
		}
	}
	if err != nil {
		return "", fmt.Errorf("worker's name: %w", err)
	}
	name := strings.TrimSpace(string(b))
	if len(name) > 64 || !validName().MatchString(name) {
		return "", fmt.Errorf("%s is damaged; remove it, and a new name is created", path)
	}
	return name, nil
}

var (
	validName = lazy.Regexp(`^[A-Za-z0-9_-]+$`) // of at most 64 bytes
	notInName = lazy.Regexp(`[^A-Za-z0-9-]+`)
)

// makeName writes a new name atomically, if there is none yet.
func makeName(path string) error {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	host = notInName().ReplaceAllString(host, "-")
	var random [4]byte
	_, _ = rand.Read(random[:]) // never fails
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	name := fmt.Sprintf("%s-%s\n", host[:min(len(host), 48)], hex.EncodeToString(random[:]))
	return files.Create(path, ".tmp-worker-*", []byte(name))
}

// logs lets a worker write to a bus.
type logs struct{ bus *bus.Bus }

func (l logs) Open(ctx context.Context, agent, run string, m runs.Mark) (worker.Log, error) {
	return l.bus.OpenLog(ctx, agent, run, m)
}

// queue lets a worker take tasks from a bus.
type queue struct{ *bus.Queue }

func (q queue) Next(ctx context.Context) (worker.Delivery, error) {
	d, err := q.Queue.Next(ctx)
	if err != nil {
		return nil, err
	}
	return d, nil
}

// room returns why the data directory has no room for the output of another task. That of an `up` is on the
// disk of its server, which then refuses all writes.
func (c Config) room() error {
	if c.Settings.NATS != "" && errors.Is(embedded.Room(c.Settings.DataDir), embedded.ErrNoRoom) {
		return embedded.ErrNoRoom
	}
	return nil
}
