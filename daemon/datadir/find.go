package datadir

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/worker"
)

// DialOrStart is [Dialer.Dial], but if no `linesman up` is running on the data
// directory it starts one in the background, if the settings permit. The
// connection survives the server: it reconnects to the next one, and starts that
// if necessary. Starting executes the file of the calling program with `up
// --background`: only the program linesman can do so.
func (d *Dialer) DialOrStart(ctx context.Context, user string) (*bus.Bus, error) {
	if d.Config.NATS != "" {
		return d.Dial(ctx, user)
	}
	const interval, quiet = 10 * time.Millisecond, 5 * time.Second
	data := d.Config.DataDir
	begun := time.Now()
	told, inAgent := false, worker.InAgent(d.Environ)
	var up, last *startup // up is nil once it has started or failed
	defer func() { up.leave() }()
	for {
		var err error
		notice := fmt.Sprintf("%s is in use, and its `linesman up` does not answer yet: waiting for it", data)
		switch {
		case isLocked(data):
			var b *bus.Bus
			if b, err = d.dialInstance(ctx, user); err == nil {
				d.tellNotes(last)
				return b, nil
			} else if !errors.Is(err, ErrUnavailable) {
				return nil, err
			}
		case !d.Config.Background.Start:
			return d.Dial(ctx, user) // its error names what is missing
		case inAgent:
			err = unavailable(fmt.Errorf("no `linesman up` is running on %s, and a command inside an agent starts none, "+
				"for it would be killed with the agent: start `linesman up` outside of the agent", data))
			notice = err.Error() + "; waiting for it"
		case up == nil:
			if up, err = d.start(); err != nil {
				return nil, unavailable(err)
			}
			last = up
		}
		waited := time.Since(begun)
		if waited > MaxOutage {
			if err == nil {
				err = unavailable(fmt.Errorf("`linesman up` in the background does not have the data directory after %v; "+
					"its log is %s", MaxOutage, logFile(data)))
			}
			return nil, err
		}
		patience := quiet
		if up != nil {
			patience = MaxOutage / 2 // it is starting, and finished says if it cannot
		}
		if err != nil && waited > patience && !told {
			told = true
			fmt.Fprintf(d.Stderr, "linesman: %s, %v at most\n", notice, MaxOutage)
		}
		select {
		case <-ctx.Done():
			return nil, unavailable(ctx.Err())
		case <-up.finished():
			switch err := up.err; {
			case errors.Is(err, ErrLocked): // another process was faster
			case err != nil:
				return nil, unavailable(err)
			}
			up = nil
		case <-time.After(interval):
		}
	}
}

// tellNotes says what an `up` that the command has started lacks of the one before. It does
// not if another one was faster.
func (d *Dialer) tellNotes(up *startup) {
	if up == nil {
		return
	}
	here, err := ReadInstance(d.Config.DataDir)
	if err != nil || here.PID != up.pid {
		return
	}
	for _, note := range slices.Concat([]string{up.note}, here.Notes) {
		if note != "" {
			fmt.Fprintf(d.Stderr, "linesman: %s\n", note)
		}
	}
}

// dialInstance connects to the `linesman up` that holds the lock, if it is
// ready. One that is about to end removes the instance file before it counts its
// clients for the last time. So a connection counts only if the file is
// unchanged after connecting.
func (d *Dialer) dialInstance(ctx context.Context, user string) (*bus.Bus, error) {
	data := d.Config.DataDir
	before, err := ReadInstance(data)
	if err != nil {
		return nil, unavailable(fmt.Errorf("%s is in use, and no `linesman up` answers there: %w", data, err))
	}
	inside, public, err := d.Logins(user)
	if err != nil {
		return nil, err
	}
	where := func() string {
		d.revive()
		return serverAddress(data)
	}
	inside.Where, public.Where = where, where
	b, err := d.dial(ctx, inside, public)
	if err != nil {
		return nil, err
	}
	if now, err := ReadInstance(data); err != nil || !reflect.DeepEqual(now, before) {
		b.Close()
		return nil, unavailable(fmt.Errorf("the `linesman up` of %s is ending", data))
	}
	return b, nil
}

// revive is called before each attempt to reconnect. It starts an `up` if the
// previous one is gone, and does not wait for it. If the instance file exists,
// the previous one was killed. If not, it was stopped: then revive waits for a
// grace period, because another one may be about to start. Inside an agent it
// starts none: the command that runs the agent does so.
func (d *Dialer) revive() {
	const grace, retry = 2 * time.Second, 10 * time.Second
	if !d.Config.Background.Start || isLocked(d.Config.DataDir) || worker.InAgent(d.Environ) {
		d.revival.Lock()
		d.free = time.Time{}
		d.revival.Unlock()
		return
	}
	d.revival.Lock()
	defer d.revival.Unlock()
	now := time.Now()
	if d.free.IsZero() {
		d.free = now
	}
	_, err := ReadInstance(d.Config.DataDir)
	if err != nil && now.Sub(d.free) < grace || now.Before(d.retryAt) {
		return
	}
	if d.starting != nil {
		select {
		case <-d.starting.done:
			if d.starting.err != nil && !errors.Is(d.starting.err, ErrLocked) {
				d.Log.Warn("no server can be started: " + firstLine(d.starting.err))
				d.starting, d.retryAt = nil, now.Add(retry)
				return
			}
		default:
			return // it is starting
		}
	}
	if d.starting, err = d.start(); err != nil {
		d.Log.Warn("no server can be started: " + firstLine(err))
		d.starting, d.retryAt = nil, now.Add(retry)
	} else if d.starting.note != "" {
		d.Log.Warn(d.starting.note)
	}
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
