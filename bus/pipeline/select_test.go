package pipeline

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// storeRuns stores runs of 21 events each: a tenth of them is of a second agent, and four of all have an error.
func storeRuns(t testing.TB, op *bus.Bus, runs int) {
	t.Helper()
	p, err := newPublisher(op, 1, false)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	body := fmt.Appendf(nil, `{"agent_kind":"codex","text":"%0300d"}`, 1)
	events := uint64(0)
	for run := range runs {
		agent := "codex"
		if run%10 == 9 {
			agent = "claude_code"
		}
		for i := range 21 {
			token := []string{"status", "text_output", "tool_call", "tool_result"}[i%4]
			switch {
			case i == 20:
				token = normalizer.CompletionToken
			case i == 19 && run%(runs/4) == 0:
				token = "error"
			}
			events++
			m := normalizer.Message{Pos: normalizer.Pos{Raw: events, Line: 1, Time: 1}, Body: body}
			if err := p.publish(t.Context(), op.EventSubject(agent, fmt.Sprintf("run-%d", run), token), m); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := p.stored(t.Context(), events); err != nil {
		t.Fatal(err)
	}
}

var fourRuns = []string{"run-0", "run-7", "run-33", "run-58"}

// filters are selections of events, and how many a number of runs has of each.
var filters = []struct {
	name   string
	filter runs.Selection
	hits   func(runs int) int
}{
	{"error", runs.Selection{Tokens: []string{"error"}}, func(int) int { return 4 }},
	{"error and unknown", runs.Selection{Tokens: []string{"error", "unknown"}}, func(int) int { return 4 }},
	{"run, 3 kinds", runs.Selection{Run: "run-7", Tokens: []string{"error", "completion", "unknown"}}, func(int) int { return 1 }},
	{"4 runs", runs.Selection{Runs: fourRuns, Last: 1 << 40}, func(int) int { return 4 * 21 }},
	{"4 runs, 2 kinds", runs.Selection{Runs: fourRuns, Last: 1 << 40, Tokens: []string{"completion", "error"}},
		func(int) int { return 5 }},
	{"completion", runs.Selection{Tokens: []string{"completion"}}, func(n int) int { return n }},
	{"completion and error", runs.Selection{Tokens: []string{"completion", "error"}}, func(n int) int { return n + 4 }},
	{"agent", runs.Selection{Agent: "claude_code"}, func(n int) int { return n / 10 * 21 }},
	{"4 kinds", runs.Selection{Tokens: []string{"status", "text_output", "tool_call", "tool_result"}},
		func(n int) int { return n*20 - 4 }},
	{"all", runs.Selection{}, func(n int) int { return n * 21 }},
}

// What is delivered follows what is selected, not what is stored.
func TestGrowthOfFilters(t *testing.T) {
	t.Parallel()
	delivered := map[string][]uint64{}
	sizes := []int{100, 1000}
	for _, size := range sizes {
		s, op := serve(t)
		storeRuns(t, op, size)
		for _, f := range filters {
			reads := bustest.Connect(t, s, embedded.SubscriberUser)
			before, n := reads.PublicJetStream().Conn().Stats().InMsgs, 0
			var seqs []uint64
			if err := reads.Read(t.Context(), f.filter, func(e bus.Stored) error {
				seqs = append(seqs, e.Seq)
				n++
				return nil
			}); err != nil || n != f.hits(size) || !slices.IsSorted(seqs) {
				t.Errorf("%s of %d runs: %d events, want %d, error %v", f.name, size, n, f.hits(size), err)
			}
			delivered[f.name] = append(delivered[f.name], reads.PublicJetStream().Conn().Stats().InMsgs-before)
		}
	}
	for _, f := range filters {
		d := delivered[f.name]
		t.Logf("%s: %d and %d messages for %d and %d hits", f.name, d[0], d[1], f.hits(sizes[0]), f.hits(sizes[1]))
		if f.hits(100) == f.hits(1000) && d[0] != d[1] || d[1] > uint64(f.hits(1000))*5/2+20 {
			t.Errorf("%s: %d and %d messages are delivered", f.name, d[0], d[1])
		}
	}
}

// BenchmarkFilters measures selections of 10,000 runs, or as many as FILTER_RUNS says, beside reading everything, as
// each of them did once: milliseconds, and ratios.
func BenchmarkFilters(b *testing.B) {
	size := 10_000
	if text := os.Getenv("FILTER_RUNS"); text != "" {
		var err error
		if size, err = strconv.Atoi(text); err != nil {
			b.Fatal(err)
		}
	}
	s, op := serve(b)
	storeRuns(b, op, size)
	took := map[string]time.Duration{}
	for b.Loop() {
		for _, f := range filters {
			reads, n := bustest.Connect(b, s, embedded.SubscriberUser), 0
			began := time.Now()
			err := reads.Read(b.Context(), f.filter, func(bus.Stored) error { n++; return nil })
			if err != nil || n != f.hits(size) {
				b.Fatalf("%s: %d events, %v", f.name, n, err)
			}
			took[f.name] += time.Since(began)
		}
	}
	for _, f := range filters {
		b.ReportMetric(float64(took[f.name].Microseconds())/1e3/float64(b.N), strings.ReplaceAll(f.name, " ", "-")+"-ms")
		b.ReportMetric(took[f.name].Seconds()/took["all"].Seconds(), strings.ReplaceAll(f.name, " ", "-")+"/all")
	}
	b.ReportMetric(0, "ns/op")
}
