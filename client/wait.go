package client

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/linesman/linesman/api"
)

// A wait asks again every waitSlice, because an answer can be lost with the
// responder that owed it, and fails when there was no responder for
// maxResponderOutage.
const (
	waitSlice          = 30 * time.Second
	maxResponderOutage = 30 * time.Second
	retryInterval      = 500 * time.Millisecond
)

// Each of [Client.Wait] is called the first time after firstLook: Wait returns a run
// that has ended at once.
const (
	firstLook = 100 * time.Millisecond
	nextLook  = time.Second
)

// Wait waits until a run has ended, and returns it with the details of its
// record. It retries while the responder is unavailable or busy, for up to 30 s, and when it
// is replaced. The end of ctx ends the wait, not the run; the error is then that of
// ctx. It is [api.NotFound] where there is no such run.
//
// Each, unless it is nil, is called with the state of the run about once a
// second while it lasts, from another goroutine, and not after Wait has returned.
func (c *Client) Wait(ctx context.Context, run string, each func(*api.Run)) (*api.Run, error) {
	return c.WaitUntil(ctx, api.WaitRequest{Run: run}, each)
}

// WaitUntil is Wait for what a request says. Its limit of time does not count.
func (c *Client) WaitUntil(ctx context.Context, q api.WaitRequest, each func(*api.Run)) (*api.Run, error) {
	run := q.Run
	defer c.watch(ctx, run, each)()
	var p patience
	for {
		slice := waitSlice
		if deadline, ok := ctx.Deadline(); ok {
			slice = min(slice, max(time.Until(deadline), time.Second))
		}
		q.Timeout = wholeSeconds(slice)
		op := api.OpWait
		op.Within = slice + answerTime/3
		ended, err := detailed(op.Call(ctx, c, q))
		if err == nil {
			return ended, nil
		}
		if err := p.wait(ctx, err); err != nil {
			return nil, err
		}
	}
}

// watch starts to poll the state of a run; stop ends that, and waits for its end.
func (c *Client) watch(ctx context.Context, run string, each func(*api.Run)) (stop func()) {
	if each == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	group.Go(func() { c.look(ctx, run, each) })
	return func() {
		cancel()
		group.Wait()
	}
}

// look calls each with the state of a run until ctx ends. It ignores failed
// requests.
func (c *Client) look(ctx context.Context, run string, each func(*api.Run)) {
	next := time.NewTimer(firstLook)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
		op := api.OpStatus
		op.Within = 2 * time.Second
		now, err := op.Call(ctx, c, api.RunRequest{Run: run})
		if err == nil && ctx.Err() == nil {
			each(now)
		}
		next.Reset(nextLook)
	}
}

// patience decides whether a request that waits is sent again.
type patience struct {
	met  bool      // there was a responder
	lost time.Time // since when there is none; zero if there is one
}

// answered is called when a responder answered: further requests are sent for as long as
// the first one was.
func (p *patience) answered() { p.met, p.lost = true, time.Time{} }

// wait returns nil if the request should be sent again, after a pause if necessary,
// and otherwise the reason why not.
func (p *patience) wait(ctx context.Context, err error) error {
	var e *api.Error
	errors.As(err, &e)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case e == nil:
		return err
	case e.Code == api.Timeout && e.Limit == api.LimitWait:
		p.answered()
		return nil
	case e.Code != api.Unavailable && e.Code != api.TooMany || !e.Retryable: // an ending responder refuses all
		return err
	}
	if p.lost.IsZero() {
		p.lost = time.Now()
	}
	noResponder := errors.Is(err, ErrNoResponder)
	if noResponder && !p.met || time.Since(p.lost) > maxResponderOutage {
		return err
	}
	p.met = p.met || !noResponder
	select { // the responder may be restarting
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(retryInterval):
		return nil
	}
}

// wholeSeconds rounds up.
func wholeSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }
