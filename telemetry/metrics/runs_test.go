package metrics_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/telemetry/metrics"
)

// backend returns the backend of a known agent.
func backend(t testing.TB, agent string) normalizer.Backend {
	t.Helper()
	for _, b := range known.Agents.Backends() {
		if b.Agent() == agent {
			return b
		}
	}
	t.Fatalf("no backend of %s", agent)
	return nil
}

// recorder counts runs as a normalizer does, and keeps what is independent of that: the events
// and the records.
type recorder struct {
	*prometheus.Registry
	tally   *metrics.Tally
	events  map[[2]string]float64 // number by agent and token
	results map[string]float64    // results of tools by agent and status
	records []*runs.Record
}

func newRecorder() *recorder {
	r := prometheus.NewRegistry()
	return &recorder{
		Registry: r, tally: metrics.NewNormalizer(r, []string{"codex", "claude_code", "gemini_cli", "opencode"},
			known.Agents).NewTally(),
		events: map[[2]string]float64{}, results: map[string]float64{},
	}
}

// run folds a run whose lines are a second apart, with a cut after every line.
func (r *recorder) run(t testing.TB, b normalizer.Backend, out []byte, start runs.Start) {
	t.Helper()
	fold := normalizer.NewFold(b, "T-local-x", 0)
	a := r.tally.Agent(b.Agent())
	fold.Observe(a)
	var counted metrics.Counted
	seq, offset := uint64(0), int64(0)
	apply := func(e runs.Entry) {
		seq++
		e.Time = 1_000 * int64(seq)
		fold.Apply(seq, e, func(m normalizer.Message) { r.message(t, b.Agent(), m) })
		a.Record(&counted, fold.Record)
		r.tally.Cut()
		r.tally.Store()
	}
	apply(runs.Entry{Kind: runs.Queued, Body: runs.Encode(start)})
	apply(runs.Entry{Kind: runs.Started, Body: runs.Encode(start)})
	for line := range bytes.Lines(out) {
		apply(runs.Entry{Kind: runs.Out, Offset: offset, Body: line})
		offset += int64(len(line))
	}
	code := 0
	apply(runs.Entry{Kind: runs.Exited, Body: runs.Encode(runs.Exit{Reason: runs.ReasonExited, Code: &code})})
	r.records = append(r.records, fold.Record)
}

func (r *recorder) message(t testing.TB, agent string, m normalizer.Message) {
	t.Helper()
	r.events[[2]string{agent, m.Token}]++
	if m.Token != normalizer.ToolResult.Token() {
		return
	}
	var event struct {
		Data struct{ Tool struct{ Status string } }
	}
	if err := json.Unmarshal(m.Body, &event); err != nil {
		t.Fatal(err)
	}
	r.results[agent+"/"+event.Data.Tool.Status]++
}

// values returns the values of a metric, by the values of its labels in the order of their
// names, without those that are 0. The value of a histogram is its sum.
func values(t testing.TB, g prometheus.Gatherer, name string) map[string]float64 {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			if v := value(m); v != 0 {
				var labels []string
				for _, l := range m.GetLabel() {
					labels = append(labels, l.GetValue())
				}
				all[strings.Join(labels, "/")] = v
			}
		}
	}
	return all
}

func value(m *dto.Metric) float64 {
	switch {
	case m.GetHistogram() != nil:
		return m.GetHistogram().GetSampleSum()
	case m.GetCounter() != nil:
		return m.GetCounter().GetValue()
	}
	return m.GetGauge().GetValue()
}

