package metrics_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/linesman/linesman/agent/codex"
	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/telemetry/metrics"
	"github.com/linesman/linesman/test/bench/corpus"
)

// BenchmarkFold measures what counting adds to the CPU time of folding a line, without NATS: rounds
// with and without it alternate, and the fastest ones are compared. A whole pipeline needs several
// times as much for a line as its fold: see BenchmarkPipeline.
func BenchmarkFold(b *testing.B) {
	const lines = 50_000
	for name, out := range map[string][]byte{"small": corpus.Small(lines), "mix": corpus.Mix(lines)} {
		b.Run(name, func(b *testing.B) {
			best := [2]time.Duration{time.Hour, time.Hour}
			for b.Loop() {
				for observed := range best {
					best[observed] = min(best[observed], foldAll(b, out, observed == 1))
				}
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(best[0].Nanoseconds())/lines, "plain-ns/line")
			b.ReportMetric(float64(best[1].Nanoseconds())/lines, "counted-ns/line")
			b.ReportMetric(float64(best[1])/float64(best[0]), "counted/plain")
		})
	}
}

// foldAll returns the CPU time of folding out in entries of 64 KiB, with a cut after every fourth.
func foldAll(b *testing.B, out []byte, observed bool) time.Duration {
	b.Helper()
	tally := metrics.NewNormalizer(prometheus.NewRegistry(), []string{"codex"}, known.Agents).NewTally()
	a := tally.Agent("codex")
	fold := normalizer.NewFold(codex.Backend{}, "T-local-x", 0)
	fold.Use(&normalizer.Workspace{Reuse: true})
	if observed {
		fold.Observe(a)
	}
	var counted metrics.Counted
	before := used(b)
	for at := 0; at < len(out); at += runs.MaxChunk {
		e := runs.Entry{Kind: runs.Out, Time: int64(at), Offset: int64(at), Body: out[at:min(at+runs.MaxChunk, len(out))]}
		fold.Apply(uint64(at+1), e, func(normalizer.Message) {})
		if observed && at/runs.MaxChunk%4 == 3 {
			a.Record(&counted, fold.Record)
			tally.Cut()
			tally.Store()
		}
	}
	return used(b) - before
}

func used(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
