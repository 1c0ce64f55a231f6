package runs_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/runs"
)

func code(n int) *int { return &n }

// The states of runs whose log has no exit entry.
func TestStateFollowsTheLog(t *testing.T) {
	queue := runs.Encode(runs.Start{Source: "queue"})
	queued := runs.Entry{Kind: runs.Queued, Time: 10, Body: queue}
	started := runs.Entry{Kind: runs.Started, Time: 20, Body: queue}
	out := runs.Entry{Kind: runs.Out, Time: 30}
	for _, c := range []struct {
		why                       string
		log                       []runs.Entry
		state                     runs.State
		queued, started, activeAt int64
	}{
		{"nothing", nil, runs.StateQueued, 0, 0, 0},
		{"queued", []runs.Entry{queued}, runs.StateQueued, 10, 0, 0},
		{"started", []runs.Entry{started}, runs.StateWorking, 0, 20, 0},
		{"queued, then started", []runs.Entry{queued, started}, runs.StateWorking, 10, 20, 0},
		{"started twice", []runs.Entry{started, {Kind: runs.Started, Time: 25, Body: queue}},
			runs.StateWorking, 0, 20, 0},
		{"output", []runs.Entry{started, out}, runs.StateWorking, 0, 20, 30},
		{"output without a start", []runs.Entry{out}, runs.StateWorking, 0, 30, 30},
		{"stderr without a start", []runs.Entry{{Kind: runs.ErrOut, Time: 30}}, runs.StateWorking, 0, 30, 0},
		{"a clock that goes back", []runs.Entry{started, out, {Kind: runs.Out, Time: 5}}, runs.StateWorking, 0, 20, 30},
		{"a note", []runs.Entry{queued, {Kind: runs.Note, Time: 40}}, runs.StateQueued, 10, 0, 0},
		{"a cancel alone ends nothing", []runs.Entry{started, {Kind: runs.Cancelled, Time: 40}},
			runs.StateWorking, 0, 20, 0},
		{"a kind that is not known", []runs.Entry{queued, {Kind: "pause", Time: 40}}, runs.StateQueued, 10, 0, 0},
	} {
		r := runs.NewRecord("T-local-x", "codex")
		cancel := false
		for _, e := range c.log {
			r.Entry(e)
			cancel = cancel || e.Kind == runs.Cancelled
		}
		if r.State != c.state || r.QueuedAt != c.queued || r.StartedAt != c.started || r.ActiveAt != c.activeAt ||
			r.Cancel != cancel || r.State.Final() {
			t.Errorf("%s: %s", c.why, r.JSON())
		}
	}
}

// A run that was started by hand and needs an agent's answer is awaiting
// resumption. All other runs that need one have failed.
func TestNeedsAgentAwaitsResumptionOfARunStartedByHand(t *testing.T) {
	for source, want := range map[string]runs.State{"run": runs.StateInputRequired, "queue": runs.StateFailed,
		"pipe": runs.StateFailed, "": runs.StateFailed} {
		r := runs.NewRecord("T-local-x", "codex")
		r.Entry(runs.Entry{Kind: runs.Started, Time: 10, Body: runs.Encode(runs.Start{Source: source})})
		r.End(runs.Exit{Reason: runs.ReasonExited, Code: code(runs.ExitNeedsAgent)}, 20)
		if r.State != want || r.Reason != runs.NeedsAgent || r.Waits() != (source == "run") ||
			r.Unowned() && !r.Waits() {
			t.Errorf("%q: %s", source, r.JSON())
		}
		if !r.Header().Mark().Exited {
			t.Errorf("%q: the log counts as open", source)
		}
	}
}

