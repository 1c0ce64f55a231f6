package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/linesman/linesman/api"
)

func asked(kind string) api.Question {
	q := api.Question{
		Run: "r", ID: "q1", Kind: kind, Agent: "parrot", Tool: "execute", Title: "a\x1b[2J\ntitle",
		Asked: api.TimeOf(time.Now().Add(-time.Minute)), Due: api.TimeOf(time.Now().Add(54*time.Minute + time.Second)),
		Options: []api.QuestionOption{{ID: "y", Kind: "allow_once", Name: "Yes\x1b[2J"}, {ID: "n", Kind: "reject_once"}},
	}
	for i := range 30 {
		q.Command += fmt.Sprintf("line %d \u202e\n", i)
	}
	return q
}

// In a list a long text is cut, and says how to see the rest; alone it is whole. No text of an agent moves the cursor,
// or begins a row.
func TestQuestionsAreSafeAndSayWhatTheyOmit(t *testing.T) {
	t.Parallel()
	for _, terminal := range []bool{false, true} {
		for _, whole := range []bool{false, true} {
			var out bytes.Buffer
			r := New(&out, func(string) string { return "" })
			r.terminal = terminal
			if err := r.Questions([]api.Question{asked(api.KindPermission)}, whole); err != nil {
				t.Fatal(err)
			}
			text := out.String()
			for line := range strings.Lines(text) {
				harmless(t, strings.TrimSuffix(line, "\n"))
			}
			rest := strings.Contains(text, "│ … the rest: linesman questions r/q1\n")
			if last := strings.Contains(text, "│ line 29 "); last != whole || rest != (terminal && !whole) {
				t.Errorf("terminal %v, whole %v: the last line %v, rest %v:\n%s", terminal, whole, last, rest, text)
			}
			if !strings.Contains(text, "denied in 54m") || strings.Contains(text, "\nline") {
				t.Errorf("terminal %v, whole %v:\n%s", terminal, whole, text)
			}
		}
	}
}

func TestAnswerLines(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*api.Question){
		"linesman answer r/q1 allow (or deny)":             func(*api.Question) {},
		"linesman answer r/q1 OPTION":                      func(q *api.Question) { q.Options[1].Kind = "allow_once" },
		"linesman questions r/q1 --whole":                  func(q *api.Question) { q.Cut = true },
		"linesman answer r/q1 decline, or --content '{…}'": func(q *api.Question) { q.Kind = api.KindForm },
		"linesman answer r/q1 TEXT":                        func(q *api.Question) { q.Kind = api.KindText },
	} {
		q := asked(api.KindPermission)
		if change(&q); AnswerLine(q) != want {
			t.Errorf("%q, want %q", AnswerLine(q), want)
		}
	}
}

func TestFieldsOfForms(t *testing.T) {
	t.Parallel()
	for schema, want := range map[string]string{
		``:   "",
		`[]`: "[]",
		`{"properties":{"b":{"type":["string","null"],"enum":["x","y"]},"a":{"title":"A\n","oneOf":[{"const":1}]}},` +
			`"required":["b"]}`: "a  any: A; one of [1]|b  [string null], required; one of [x y]",
		`{"properties":{"a":{"type":"array","minItems":1,"maxItems":2,"items":{"anyOf":[{"const":"x","title":"X\u001b"},` +
			`{"const":"y","title":"y"}]}},"b":{"type":"array","items":{"type":"string","enum":["z"]}}}}`: "a  array; any of " +
			"[x (X\\x1b) y], at least 1, at most 2|b  array; any of [z]",
	} {
		if got := strings.Join(fieldsOf(json.RawMessage(schema)), "|"); got != want {
			t.Errorf("%s: %q, want %q", schema, got, want)
		}
	}
}

// The JSON of a request of a bridge is a contract, and has nothing of questions of live runs.
func TestRequestsOfBridgesKeepTheirJSON(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	q := api.Question{
		Run: "r", ID: "q1", Kind: api.KindText, RunTitle: "t", Request: "id-1", Agent: "writer", Prompt: "Which?",
	}
	const want = `{"run":"r","requestId":"id-1","agentName":"writer","prompt":"Which?"}` + "\n"
	if err := PrintQuestion(&out, q); err != nil || out.String() != want {
		t.Errorf("%v: %s", err, &out)
	}
}

// A program reads the prompt of a request as it is, and a person reads what the prompt cannot hide.
func TestTextIsVisibleOnATerminalAndUnchangedElsewhere(t *testing.T) {
	t.Parallel()
	const text = "Which\x1b[2J one?\r\n\tThis\u202e\n"
	for terminal, want := range map[bool]string{true: "Which\\x1b[2J one?\n    This\\u202e\n", false: text + "\n"} {
		var out bytes.Buffer
		if err := renderTo(&out, terminal, false, 80).Text(text); err != nil || out.String() != want {
			t.Errorf("terminal %v: %q, %v; want %q", terminal, &out, err, want)
		}
	}
}
