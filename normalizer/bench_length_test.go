package normalizer_test

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/agent/codex"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/bench/corpus"
)

// BenchmarkLineLength folds lines of 100 bytes to 60 MB, messages and outputs of commands, without
// and with details. It reports the CPU time per byte of 1 KB lines, and in the ratio to it that of
// the other lengths. The limit is 64 MiB, the largest that can be set; over the default one a line
// is an Error event.
func BenchmarkLineLength(b *testing.B) {
	lengths := []struct {
		name    string
		bytes   int
		tooLong bool
	}{{"1KB", 1 << 10, false}, {"100B", 100, false}, {"64KiB", 64 << 10, false}, {"1MB", 1 << 20, false},
		{"8MB", 8 << 20, false}, {"60MB", 60 << 20, false}, {"60MB-too-long", 60 << 20, true}}
	shapes := []struct{ name, begin, end string }{
		{"message", `{"type":"item.completed","item":{"id":"i","type":"agent_message","text":"`, `"}}`},
		{"output", `{"type":"item.completed","item":{"type":"command_execution","aggregated_output":"`, `"}}`},
	}
	folds := map[string]func(limit int) *normalizer.Fold{
		"fold":   func(limit int) *normalizer.Fold { return normalizer.NewFold(codex.Backend{}, "r", limit) },
		"detail": func(limit int) *normalizer.Fold { return normalizer.NewDetailFold(codex.Backend{}, "r", limit, nil) },
	}
	const atLeast = 8 << 20 // bytes of one measurement
	for _, shape := range shapes {
		for kind, open := range folds {
			b.Run(shape.name+"/"+kind, func(b *testing.B) {
				least := map[string]float64{} // CPU time, nanoseconds a byte
				for b.Loop() {
					for _, l := range lengths {
						line := lineOf(shape.begin, shape.end, l.bytes)
						out := bytes.Repeat(line, max(1, atLeast/len(line)))
						limit, events := 64<<20, 0
						if l.tooLong {
							limit = normalizer.DefaultMaxLine
						}
						f := open(limit)
						before := cpuTime(b)
						fold(f, out, func(normalizer.Message) { events++ })
						took := float64(cpuTime(b)-before) / float64(len(out))
						if f.Record.Lines != int64(len(out)/len(line)) || events == 0 ||
							(f.Record.Malformed != 0) != l.tooLong {
							b.Fatalf("%s: %d lines, %d malformed, %d events", l.name, f.Record.Lines, f.Record.Malformed, events)
						}
						if least[l.name] == 0 || took < least[l.name] {
							least[l.name] = took
						}
					}
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(least["1KB"], "1KB-ns/B")
				for _, l := range lengths[1:] {
					b.ReportMetric(least[l.name]/least["1KB"], l.name+"/1KB")
				}
			})
		}
	}
}

// cpuTime returns the CPU time that the process has used.
func cpuTime(b *testing.B) time.Duration {
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// lineOf returns a line of n bytes with its newline: words between begin and end, with escapes.
func lineOf(begin, end string, n int) []byte {
	const words = `ok  \tgithub.com/example/project/pkg\t0.012s\n`
	room := n - len(begin) - len(end) - 1
	text := strings.Repeat(words, max(0, room)/len(words))
	text += strings.Repeat("x", max(0, room-len(text)))
	return []byte(begin + text + end + "\n")
}

// BenchmarkOpenRuns measures the memory of an open run between two entries, with a workspace that
// all share, after 1 and after 100 lines; and the length of what is stored of it.
func BenchmarkOpenRuns(b *testing.B) {
	const n = 4000
	for _, lines := range []int{1, 100} {
		b.Run(fmt.Sprint(lines), func(b *testing.B) {
			out := corpus.Mix(lines)
			all := make([]*normalizer.Fold, n)
			before := heap()
			var shared normalizer.Workspace
			for b.Loop() {
				for i := range all {
					all[i] = normalizer.NewFold(codex.Backend{}, fmt.Sprintf("T-local-%015d", i), 0)
					all[i].Use(&shared)
					all[i].Apply(1, runs.Entry{Kind: runs.Started, Time: 1, Body: []byte(`{"agent":"codex"}`)}, func(normalizer.Message) {})
					fold(all[i], out, func(normalizer.Message) {})
				}
			}
			b.ReportMetric(float64(heap()-before)/n, "B/run")
			state, err := all[0].State()
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(len(state)+len(all[0].Record.JSON())), "stored-B/run")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// heap returns the bytes of all reachable memory.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