// The final states for all exits and turns.
func TestExitDeterminesTheState(t *testing.T) {
	for _, c := range []struct {
		exit    runs.Exit
		lines   []runs.Turn
		cancel  bool
		state   runs.State
		outcome string
	}{
		{runs.Exit{Reason: runs.ReasonExited, Code: code(0)}, []runs.Turn{runs.TurnCompleted}, false,
			runs.StateCompleted, "completed"},
		{runs.Exit{Reason: runs.ReasonExited, Code: code(0)}, []runs.Turn{runs.TurnNone}, false,
			runs.StateCompleted, "completed"},
		{runs.Exit{Reason: runs.ReasonExited, Code: code(0)},
			[]runs.Turn{runs.TurnCompleted, runs.TurnFailed, runs.TurnStarted}, false, runs.StateFailed,
			"failed (turn failed)"},
		{runs.Exit{Reason: runs.ReasonExited, Code: code(0)}, []runs.Turn{runs.TurnFailed, runs.TurnCompleted}, false,
			runs.StateCompleted, "completed"},
		{runs.Exit{Reason: runs.ReasonExited, Code: code(0)}, nil, false, runs.StateFailed, "failed (silent)"},
		{runs.Exit{Reason: runs.ReasonExited, Code: code(7)}, []runs.Turn{runs.TurnCompleted}, false, runs.StateFailed,
			"failed (exit status 7)"},
		{runs.Exit{Reason: runs.ReasonExited, Code: code(42)}, []runs.Turn{runs.TurnCompleted}, false, runs.StateFailed,
			"failed (needs agent)"},
		{runs.Exit{Reason: runs.ReasonExited, Code: code(42)}, nil, true, runs.StateCancelled, "cancelled"},
		{runs.Exit{Reason: runs.ReasonExited, Code: code(-1)}, nil, false, runs.StateFailed, "failed (exit status -1)"},
		{runs.Exit{Reason: runs.ReasonExited, Signal: 9}, []runs.Turn{runs.TurnCompleted}, false,
			runs.StateFailed, "failed (signal 9)"},
		{runs.Exit{Reason: runs.ReasonExited, Signal: 9, Code: code(0)}, nil, false,
			runs.StateFailed, "failed (signal 9)"},
		{runs.Exit{Reason: runs.ReasonExited}, []runs.Turn{runs.TurnCompleted}, false,
			runs.StateFailed, "failed (lost)"},
		{runs.Exit{Reason: runs.ReasonExited}, nil, true, runs.StateFailed, "failed (lost)"},
		{runs.Exit{Reason: runs.ReasonExited, Code: code(0)}, []runs.Turn{runs.TurnCompleted}, true,
			runs.StateCancelled, "cancelled"},
		{runs.Exit{Reason: runs.ReasonExited, Signal: 15}, nil, true, runs.StateCancelled, "cancelled"},

		{runs.Exit{Reason: runs.ReasonEOF}, []runs.Turn{runs.TurnCompleted}, false, runs.StateCompleted, "completed"},
		{runs.Exit{Reason: runs.ReasonEOF, Code: code(3), Signal: 4}, []runs.Turn{runs.TurnCompleted}, false,
			runs.StateCompleted, "completed"},
		{runs.Exit{Reason: runs.ReasonEOF}, []runs.Turn{runs.TurnCompleted, runs.TurnFailed}, false, runs.StateFailed,
			"failed (turn failed)"},
		{runs.Exit{Reason: runs.ReasonEOF}, []runs.Turn{runs.TurnStarted}, false, runs.StateFailed,
			"failed (no terminal event)"},
		{runs.Exit{Reason: runs.ReasonEOF}, nil, false, runs.StateFailed, "failed (no terminal event)"},
		{runs.Exit{Reason: runs.ReasonEOF}, []runs.Turn{runs.TurnCompleted, runs.TurnStarted}, false, runs.StateFailed,
			"failed (no terminal event)"},
		{runs.Exit{Reason: runs.ReasonEOF}, []runs.Turn{runs.TurnFailed, runs.TurnStarted}, false, runs.StateFailed,
			"failed (turn failed)"},
		{runs.Exit{Reason: runs.ReasonExited, Code: code(0)}, []runs.Turn{runs.TurnCompleted, runs.TurnStarted}, false,
			runs.StateCompleted, "completed"}, // as Codex 0.101, whose sub-agents begin turns that do not end
		{runs.Exit{Reason: runs.ReasonEOF}, nil, true, runs.StateCancelled, "cancelled"},

		{runs.Exit{Reason: runs.ReasonCancelled, Signal: 15}, []runs.Turn{runs.TurnCompleted}, false,
			runs.StateCancelled, "cancelled"},
		{runs.Exit{Reason: runs.ReasonCancelled}, nil, true, runs.StateCancelled, "cancelled"},
		{runs.Exit{Reason: runs.ReasonIdle, Signal: 15}, []runs.Turn{runs.TurnCompleted}, false,
			runs.StateTimeout, "timeout (idle)"},
		{runs.Exit{Reason: runs.ReasonIdle}, nil, true, runs.StateCancelled, "cancelled"},
		{runs.Exit{Reason: runs.ReasonHard, Code: code(0)}, []runs.Turn{runs.TurnCompleted}, false,
			runs.StateTimeout, "timeout (hard)"},
		{runs.Exit{Reason: runs.ReasonHard}, nil, true, runs.StateCancelled, "cancelled"},
		{runs.Exit{Reason: runs.ReasonSpool}, []runs.Turn{runs.TurnCompleted}, false,
			runs.StateFailed, "failed (spool)"},
		{runs.Exit{Reason: runs.ReasonSpool}, nil, true, runs.StateCancelled, "cancelled"},
		{runs.Exit{Reason: runs.ReasonSpawn, Spawn: runs.SpawnNotFound}, nil, false,
			runs.StateFailed, "failed (spawn)"},
		{runs.Exit{Reason: runs.ReasonSpawn}, nil, true, runs.StateFailed, "failed (spawn)"},
		{runs.Exit{Reason: runs.ReasonLost}, []runs.Turn{runs.TurnCompleted}, false, runs.StateFailed, "failed (lost)"},
		{runs.Exit{Reason: runs.ReasonLost}, nil, true, runs.StateFailed, "failed (lost)"},
		{runs.Exit{Reason: "weather"}, nil, false, runs.StateFailed, "failed (lost)"},
		{runs.Exit{}, nil, false, runs.StateFailed, "failed (lost)"},
	} {
		r := runs.NewRecord("T-local-x", "codex")
		for _, turn := range c.lines {
			r.Line(runs.Facts{Turn: turn}, 1)
		}
		r.Cancel = c.cancel
		r.End(c.exit, 99)
		if r.State != c.state || r.Outcome() != c.outcome || r.EndedAt != 99 ||
			!reflect.DeepEqual(*r.Exit, c.exit) || !r.State.Final() {
			t.Errorf("%+v after turns %v, cancel %v: %s, %q; want %s, %q", c.exit, c.lines, c.cancel, r.State,
				r.Outcome(), c.state, c.outcome)
		}
	}
}

