package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
)

// Limits of a stop, and of a start without a word. A process that ends after the limit leaves
// what one leaves that is killed: the next one continues. A start has nothing to finish.
// [datadir.Dialer.Stop] waits longer than either.
const (
	stopTime      = 25 * time.Second
	startStopTime = 5 * time.Second
	slowStart     = 8 * time.Second
)

// errStop reports that a process was asked to stop, and ends without having waited for all
// of its parts. Its caller must end the process, because those parts still run.
var errStop = errors.New("it does not end")

// stages are the parts of a process that are at work now, in the order in which they began.
// Its methods may be called from several goroutines.
type stages struct {
	mu    sync.Mutex
	names []string
	ready bool // the start is over
}

// enter notes that a part works, until left is called.
func (s *stages) enter(name string) (left func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names = append(s.names, name)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if i := slices.Index(s.names, name); i >= 0 {
			s.names = slices.Delete(s.names, i, i+1)
		}
	}
}

// started notes that the start is over.
func (s *stages) started() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready = true
}

// now returns the parts that work, and how long a stop may take.
func (s *stages) now() (names string, ready bool, limit time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	limit = startStopTime
	if s.ready {
		limit = stopTime
	}
	return strings.Join(s.names, ", "), s.ready, limit
}

// bounded calls do, whose context ends with ctx or when do calls end. After that, do may take
// only a limited time: then bounded returns [errStop], which names the parts that still work.
// Before, a start that takes long is logged with the same names.
func (c Config) bounded(ctx context.Context, do func(_ context.Context, end func()) error) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	done := make(chan error, 1)
	go func() { done <- do(ctx, end) }()
	slow := time.NewTicker(slowStart)
	defer slow.Stop()
	for ctx.Err() == nil {
		select {
		case err := <-done:
			return err
		case <-ctx.Done():
		case <-slow.C:
			names, ready, _ := c.stages.now()
			if ready {
				slow.Stop()
				continue
			}
			c.Log.Warn("still starting", zap.String("waits_for", names))
		}
	}
	_, _, limit := c.stages.now()
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case err := <-done:
		return err
	case <-late.C:
		names, _, _ := c.stages.now()
		return fmt.Errorf("%w: after %v it still waits for %s; the process ends nevertheless, as if it were killed, and "+
			"the next start continues", errStop, limit, names)
	}
}

// boundedRole is [Config.monitored], whose stop is bounded. A role waits for its server as long
// as it takes, and says so itself: for a stop, its start is over.
func (c Config) boundedRole(
	ctx context.Context, flag string, role func(_ context.Context, dialed func(connected)) error,
) error {
	c.stages.started()
	return c.bounded(ctx, func(ctx context.Context, _ func()) error { return c.monitored(ctx, flag, role) })
}
