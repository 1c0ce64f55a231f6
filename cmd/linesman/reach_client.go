package main

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/worker"
)

// client connects as user to the server that a command needs: that of --nats,
// or the `linesman up` of the data directory, which is started in the
// background where there is none. The connection outlives the server: the next
// one is found, or started.
func (a *app) client(ctx context.Context, user string) (*bus.Bus, error) {
	if a.config.NATS != "" {
		return a.connect(ctx, user)
	}
	const interval, silent = 10 * time.Millisecond, 3 * time.Second
	data := a.config.DataDir
	begun := time.Now()
	said, inside := false, worker.InAgent(a.environ)
	var up *launched
	defer func() { up.leave() }()
	for {
		var err error
		notice := fmt.Sprintf("%s is in use, and its `linesman up` does not answer yet: waiting for it", data)
		switch {
		case held(data):
			var b *bus.Bus
			if b, err = a.connectHere(ctx, user); err == nil {
				return b, nil
			} else if exitCode(err) != exitNATS {
				return nil, err
			}
		case !a.config.Background.Start:
			return a.connect(ctx, user) // which says what is not there
		case inside:
			err = exitWith(exitNATS, fmt.Errorf("no `linesman up` is running on %s, and a command inside an agent starts none, for it would be killed with the agent: start `linesman up` outside of the agent", data))
			notice = err.Error() + "; waiting for it"
		case up == nil:
			if up, err = a.launch(); err != nil {
				return nil, exitWith(exitNATS, err)
			}
		}
		waited := time.Since(begun)
		if waited > away {
			if err == nil {
				err = exitWith(exitNATS, fmt.Errorf("`linesman up` in the background does not have the data directory after %v; its log is %s", away, backgroundLog(data)))
			}
			return nil, err
		}
		if err != nil && waited > silent && !said {
			said = true
			fmt.Fprintf(a.stderr, "linesman: %s, %v at most\n", notice, away)
		}
		select {
		case <-ctx.Done():
			return nil, exitWith(exitNATS, ctx.Err())
		case <-up.answered():
			switch err := up.err; {
			case errors.Is(err, errLocked): // another process was faster
			case err != nil:
				return nil, exitWith(exitNATS, err)
			}
			up = nil
		case <-time.After(interval):
		}
	}
}

// connectHere connects to the `linesman up` that has the data directory, if it
// is ready. One that is about to end has taken linesman.json away before it
// looked for clients a last time: then this is none of its clients.
func (a *app) connectHere(ctx context.Context, user string) (*bus.Bus, error) {
	before, err := readInstance(a.config.DataDir)
	if err != nil {
		return nil, exitWith(exitNATS, fmt.Errorf("%s is in use, and no `linesman up` answers there: %w", a.config.DataDir, err))
	}
	inside, public, err := a.logins(user)
	if err != nil {
		return nil, err
	}
	where := func() string {
		a.revive()
		return whereIs(a.config.DataDir)
	}
	inside.Where, public.Where = where, where
	b, err := a.dial(ctx, inside, public)
	if err != nil {
		return nil, err
	}
	if now, err := readInstance(a.config.DataDir); err != nil || !reflect.DeepEqual(now, before) {
		b.Close()
		return nil, exitWith(exitNATS, fmt.Errorf("the `linesman up` of %s is ending", a.config.DataDir))
	}
	return b, nil
}

// revive is called before each attempt to connect again: it starts an `up`
// where the one that there was is gone, and does not wait for it. One that was
// killed leaves linesman.json behind; one that was ended is given a moment, for
// who ended it may be about to start another. Inside an agent it starts none: the
// command that runs the agent does so.
func (a *app) revive() {
	const grace, retry = 2 * time.Second, 10 * time.Second
	if !a.config.Background.Start || held(a.config.DataDir) || worker.InAgent(a.environ) {
		a.revival.Lock()
		a.free = time.Time{}
		a.revival.Unlock()
		return
	}
	a.revival.Lock()
	defer a.revival.Unlock()
	now := time.Now()
	if a.free.IsZero() {
		a.free = now
	}
	_, err := readInstance(a.config.DataDir)
	if err != nil && now.Sub(a.free) < grace || now.Before(a.notBefore) {
		return
	}
	if a.up != nil {
		select {
		case <-a.up.done:
			if a.up.err != nil && !errors.Is(a.up.err, errLocked) {
				a.log.Warn("no server can be started: " + first(a.up.err))
				a.up, a.notBefore = nil, now.Add(retry)
				return
			}
		default:
			return // it is starting
		}
	}
	if a.up, err = a.launch(); err != nil {
		a.log.Warn("no server can be started: " + first(err))
		a.up, a.notBefore = nil, now.Add(retry)
	}
}