// A worker that takes a run over minutes after its end says in the exit entry
// when the agent ended.
func TestRunEndsWhenItsAgentEnds(t *testing.T) {
	for _, test := range []struct {
		body string
		want int64
	}{
		{`{"reason":"exited","code":0,"at":4000}`, 4000},
		{`{"reason":"exited","code":0}`, 400_000}, // of before
		{`{"reason":"exited","code":0,"at":1000}`, 1000},
		{`{"reason":"exited","code":0,"at":999}`, 400_000}, // before the start
		{`{"reason":"exited","code":0,"at":400000}`, 400_000},
		{`{"reason":"exited","code":0,"at":400001}`, 400_000}, // after the entry
		{`{"reason":"exited","code":0,"at":-4000}`, 400_000},
		{`{"reason":"lost","at":3000}`, 3000},
		{`{"reason":"exited","at":"soon"}`, 400_000},
	} {
		r := runs.NewRecord("r", "codex")
		r.Entry(runs.Entry{Kind: runs.Started, Time: 1000, Body: runs.Encode(runs.Start{})})
		x := runs.DecodeExit([]byte(test.body))
		if r.End(x, 400_000); r.EndedAt != test.want || r.Header().EndedAt != runs.Time(test.want) {
			t.Errorf("%s: ended at %d, want %d", test.body, r.EndedAt, test.want)
		}
		if again := runs.DecodeExit(runs.EncodeExit(x)); again.At != x.At || again.Reason != x.Reason {
			t.Errorf("%s is encoded as %s", test.body, runs.EncodeExit(x))
		}
		if bytes.Contains(r.JSON(), []byte(`"at"`)) {
			t.Errorf("%s: record %s has another time of the end", test.body, r.JSON())
		}
	}
}

func TestOutcomeOfAnOpenRunIsItsState(t *testing.T) {
	r := runs.NewRecord("T-local-x", "codex")
	if r.Outcome() != "queued" {
		t.Errorf("outcome %q", r.Outcome())
	}
	r.Entry(runs.Entry{Kind: runs.Started})
	if r.Outcome() != "working" {
		t.Errorf("outcome %q", r.Outcome())
	}
}

