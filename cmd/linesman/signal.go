package main

import (
	"context"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// signalled is the cause of a context that a signal has ended.
type signalled syscall.Signal

func (s signalled) Error() string { return "ended by " + unix.SignalName(syscall.Signal(s)) }

// untilSignal is a context that ends at the first of signals, with a [signalled]
// as its cause; after stop it receives none.
func untilSignal(ctx context.Context, signals <-chan os.Signal) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	var listening sync.WaitGroup
	listening.Go(func() {
		select {
		case s := <-signals:
			number, _ := s.(syscall.Signal) // as all are
			cancel(signalled(number))
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		cancel(nil)
		listening.Wait()
	}
}
