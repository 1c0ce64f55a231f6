package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/linesman/linesman/bus"
)

// attachment is what a command that brings a run needs of NATS: the server of
// --nats, the running `linesman up`, or a server of its own for as long as it
// takes.
type attachment struct {
	bus     *bus.Bus
	station *station // its own server, if it has one
	lock    *os.File
	temp    string
}

// attach finds a server, or starts one. Where it finds none and cannot have
// the data directory, temporary allows a server whose streams end with it.
func (a *app) attach(ctx context.Context, temporary bool) (_ *attachment, err error) {
	t := &attachment{}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.close())
		}
	}()
	if a.config.NATS != "" {
		t.bus, err = a.connect(ctx, bus.OperatorUser)
		return t, err
	}
	dir := a.config.DataDir
	t.lock, err = lockData(dir)
	if errors.Is(err, errLocked) {
		if t.bus, err = a.connectSoon(ctx, bus.OperatorUser); err == nil {
			return t, nil
		}
		t.lock, err = lockData(dir) // whoever was in the way may have been killed
	}
	if errors.Is(err, errLocked) {
		if !temporary {
			return t, exitWith(exitNATS, fmt.Errorf("%s is in use, and no `linesman up` answers there: start one, and try again", dir))
		}
		if t.temp, err = os.MkdirTemp("", "linesman-"); err != nil {
			return t, fmt.Errorf("temporary store: %w", err)
		}
		fmt.Fprintf(a.stderr, "linesman: %s is in use, and no `linesman up` answers there: the events of this run are kept only until it ends\n", dir)
		dir = t.temp
	}
	if err != nil {
		return t, err
	}
	if t.station, err = a.newStation(ctx, dir, "127.0.0.1:0"); err != nil {
		return t, err
	}
	t.bus, err = t.station.connect(ctx, a, bus.OperatorUser)
	return t, err
}

// connectSoon connects to an `up` that may just be starting.
func (a *app) connectSoon(ctx context.Context, user string) (*bus.Bus, error) {
	deadline := time.Now().Add(3 * time.Second)
	for {
		b, err := a.connect(ctx, user)
		if err == nil || time.Now().After(deadline) {
			return b, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (t *attachment) close() error {
	var err error
	switch {
	case t.station != nil:
		err = t.station.stop() // closes the bus, too
	case t.bus != nil:
		t.bus.Close()
	}
	if t.temp != "" {
		err = errors.Join(err, os.RemoveAll(t.temp))
	}
	if t.lock != nil {
		err = errors.Join(err, t.lock.Close())
	}
	return err
}