// Records are read from a bucket, and may be incomplete.
func TestOutcomeOfADamagedRecord(t *testing.T) {
	for raw, want := range map[string]string{
		`{"state":"failed","reason":"signal"}`:                     "failed (signal)",
		`{"state":"failed","reason":"exit status"}`:                "failed (exit status)",
		`{"state":"failed","reason":"exit status","exit":{}}`:      "failed (exit status)",
		`{"state":"failed","reason":"x"}`:                          "failed (x)",
		`{}`:                                                       "",
		`{"state":"failed","reason":"signal","exit":{"signal":2}}`: "failed (signal 2)",
	} {
		var r runs.Record
		if err := json.Unmarshal([]byte(raw), &r); err != nil {
			t.Fatal(err)
		}
		if got := r.Outcome(); got != want {
			t.Errorf("%s: %q, want %q", raw, got, want)
		}
	}
}

func TestLinesAreCounted(t *testing.T) {
	r := runs.NewRecord("T-local-x", "codex")
	for _, f := range []runs.Facts{
		{}, {Malformed: true}, {Malformed: true}, {Unknown: true}, {Thread: "t"}, {Turn: runs.TurnStarted},
		{Turn: runs.TurnCompleted}, {Turn: runs.TurnCompleted}, {Turn: runs.TurnFailed},
	} {
		r.Line(f, 1)
	}
	if r.Lines != 9 || r.Malformed != 2 || r.Unknown != 1 || r.Thread != "t" || r.TurnsDone != 2 || r.TurnsBad != 1 ||
		r.LastTurn != runs.TurnFailed {
		t.Errorf("record %s", r.JSON())
	}
}

func TestThreadOfARecord(t *testing.T) {
	r := runs.NewRecord("T-local-x", "codex")
	for _, c := range []struct{ line, want string }{
		{"", ""}, {"a", "a"}, {"", "a"}, {"b", "b"}, {strings.Repeat("x", 1025), "b"},
		{strings.Repeat("x", 1024), strings.Repeat("x", 1024)}, {strings.Repeat("\n", 513), strings.Repeat("x", 1024)},
	} {
		if r.Line(runs.Facts{Thread: c.line}, 1); r.Thread != c.want {
			t.Errorf("after a thread of %d bytes: %.20q, want %.20q", len(c.line), r.Thread, c.want)
		}
	}
}

// The usage of a thread is the total of all its runs. The own usage of a run is
// the difference to the total at its start.
func TestOwnUsage(t *testing.T) {
	usage := func(n int64) *runs.Usage {
		return &runs.Usage{Input: n, CachedInput: n + 1, CacheWriteInput: n + 2, Output: n + 3, ReasoningOutput: n + 4}
	}
	r := runs.NewRecord("T-local-x", "codex")
	if r.Line(runs.Facts{}, 1); r.Usage != nil || r.Own != nil {
		t.Errorf("no usage: %s", r.JSON())
	}
	r.Line(runs.Facts{Used: &runs.Account{Usage: *usage(10)}}, 1)
	if *r.Usage != *usage(10) || *r.Own != *usage(10) || r.Before != nil {
		t.Errorf("first usage: %s", r.JSON())
	}
	r.Resumed(runs.Account{Usage: *usage(4)})
	if *r.Usage != *usage(10) || *r.Own != (runs.Usage{Input: 6, CachedInput: 6, CacheWriteInput: 6, Output: 6,
		ReasoningOutput: 6}) {
		t.Errorf("of a resumed thread: %s", r.JSON())
	}
	r.Line(runs.Facts{Used: &runs.Account{Usage: *usage(11)}}, 1)
	if *r.Usage != *usage(11) || r.Own.Input != 7 || r.Before.Usage != *usage(4) {
		t.Errorf("next usage: %s", r.JSON())
	}
	r.Line(runs.Facts{Used: &runs.Account{Usage: runs.Usage{Input: 1, Output: 100}}}, 1) // of the process alone
	if *r.Own != (runs.Usage{Input: 1, Output: 100}) {
		t.Errorf("less than before: %s", r.JSON())
	}

	r = runs.NewRecord("T-local-x", "codex")
	if r.Resumed(runs.Account{Usage: *usage(4)}); r.Own != nil {
		t.Errorf("resumed, no usage yet: %s", r.JSON())
	}
	given := &runs.Account{Usage: *usage(5)}
	r.Line(runs.Facts{Used: given}, 1)
	if given.Input = 999; r.Usage.Input != 5 || r.Own.Input != 1 {
		t.Errorf("the record shares the line's usage: %s", r.JSON())
	}
}

