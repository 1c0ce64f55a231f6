package daemon

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/bus/pipeline"
	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/daemon/datadir"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/worker"
	"github.com/linesman/linesman/worker/launch"
)

// Session is the connection of a command to the server, with the permissions of
// an operator. This process drives the runs that the command starts.
type Session struct {
	config Config
	bus    *bus.Bus
}

// Open connects with the dialer of c, which starts a server if there is none.
func Open(ctx context.Context, c Config) (*Session, error) {
	b, err := c.Dialer.DialOrStart(ctx, embedded.OperatorUser)
	if err != nil {
		return nil, err
	}
	return &Session{c.withDefaults(), b}, nil
}

// Session returns a session over a connection of this process.
func (d *Daemon) Session(ctx context.Context, c Config) (*Session, error) {
	b, err := d.Server.Connect(ctx, embedded.OperatorUser)
	return &Session{c.withDefaults(), b}, err
}

// Close closes the connection.
func (s *Session) Close() { s.bus.Close() }

// Client returns a client over the connection.
func (s *Session) Client() *client.Client { return client.New(s.bus) }

// Create creates the directory of a run: of one with a new ID if spec has none. The
// limits are those of the settings. An agent's program whose version is not known is asked
// for it meanwhile, for two seconds at most. The error is [worker.ErrKnown] if the ID is in
// use. If another process takes it meanwhile, the fence of the raw log detects it.
func (s *Session) Create(ctx context.Context, spec worker.Spec) (*worker.Dir, error) {
	spec.Run = cmp.Or(spec.Run, newID())
	var learning sync.WaitGroup
	if p, is := s.config.program(&spec); is {
		learning.Go(func() { s.config.versions.Learn(ctx, p, s.config.learnTime) })
	}
	err := s.checkUnknown(ctx, spec.Run)
	learning.Wait()
	if err != nil {
		return nil, err
	}
	return s.config.create(spec)
}

func newID() string { return runs.NewID(time.Now().UnixMilli(), rand.Uint64()) }

func (s *Session) checkUnknown(ctx context.Context, run string) error {
	return s.config.Dialer.Retry(ctx, func(ctx context.Context) error {
		known, err := s.bus.Known(ctx, run)
		if known {
			return errKnown(run)
		}
		return err
	})
}

// create is [Session.Create] without a request to the server.
func (c Config) create(spec worker.Spec) (*worker.Dir, error) {
	l := c.Settings.Limits
	spec.Limits = c.limits(l.Idle, l.Hard)
	d, err := worker.Create(datadir.RunsDir(c.Settings.DataDir), spec)
	if errors.Is(err, fs.ErrExist) {
		return nil, errKnown(spec.Run)
	}
	return d, err
}

func errKnown(run string) error {
	return fmt.Errorf("run %s: %w: choose another id", run, worker.ErrKnown)
}

// Drive drives a run to its end.
func (s *Session) Drive(ctx context.Context, d *worker.Dir) error {
	return s.withWorker(ctx, func(w *worker.Worker) error {
		_, err := w.Run(d).Drive(ctx)
		return err
	})
}

// Tail publishes files, each as one run, as [worker.Worker.Tail] does. The end of
// ctx is no error.
func (s *Session) Tail(ctx context.Context, spec worker.TailSpec) error {
	return s.withWorker(ctx, func(w *worker.Worker) error { return quiet(w.Tail(ctx, spec)) })
}

// withWorker calls do with a worker that takes no tasks, and sends heartbeats
// meanwhile.
func (s *Session) withWorker(ctx context.Context, do func(*worker.Worker) error) error {
	w, err := driver(s.bus, s.config)
	if err != nil {
		return err
	}
	defer beat(ctx, s.bus, s.config, func() runs.Heartbeat { return s.config.beat(w) })()
	return do(w)
}

// Stderr returns the end of what the agent of a run wrote to stderr, at most limit
// bytes of it.
func (s *Session) Stderr(ctx context.Context, d *worker.Dir, limit int) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_, text, err := s.bus.Output(ctx, d.Spec.Agent, d.Spec.Run, limit, true)
	return append(text.Head, text.Tail...), err
}

// Printed returns the agent that printed the output of a run, by its first lines. It reports false
// if they are not of one agent alone.
func (s *Session) Printed(ctx context.Context, kind, run string, table agent.Table) (agent.Agent, bool) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	text, _, err := s.bus.Output(ctx, kind, run, 2*maxDetectLine, false)
	if err != nil {
		return agent.Agent{}, false
	}
	found, _, err := detect(bytes.NewReader(text.Head), table)
	return found, err == nil
}

// Rebuild derives events and run records again, as [pipeline.Rebuild] does.
func (s *Session) Rebuild(ctx context.Context) (pipeline.Rebuilt, error) {
	c := s.config
	return pipeline.Rebuild(ctx, s.bus, c.backends(), int(c.Settings.MaxLineBytes), c.Log)
}

