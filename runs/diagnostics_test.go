package runs_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/linesman/linesman/runs"
)

func exited(code int) runs.Exit { return runs.Exit{Reason: runs.ReasonExited, Code: &code} }

func TestOnlyFailuresHaveAnErrorContext(t *testing.T) {
	for _, c := range []struct {
		exit runs.Exit
		turn runs.Turn
		want string // the message of a run without error messages
	}{
		{exited(0), runs.TurnCompleted, ""},
		{runs.Exit{Reason: runs.ReasonCancelled}, runs.TurnNone, ""},
		{exited(0), runs.TurnFailed, "the agent's turn failed"},
		{exited(7), runs.TurnNone, "the agent ended with exit status 7"},
		{runs.Exit{Reason: runs.ReasonExited, Signal: 9}, runs.TurnNone, "the agent ended with signal 9"},
		{runs.Exit{Reason: runs.ReasonIdle}, runs.TurnNone, "the agent was silent for longer than the idle limit"},
		{runs.Exit{Reason: runs.ReasonHard}, runs.TurnNone, "the run took longer than the hard limit"},
		{runs.Exit{Reason: runs.ReasonSpool}, runs.TurnNone, "the agent's output passed its limit"},
		{runs.Exit{Reason: runs.ReasonSpawn, Spawn: runs.SpawnNotFound}, runs.TurnNone,
			"the agent's program was not found"},
		{runs.Exit{Reason: runs.ReasonLost}, runs.TurnNone, "it is not known how the agent ended"},
		{ok, runs.TurnNone, "the output ended before the end of a turn"},
	} {
		r := runs.NewRecord("T-local-x", "codex")
		if r.Line(runs.Facts{Turn: c.turn}, 1); r.ErrorContext() != nil {
			t.Errorf("%+v: an error context before the end", c.exit)
		}
		r.End(c.exit, 2)
		got := r.ErrorContext()
		if (got == nil) != (c.want == "") || got != nil &&
			(got.Message != c.want || got.FailedFiles == nil || got.Locations == nil || got.Suggestions == nil) {
			t.Errorf("%+v: %+v, want %q", c.exit, got, c.want)
		}
	}
}

func TestErrorMessageIsFromTheBestSource(t *testing.T) {
	turn := runs.Facts{Turn: runs.TurnStarted}
	reported := func(source runs.ErrorSource, s string) runs.Facts { return runs.Facts{Error: s, ErrorSource: source} }
	failed := runs.Facts{Turn: runs.TurnFailed, Error: "turn", ErrorSource: runs.ErrorTurn}
	command := func(text string) runs.Facts {
		f := read(text, true)
		return runs.Facts{Command: &f}
	}
	for _, c := range []struct {
		why           string
		facts         []runs.Facts
		message, kind string
	}{
		{"of the turn", []runs.Facts{turn, reported(runs.ErrorTop, "top"), failed,
			reported(runs.ErrorItem, "item")}, "turn", ""},
		{"of the turn, before a later line", []runs.Facts{turn, failed, reported(runs.ErrorTop, "top")}, "turn", ""},
		{"of a line, the newest", []runs.Facts{turn, reported(runs.ErrorTop, "one"), reported(runs.ErrorItem, "item"),
			reported(runs.ErrorTop, "two")}, "two", ""},
		{"of an item", []runs.Facts{turn, command("KeyError: 'x'"), reported(runs.ErrorItem, "item")}, "item", ""},
		{"of a command", []runs.Facts{turn, command("MyError: bad\nmore")}, "MyError: bad", "MyError"},
		{"of the newest command", []runs.Facts{turn, command("MyError: bad"),
			command("fatal: worse")}, "fatal: worse", ""},
		{"of a command, before a notice", []runs.Facts{reported(runs.ErrorItem, "deprecated"), turn,
			command("fatal: bad")}, "fatal: bad", ""},
		{"a notice alone", []runs.Facts{reported(runs.ErrorItem, "deprecated"), turn}, "deprecated", ""},
		{"discarded by a completed turn", []runs.Facts{turn, reported(runs.ErrorTop, "Reconnecting... 1/5"),
			{Turn: runs.TurnCompleted}, command("fatal: bad")}, "fatal: bad", ""},
		{"the type in the message", []runs.Facts{turn, command("KeyError: 'x'"),
			reported(runs.ErrorTop, "TypeError: no")}, "TypeError: no", "TypeError"},
		{"the type in the output", []runs.Facts{turn, command("/bin/sh: x: command not found\nnot a KeyError")},
			"/bin/sh: x: command not found", "KeyError"},
		{"a secret", []runs.Facts{turn, reported(runs.ErrorTop, "bad key sk-abcdefgh12345678")},
			"bad key " + runs.Redacted, ""},
		{"a long one", []runs.Facts{turn, reported(runs.ErrorTop, strings.Repeat("é", 5000))},
			strings.Repeat("é", 498) + "…", ""},
	} {
		r := runs.NewRecord("T-local-x", "codex")
		for _, f := range c.facts {
			r.Line(f, 1)
		}
		r.End(exited(1), 2)
		if got := r.ErrorContext(); got.Message != c.message || got.Type != c.kind {
			t.Errorf("%s: %q, type %q; want %q, %q", c.why, got.Message, got.Type, c.message, c.kind)
		}
	}
}