func call(n int) runs.Call { return runs.Call{ID: fmt.Sprint("item_", n), Kind: "command_execution"} }

func TestOpenCallsAreListedUpToALimit(t *testing.T) {
	r := runs.NewRecord("T-local-x", "codex")
	for i := range runs.MaxOpenCalls + 3 {
		r.Line(runs.Facts{Opened: call(i)}, int64(i))
	}
	if len(r.OpenCalls) != runs.MaxOpenCalls || r.MoreCalls != 3 || r.ToolCalls != runs.MaxOpenCalls+3 {
		t.Fatalf("open: %s", r.JSON())
	}
	for i, c := range r.OpenCalls {
		if c != (runs.Call{ID: fmt.Sprint("item_", i), Kind: "command_execution", At: int64(i)}) {
			t.Errorf("call %d: %+v", i, c)
		}
	}
	for i := range runs.MaxOpenCalls + 3 {
		r.Line(runs.Facts{Closed: call(i).ID}, 100)
	}
	if len(r.OpenCalls) != 0 || r.MoreCalls != 0 || r.ToolCalls != runs.MaxOpenCalls+3 {
		t.Errorf("closed: %s", r.JSON())
	}
}

func TestOpenCalls(t *testing.T) {
	fits, long := strings.Repeat("x", 62), strings.Repeat("x", 63) // with quotes 64 and 65 bytes
	for _, c := range []struct {
		why   string
		facts []runs.Facts
		open  []runs.Call
		more  int64
		all   int64
	}{
		{"opened and closed", []runs.Facts{{Opened: call(1)}, {Closed: "item_1"}}, nil, 0, 1},
		{"closed alone", []runs.Facts{{Closed: "item_1"}}, nil, 0, 1},
		{"opened twice", []runs.Facts{{Opened: call(1)}, {Opened: call(1)}},
			[]runs.Call{{ID: "item_1", Kind: "command_execution", At: 5}}, 0, 1},
		{"opened again once closed", []runs.Facts{{Opened: call(1)}, {Closed: "item_1"}, {Opened: call(1)}},
			[]runs.Call{{ID: "item_1", Kind: "command_execution", At: 5}}, 0, 2},
		{"closed in another order",
			[]runs.Facts{{Opened: call(1)}, {Opened: call(2)}, {Opened: call(3)},
				{Closed: "item_2"}, {Closed: "item_1"}},
			[]runs.Call{{ID: "item_3", Kind: "command_execution", At: 5}}, 0, 3},
		{"without an id", []runs.Facts{{Opened: runs.Call{Kind: "web_search"}}}, nil, 0, 0},
		{"id that fits", []runs.Facts{{Opened: runs.Call{ID: fits}}}, []runs.Call{{ID: fits, At: 5}}, 0, 1},
		{"id that is too long", []runs.Facts{{Opened: runs.Call{ID: long}}}, nil, 1, 1},
		{"id that is too long, closed", []runs.Facts{{Opened: runs.Call{ID: long}}, {Closed: long}}, nil, 0, 1},
		{"id that is too long once it is escaped",
			[]runs.Facts{{Opened: runs.Call{ID: strings.Repeat("\x00", 11)}}}, nil, 1, 1},
		{"other fields that are too long", []runs.Facts{{Opened: runs.Call{ID: "i", Kind: long, Name: long}}},
			[]runs.Call{{ID: "i", At: 5}}, 0, 1},
		{"other fields that fit", []runs.Facts{{Opened: runs.Call{ID: "i", Kind: fits, Name: fits}}},
			[]runs.Call{{ID: "i", Kind: fits, Name: fits, At: 5}}, 0, 1},
	} {
		r := runs.NewRecord("T-local-x", "codex")
		for _, f := range c.facts {
			r.Line(f, 5)
		}
		if len(r.OpenCalls) == 0 {
			r.OpenCalls = nil
		}
		if !reflect.DeepEqual(r.OpenCalls, c.open) || r.MoreCalls != c.more || r.ToolCalls != c.all {
			t.Errorf("%s: %+v and %d more, %d in all", c.why, r.OpenCalls, r.MoreCalls, r.ToolCalls)
		}
	}
}

