package datadir

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
)

// stopTimeout is how long an `up` may take to end after a request to stop.
const stopTimeout = 30 * time.Second

// Stop stops the `linesman up` of the data directory, and returns nil once no
// process holds the lock.
func (d *Dialer) Stop(ctx context.Context) error {
	data := d.Config.DataDir
	var asked int
	for deadline := time.Now().Add(stopTimeout); ; {
		if busy, err := lockHeld(data); err != nil || !busy {
			return err
		}
		here, err := ReadInstance(data)
		if err == nil && here.PID != asked {
			if err = d.askStop(ctx, here); err == nil {
				asked = here.PID
			}
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s is still in use after %v%s", data, stopTimeout, advice(here, err))
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

// TakeOver takes the lock of the data directory. It stops an `up` in the
// background that holds it, whose clients reconnect to the caller. The error is
// [ErrLocked] if another `up` holds it, or the one in the background does not end.
func (d *Dialer) TakeOver(ctx context.Context) (*Lock, error) {
	data := d.Config.DataDir
	begun, asked := time.Now(), 0
	for {
		lock, err := takeLock(data)
		if !errors.Is(err, ErrLocked) {
			return lock, err
		}
		waited := time.Since(begun)
		here, err := ReadInstance(data)
		switch {
		case err == nil && !here.Background && waited > staleLock:
			return nil, fmt.Errorf("%w: %s: end it first, or choose another directory with --data-dir", ErrLocked, data)
		case err == nil && here.Background && here.PID != asked:
			if err = d.askStop(ctx, here); err == nil {
				asked = here.PID
				d.Log.Info("the `linesman up` in the background gives way", zap.Int("pid", here.PID))
			}
		}
		if waited > stopTimeout {
			return nil, fmt.Errorf("%w: %s, and has not given way after %v%s", ErrLocked, data, stopTimeout, advice(here, err))
		}
		if err := pause(ctx); err != nil {
			return nil, err
		}
	}
}

// advice names the process that does not end, as far as it is known, and what
// to do about it. The error is that of the request to stop, if any.
func advice(here Instance, err error) string {
	process := "the process that has it"
	if here.isSameProcess() {
		process = fmt.Sprintf("process %d", here.PID)
	}
	switch {
	case here.PID == 0:
		return ": the process that has it does not say which it is; end that"
	case errors.Is(err, bus.ErrUnreachable), errors.Is(err, context.DeadlineExceeded):
		return ": " + here.unresponsive()
	case err != nil:
		return fmt.Sprintf(": %v; end %s", firstLine(err), process)
	}
	return "; end " + process
}

// askStop asks an `up` to end, through its own server: a process ID alone may
// belong to another process by now.
func (d *Dialer) askStop(ctx context.Context, here Instance) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	b, err := d.Dial(ctx, embedded.OperatorUser)
	if err != nil {
		return err
	}
	defer b.Close()
	return b.AskStop(ctx, here.PID)
}