func TestErrorContextOfAFailedTestRun(t *testing.T) {
	r := runs.NewRecord("T-local-x", "codex")
	first := read("src/old.ts:1:1 and src/cart.ts:2:2\n", true)
	f := runs.ReadOutput(output(t, "jest.txt"), true)
	r.Line(runs.Facts{Command: &first}, 1)
	r.Line(runs.Facts{Command: &f}, 1)
	r.End(exited(1), 2)
	want := &runs.ErrorContext{
		Message: "TypeError: Cannot read properties of undefined (reading 'name')", Type: "TypeError",
		FailedFiles: []string{"sum.test.js", "src/old.ts", "src/cart.ts"},
		Locations:   []runs.Location{at("sum.test.js", 7, 55), at("src/old.ts", 1, 1), at("src/cart.ts", 2, 2)},
		Suggestions: []string{"Start investigation at sum.test.js:7",
			"Run failing tests individually to isolate issues", "Check variable types and null/undefined values"},
	}
	if got := r.ErrorContext(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

func TestSuggestions(t *testing.T) {
	for _, c := range []struct {
		exit     runs.Exit
		reported string
		want     string
	}{
		{runs.Exit{Reason: runs.ReasonIdle}, "", "Split the task into smaller ones"},
		{runs.Exit{Reason: runs.ReasonHard}, "", "Raise the hard limit of the run"},
		{runs.Exit{Reason: runs.ReasonSpawn}, "", "Check that the agent is installed and that the working directory " +
			"exists"},
		{runs.Exit{Reason: runs.ReasonSpawn, Spawn: runs.SpawnNoDir}, "", "Name another directory," +
			" or add it to work.roots of the worker; `linesman doctor` there shows which are allowed, and its log why"},
		{runs.Exit{Reason: runs.ReasonSpawn, Spawn: runs.SpawnRefused}, "",
			"Look at the worker's log, which says what it refused"},
		{exited(1), "unexpected status 401 Unauthorized", "Sign the agent in, or check its API key"},
		{exited(1), "last status: 429 Too Many Requests", "Wait until the rate limit allows more requests"},
		{exited(2), "", "Check the command line and the settings of the agent"},
	} {
		r := runs.NewRecord("T-local-x", "codex")
		r.Line(runs.Facts{Error: c.reported, ErrorSource: runs.ErrorTop}, 1)
		r.End(c.exit, 2)
		if got := r.ErrorContext().Suggestions; !slices.Contains(got, c.want) || len(got) > runs.MaxSuggestions {
			t.Errorf("%+v: %q lacks %q", c.exit, got, c.want)
		}
	}
}

func TestSummary(t *testing.T) {
	for _, c := range []struct {
		final string
		f     runs.Facts
		exit  runs.Exit
		want  string
	}{
		{"Done. More.", runs.Facts{Turn: runs.TurnCompleted}, ok, "Done."},
		{"\n\n## **Fixed** the bug\n\nDetails.", runs.Facts{Turn: runs.TurnCompleted}, ok, "Fixed** the bug"},
		{"", runs.Facts{Turn: runs.TurnCompleted}, ok, "Completed"},
		{"Version 1.2 is out; sk-abcdefgh12345678", runs.Facts{Turn: runs.TurnCompleted}, ok,
			"Version 1.2 is out; " + runs.Redacted},
		{strings.Repeat("x", 300), runs.Facts{Turn: runs.TurnCompleted}, ok, strings.Repeat("x", 199) + "…"},
		{"half", runs.Facts{Turn: runs.TurnFailed, Error: "no\nquota", ErrorSource: runs.ErrorTurn}, ok,
			"Failed: turn failed: no quota"},
		{"half", runs.Facts{}, exited(3), "Failed: the agent ended with exit status 3"},
		{"half", runs.Facts{}, runs.Exit{Reason: runs.ReasonIdle},
			"Timed out: the agent was silent for longer than the idle limit"},
		{"half", runs.Facts{}, runs.Exit{Reason: runs.ReasonCancelled}, "Cancelled"},
	} {
		r := runs.NewRecord("T-local-x", "codex")
		if r.Summary() != "Queued" {
			t.Errorf("of a new run: %q", r.Summary())
		}
		r.Entry(runs.Entry{Kind: runs.Started})
		r.Line(runs.Facts{Activity: "Running make"}, 1)
		if r.Summary() != "Working: Running make" {
			t.Errorf("of a run at work: %q", r.Summary())
		}
		r.Final(c.final)
		r.Line(c.f, 1)
		r.End(c.exit, 2)
		if got := r.Summary(); got != c.want {
			t.Errorf("%q after %q, want %q", got, c.final, c.want)
		}
	}
}

func TestCacheHitRate(t *testing.T) {
	r := runs.NewRecord("T-local-x", "codex")
	if _, known := r.CacheHitRate(); known {
		t.Error("known without usage")
	}
	for _, c := range []struct {
		input, cached int64
		rate          float64
		known         bool
	}{{0, 0, 0, false}, {0, 5, 0, false}, {-1, 0, 0, false}, {100, 93, 0.93, true}, {100, 0, 0, true},
		{100, 200, 1, true}, {100, -1, 0, true}} {
		r.Line(runs.Facts{Used: &runs.Account{Usage: runs.Usage{Input: c.input, CachedInput: c.cached}}}, 1)
		if rate, known := r.CacheHitRate(); rate != c.rate || known != c.known {
			t.Errorf("%d of %d: %v, %v", c.cached, c.input, rate, known)
		}
	}
}
