package console

import (
	"context"
	"errors"
	"iter"
	"time"
)

// Follow calls print with each item until there are no more, and returns how many
// there were. Meanwhile it moves the time of the status line of r. It returns at the
// end of ctx, even while the items wait for their source.
func Follow[T any](ctx context.Context, r *Renderer, items iter.Seq2[T, error], print func(T) error) (n int, err error) {
	defer func() { err = errors.Join(err, r.Close()) }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	read, done := make(chan T), make(chan error, 1)
	go func() {
		for item, err := range items {
			if err != nil {
				done <- err
				return
			}
			select {
			case read <- item:
			case <-ctx.Done():
				return
			}
		}
		done <- nil
	}()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case item := <-read:
			n++
			err = print(item)
		case err := <-done:
			return n, err
		case <-ctx.Done():
			return n, nil
		case now := <-tick.C:
			err = r.Tick(now)
		}
		if err != nil {
			return n, err
		}
	}
}
