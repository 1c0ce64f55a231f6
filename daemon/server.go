package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/worker"
)

// natsServer is an embedded NATS server with the streams of linesman and a normalizer.
type natsServer struct {
	config   Config
	server   *embedded.Server
	disk     *embedded.DiskGuard
	operator *bus.Bus
	ready    chan struct{} // closed once the normalizer has read where the streams end

	configuring sync.Mutex // so that the last one to configure RAW knows whether it is held

	mu    sync.Mutex
	buses []*bus.Bus // connections of this process
}

// newServer starts a server that keeps its streams in the data directory, and
// creates or configures the streams. The error is [embedded.ErrListen] and a
// [listenError] if the address is in use.
func newServer(ctx context.Context, c Config) (_ *natsServer, err error) {
	if err := worker.MakeDir(c.Settings.DataDir); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	left := c.stages.enter("the start of the NATS server, which reads its streams")
	server, err := embedded.StartServer(c.Settings.DataDir, c.Settings.NATSListen, c.names(), c.Log)
	left()
	if errors.Is(err, embedded.ErrListen) {
		return nil, &listenError{"--nats-listen", err}
	}
	if err != nil {
		return nil, err
	}
	server.HoldRaw(c.Settings.Raw.MaxAge)
	s := &natsServer{config: c, server: server, disk: embedded.NewDiskGuard(server), ready: make(chan struct{})}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if err := s.disk.Check(); err != nil {
		return nil, err
	}
	defer c.stages.enter("the streams of the NATS server")()
	if s.operator, err = s.Connect(ctx, embedded.OperatorUser); err != nil {
		return nil, err
	}
	if err := s.ensure(ctx); err != nil {
		return nil, err
	}
	return s, s.operator.ClearLease(ctx)
}

// ensure creates and configures the streams.
func (s *natsServer) ensure(ctx context.Context) error {
	s.configuring.Lock()
	defer s.configuring.Unlock()
	defer s.server.LimitCaches()
	return s.config.ensure(ctx, s.operator, s.config.Settings.DataDir, s.server.RawHeld())
}

// releaseRaw lets entries of RAW expire again once those of the start have been read, if the
// server held them. The error is that of ctx, or nil.
func (s *natsServer) releaseRaw(ctx context.Context) error {
	if !s.server.RawHeld() || s.started(ctx) != nil {
		return nil
	}
	last, err := s.operator.LastRaw(ctx)
	for {
		if err == nil {
			err = s.operator.Reached(ctx, last)
		}
		if err == nil {
			s.server.ReleaseRaw()
			err = s.ensure(ctx)
		}
		if err == nil || ctx.Err() != nil {
			return nil
		}
		s.config.Log.Warn("RAW is kept until it has been read", zap.String("why", s.operator.Explain(err)))
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(10 * time.Second):
		}
		last, err = s.operator.LastRaw(ctx)
	}
}

// run normalizes until ctx ends and what was read is stored, and then returns nil.
// Until Close the server still serves.
func (s *natsServer) run(ctx context.Context) error {
	b, err := s.Connect(ctx, embedded.NormalizerUser)
	if err != nil {
		return quiet(err)
	}
	n := newNormalizer(b, s.config)
	n.Prepare = s.ensure
	n.Ready = sync.OnceFunc(func() { close(s.ready) })
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.disk.Run(ctx) })
	group.Go(func() error { return s.releaseRaw(ctx) })
	group.Go(func() error { return s.config.normalize(ctx, n) })
	return group.Wait()
}

// started waits until the normalizer works. Roles do not write before that, because a
// stream may have lost its end in a power failure. The error is that of ctx.
func (s *natsServer) started(ctx context.Context) error {
	return await(ctx, s.ready)
}

// await waits until ch is closed. The error is that of ctx if it ends first.
func await(ctx context.Context, ch <-chan struct{}) error {
	select {
	case <-ch:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Connect connects as one of the users of [embedded.Accounts], until Close.
func (s *natsServer) Connect(ctx context.Context, user string) (*bus.Bus, error) {
	b, err := s.server.Connect(ctx, user, s.config.names(), s.config.Log)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buses = append(s.buses, b)
	return b, nil
}

// URL is where the server listens.
func (s *natsServer) URL() string { return s.server.URL() }

// clients reports whether others than this process are connected.
func (s *natsServer) clients() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.server.Others(s.buses) > 0
}

// close closes the connections of this process and stops the server.
func (s *natsServer) close() {
	defer s.config.stages.enter("the end of the NATS server")()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.buses {
		b.Close()
	}
	s.server.Stop()
}
