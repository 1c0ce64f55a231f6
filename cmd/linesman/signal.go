package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// signalled is the cause of a context that a signal has ended.
type signalled syscall.Signal

func (s signalled) Error() string { return "ended by " + unix.SignalName(syscall.Signal(s)) }

// code is the exit code that tells of the signal.
func (s signalled) code() int { return exitSignal + int(s) }

// untilSignal is a context that ends at the first of signals, with a [signalled]
// as its cause; stop leaves them to somebody else.
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

// tellSignal gives the error of a command that broke off because a signal ended
// its context the exit code of that signal, and its name.
func tellSignal(ctx context.Context, err error) error {
	var by signalled
	if !errors.Is(err, context.Canceled) || !errors.As(context.Cause(ctx), &by) {
		return err
	}
	return exitWith(by.code(), errors.New(strings.ReplaceAll(err.Error(), context.Canceled.Error(), by.Error())))
}