// Queued and start entries set the source and the labels.
func TestSourceAndLabels(t *testing.T) {
	tooMany := map[string]string{}
	for i := range runs.MaxLabels + 1 {
		tooMany[fmt.Sprint("k", i)] = "v"
	}
	labels := map[string]string{"team": "core"}
	for _, c := range []struct {
		why    string
		bodies []string
		source string
		labels map[string]string
	}{
		{"source and labels", []string{`{"source":"run","labels":{"team":"core"}}`}, "run", labels},
		{"a later entry wins", []string{`{"source":"queue","labels":{"a":"b"}}`,
			`{"source":"run","labels":{"team":"core"}}`}, "run", labels},
		{"a later entry without fields", []string{`{"source":"queue","labels":{"team":"core"}}`,
			`{}`}, "queue", labels},
		{"a source that is not known", []string{`{"source":"SECRET"}`}, "", nil},
		{"a body that cannot be read", []string{`{"source":"run","labels":{"team":"core"}}`, `{"source":7}`,
			`oops`, ``}, "run", labels},
		{"too many labels", []string{string(runs.Encode(runs.Start{Source: "run",
			Attributes: runs.Attributes{Labels: runs.LabelsOf(tooMany)}}))}, "run", nil},
		{"a label that is too long", []string{string(runs.Encode(runs.Start{Source: "run",
			Attributes: runs.Attributes{Labels: runs.LabelsOf(map[string]string{"k": strings.Repeat("v",
				runs.MaxLabelValue+1)})}}))}, "run", nil},
		{"a label with a control character",
			[]string{`{"source":"run","labels":{"team":"core","k":"a\nb"}}`}, "run", nil},
		{"invalid labels after valid ones", []string{`{"labels":{"team":"core"}}`, `{"labels":{"":"x"}}`}, "", labels},
	} {
		r := runs.NewRecord("T-local-x", "codex")
		for _, body := range c.bodies {
			r.Entry(runs.Entry{Kind: runs.Started, Body: []byte(body)})
		}
		if r.Source != c.source || !maps.Equal(r.Labels.Map(), c.labels) {
			t.Errorf("%s: source %q, labels %v", c.why, r.Source, r.Labels)
		}
	}
}

func TestFinalTextIsTruncatedBetweenCharacters(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{"Done.", "Done."},
		{strings.Repeat("x", runs.MaxFinalText), strings.Repeat("x", runs.MaxFinalText)},
		{strings.Repeat("x", runs.MaxFinalText+1), strings.Repeat("x", runs.MaxFinalText)},
		{strings.Repeat("x", runs.MaxFinalText-1) + "é", strings.Repeat("x", runs.MaxFinalText-1)},
		{strings.Repeat("x", runs.MaxFinalText-3) + "🚀", strings.Repeat("x", runs.MaxFinalText-3)},
	} {
		r := runs.NewRecord("T-local-x", "codex")
		r.Final(c.text)
		if *r.FinalText != c.want || r.FinalTextBytes != int64(len(c.text)) {
			t.Errorf("a text of %d bytes: %d kept, %d counted", len(c.text), len(*r.FinalText), r.FinalTextBytes)
		}
	}
	r := runs.NewRecord("T-local-x", "codex")
	r.Final(strings.Repeat("\x00", runs.MaxFinalText))
	if kept := *r.FinalText; kept == "" || bounds.StringSize(kept) > runs.MaxRecord/2 ||
		r.FinalTextBytes != runs.MaxFinalText {
		t.Errorf("control characters: %d bytes kept, %d bytes of JSON", len(kept), bounds.StringSize(kept))
	}
}

// hostile generates a text of at most n bytes whose JSON form is long.
func hostile(n int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		piece := rapid.SampledFrom([]string{"\x00", "\\", "\"", "\u2028", "é", "🚀", "x", "\x7f",
			"\u0085"}).Draw(t, "piece")
		return strings.Repeat(piece, rapid.SampledFrom([]int{n, n / 2, n + 9, 1}).Draw(t, "bytes")/len(piece))
	})
}

