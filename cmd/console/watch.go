package console

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/linesman/linesman/api"
)

// Watch prints items until there are no more, and returns how many there were. On a terminal
// it calls states meanwhile, unless that is nil: a function that passes the states of the run
// to set, until ctx ends.
func (t *Timeline) Watch(
	ctx context.Context, items iter.Seq2[api.DetailItem, error], states func(ctx context.Context, set func(*api.Run)),
) (int, error) {
	w := &watched{Timeline: t}
	var beside sync.WaitGroup
	defer beside.Wait()
	reading, cancel := context.WithCancel(ctx)
	defer cancel()
	if states != nil && t.Terminal() {
		beside.Go(func() { states(reading, w.newest.Store) })
	}
	return Follow(ctx, w, items, t.Write)
}

// watched is a timeline whose state comes from another goroutine.
type watched struct {
	*Timeline
	newest atomic.Pointer[api.Run]
}

// Tick shows the newest state.
func (w *watched) Tick(now time.Time) error {
	if run := w.newest.Swap(nil); run != nil {
		if err := w.Status(run); err != nil {
			return err
		}
	}
	return w.Timeline.Tick(now)
}
