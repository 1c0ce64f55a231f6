package pipeline

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/bench/corpus"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// BenchmarkBursts measures how fast the backlogs of one, four and a thousand runs get
// into RAW: one append of a run in flight, and bursts. In a busy server a normalizer
// folds RAW at the same time. Each round measures both; compare the ratios of the
// medians, bursts to single appends: of the rates, and of the CPU time of the process.
func BenchmarkBursts(b *testing.B) {
	out := corpus.Mix(60_000)
	for _, busy := range []bool{false, true} {
		for _, writers := range []int{1, 4, 1000} {
			b.Run(fmt.Sprintf("busy=%t/runs=%d", busy, writers), func(b *testing.B) {
				var rates, cpu [2][]float64
				for round := 0; b.Loop(); round++ {
					for way := range 2 {
						i := (round + way) % 2 // the second one of a round may wait for the disk
						took, used := benchBacklogs(b, out, writers, []int{1, 64}[i], busy)
						rates[i] = append(rates[i], float64(len(out))/1e6/took.Seconds())
						cpu[i] = append(cpu[i], used.Seconds())
					}
				}
				median := func(values []float64) float64 {
					slices.Sort(values)
					return values[len(values)/2]
				}
				b.ReportMetric(median(rates[0]), "single-MB/s")
				b.ReportMetric(median(rates[1]), "bursts-MB/s")
				b.ReportMetric(median(rates[1])/median(rates[0]), "rate-ratio")
				b.ReportMetric(median(cpu[1])/median(cpu[0]), "cpu-ratio")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// benchBacklogs returns how long it takes until RAW has the output of all runs, and the
// CPU time of the process until then or, with a normalizer, until EVENTS is complete.
func benchBacklogs(b *testing.B, out []byte, writers, atOnce int, busy bool) (took, used time.Duration) {
	b.StopTimer()
	defer b.StartTimer()
	s, op := serve(b)
	defer s.Stop()
	worker := bustest.Connect(b, s, embedded.WorkerUser)
	ctx, cancel := context.WithCancel(b.Context())
	var normalizing, writing sync.WaitGroup
	if busy {
		n := newNormalizer(bustest.Connect(b, s, embedded.NormalizerUser))
		normalizing.Go(func() {
			if err := n.Run(ctx); err != nil {
				b.Error(err)
			}
		})
	}
	before, began := cpuTime(), time.Now()
	part := len(out) / writers
	for i := range writers {
		writing.Go(func() { writeBacklog(b, worker, fmt.Sprintf("r%d", i), out[i*part:(i+1)*part], atOnce) })
	}
	writing.Wait()
	took = time.Since(began)
	if busy { // all that was written is folded, whatever was folded meanwhile
		for tick := time.NewTicker(10 * time.Millisecond); !settled(b, op, writers); {
			<-tick.C
		}
	}
	used = cpuTime() - before
	cancel()
	normalizing.Wait()
	return took, used
}

// settled reports whether EVENTS has the completions of all runs.
func settled(b *testing.B, op *bus.Bus, writers int) bool {
	events, err := op.PublicJetStream().Stream(b.Context(), op.Events())
	if err != nil {
		b.Fatal(err)
	}
	info, err := events.Info(b.Context(), jetstream.WithSubjectFilter(op.EventSubject("codex", "*", "completion")))
	if err != nil {
		b.Fatal(err)
	}
	return len(info.State.Subjects) == writers
}

func writeBacklog(b *testing.B, client *bus.Bus, run string, out []byte, atOnce int) {
	l, err := client.OpenLog(b.Context(), "codex", run, runs.Mark{})
	if err != nil {
		b.Error(err)
		return
	}
	var entries []runs.Entry
	for at := 0; at < len(out); {
		end := min(at+runs.MaxChunk, len(out))
		if whole := bytes.LastIndexByte(out[at:end], '\n'); whole >= 0 {
			end = at + whole + 1
		}
		entries = append(entries, runs.Entry{Kind: runs.Out, Time: 1, Offset: int64(at), Body: out[at:end]})
		at = end
	}
	entries = append(entries, runs.Entry{Kind: runs.Exited, Time: 2, Body: []byte(`{"reason":"eof"}`)})
	for piece := range slices.Chunk(entries, atOnce) {
		if err := l.AppendAll(b.Context(), piece); err != nil {
			b.Error(err)
			return
		}
	}
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
