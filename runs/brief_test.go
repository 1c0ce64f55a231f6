package runs_test

import (
	"strings"
	"testing"

	"github.com/linesman/linesman/runs"
)

// failedWith returns the record of a run that failed with the message of an agent.
func failedWith(message string) *runs.Record {
	r := runs.NewRecord("T-1", "claude_code")
	r.Entry(runs.Entry{Kind: runs.Started, Time: 1, Body: runs.Encode(runs.Start{Source: "run"})})
	r.Line(runs.Facts{Turn: runs.TurnFailed, Error: message, ErrorSource: runs.ErrorTurn}, 2)
	r.End(runs.Exit{Reason: runs.ReasonExited, Code: new(1)}, 3)
	return r
}

// A row of a failed run has its cause, as agents write it, and what to try.
func TestFailedRunSaysWhyAndWhatToTry(t *testing.T) {
	t.Parallel()
	for message, want := range map[string][2]string{
		"Not logged in · Please run /login": {"Not logged in · Please run /login", "Sign the agent in"},
		`API Error: 401 {"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"},"request_id":"r"}`: {
			"API Error: 401 invalid x-api-key", "Sign the agent in"},
		"You've hit your limit · resets 11pm (UTC)": {
			"You've hit your limit · resets 11pm (UTC)", "Run it again when the limit"},
		"You've hit your usage limit. Try again at 11:04 PM.": {
			"You've hit your usage limit. Try again at 11:04 PM.", "Run it again when the limit"},
		"There's an issue with the selected model (x). It may not exist or you may not have access to it.": {
			"There's an issue with the selected model (x). It may not exist or you may not have access to it.",
			"Name another model"},
		`{"detail":"The 'x' model is not supported when using Codex with a ChatGPT account."}`: {
			"The 'x' model is not supported when using Codex with a ChatGPT account.", "Name another model"},
		"{\n  \"error\": {\n    \"message\": \"The model `x` does not exist\",\n    \"param\": " + strings.Repeat("x", 900): {
			"The model `x` does not exist", "Name another model"},
		`{"error":{"message":"{\"error\":{\"message\":\"quota exceeded\"}}"}}`: {"quota exceeded", "Wait until the rate limit"},
		`{"error":"fetch failed: ECONNREFUSED"}`:                               {"fetch failed: ECONNREFUSED", "Check the network"},
		"no {json} at all": {
			"no {json} at all", "Read the end of the output"},
	} {
		row, err := runs.ParseHeader(failedWith(message).Header().Text(), nil)
		if err != nil || row.Cause != want[0] || !strings.HasPrefix(row.Hint, want[1]) || row.Answer != "" {
			t.Errorf("%.80q: cause %q, hint %q, %v; want %q", message, row.Cause, row.Hint, err, want)
		}
	}
}

// Whatever ended a run, there is a cause and a hint.
func TestEveryFailureHasACauseAndAHint(t *testing.T) {
	t.Parallel()
	for _, x := range []runs.Exit{
		{Reason: runs.ReasonExited, Code: new(1)}, {Reason: runs.ReasonExited, Code: new(2)},
		{Reason: runs.ReasonExited, Code: new(0)}, {Reason: runs.ReasonExited, Code: new(runs.ExitNeedsAgent)},
		{Reason: runs.ReasonExited, Signal: 9}, {Reason: runs.ReasonExited}, {Reason: runs.ReasonEOF},
		{Reason: runs.ReasonIdle}, {Reason: runs.ReasonHard}, {Reason: runs.ReasonSpool}, {Reason: runs.ReasonLost},
		{Reason: runs.ReasonSpawn, Spawn: runs.SpawnNotFound}, {Reason: runs.ReasonSpawn, Spawn: runs.SpawnNoDir},
		{Reason: runs.ReasonSpawn, Spawn: runs.SpawnRefused}, {Reason: runs.ReasonSpawn, Spawn: runs.SpawnOther},
		{Reason: runs.ReasonSpawn, Spawn: runs.SpawnRefused, Why: "agent: is not known"},
	} {
		r := runs.NewRecord("T-1", "codex")
		r.Entry(runs.Entry{Kind: runs.Started, Time: 1, Body: runs.Encode(runs.Start{Source: "queue"})})
		r.End(x, 2)
		b := r.Brief()
		if r.State != runs.StateFailed && r.State != runs.StateTimeout || b.Cause == "" || b.Hint == "" {
			t.Errorf("%+v: %s (%s), %+v", x, r.State, r.Reason, b)
		}
	}
}

// A row of a completed run has the first line of its answer as text, its tests and its cost.
func TestCompletedRunHasTheFirstLineOfItsAnswer(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"\n## **Done.**\nMore.": "Done.",
		"I ran `go test` and **all** tests pass: [log](https://x.y/z). Then I stopped.": "I ran go test and all tests pass: log. Then I stopped.",
		"2**3**4 is `not bold, __init__ stays":                                          "2**3**4 is `not bold, __init__ stays",
		"a ** b ** c":                                                                   "a ** b ** c",
		"[half](http://x":                                                               "[half](http://x",
		strings.Repeat("é", 1000):                                                       strings.Repeat("é", 159) + "…",
		"":                                                                              "",
	} {
		r := runs.NewRecord("T-1", "codex")
		r.Entry(runs.Entry{Kind: runs.Started, Time: 1, Body: runs.Encode(runs.Start{Source: "run"})})
		r.Line(runs.Facts{
			Turn: runs.TurnCompleted, Command: &runs.Findings{Tests: &runs.Tests{Passed: 3, Failed: 1}}, SpentCost: new(0.25),
			Spent: &runs.Usage{Input: 1}, SpentAll: &runs.Usage{Input: 1},
		}, 2)
		r.Final(text)
		if b := r.Brief(); b != (runs.Brief{}) {
			t.Errorf("before the end: %+v", b)
		}
		r.End(runs.Exit{Reason: runs.ReasonExited, Code: new(0)}, 3)
		row, err := runs.ParseHeader(r.Header().Text(), nil)
		if err != nil || row.Answer != want || row.Cause != "" || row.Hint != "" {
			t.Errorf("%.60q: %+v, %v; want %q", text, row.Brief, err, want)
		}
		if row.Tested == nil || *row.Tested != (runs.TestCount{Passed: 3, Failed: 1}) || row.Cost == nil ||
			*row.Cost != *r.Spent().Cost {
			t.Errorf("tests %+v, cost %v", row.Tested, row.Cost)
		}
	}
}
