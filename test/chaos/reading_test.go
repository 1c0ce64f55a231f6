package chaos

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// reading reads runs that have ended, while others go on and nodes come and
// go. What it reads may not be had at the moment; it must not be cut short.
type reading struct {
	cancel context.CancelFunc
	done   sync.WaitGroup
	runs   int // that it read to the end
	short  []string
}

// read begins to read; stop ends it.
func (s *site) read(server Server) *reading {
	s.t.Helper()
	b, err := bus.Connect(bustest.Patient(s.t), bus.Login{URL: s.url}, bus.Login{}, s.names, zap.NewNop())
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.t.Context())
	r := &reading{cancel: cancel}
	r.done.Go(func() {
		defer b.Close()
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				r.one(ctx, server, b)
			}
		}
	})
	s.t.Cleanup(r.stop)
	return r
}

// one reads a run that has ended, if it finds one.
func (r *reading) one(ctx context.Context, server Server, b *bus.Bus) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	begun, err := server.Begun(ctx)
	if err != nil || len(begun) == 0 {
		return
	}
	run := begun[rand.IntN(len(begun))]
	record, err := server.Record(ctx, run)
	if err != nil || record == nil || !record.State.Final() {
		return
	}
	completed := false
	err = b.Read(ctx, runs.Selection{Run: run}, func(e bus.Stored) error {
		completed = e.Token == "completion"
		return nil
	})
	if err != nil {
		return
	}
	if !completed {
		r.short = append(r.short, "the events of run "+run)
	}
	if record.Bytes > 0 {
		if _, tail, err := b.OutputAt(ctx, record.Agent, run, runs.Out, record.Bytes-1, 1); err != nil {
			return
		} else if len(tail) != 1 {
			r.short = append(r.short, "the output of run "+run)
		}
	}
	r.runs++
}

// stop ends the reading, and waits for it.
func (r *reading) stop() {
	r.cancel()
	r.done.Wait()
}
