package normalizer_test

import (
	"runtime"
	"testing"

	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/normalizer/codex"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/bench/corpus"
)

// BenchmarkFold folds a run's output in entries as large as they come, up to
// the events that are ready to be published.
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
			all := float64(b.N) * float64(lines)
			b.ReportMetric(all/b.Elapsed().Seconds(), "lines/s")
			b.ReportMetric(float64(after.Mallocs-before.Mallocs)/all, "allocs/line")
			b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/all, "B/line")
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
