package runtable_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/responder/runtable"
	"github.com/linesman/linesman/runs"
)

// office is a server with so many runs that have ended, and connections to it.
type office struct {
	server *embedded.Server
	bus    *bus.Bus
	client *nats.Conn
	js     jetstream.JetStream
	stream string
}

func newOffice(b testing.TB, n int) *office {
	b.Helper()
	names := bus.Names{Prefix: bus.DefaultPrefix}
	s, err := embedded.StartServer(b.TempDir(), "127.0.0.1:0", names, zap.NewNop())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(s.Stop)
	connect := func(user string) *bus.Bus {
		c, err := s.Connect(b.Context(), user, names, zap.NewNop())
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(c.Close)
		return c
	}
	operator := connect(embedded.OperatorUser)
	limits := bus.DefaultLimits()
	limits.RawBytes, limits.EventsBytes, limits.RunsBytes = 1<<28, 1<<28, 1<<30
	if _, err := operator.Ensure(b.Context(), limits); err != nil {
		b.Fatal(err)
	}
	o := &office{server: s, bus: connect(embedded.ResponderUser), client: operator.Inside(), stream: "KV_" + names.Runs()}
	if o.js, err = jetstream.New(o.client, jetstream.WithPublishAsyncMaxPending(1024)); err != nil {
		b.Fatal(err)
	}
	for i := range n {
		r := runs.NewRecord(runID(i), "codex")
		r.State, r.Source, r.Queue, r.Work, r.Worker = runs.StateCompleted, "queue", "default", uint64(i),
			"host-0123456789abcdef"
		r.QueuedAt, r.StartedAt, r.ActiveAt, r.EndedAt = int64(1_790_000_000_000+i), int64(1_790_000_001_000+i),
			int64(1_790_000_002_000+i), int64(1_790_000_003_000+i)
		r.Dir, r.Thread, r.Seq, r.Lines = "/home/dev/project", fmt.Sprintf("01a2b3c4-0000-7000-8000-%012d", i), uint64(i+1),
			40
		final := "Done: the failing test passes, two files were changed."
		r.FinalText = &final
		m := nats.NewMsg("$KV." + names.Runs() + "." + r.ID)
		m.Header.Set(bus.HeaderRun, r.Header().Text())
		m.Data = append(append([]byte(`{"format":1,"record":`), r.JSON()...), '}')
		if _, err := o.js.PublishMsgAsync(m, jetstream.WithStallWait(time.Minute)); err != nil {
			b.Fatal(err)
		}
	}
	select {
	case <-o.js.PublishAsyncComplete():
	case <-time.After(time.Minute):
		b.Fatal("the runs are not stored")
	}
	return o
}

func runID(i int) string { return fmt.Sprintf("T-local-%015d", i) }

// replay reads the last value of every run, and does nothing with it.
func (o *office) replay(b *testing.B) time.Duration {
	b.Helper()
	begin := time.Now()
	c, err := o.js.OrderedConsumer(b.Context(), o.stream, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy})
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan struct{})
	consuming, err := c.Consume(func(m jetstream.Msg) {
		if meta, err := m.Metadata(); err == nil && meta.NumPending == 0 {
			close(done)
		}
	}, jetstream.PullMaxMessages(1024))
	if err != nil {
		b.Fatal(err)
	}
	<-done
	took := time.Since(begin)
	consuming.Stop()
	<-consuming.Closed()
	return took
}

// start is the time from nothing to a responder that knows all runs.
func (o *office) start(b *testing.B) time.Duration {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	begin := time.Now()
	table := runtable.New(runtable.Config{Streams: o.bus, Queue: "default", LostAfter: time.Minute})
	done := make(chan error, 1)
	go func() { done <- table.Run(ctx) }()
	if err := table.Ready(ctx, time.Minute); err != nil {
		b.Fatal(err)
	}
	took := time.Since(begin)
	cancel()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
	return took
}

// cpu returns the CPU time that the process, with its server, has used.
func cpu(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkStart compares the start of a responder with a replay of the run
// bucket that does nothing: 100k runs, at most 1.5 times as long. The ratio of the CPU
// time does not depend on what else the machine does.
func BenchmarkStart(b *testing.B) {
	o := newOffice(b, 100_000)
	o.replay(b) // the server's caches
	var ratios, ofCPU []float64
	for b.Loop() {
		before := cpu(b)
		bare := o.replay(b)
		between := cpu(b)
		ours := o.start(b)
		ratios = append(ratios, float64(ours)/float64(bare))
		ofCPU = append(ofCPU, float64(cpu(b)-between)/float64(between-before))
	}
	b.ReportMetric(median(ratios), "x-replay")
	b.ReportMetric(median(ofCPU), "x-replay-cpu")
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}
