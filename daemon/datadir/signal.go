package datadir

import (
	"context"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Signalled is the cause of a context that a signal has ended.
type Signalled syscall.Signal

func (s Signalled) Error() string { return "ended by " + unix.SignalName(syscall.Signal(s)) }

// UntilSignal is a context that ends at the first of signals, with a [Signalled]
// as its cause; after stop it receives none.
func UntilSignal(ctx context.Context, signals <-chan os.Signal) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	var listening sync.WaitGroup
	listening.Go(func() {
		select {
		case s := <-signals:
			number, _ := s.(syscall.Signal) // as all are
			cancel(Signalled(number))
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		cancel(nil)
		listening.Wait()
	}
}