// recorded returns the recorded output of all agents.
func recorded(t testing.TB) map[string][][]byte {
	t.Helper()
	all := map[string][][]byte{}
	for dir, agent := range map[string]string{
		"codex": "codex", "claude": "claude_code", "gemini": "gemini_cli", "opencode": "opencode",
	} {
		files, err := filepath.Glob(filepath.Join("..", "..", "test", "corpus", dir, "*.jsonl"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %d files", dir, err, len(files))
		}
		for _, file := range files {
			out, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all[agent] = append(all[agent], out)
		}
	}
	return all
}

func compare(t *testing.T, what string, have, want map[string]float64) {
	t.Helper()
	if !maps.Equal(have, want) {
		t.Errorf("%s:\n got %v\nwant %v", what, have, want)
	}
}

// TestRecordedRunsAreCounted compares the counters after the recorded runs of all agents with
// the events and the records of the runs.
func TestRecordedRunsAreCounted(t *testing.T) {
	t.Parallel()
	r := newRecorder()
	for agent, all := range recorded(t) {
		for _, out := range all {
			r.run(t, backend(t, agent), out, runs.Start{Source: "queue"})
		}
	}
	events := map[string]float64{}
	for by, n := range r.events {
		events[by[0]+"/"+by[1]] = n
	}
	compare(t, "events", values(t, r, "linesman_events_total"), events)

	results := map[string]float64{}
	for labels, n := range values(t, r, "linesman_tool_calls_total") {
		part := strings.Split(labels, "/") // agent, kind, status
		if part[2] != "unfinished" {
			results[part[0]+"/"+part[2]] += n
		}
	}
	compare(t, "tool calls", results, r.results)

	turns, used, output, ended, open := map[string]float64{}, map[string]float64{}, map[string]float64{},
		map[string]float64{}, map[string]float64{}
	for _, record := range r.records {
		turns["completed"] += float64(record.TurnsDone)
		turns["failed"] += float64(record.TurnsBad)
		output[record.Agent] += float64(record.Bytes)
		ended[string(record.State)]++
		open[record.Agent] += float64(len(record.OpenCalls))
		if u := record.Spent().Total; u != nil {
			used[record.Agent] += float64(u.Input + u.Output)
		}
	}
	compare(t, "turns", sum(values(t, r, "linesman_turns_total"), 1, "unfinished"), turns)
	compare(t, "tokens", sum(values(t, r, "linesman_tokens_total"), 0), used)
	compare(t, "output", values(t, r, "linesman_output_bytes_total"), output)
	compare(t, "ended", sum(values(t, r, "linesman_runs_ended_total"), 2), ended)
	maps.DeleteFunc(open, func(_ string, n float64) bool { return n == 0 })
	calls := values(t, r, "linesman_tool_calls_total")
	maps.DeleteFunc(calls, func(labels string, _ float64) bool { return !strings.HasSuffix(labels, "/unfinished") })
	compare(t, "open calls", sum(calls, 0), open)
}

// sum adds values that have the same part of their labels, without those whose part is in but.
func sum(all map[string]float64, part int, but ...string) map[string]float64 {
	sums := map[string]float64{}
	for labels, n := range all {
		if by := strings.Split(labels, "/")[part]; !slices.Contains(but, by) {
			sums[by] += n
		}
	}
	return sums
}

// TestOneRunOfEachAgent has the numbers that a reader of the recordings counts. A line is a second.
func TestOneRunOfEachAgent(t *testing.T) {
	t.Parallel()
	const calls, took, tokens = "linesman_tool_calls_total", "linesman_tool_call_duration_seconds", "linesman_tokens_total"
	type numbers map[string]float64
	for _, test := range []struct {
		agent, file string
		want        map[string]numbers
	}{
		{"codex", "codex/shell-fail", map[string]numbers{
			calls:                        {"command/completed": 1, "command/failed": 3},
			took:                         {"command/completed": 1, "command/failed": 3},
			tokens:                       {"input": 800, "cache_read": 4000, "output": 320},
			"linesman_lines_total":       {"1.2.3": 12},
			"linesman_events_total":      {"completion": 1, "status": 3, "text_output": 1, "tool_call": 4, "tool_result": 4},
			"linesman_runs_ended_total":  {"none/completed": 1},
			"linesman_task_wait_seconds": {"": 1},
		}},
		{"claude_code", "claude/tools", map[string]numbers{
			calls: {"command/completed": 2, "command/failed": 1, "file_change/completed": 2, "plan/completed": 1,
				"read/completed": 1},
			took: {"command/completed": 3, "command/failed": 2, "file_change/completed": 2, "plan/completed": 1,
				"read/completed": 1},
			tokens:                           {"input": 1400, "cache_read": 7000, "output": 560},
			"linesman_lines_total":           {"2.1.197": 20},
			"linesman_turns_total":           {"completed": 1},
			"linesman_turn_duration_seconds": {"completed": 19},
			"linesman_run_duration_seconds":  {"completed": 21},
		}},
		{"gemini_cli", "gemini/tools", map[string]numbers{
			calls:  {"command/completed": 2, "file_change/completed": 1},
			took:   {"command/completed": 2, "file_change/completed": 1},
			tokens: {"input": 800, "cache_read": 4000, "output": 320},
		}},
		{"opencode", "opencode/tools", map[string]numbers{
			calls:                  {"command/completed": 2, "file_change/completed": 1, "plan/completed": 1},
			took:                   {}, // it prints only results
			tokens:                 {"input": 800, "cache_read": 4000, "output": 320},
			"linesman_turns_total": {"completed": 1},
		}},
	} {
		out, err := os.ReadFile(filepath.Join("..", "..", "test", "corpus", test.file+".jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		r := newRecorder()
		r.run(t, backend(t, test.agent), out, runs.Start{Source: "queue", Version: "1.2.3"})
		for metric, want := range test.want {
			have := numbers{}
			for labels, n := range values(t, r, metric) {
				have[strings.TrimPrefix(labels, test.agent+"/")] = n
			}
			compare(t, test.file+": "+metric, have, want)
		}
	}
}

// Agents may print any number of tokens: a counter never goes back, which would be a panic.
func TestNumbersOfTokensThatNoAgentUses(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	tally := metrics.NewNormalizer(r, []string{"codex"}, known.Agents).NewTally()
	a := tally.Agent("codex")
	record := func(c *metrics.Counted, n int64) {
		a.Record(c, &runs.Record{Bytes: n, Own: &runs.Usage{
			Input: n, CachedInput: n, CacheWriteInput: n, Output: n, ReasoningOutput: n,
		}})
	}
	var one, two metrics.Counted
	record(&one, math.MaxInt64)
	record(&two, math.MaxInt64)
	least := &runs.Usage{Output: math.MinInt64, ReasoningOutput: math.MinInt64}
	three := metrics.CountedOf(&runs.Record{Own: least}, true)
	record(&three, math.MaxInt64)
	tally.Cut()
	tally.Store()
}

// Only the answers of people have a duration.
func TestQuestionsAreCounted(t *testing.T) {
	t.Parallel()
	r := newRecorder()
	a := r.tally.Agent("codex")
	a.Asked("permission")
	a.Settled("permission", "allow", "person", 7000)
	a.Settled("permission", "allow", "policy", 1)
	a.Settled("form", "", "", 1)
	a.Message("sent")
	r.tally.Cut()
	r.tally.Store()
	compare(t, "asked", values(t, r, "linesman_questions_total"), map[string]float64{"codex/permission": 1})
	compare(t, "settled", values(t, r, "linesman_questions_settled_total"), map[string]float64{
		"codex/person/permission/allow": 1, "codex/policy/permission/allow": 1, "codex/other/form/other": 1,
	})
	compare(t, "messages", values(t, r, "linesman_messages_total"), map[string]float64{"codex/sent": 1})
	compare(t, "time", values(t, r, "linesman_question_answer_seconds"), map[string]float64{"codex/permission": 7})
}
