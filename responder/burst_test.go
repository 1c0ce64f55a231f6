package responder_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// counted counts the readers of events at the same time.
type counted struct {
	responder.Streams
	now, most atomic.Int64
}

func (c *counted) EachEvent(ctx context.Context, of runs.Selection, each func(runs.Event) error) error {
	now := c.now.Add(1)
	defer c.now.Add(-1)
	for most := c.most.Load(); now > most && !c.most.CompareAndSwap(most, now); most = c.most.Load() {
	}
	return c.Streams.EachEvent(ctx, of, each)
}

// newLongRun returns a service for a run with so many events of about 700 bytes, the
// connection that it reads them on, and the counter of its readers.
func newLongRun(t testing.TB, events int) (*responder.Service, *bus.Bus, *counted) {
	t.Helper()
	server, b := bustest.Serve(t, embedded.StartServer)
	r := runs.NewRecord("a", "codex")
	r.State, r.StartedAt, r.Seq = runs.StateWorking, 1, 1
	row := nats.NewMsg(bucket.Subject(b.Runs(), r.ID))
	row.Header.Set(bus.HeaderRun, r.Header().Text())
	row.Data = append(append([]byte(`{"format":1,"record":`), r.JSON()...), '}')
	if _, err := b.JetStream().PublishMsg(t.Context(), row); err != nil {
		t.Fatal(err)
	}
	for i := range events {
		m := bustest.NewEvent(b, "a", i+1, fmt.Appendf(nil, `{"text":"%0600d"}`, i))
		if _, err := b.PublicJetStream().PublishMsgAsync(m, jetstream.WithStallWait(time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	<-b.PublicJetStream().PublishAsyncComplete()
	on := bustest.Connect(t, server, embedded.ResponderUser)
	c := &counted{Streams: on}
	s := responder.New(responder.Config{Streams: c, Queue: bus.DefaultQueue, LostAfter: time.Minute,
		Patience: fixture.Patience})
	bustest.Background(t, s.Run)
	if err := s.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s, on, c
}

// pages requests so many pages of 1,000 events at the same time.
func pages(ctx context.Context, s *responder.Service, requests int) (failed int64) {
	var all sync.WaitGroup
	var bad atomic.Int64
	for range requests {
		all.Go(func() {
			page, err := s.Events(ctx, "a", 0, 1000, 1<<20)
			if err != nil || len(page.Events) != 1000 {
				bad.Add(1)
			}
		})
	}
	all.Wait()
	return bad.Load()
}

// BenchmarkBurstOfPages compares 400 requests at once with as many one after the other,
// and reports the memory that the process got from the system meanwhile.
func BenchmarkBurstOfPages(b *testing.B) {
	const requests = 400
	s, on, _ := newLongRun(b, 20_000)
	var burst, single time.Duration
	var failed int64
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for b.Loop() {
		began := time.Now()
		ctx, cancel := context.WithTimeout(b.Context(), 30*time.Second) // as a request over HTTP has
		failed += pages(ctx, s, requests)
		cancel()
		burst += time.Since(began)
		began = time.Now()
		for range requests / 10 {
			if _, err := s.Events(b.Context(), "a", 0, 1000, 1<<20); err != nil {
				b.Fatal(err)
			}
		}
		single += 10 * time.Since(began)
	}
	runtime.ReadMemStats(&after)
	b.ReportMetric(burst.Seconds()/single.Seconds(), "x-single")
	b.ReportMetric(float64(failed)/float64(b.N)/requests, "failed")
	b.ReportMetric(float64(after.HeapSys-before.HeapSys)/(1<<20), "heap-MiB")
	b.ReportMetric(burst.Seconds()/float64(b.N), "s/burst")
	b.ReportMetric(float64(on.PublicJetStream().Conn().Stats().Reconnects), "reconnects")
	b.ReportMetric(0, "ns/op")
}

// A burst of requests for pages of events is served a few at a time: each has an answer, and
// the connection stays.
func TestPagesOfEventsAreReadInTurns(t *testing.T) {
	t.Parallel()
	s, on, c := newLongRun(t, 2000)
	const requests = 64
	if failed := pages(t.Context(), s, requests); failed > 0 {
		t.Errorf("%d of %d requests have no answer", failed, requests)
	}
	if most := c.most.Load(); most > 8 {
		t.Errorf("%d pages were read at the same time", most)
	}
	if n := on.PublicJetStream().Conn().Stats().Reconnects; n > 0 {
		t.Errorf("the connection was lost %d times", n)
	}
}
