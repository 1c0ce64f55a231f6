package codex

import (
	"slices"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/normalizer/scan"
	"github.com/linesman/linesman/test/bench/corpus"
	"github.com/linesman/linesman/test/fixture/backendtest"
)

// corpora are the inputs of the benchmarks, 15 and 36 MB.
var corpora = []struct {
	name  string
	make  func(lines int) []byte
	lines int
}{
	{"small", corpus.Small, 60_000},
	{"mix", corpus.Mix, 20_000},
}

// reference does the same as the scan with gjson: it validates JSON and UTF-8, and
// reads the same fields of line and item.
type reference struct {
	typ, threadID, turnID, message, id, itemType, status, text, tool string
	usage, result                                                    gjson.Result
	stdout                                                           int
	exitCode                                                         int64
}

func (r *reference) scan(line []byte) bool {
	*r = reference{}
	if !gjson.ValidBytes(line) || !utf8.Valid(line) {
		return false
	}
	gjson.ParseBytes(line).ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "type":
			r.typ = value.Str
		case "thread_id":
			r.threadID = value.Str
		case "turn_id":
			r.turnID = value.Str
		case "message":
			r.message = value.Str
		case "usage":
			r.usage = value
		case "item":
			value.ForEach(func(key, value gjson.Result) bool {
				switch key.Str {
				case "id":
					r.id = value.Str
				case "type":
					r.itemType = value.Str
				case "status":
					r.status = value.Str
				case "text":
					r.text = value.Str
				case "tool":
					r.tool = value.Str
				case "result":
					r.result = value
				case "exit_code":
					r.exitCode = value.Int()
				case "aggregated_output":
					r.stdout = len(value.Str)
				}
				return true
			})
		}
		return true
	})
	return true
}

// The comparison is only valid if the reference does the same work.
func TestReferenceReadsTheSame(t *testing.T) {
	for _, c := range corpora {
		var l line
		var r reference
		for _, raw := range corpus.Lines(c.make(2_000)) {
			if l.scan(raw) != scan.OK || !r.scan(raw) {
				t.Fatalf("%s: not valid: %.200s", c.name, raw)
			}
			it := &l.item
			if l.typ.Text() != r.typ || l.message.Text() != r.message || it.typ.Text() != r.itemType ||
				it.text.Text() != r.text ||
				it.tool.Text() != r.tool || it.status.Text() != r.status || it.stdout.Len != r.stdout ||
				string(it.result.Raw) != r.result.Raw {
				t.Fatalf("%s: different fields: %.200s", c.name, raw)
			}
			l.reset()
		}
	}
}

func TestScanDoesNotAllocate(t *testing.T) {
	for _, c := range corpora {
		var l line
		lines := corpus.Lines(c.make(2_000))
		if n := testing.AllocsPerRun(3, func() {
			for _, raw := range lines {
				l.scan(raw)
				l.reset()
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations in %d lines", c.name, n, len(lines))
		}
	}
}

func BenchmarkScan(b *testing.B) {
	for _, c := range corpora {
		b.Run(c.name, func(b *testing.B) {
			out := c.make(c.lines)
			lines := corpus.Lines(out)
			var l line
			b.SetBytes(int64(len(out)))
			b.ReportAllocs()
			for b.Loop() {
				for _, raw := range lines {
					if l.scan(raw) != scan.OK {
						b.Fatal("not valid")
					}
					l.reset()
				}
			}
			perLine(b, len(lines))
		})
	}
}

// BenchmarkFoldAgainstScan compares the whole fold with the scan of its lines.
func BenchmarkFoldAgainstScan(b *testing.B) {
	var l line
	scanLine := func(raw []byte) {
		l.scan(raw)
		l.reset()
	}
	for _, c := range corpora {
		b.Run(c.name, func(b *testing.B) { backendtest.BenchFold(b, Backend{}, c.make(c.lines), scanLine) })
	}
	b.Run("real", func(b *testing.B) {
		backendtest.BenchFold(b, Backend{}, backendtest.Recordings(b, "../../test/corpus/codex"), scanLine)
	})
	b.Run("log", func(b *testing.B) {
		backendtest.BenchFold(b, Backend{}, backendtest.Recordings(b, "../../test/corpus/codex-sessions/*"), scanLine)
	})
}

func BenchmarkReference(b *testing.B) {
	for _, c := range corpora {
		b.Run(c.name, func(b *testing.B) {
			out := c.make(c.lines)
			lines := corpus.Lines(out)
			var r reference
			b.SetBytes(int64(len(out)))
			b.ReportAllocs()
			for b.Loop() {
				for _, raw := range lines {
					if !r.scan(raw) {
						b.Fatal("not valid")
					}
				}
			}
			perLine(b, len(lines))
		})
	}
}

// BenchmarkScanAgainstReference alternates both, because the speed of a machine
// varies over time. It reports the median of the ratios of their durations as
// x-gjson.
func BenchmarkScanAgainstReference(b *testing.B) {
	for _, c := range corpora {
		b.Run(c.name, func(b *testing.B) {
			out := c.make(c.lines)
			lines := corpus.Lines(out)
			var l line
			var r reference
			var ratios []float64
			for b.Loop() {
				start := time.Now()
				for _, raw := range lines {
					l.scan(raw)
					l.reset()
				}
				ours := time.Since(start)
				start = time.Now()
				for _, raw := range lines {
					r.scan(raw)
				}
				ratios = append(ratios, float64(time.Since(start))/float64(ours))
			}
			slices.Sort(ratios)
			b.ReportMetric(ratios[len(ratios)/2], "x-gjson")
			b.ReportMetric(0, "ns/op") // meaningless: the total of both
		})
	}
}

func perLine(b *testing.B, lines int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(lines), "ns/line")
}