// For any log the record has at most MaxRecord bytes, and survives a round trip
// through JSON.
func TestRecordIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := runs.NewRecord(strings.Repeat("r", runs.MaxID), strings.Repeat("a", runs.MaxID))
		labels := map[string]string{}
		for i := range rapid.IntRange(0, runs.MaxLabels+1).Draw(t, "labels") {
			key := hostile(runs.MaxLabelKey-2).Draw(t, "key") + fmt.Sprintf("%02d", i)
			labels[key] = hostile(runs.MaxLabelValue).Draw(t, "value")
		}
		r.Entry(runs.Entry{Kind: runs.Queued, Time: 1 << 62,
			Body: runs.Encode(runs.Start{Source: "queue", Attributes: runs.Attributes{Labels: runs.LabelsOf(labels)}})})
		for range rapid.IntRange(0, 60).Draw(t, "lines") {
			f := runs.Facts{
				Malformed: rapid.Bool().Draw(t, "malformed"),
				Unknown:   rapid.Bool().Draw(t, "unknown"),
				Drift:     []runs.Unknown{{What: runs.DriftField, Name: hostile(70).Draw(t, "drift")}},
				Version:   hostile(60).Draw(t, "version"),
				Thread:    hostile(1024).Draw(t, "thread"),
				Turn:      runs.Turn(rapid.IntRange(0, 3).Draw(t, "turn")),
				Opened: runs.Call{
					ID:   fmt.Sprint(rapid.IntRange(0, 50).Draw(t, "opened")) + hostile(60).Draw(t, "id"),
					Kind: hostile(62).Draw(t, "kind"), Name: hostile(62).Draw(t, "name"),
				},
				Used: &runs.Account{
					Usage: runs.Usage{Input: 1 << 62, CachedInput: 1 << 62, CacheWriteInput: -1 << 62, Output: 1 << 62,
						ReasoningOutput: 1 << 62},
					Models: largestModels()[:rapid.IntRange(0, runs.MaxModels+2).Draw(t, "models")],
				},
			}
			if rapid.Bool().Draw(t, "closes") {
				f.Closed = fmt.Sprint(rapid.IntRange(0, 50).Draw(t, "closed"))
			}
			r.Line(f, 1<<62)
		}
		r.Resumed(runs.Account{Usage: runs.Usage{Input: 1 << 62, Output: -1 << 62}, Models: largestModels()})
		r.Final(hostile(70_000).Draw(t, "final text"))
		for _, token := range []string{"unknown", "text_output", "tool_call", "tool_result", "status", "error"} {
			r.Events[token] = 1 << 62
		}
		if rapid.Bool().Draw(t, "ended") {
			n := -1 << 31
			r.End(runs.Exit{Reason: runs.ReasonExited, Code: &n, Signal: rapid.IntRange(0, 1).Draw(t, "signal") << 30,
				Spawn: runs.SpawnNotExecutable, Torn: true}, 1<<62)
		}
		r.Seq = 1<<64 - 1
		b := r.JSON()
		if len(b) > runs.MaxRecord || !utf8.Valid(b) {
			t.Fatalf("a record of %d bytes", len(b))
		}
		if len(r.OpenCalls) > runs.MaxOpenCalls {
			t.Fatalf("%d calls listed", len(r.OpenCalls))
		}
		back := new(runs.Record)
		if err := json.Unmarshal(b, back); err != nil {
			t.Fatal(err)
		}
		if string(back.JSON()) != string(b) {
			t.Fatal("the round trip changed the record")
		}
	})
}

