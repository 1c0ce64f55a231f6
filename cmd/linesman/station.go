package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/bus/pipeline"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/normalizer/cloud"
	"github.com/linesman/linesman/normalizer/codex"
	"github.com/linesman/linesman/normalizer/external"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/worker"
)

// backends are all that a normalizer understands: the agents, what our own
// driver of the cloud writes, and what is asked outside.
var backends = []normalizer.Backend{codex.Backend{}, cloud.Backend{}, external.Backend{}}

// backends are those that the settings ask for.
func (a *app) backends() []normalizer.Backend {
	if !a.config.Scrub {
		return backends
	}
	var all []normalizer.Backend
	for _, b := range backends {
		all = append(all, normalizer.Scrubbed(b, runs.Scrub))
	}
	return all
}

// agents are the backends that a command line can name.
var agents = backends[:1]

// backend is that of an agent, or a mistake of the command line.
func (a *app) backend(agent agentKind) (normalizer.Backend, error) {
	var known string
	for _, b := range a.backends()[:len(agents)] {
		if b.Agent() == string(agent) {
			return b, nil
		}
		known += " " + b.Agent()
	}
	return nil, exitWith(exitUsage, fmt.Errorf("--agent: %q is not known; there is:%s", agent, known))
}

// station is an embedded server with its streams and a normalizer at work.
type station struct {
	server            *embedded.Server
	buses             []*bus.Bus
	operator, workBus *bus.Bus
	cancel            context.CancelFunc
	group             *errgroup.Group
	ended             <-chan struct{} // closed when the normalizer or the server has ended, as it should not
}

// newStation starts one that keeps its streams in dir. Its normalizer works
// until stop.
func (a *app) newStation(ctx context.Context, dir, listen string) (_ *station, err error) {
	server, err := embedded.StartServer(dir, listen, a.names(), a.log)
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx)) // it stops last
	group, groupCtx := errgroup.WithContext(running)
	s := &station{server: server, cancel: cancel, group: group, ended: groupCtx.Done()}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop())
		}
	}()
	disk := embedded.NewDiskGuard(server)
	if err := disk.Check(); err != nil {
		return nil, err
	}
	group.Go(func() error { return disk.Run(groupCtx) })
	if s.operator, err = s.connect(ctx, a, embedded.OperatorUser); err != nil {
		return nil, err
	}
	if err := a.ensure(ctx, s.operator, a.limits(dir)); err != nil {
		return nil, err
	}
	if err := s.operator.ClearLease(ctx); err != nil {
		return nil, err
	}
	office, err := s.connect(ctx, a, embedded.NormalizerUser)
	if err != nil {
		return nil, err
	}
	if s.workBus, err = s.connect(ctx, a, embedded.WorkerUser); err != nil {
		return nil, err
	}
	n := a.normalizer(office)
	n.Prepare = func(ctx context.Context) error { return a.ensure(ctx, s.operator, a.limits(dir)) }
	ready := make(chan struct{})
	n.Ready = sync.OnceFunc(func() { close(ready) })
	group.Go(func() error { return n.Run(groupCtx) })
	select { // nobody writes before it has seen where the streams stand
	case <-ready:
	case <-s.ended:
		return nil, group.Wait()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return s, nil
}

func (s *station) connect(ctx context.Context, a *app, user string) (*bus.Bus, error) {
	b, err := s.server.Connect(ctx, user, a.names(), a.log)
	if err == nil {
		s.buses = append(s.buses, b)
	}
	return b, err
}

// stop ends the normalizer, once it has recorded what it folded, and then the server.
func (s *station) stop() error {
	s.cancel()
	err := s.group.Wait()
	for _, b := range s.buses {
		b.Close()
	}
	s.server.Stop()
	return err
}

func (a *app) normalizer(b *bus.Bus) *pipeline.Normalizer {
	return &pipeline.Normalizer{Bus: b, Out: b.Names, Backends: a.backends(), MaxLine: int(a.config.MaxLineBytes), Log: a.log}
}

// ensure makes the streams, and says what it changed.
func (a *app) ensure(ctx context.Context, b *bus.Bus, limits bus.Limits) error {
	ctx, cancel := soon(ctx)
	defer cancel()
	changed, err := b.Ensure(ctx, limits)
	for _, c := range changed {
		a.log.Warn("changed as configured", zap.String("what", c))
	}
	return err
}

// limits are those of the streams. With a directory, sizes that are not
// configured become shares of its disk.
func (a *app) limits(dir string) bus.Limits {
	c := a.config
	l := bus.Limits{
		RawAge: c.Raw.MaxAge, EventsAge: c.Events.MaxAge, RunsAge: c.Runs.MaxAge,
		RawBytes: int64(c.Raw.MaxBytes), EventsBytes: int64(c.Events.MaxBytes), RunsBytes: int64(c.Runs.MaxBytes),
		Replicas: c.Replicas,
	}
	var fs unix.Statfs_t
	if dir != "" && unix.Statfs(dir, &fs) == nil {
		l.Disk = int64(fs.Bavail) * int64(fs.Bsize)
	}
	return l
}

// logs lets a worker write to a bus.
type logs struct{ bus *bus.Bus }

func (l logs) Open(ctx context.Context, agent, run string, m runs.Mark) (worker.Log, error) {
	return l.bus.OpenLog(ctx, agent, run, m)
}

// worker is one whose run directories are in the data directory.
func (a *app) worker(b *bus.Bus) (*worker.Worker, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	name, err := a.workerName()
	if err != nil {
		return nil, err
	}
	return worker.New(worker.Config{
		Root: a.runsDir(), Logs: logs{b}, Stores: b.Stores, Control: b, Name: name, Log: a.log,
		Shim: []string{self, "shim"}, Program: func() string { return sameProgram(self) },
	})
}

func (a *app) runsDir() string { return filepath.Join(a.config.DataDir, "runs") }

func (a *app) runLimits() worker.Limits {
	return worker.Limits{Idle: a.config.Limits.Idle, Hard: a.config.Limits.Hard, Grace: a.config.Limits.Grace, Spool: int64(a.config.Spool.MaxBytes)}
}
