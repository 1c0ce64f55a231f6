package local

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"sync"
	"time"

	"go.uber.org/zap"
)

// Registration is the instance file of this process, an `up` that holds the lock
// of the data directory. Its methods may be called from several goroutines.
type Registration struct {
	instance Instance
	lock     *os.File

	mu        sync.Mutex
	withdrawn bool // the file must not exist
}

// Register writes the instance file. The caller holds the lock of i.Data, and
// calls Withdraw at its end.
func Register(i Instance, lock *os.File) (*Registration, error) {
	if err := i.Write(); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	return &Registration{instance: i, lock: lock}, nil
}

// Withdraw removes the instance file, so that no command connects any more. It
// leaves the file of another process that has a new data directory at the same path.
func (r *Registration) Withdraw() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.withdrawn = true
	if !isReplaced(r.lock) {
		_ = os.Remove(InstanceFile(r.instance.Data))
	}
}

// restore writes the file again after Withdraw.
func (r *Registration) restore() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.withdrawn = false
	_ = r.instance.Write() // if that fails, Keep retries
}

// Keep restores the instance file if it is removed or changed, until ctx ends:
// then it returns nil. The error reports that the data directory was removed or
// replaced, so that the process must end.
func (r *Registration) Keep(ctx context.Context, log *zap.Logger) error {
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if isReplaced(r.lock) {
			return fmt.Errorf("%s was removed or replaced, and this `linesman up` ends", r.instance.Data)
		}
		r.mu.Lock()
		if now, err := ReadInstance(r.instance.Data); !r.withdrawn && (err != nil || !reflect.DeepEqual(now, r.instance)) {
			if err := r.instance.Write(); err != nil {
				log.Warn("linesman.json cannot be written", zap.Error(err))
			}
		}
		r.mu.Unlock()
	}
}

// Load reports whether an `up` is in use.
type Load interface {
	// Busy reports whether it has clients or work.
	Busy(ctx context.Context) bool
	// Requests counts the requests of clients that do not stay connected.
	Requests() uint64
}

// AwaitIdle returns true after the idle timeout: then the instance file is
// removed, and the process must end. It removes the file before it looks at the
// load for the last time, because a command that connects checks afterwards that
// the file is still there. It returns false if ctx ends. The timeout 0 means none.
func (r *Registration) AwaitIdle(ctx context.Context, load Load, timeout time.Duration) bool {
	if timeout == 0 {
		<-ctx.Done()
		return false
	}
	tick := time.NewTicker(min(max(timeout/10, 20*time.Millisecond), 10*time.Second))
	defer tick.Stop()
	used, requests := time.Now(), load.Requests()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
		now := load.Requests()
		if now != requests || load.Busy(ctx) {
			used, requests = time.Now(), now
			continue
		}
		if time.Since(used) < timeout {
			continue
		}
		r.Withdraw()
		if !load.Busy(ctx) && load.Requests() == requests {
			return true
		}
		r.restore()
		used = time.Now()
	}
}
