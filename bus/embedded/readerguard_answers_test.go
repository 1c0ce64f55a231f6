package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// Readers that catch up request one batch at a time: as many answers are queued as
// there are readers, and one connection may have several readers.
func TestManyReadersThatCatchUpAreNotLimited(t *testing.T) {
	fixture.Long(t, "floods a server")
	t.Parallel()
	const events, connections, onOne = 300, 64, 8 // more than one batch
	s, b := serve(t)
	s.guard.set(func() { s.guard.many = 2000 }) // less than eight readers cause
	bustest.Fill(t, b, events)
	var readers []*bus.Bus
	for range connections {
		readers = append(readers, bustest.Connect(t, s, SubscriberUser))
	}
	for range onOne - 1 {
		readers = append(readers, readers[0])
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	enough := errors.New("enough")
	var reading sync.WaitGroup
	for i, r := range readers {
		reading.Go(func() {
			n := 0
			err := r.Read(ctx, runs.Selection{Follow: true}, func(bus.Stored) error {
				if n++; n == events {
					return enough
				}
				return nil
			})
			if !errors.Is(err, enough) {
				t.Errorf("reader %d ends after %d events: %v", i, n, err)
			}
		})
	}
	reading.Wait()
	if l, err := ReadLimited(filepath.Dir(s.store)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("limited: %+v, %v", l, err)
	}
}

func TestAFloodOfDirectGetsIsLimited(t *testing.T) {
	fixture.Long(t, "floods a server")
	t.Parallel()
	const events = 10_000
	s, b := serve(t)
	s.guard.set(func() { s.guard.maxUnread, s.guard.many, s.guard.batch = 1<<30, 2000, 100 })
	bustest.Fill(t, b, events)
	bustest.Connect(t, s, SubscriberUser) // sends no requests
	flood := 0                            // a fast server may have sent the answers of a few connections before it looks
	bustest.Until(t, "a limit because of "+whyDirect, func() bool {
		ask(t, s, 10, fmt.Sprintf(`{"seq":1,"batch":%d,"max_bytes":%d}`, events, 1<<30))
		flood++
		l, err := ReadLimited(filepath.Dir(s.store))
		return err == nil && l.Why == whyDirect && l.User == SubscriberUser && l.Connections > 0
	})
	if l, err := ReadLimited(filepath.Dir(s.store)); err != nil || l.Connections > flood {
		t.Errorf("%d connections are closed, %v", l.Connections, err)
	}
	bustest.Until(t, "the operator is not answered", func() bool {
		_, err := b.PublicJetStream().Stream(t.Context(), bustest.Names.Events())
		return err == nil
	})
}
