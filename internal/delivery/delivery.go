// Package delivery delivers what a store holds, at least once: several items at a time, each
// again after pauses that double, until it is accepted, refused for good, or too old.
//
//	store ──▶ Run ──▶ an attempt ──▶ accepted: the store removes it
//	                            └──▶ Rule.Again: the store keeps it for a time, or removes it
//
// A store is a stream, of webhooks, or the state file of `linesman watch`.
package delivery

import (
	"context"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"
)

// grace is how long attempts may take after the end of [Run].
const grace = 5 * time.Second

// Refusal is the error of an attempt to deliver something that was not accepted.
type Refusal struct {
	Why   string        // without the address and without content
	Final bool          // another attempt cannot succeed
	After time.Duration // no attempt before that time has passed
}

func (r *Refusal) Error() string { return r.Why }

// Run calls handle with what next returns, at most so many at a time, until ctx ends, next
// returns false, or handle an error, which Run returns. Next waits for an item that is due. When
// ctx ends, running calls have [grace] by their own context.
func Run[T any](
	ctx context.Context, slots int, next func(context.Context) (T, bool), handle func(context.Context, T) error,
) error {
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(grace, stop) })()
	group, failed := errgroup.WithContext(ctx)
	free := make(chan struct{}, slots)
	for {
		select { // a slot first, so that no item waits for one
		case <-failed.Done():
			return group.Wait()
		case free <- struct{}{}:
		}
		item, ok := next(failed)
		if !ok {
			return group.Wait()
		}
		group.Go(func() error {
			defer func() { <-free }()
			return handle(working, item)
		})
	}
}

// Rule says when what was not accepted is tried again.
type Rule struct {
	Pace   time.Duration // the shortest pause
	Pause  time.Duration // the longest one, before it is spread
	GiveUp time.Duration // the last attempt is a second after this age
}

// Again returns the pause after a failed attempt, the times-th, to deliver what is as old as age;
// 0: it is refused for good. The pause is about the age, so that pauses double, also across restarts; but
// bounded by the number of attempts, so that what could not be sent for a long time is not delayed
// as long again.
func (r Rule) Again(refused *Refusal, age time.Duration, times int) time.Duration {
	if refused.Final {
		return 0
	}
	left := max(r.GiveUp-age, 0)
	byTimes := min(r.Pace<<min(max(times-1, 0), 10), r.Pause)
	return min(max(Spread(max(min(age, byTimes), r.Pace)), refused.After), left+time.Second)
}

// Spread randomizes d, so that what failed together is not repeated together.
func Spread(d time.Duration) time.Duration {
	return d + time.Duration(rand.Int64N(int64(d)/4+1))
}
