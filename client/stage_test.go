package client_test

import (
	"context"
	"errors"
	"log"
	"slices"
	"testing"
	"time"

	"github.com/linesman/linesman/test/fixture"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/linesman/linesman/agent/codex"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/bus/pipeline"
	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/natsapi"
	"github.com/linesman/linesman/responder/tools"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/servicetest"
)

func TestMain(m *testing.M) {
	const signals = "github.com/nats-io/nats-server/v2/server.(*Server).startOSSignalHandler.func1" // of the process
	fixture.VerifyGoroutines(m, goleak.IgnoreTopFunction(signals))
}

var names = bus.Names{Prefix: bus.DefaultPrefix}

// stage is a server with its streams, a normalizer, and a responder that can be
// ended and begun again. Tasks are done by a worker that plays one recording for
// all of them, but for those whose prompt is "hold".
type stage struct {
	dir    string
	server *embedded.Server
	bus    *bus.Bus
	role   *role // the normalizer and the worker
	desk   *role // the responder; nil while there is none
}

// role is what runs until it is stopped.
type role struct {
	cancel context.CancelFunc
	group  *errgroup.Group
}

func start(all ...func(context.Context) error) *role {
	ctx, cancel := context.WithCancel(context.Background())
	r := &role{cancel, &errgroup.Group{}}
	for _, one := range all {
		r.group.Go(func() error { return one(ctx) })
	}
	return r
}

func (r *role) stop() error {
	r.cancel()
	return r.group.Wait()
}

// open starts a stage on a data directory.
func open(ctx context.Context, dir, address string) (*stage, error) {
	s := &stage{dir: dir}
	var err error
	if s.server, err = embedded.StartServer(dir, address, names, zap.NewNop()); err != nil {
		return nil, err
	}
	if s.bus, err = s.server.Connect(bus.WithPatience(ctx, fixture.Patience/2), embedded.OperatorUser, names,
		zap.NewNop()); err != nil {
		return nil, err
	}
	limits := bus.DefaultLimits()
	limits.RawBytes, limits.EventsBytes, limits.RunsBytes = 1<<30, 1<<30, 1<<28
	if _, err := s.bus.Ensure(ctx, limits); err != nil {
		return nil, err
	}
	n := &pipeline.Normalizer{Bus: s.bus, Out: names, Backends: []normalizer.Backend{codex.Backend{}}, Log: zap.NewNop()}
	s.role = start(n.Run, s.work)
	return s, s.serve(ctx)
}

// serve begins a responder.
func (s *stage) serve(ctx context.Context) error {
	service := responder.New(responder.Config{
		Streams: s.bus, Queue: bus.DefaultQueue, LostAfter: time.Minute, Details: servicetest.Details(),
		Patience: fixture.Patience,
	})
	set, listening := tools.New(service), make(chan struct{})
	s.desk = start(service.Run, func(ctx context.Context) error {
		return natsapi.Serve(ctx, natsapi.Config{
			Conn: s.bus.Inside(), Root: s.bus.API(), Version: "1.0.0", Log: zap.NewNop(),
			Endpoints: slices.Concat(natsapi.VerbEndpoints(service), natsapi.ToolEndpoints(set, set.List()),
				natsapi.CallEndpoints(set)),
			Listening: func() { close(listening) },
		})
	})
	<-listening
	return service.Ready(ctx)
}

// leave ends the responder.
func (s *stage) leave() error {
	if s.desk == nil {
		return nil
	}
	err := s.desk.stop()
	s.desk = nil
	return errors.Join(err, s.bus.Inside().FlushTimeout(fixture.Patience)) // the server knows it then
}

func (s *stage) close() error {
	err := errors.Join(s.leave(), s.role.stop())
	s.bus.Close()
	s.server.Stop()
	return err
}

// recording is what the agent prints for each task.
const recording = `{"type":"thread.started","thread_id":"0199a213-81c0-7800-8aa1-bbab2a035a53"}
{"type":"turn.started"}
{"type":"item.completed","item":{"id":"item_0","type":"agent_message","text":"Two files."}}
{"type":"turn.completed","usage":{"input_tokens":1,"cached_input_tokens":0,"output_tokens":2}}
`

// work does tasks as they come.
func (s *stage) work(ctx context.Context) error {
	queue := s.bus.Queue(bus.DefaultQueue)
	for {
		d, err := queue.Next(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			err = s.do(ctx, d)
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
}

func (s *stage) do(ctx context.Context, d *bus.Delivery) error {
	task, err := d.Task()
	if err != nil {
		return err
	}
	if _, err := s.bus.Peek(ctx, task.Run); errors.Is(err, runs.ErrNoRun) { // it is still being submitted
		return d.Later(5 * time.Millisecond)
	}
	raw, err := s.bus.OpenLog(ctx, task.Agent, task.Run, runs.Mark{})
	if err != nil {
		return err
	}
	started := runs.Entry{
		Kind: runs.Started, Time: time.Now().UnixMilli(), Body: runs.Encode(runs.Start{Source: "queue", Worker: "w"}),
	}
	if err = raw.Append(ctx, started); errors.Is(err, runs.ErrMoved) { // behind the queued entry
		err = raw.Append(ctx, started)
	}
	if err != nil || task.Prompt == "hold" {
		return errors.Join(err, d.Done())
	}
	return errors.Join(s.end(ctx, raw), d.Done())
}

// end writes what the agent prints, and its end.
func (s *stage) end(ctx context.Context, raw *bus.RawLog) error {
	code := 0
	for _, e := range []runs.Entry{
		{Kind: runs.Out, Offset: raw.Mark().Out, Body: []byte(recording)},
		{Kind: runs.Exited, Body: runs.Encode(runs.Exit{Reason: runs.ReasonExited, Code: &code})},
	} {
		e.Time = time.Now().UnixMilli()
		if err := raw.Append(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// release ends a run whose prompt was "hold".
func (s *stage) release(ctx context.Context, run string) error {
	raw, err := s.bus.OpenLog(ctx, "codex", run, runs.Mark{})
	if err != nil {
		return err
	}
	if err = s.end(ctx, raw); errors.Is(err, runs.ErrMoved) { // behind the start
		err = s.end(ctx, raw)
	}
	return err
}

func (s *stage) config(user string) client.Config {
	credentials, err := embedded.LoadCredentials(s.dir)
	if err != nil {
		log.Fatal(err)
	}
	inside, public := credentials.Logins(s.server.URL(), user)
	return client.Config{
		URL: s.server.URL(), User: inside.User, Password: inside.Password, PublicUser: public.User,
		PublicPassword: public.Password,
	}
}
