package main

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/linesman/linesman/test/bench/corpus"
	"github.com/linesman/linesman/test/fixture"
)

// TestMain makes this program the guard and the processes of the references, as main does.
func TestMain(m *testing.M) {
	fixture.RunGuard()
	if len(os.Args) > 1 && slices.Contains([]string{"serve", "publish", "read"}, os.Args[1]) {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestRowsNameWhatIsMeasured(t *testing.T) {
	known := map[string]bool{}
	for _, s := range scenarios {
		known[s.name] = true
	}
	for _, b := range benchmarks {
		known[b.name] = true
	}
	seen := map[string]bool{}
	for _, r := range rows {
		source, _, _ := strings.Cut(r.source, "/")
		if key := r.source + " " + r.metric; !known[source] || seen[key] || seen[r.what] {
			t.Errorf("%q: no such source, or a second row of %q", r.what, key)
		} else {
			seen[key], seen[r.what] = true, true
		}
	}
}

func TestTableSaysWhatIsMet(t *testing.T) {
	r := report{
		Metrics: metrics{"a x": 0.5, "a y": 20.04, "a z": 1234.4, "a nan": math.NaN()},
		rows: []row{
			{"least", "a", "x", atLeast(0.5)}, {"most", "a", "y", atMost(20)}, {"no target", "a", "z", none},
			{"not measured", "a", "w", atLeast(1)}, {"no number", "a", "nan", none},
		},
	}
	var out strings.Builder
	if err := r.print(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`least +0\.50 +≥ 0\.50 +met\n`, `most +20\.0 +≤ 20\.0 +not met\n`, `no target +1234 *\n`,
		`not measured +- +≥ 1\.00 *\n`,
		`no number +- *\n`, `\n1 of 2 targets met\.`,
	} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("no %s in:\n%s", want, &out)
		}
	}
}

func TestJSONHasRowsAndMetrics(t *testing.T) {
	b, err := json.Marshal(report{
		Metrics: metrics{"a x": 2, "a nan": math.NaN()},
		rows:    []row{{"least", "a", "x", atLeast(3)}, {"other", "a", "nan", none}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Metrics metrics
		Rows    []result
	}
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Metrics) != 1 || got.Metrics["a x"] != 2 || len(got.Rows) != 2 || *got.Rows[0].Met ||
		*got.Rows[0].Bound != 3 || got.Rows[1].Value != nil || got.Rows[1].Met != nil {
		t.Errorf("got %s", b)
	}
}

func TestPercentiles(t *testing.T) {
	var values []float64
	for i := range 1000 {
		values = append(values, float64(1000-i)) // 1 to 1000
	}
	for p, want := range map[float64]float64{0.5: 500, 0.99: 990, 0.999: 999, 1: 1000} {
		if got := percentile(values, p); got != want {
			t.Errorf("percentile %v: got %v, want %v", p, got, want)
		}
	}
	if values[0] != 1000 {
		t.Error("the values were sorted in place")
	}
	if got := percentile(nil, 0.5); !math.IsNaN(got) {
		t.Errorf("of no values: got %v, want NaN", got)
	}
}

func TestBenchmarksAreParsed(t *testing.T) {
	got := parseBenchmarks(`goos: linux
BenchmarkPipeline-2   	       3	         0.62 small/Z	         0.93 small/X
BenchmarkFold/mix-16         	     100	  12345678 ns/op	 123.45 MB/s
BenchmarkNothing
PASS
`)
	want := metrics{
		"Pipeline small/Z": 0.62, "Pipeline small/X": 0.93, "Fold/mix ns/op": 12345678, "Fold/mix MB/s": 123.45,
	}
	if len(got) != len(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s: got %v, want %v", name, got[name], value)
		}
	}
}

func TestInputIsSplitInWholeLines(t *testing.T) {
	h := &harness{dir: t.TempDir()}
	out := corpus.Small(1000)
	in, err := h.input(out, 7)
	if err != nil {
		t.Fatal(err)
	}
	var whole []byte
	for _, file := range in.files {
		part, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if len(part) == 0 || part[len(part)-1] != '\n' {
			t.Errorf("%s does not end with a line", file)
		}
		whole = append(whole, part...)
	}
	if string(whole) != string(out) || len(in.files) != 7 || in.lines != 1000 || in.bytes != int64(len(out)) {
		t.Errorf("%d files with %d lines and %d bytes, want 7, 1000 and %d", len(in.files), in.lines, in.bytes, len(out))
	}
}

// TestReportMeasuresWholeProcesses runs small measurements: they fail if an event is missing.
func TestReportMeasuresWholeProcesses(t *testing.T) {
	fixture.Long(t, "starts many servers and agents")
	t.Chdir(fixture.Path(t))
	h := &harness{
		say: t.Logf, rounds: 1, lines: 2000, copies: 1, runs: 20, memoryBytes: 200_000, memoryWait: 1, latency: 100_000_000,
	}
	guard, err := h.build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := guard.Stop(); err != nil {
			t.Error(err)
		}
	}()
	if err := h.inUp(t.Context(), h.linesman, func(c *cell) error {
		in, err := h.input(corpus.Small(10), 1)
		if err != nil {
			return err
		}
		in.events++
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // the event will never come
		defer cancel()
		if _, err := c.tail(ctx, h.linesman, in); err == nil {
			t.Error("a missing event is not noticed")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	long := map[string]bool{"replicas": true, "one": true, "many": true} // elections, another program, 50 agents
	measured := metrics{}
	for _, s := range scenarios {
		if long[s.name] {
			continue
		}
		m, err := s.run(t.Context(), h)
		if err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
		for name, value := range m {
			measured[s.name+" "+name] = value
		}
	}
	for _, r := range rows {
		value, is := measured[r.source+" "+r.metric]
		ran := slices.ContainsFunc(scenarios, func(s namedScenario) bool { return s.name == r.source && !long[s.name] })
		if ran && (!is || math.IsNaN(value)) && !strings.Contains(r.metric, "jq") {
			t.Errorf("%q was not measured", r.what)
		}
	}
}
