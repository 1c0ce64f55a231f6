package client

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

// SubmitRun is [Client.Submit], and returns the queued run. If its state cannot be read, only
// what the answer to the submission says is in it: the task was accepted nevertheless.
func (c *Client) SubmitRun(ctx context.Context, q api.Submission) (*api.Run, error) {
	done, err := c.Submit(ctx, q)
	if err != nil {
		return nil, err
	}
	run, err := c.Status(ctx, done.Run)
	if err != nil {
		run = &api.Run{
			Summary: runs.Summary{ID: done.Run, State: runs.StateQueued, Attributes: runs.Attributes{Thread: done.Thread},
				Position: &done.Position,
				QueuedAt: runs.Time(done.At),
			},
		}
	}
	return run, nil
}

// CancelRun is [Client.Cancel], and returns the run with the details of its record. Its state
// is cancelled as soon as the request to cancel it is stored, even if its record follows. If that cannot be read, only
// what the answer to the cancel says is in it: the cancel was accepted nevertheless.
func (c *Client) CancelRun(ctx context.Context, q api.Cancel) (*api.Run, error) {
	done, err := c.Cancel(ctx, q)
	if err != nil {
		return nil, err
	}
	run, err := c.Describe(ctx, done.Run)
	if err != nil {
		run = &api.Run{Summary: runs.Summary{ID: done.Run, State: done.State, CancelRequested: true}, Detail: &api.Detail{}}
	}
	if done.State == runs.StateCancelled && !run.State.Final() {
		run.State, run.Position, run.CancelRequested = done.State, nil, true
	}
	return run, nil
}

// Repeat calls do, and once more if that got no answer: a request with an idempotency key, or for a run that it names,
// is carried out once all the same. Unknown: there was no answer then either, so it may have been carried out.
func Repeat[T any](do func() (T, error)) (done T, unknown bool, err error) {
	done, err = do()
	var e *api.Error
	late := errors.Is(err, context.DeadlineExceeded)
	if !late && (!errors.As(err, &e) || !e.Retryable) || errors.Is(err, ErrNoResponder) {
		return done, false, err
	}
	lost := late || e.Code == api.Unavailable // else an ending responder has refused it
	done, err = do()
	none := errors.Is(err, context.DeadlineExceeded) || api.Is(err, api.Unavailable)
	return done, none && (lost || !errors.Is(err, ErrNoResponder)) || lost && api.Is(err, api.TooMany), err
}

// endLag is how long [Client.SeenSoon] waits for the record of a run.
const endLag = 2 * time.Second

// SeenSoon is [Client.Seen] of a run whose agent has ended: its record may follow.
func (c *Client) SeenSoon(ctx context.Context, run string) error {
	ended, cancel := context.WithTimeout(ctx, endLag)
	defer cancel()
	if _, err := c.Wait(ended, run, nil); err != nil {
		return err
	}
	return c.Seen(ctx, run)
}

// newRunPoll is how often [Client.FollowNewDetail] looks for its run.
const newRunPoll = 50 * time.Millisecond

// FollowNewDetail is [Client.FollowDetail] of a run that may be about to start: until there
// is one, it waits.
func (c *Client) FollowNewDetail(ctx context.Context, run, after string) iter.Seq2[api.DetailItem, error] {
	return func(yield func(api.DetailItem, error) bool) {
		for started := false; !started; {
			for item, err := range c.FollowDetail(ctx, run, after, 0, true) {
				if !started && api.Is(err, api.NotFound) {
					break
				}
				if started = true; !yield(item, err) {
					return
				}
			}
			if started {
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(newRunPoll):
			}
		}
	}
}

// Each returns items, and calls see with each before it is returned.
func Each[T any](items iter.Seq2[T, error], see func(T)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for item, err := range items {
			if err == nil {
				see(item)
			}
			if !yield(item, err) {
				return
			}
		}
	}
}