// The largest record that a caller can cause.
func TestLargestRecord(t *testing.T) {
	r := runs.NewRecord(strings.Repeat("r", runs.MaxID), strings.Repeat("a", runs.MaxID))
	labels := map[string]string{}
	for i := range runs.MaxLabels {
		labels[fmt.Sprintf("%02d", i)+strings.Repeat(`"`, runs.MaxLabelKey-2)] = strings.Repeat(`\`, runs.MaxLabelValue)
	}
	r.Entry(runs.Entry{Kind: runs.Started, Time: 1 << 62, Body: runs.Encode(runs.Start{
		Source: "queue", Attributes: runs.Attributes{Labels: runs.LabelsOf(labels)}, Governance: strings.Repeat(`\`,
			runs.MaxGovernance),
	})})
	for i := range runs.MaxOpenCalls + 10 {
		r.Line(runs.Facts{
			Thread: strings.Repeat("\x00", 1024), Turn: runs.TurnFailed,
			Drift:   []runs.Unknown{{What: runs.DriftProtocol, Name: strings.Repeat("a", 60) + fmt.Sprint(i)}},
			Version: "12345678.12345678.12345678",
			Opened: runs.Call{ID: fmt.Sprintf("%02d", i) + strings.Repeat("\x00", 10), Kind: strings.Repeat("\x00", 10),
				Name: strings.Repeat("\x00", 10)},
			Used: &runs.Account{Models: largestModels()},
		}, 1<<62)
	}
	r.Final(strings.Repeat("\x01", 1<<20))
	if n := len(r.JSON()); len(r.Labels.Map()) != runs.MaxLabels || len(r.OpenCalls) != runs.MaxOpenCalls ||
		n > runs.MaxRecord || n < runs.MaxRecord/2 {
		t.Errorf("%d bytes, %d labels, %d calls", n, len(r.Labels.Map()), len(r.OpenCalls))
	}
}

// Counts that cannot be are not added to those that can.
func TestImpossibleTokenCountsDoNotEnterTotals(t *testing.T) {
	r := runs.NewRecord("T-local-x", "claude_code")
	r.Line(runs.Facts{Spent: &runs.Usage{Input: 5, Output: 1 << 53}}, 1)
	r.Line(runs.Facts{Spent: &runs.Usage{Input: -3, Output: 1<<53 + 1, CachedInput: 2}}, 1)
	if *r.Own != (runs.Usage{Input: 5, CachedInput: 2, Output: 1 << 53}) {
		t.Errorf("sums: %+v", r.Own)
	}
	r = runs.NewRecord("T-local-x", "codex")
	r.Line(runs.Facts{Used: &runs.Account{Usage: runs.Usage{Input: -1, Output: 7, ReasoningOutput: 1 << 62}}}, 1)
	if *r.Usage != (runs.Usage{Output: 7}) || *r.Own != *r.Usage {
		t.Errorf("totals: %+v, own %+v", r.Usage, r.Own)
	}
}

func TestRecordHasTheModeOfItsTask(t *testing.T) {
	t.Parallel()
	for mode, want := range map[runs.Mode]runs.Mode{
		runs.ReadOnly: runs.ReadOnly, runs.WorkspaceWrite: runs.WorkspaceWrite, "": "", "all": "",
	} {
		r := runs.NewRecord("T-1", "codex")
		r.Entry(runs.Entry{Kind: runs.Queued, Time: 1, Body: runs.Encode(runs.Start{Source: "queue",
			Attributes: runs.Attributes{Mode: mode}})})
		r.Entry(runs.Entry{Kind: runs.Started, Time: 2, Body: runs.Encode(runs.Start{Source: "queue"})})
		if r.Mode != want {
			t.Errorf("%q: %q", mode, r.Mode)
		}
	}
}

// A copy has a thread of its own: until the agent tells it, the run has none. What it was copied from stays.
func TestACopyHasAThreadOfItsOwn(t *testing.T) {
	r := runs.NewRecord("r", "codex")
	start := runs.Encode(runs.Start{Source: runs.SourceQueue, Attributes: runs.Attributes{ForkedFrom: "other"}})
	for _, kind := range []runs.Kind{runs.Queued, runs.Started} {
		r.Entry(runs.Entry{Kind: kind, Time: 1, Body: start})
		if h := r.Header(); h.Thread != "" || h.Asked || h.ForkedFrom != "other" || r.Resumes != "other" {
			t.Errorf("before it is told: %+v", h)
		}
	}
	r.Line(runs.Facts{Thread: "own"}, 2)
	h := r.Header()
	if h.Thread != "own" || h.ForkedFrom != "other" || h.Asked {
		t.Errorf("%+v", h)
	}
	read, err := runs.ParseHeader(h.Text(), nil)
	if err != nil || read.ForkedFrom != "other" {
		t.Errorf("%+v, %v", read, err)
	}
	both := runs.Task{Prompt: "x"}
	both.Agent, both.Mode, both.Thread, both.ForkedFrom = "codex", runs.ReadOnly, "a", "b"
	if err := both.Check(); err == nil || err.Error() != "fork: not with a thread to resume" {
		t.Error(err)
	}
}
