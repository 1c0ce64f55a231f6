package runs_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/linesman/linesman/runs"
)

// started returns the record of a failed run whose start entry has w, and whose agent said message.
func failedBecause(w *runs.Withheld, message string, used *runs.Usage) *runs.Record {
	r := runs.NewRecord("r", "opencode")
	r.Entry(runs.Entry{Kind: runs.Started, Time: 1, Body: runs.Encode(runs.Start{Source: "queue", Withheld: w})})
	r.Line(runs.Facts{Error: message, ErrorSource: runs.ErrorTurn, Turn: runs.TurnFailed}, 2)
	r.Usage = used
	r.End(runs.Exit{Reason: runs.ReasonExited, Code: new(1)}, 3)
	return r
}

func TestFailureSaysWhichCredentialsAreWithheld(t *testing.T) {
	names := []string{"A_KEY", "B_KEY", "C_TOKEN"}
	const setting = "agents.opencode.env"
	for _, row := range []struct {
		name    string
		w       *runs.Withheld
		message string
		used    *runs.Usage
		want    string
	}{
		{"one", &runs.Withheld{Names: names[:1], Setting: setting}, "no model", nil,
			"no model; A_KEY is set but is not passed to tasks: agents.opencode.env"},
		{"three", &runs.Withheld{Names: names, Setting: setting}, "no model", nil,
			"no model; A_KEY, B_KEY and C_TOKEN are set but are not passed to tasks: agents.opencode.env"},
		{"a model answered", &runs.Withheld{Names: names, Setting: setting}, "it broke", &runs.Usage{}, "it broke"},
		{"a model refused the key", &runs.Withheld{Names: names[:1], Setting: setting}, "401 Unauthorized", &runs.Usage{},
			"401 Unauthorized; A_KEY is set but is not passed to tasks: agents.opencode.env"},
		{"none", nil, "no model", nil, "no model"},
		{"no names", &runs.Withheld{Setting: setting}, "no model", nil, "no model"},
		{"too many", &runs.Withheld{Names: slices.Repeat(names, 2), Setting: setting}, "no model", nil, "no model"},
		{"not a name", &runs.Withheld{Names: []string{"A=secret"}, Setting: setting}, "no model", nil, "no model"},
		{"not a setting", &runs.Withheld{Names: names, Setting: "rm -rf /"}, "no model", nil, "no model"},
		{"a long name", &runs.Withheld{Names: []string{strings.Repeat("A", 41)}, Setting: setting}, "no model", nil,
			"no model"},
	} {
		if got := failedBecause(row.w, row.message, row.used).ErrorContext().Message; got != row.want {
			t.Errorf("%s: got %q, want %q", row.name, got, row.want)
		}
	}
}
