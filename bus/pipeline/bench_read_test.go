package pipeline

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/bus/reader"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// BenchmarkReadEvents measures reading 100,000 events by direct gets, all of them and
// those of one run, and by a consumer in the same round: compare the ratios.
func BenchmarkReadEvents(b *testing.B) {
	const events, many = 100_000, 10
	s, op := serve(b)
	body := fmt.Appendf(nil, `{"agent_kind":"codex","text":"%0300d"}`, 1)
	p, err := newPublisher(op, 1, false)
	if err != nil {
		b.Fatal(err)
	}
	defer p.close()
	for i := range events {
		m := normalizer.Message{Pos: normalizer.Pos{Raw: uint64(i + 1)}, Body: body}
		if err := p.publish(b.Context(), op.EventSubject("codex", fmt.Sprintf("run-%d", i%many), "status"), m); err != nil {
			b.Fatal(err)
		}
	}
	if err := p.stored(b.Context(), events); err != nil {
		b.Fatal(err)
	}
	subscriber := bustest.Connect(b, s, embedded.SubscriberUser)
	took, cpu := map[string]time.Duration{}, map[string]time.Duration{}
	used := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	measure := func(name string, want int, read func() (int, error)) {
		began, before := time.Now(), used()
		if n, err := read(); err != nil || n != want {
			b.Fatalf("%s: %d events, %v", name, n, err)
		}
		took[name] += time.Since(began)
		cpu[name] += used() - before
	}
	for b.Loop() {
		for name, f := range map[string]struct {
			filter  runs.Selection
			subject string
			want    int
		}{
			"all": {runs.Selection{}, op.EventSubjects(), events},
			"run": {runs.Selection{Run: "run-7"}, op.EventSubject("*", "run-7", "*"), events / many},
		} {
			measure("direct-"+name, f.want, func() (n int, err error) {
				err = subscriber.Read(b.Context(), f.filter, func(bus.Stored) error { n++; return nil })
				return n, err
			})
			measure("consumer-"+name, f.want, func() (int, error) {
				return byConsumer(b.Context(), subscriber, f.subject)
			})
		}
	}
	for _, name := range []string{"all", "run"} {
		b.ReportMetric(float64(took["direct-"+name].Milliseconds())/float64(b.N), name+"-ms")
		b.ReportMetric(took["direct-"+name].Seconds()/took["consumer-"+name].Seconds(), name+"-direct/consumer")
		b.ReportMetric(cpu["direct-"+name].Seconds()/cpu["consumer-"+name].Seconds(), name+"-cpu-direct/consumer")
	}
	b.ReportMetric(0, "ns/op")
}

// byConsumer reads a number of events by a pull consumer.
func byConsumer(ctx context.Context, b *bus.Bus, subject string) (n int, err error) {
	r := reader.NewConsumer(b.PublicJetStream(), b.Names.Events(), subject, 256, 1)
	err = r.ToEnd(ctx, func(m *jetstream.RawStreamMsg) error {
		if _, ok := bus.ParsePos(m.Header.Get(bus.HeaderPos)); !ok {
			return errForeign
		}
		n++
		return nil
	})
	return n, err
}