// Forget erases a run that has ended. The error is [runs.ErrNoRun] if the run is
// unknown, and [runs.ErrOpen] if it has not ended. A run that has a directory here
// is refused: its worker would publish the rest of its output afterwards.
func (s *Session) Forget(ctx context.Context, run string) (runs.Forgotten, error) {
	spool, is := s.config.spool(run)
	if !is {
		return s.forget(ctx, run)
	}
	if record, ok, err := s.bus.Record(ctx, run); err == nil && ok && record.EndedAt == 0 {
		return runs.Forgotten{}, runs.ErrOpen
	}
	return runs.Forgotten{}, fmt.Errorf("run %s: its worker has not published all that is in %s: start it, with "+
		"`linesman up` or `linesman worker`, and try again", run, spool)
}

// spool returns the directory of a run, and whether it exists.
func (c Config) spool(run string) (dir string, is bool) {
	dir = filepath.Join(datadir.RunsDir(c.Settings.DataDir), run)
	_, err := os.Lstat(dir)
	return dir, err == nil
}

// eraser erases runs for a responder, with the permissions of an operator.
type eraser struct{ *Session }

// Forget is [Session.Forget] with an error for callers on other machines.
func (e eraser) Forget(ctx context.Context, run string) (runs.Forgotten, error) {
	if _, is := e.config.spool(run); is {
		return runs.Forgotten{}, &api.Error{
			Code: api.Conflict, Field: api.FieldRun, Run: run, Retryable: true,
			Message: "its worker has not published all of its output: try again",
		}
	}
	return e.forget(ctx, run)
}

// forget erases a run from the streams, and from the files of damaged streams that were set
// aside.
func (s *Session) forget(ctx context.Context, run string) (runs.Forgotten, error) {
	f, err := s.bus.Forget(ctx, run)
	if err == nil && s.config.Settings.NATS == "" {
		if err = embedded.RemoveDamaged(s.config.Settings.DataDir); err != nil {
			err = fmt.Errorf("run %s: forget files of damaged streams: %w", run, err)
		}
	}
	return f, err
}

// Pipe publishes what it reads from in as a run, and returns the ID of the run once
// all of it is stored; with wait, once its completion is stored, too. It reads
// while it connects, because the writer waits for nothing. The error is
// [worker.ErrKnown] if the ID of the run is in use. After other errors the next
// `linesman up` publishes what was read.
func Pipe(ctx context.Context, c Config, in io.Reader, spec worker.Spec, wait bool) (run string, err error) {
	var s *Session
	defer func() {
		if s != nil {
			s.Close()
		}
	}()
	if c.Settings.NATS != "" || !c.Settings.Background.Start { // else a server is running, or will be started
		if s, err = Open(ctx, c); err != nil {
			return "", err
		}
	}
	spec.Run = cmp.Or(spec.Run, newID())
	run = spec.Run
	d, err := c.create(spec)
	if err != nil {
		return "", err
	}
	path := d.Path()
	reading, stop := context.WithCancel(ctx)
	defer stop()
	var read errgroup.Group
	read.Go(func() error { return worker.Pipe(reading, in, d) })
	switch s, err = reach(ctx, c, s, run); {
	case errors.Is(err, worker.ErrKnown):
		stop()
		_ = read.Wait() // what was read is discarded
		return "", errors.Join(err, d.Remove())
	case err == nil:
		err = s.Drive(ctx, d)
	}
	away := errors.Is(err, datadir.ErrUnavailable)
	if err == nil || !away && !bus.IsAway(err) {
		stop()
	}
	if readErr := read.Wait(); err == nil {
		err = readErr
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return "", fmt.Errorf("run %s: interrupted; what was read is in %s, and the next `linesman up` takes it", run, path)
	case away:
		return "", fmt.Errorf("run %s: what was read is in %s, and the next `linesman up` takes it: %w", run, path, err)
	case err != nil:
		return "", fmt.Errorf("run %s: %w", run, err)
	case !wait:
		return run, nil
	}
	for _, err := range s.Client().Follow(ctx, client.Filter{Run: run, Kinds: []string{api.Completion}, Follow: true}) {
		if err != nil {
			return "", err
		}
	}
	return run, ctx.Err()
}

// reach connects, unless there is a session, and checks that the ID of a run is not
// in use.
func reach(ctx context.Context, c Config, s *Session, run string) (*Session, error) {
	if s == nil {
		var err error
		if s, err = Open(ctx, c); err != nil {
			return nil, err
		}
	}
	return s, s.checkUnknown(ctx, run)
}

// Unstartable returns why a program cannot be started in a directory with an environment: one
// of the Spawn constants of package runs, or "".
func Unstartable(program, dir string, environ []string) (failure string) {
	_, failure = launch.LookPath(program, dir, environ)
	return failure
}
