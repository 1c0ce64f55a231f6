package normalizer_test

import (
	"runtime"
	"testing"

	"github.com/linesman/linesman/agent/codex"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/bench/corpus"
)

// BenchmarkFold folds the output of a run in entries of the maximum size. The
// result is messages that are ready for publishing.
func BenchmarkFold(b *testing.B) {
	for _, c := range []struct {
		name string
		out  []byte
	}{{"small", corpus.Small(60_000)}, {"mix", corpus.Mix(20_000)}} {
		b.Run(c.name, func(b *testing.B) {
			lines := len(corpus.Lines(c.out))
			b.SetBytes(int64(len(c.out)))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for b.Loop() {
				f := normalizer.NewFold(codex.Backend{}, "T-local-bench", 0)
				published := 0
				fold(f, c.out, func(m normalizer.Message) { published += len(m.Body) })
				if f.Record.Lines != int64(lines) || f.Record.Malformed != 0 || published == 0 {
					b.Fatalf("%d lines of %d, %d malformed", f.Record.Lines, lines, f.Record.Malformed)
				}
			}
			runtime.ReadMemStats(&after)
			total := float64(b.N) * float64(lines)
			b.ReportMetric(total/b.Elapsed().Seconds(), "lines/s")
			b.ReportMetric(float64(after.Mallocs-before.Mallocs)/total, "allocs/line")
			b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/total, "B/line")
		})
	}
}

// fold applies out to f in entries of MaxChunk bytes.
func fold(f *normalizer.Fold, out []byte, emit func(normalizer.Message)) {
	seq := uint64(1)
	for at := 0; at < len(out); at += runs.MaxChunk {
		end := min(at+runs.MaxChunk, len(out))
		f.Apply(seq, runs.Entry{Kind: runs.Out, Time: 1, Offset: int64(at), Body: out[at:end]}, emit)
		seq++
	}
}
