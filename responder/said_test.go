package responder_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder"
)

func TestWordsDecideByTheKindOfAnOption(t *testing.T) {
	t.Parallel()
	usual := []api.QuestionOption{{ID: "a", Kind: "allow_once", Name: "Run it"},
		{ID: "s", Kind: "allow_always", Name: "Always"}, {ID: "r", Kind: "reject_once", Name: "No, stop"}}
	// Names and ids are the agent's, who may want to be misunderstood.
	hostile := []api.QuestionOption{{ID: "no", Kind: "allow_once", Name: "Deny"},
		{ID: "yes", Kind: "reject_once", Name: "2"}}
	misnamed := []api.QuestionOption{{ID: "deny", Kind: "allow_once"}, {ID: "allow", Kind: "reject_once"}}
	twice := []api.QuestionOption{{ID: "x", Kind: "allow_once", Name: "One"}, {ID: "y", Kind: "allow_once", Name: "one"}}
	numbers := []api.QuestionOption{{ID: "2", Kind: "allow_once", Name: "A"}, {ID: "1", Kind: "reject_once", Name: "B"}}
	for _, c := range []struct {
		options []api.QuestionOption
		cut     bool
		text    string
		want    string // "": nothing fits
	}{
		{usual, false, "a", "a"}, {usual, false, " YES ", "a"}, {usual, false, "allow", "a"}, {usual, false, "always", "s"},
		{usual, false, "no", "r"}, {usual, false, "no, STOP", "r"}, {usual, false, "2", "s"}, {usual, false, "4", ""},
		{usual, false, "0", ""}, {usual, false, "-1", ""}, {usual, false, "", ""}, {usual, false, "maybe", ""},
		{usual, true, "yes", ""}, {usual, true, "a", ""}, {usual, true, "2", ""}, {usual, true, "no", "r"}, {usual, true, "3", "r"},
		{hostile, false, "no", ""}, {hostile, false, "deny", ""}, {hostile, false, "yes", ""}, {hostile, false, "reject", "yes"},
		{misnamed, false, "deny", ""}, {misnamed, false, "1", ""}, {misnamed, true, "1", ""}, {misnamed, false, "2", ""},
		{misnamed, true, "allow", ""}, {misnamed, false, "yes", ""},
		{twice, false, "yes", ""}, {twice, false, "One", ""}, {twice, false, "x", "x"}, {twice, false, "no", "deny"},
		{numbers, false, "1", "1"}, {numbers, false, "2", "2"}, {numbers, false, "b", "1"},
		{nil, false, "no", "deny"}, {nil, false, "yes", ""}, {nil, false, "1", ""},
	} {
		q := api.Question{Run: "T-1", ID: "q1", Kind: api.KindPermission, Digest: "d", Cut: c.cut, Options: c.options}
		a, fits := responder.AnswerOf(&q, c.text)
		if fits != (c.want != "") || fits && (a.Option != c.want || a.Digest != "d" || a.Question != "q1") {
			t.Errorf("%q of %v: %+v, %v; want %q", c.text, c.options, a, fits, c.want)
		}
	}
}

func TestTextsFillInForms(t *testing.T) {
	t.Parallel()
	one := `{"q":{"type":"string","oneOf":[{"const":"red","title":"Red - warm"},{"const":"blue","title":"Blue"}]},"other":{"type":"string"}}`
	for _, c := range []struct{ fields, text, want string }{
		{one, "2", `{"q":"blue"}`}, {one, "RED", `{"q":"red"}`}, {one, "Red - warm", `{"q":"red"}`},
		{one, "green", `{"other":"green"}`}, {one, `{"q":"red","other":""}`, `{"q":"red","other":""}`}, {one, `{`, ""},
		{`{"q":{"type":"array","items":{"enum":["a","b","c"]}}}`, "1, C", `{"q":["a","c"]}`},
		{`{"q":{"type":"array","items":{"enum":["a","b","c"]}}}`, "a, d", ""},
		{`{"n":{"type":"integer"}}`, "12", `{"n":12}`}, {`{"n":{"type":"integer"}}`, "x", ""},
		{`{"n":{"type":"number"}}`, "[1]", ""}, {`{"b":{"type":"boolean"}}`, "no", `{"b":false}`},
		{`{"b":{"type":"boolean"}}`, "7", ""}, {`{"a":{"type":"string"},"b":{"type":"string"}}`, "x", ""}, {`{`, "x", ""},
	} {
		q := api.Question{Run: "T-1", ID: "q1", Kind: api.KindForm, Digest: "d",
			Fields: json.RawMessage(`{"type":"object","properties":` + c.fields + `}`)}
		if a, fits := responder.AnswerOf(&q, c.text); fits != (c.want != "") || string(a.Content) != c.want {
			t.Errorf("%q of %s: %s, %v; want %s", c.text, c.fields, a.Content, fits, c.want)
		}
		if a, fits := responder.AnswerOf(&q, "DECLINE"); !fits || a.Option != "decline" {
			t.Errorf("decline: %+v, %v", a, fits)
		}
	}
}

// A question that is too long as text can only be denied.
func TestLongQuestionsAreCut(t *testing.T) {
	t.Parallel()
	q := api.Question{Kind: api.KindPermission, Digest: "d", Command: strings.Repeat("ä", 600),
		Options: []api.QuestionOption{{ID: "a", Kind: "allow_once", Name: strings.Repeat("n", 100)}}}
	if text := responder.QueryText(&q, 2000); q.Cut || !strings.HasSuffix(text, "n (allow_once), id a") {
		t.Errorf("%v: %s", q.Cut, text)
	}
	text := responder.QueryText(&q, 1000)
	if !q.Cut || len(text) > 1001 || !strings.HasSuffix(text, "Answer no to deny it.") {
		t.Errorf("%v, %d bytes: %s", q.Cut, len(text), text)
	}
	if _, fits := responder.AnswerOf(&q, "a"); fits {
		t.Error("it is allowed")
	}
}

// What an agent calls its options, and the choices of its forms, are no lines of their own.
func TestOptionsAndChoicesStayOnTheirLines(t *testing.T) {
	t.Parallel()
	forged := "r\n    2. Go on\u2028\x1b[2K"
	q := api.Question{Kind: api.KindPermission, Digest: "d", Options: []api.QuestionOption{
		{ID: "a", Kind: "allow_once", Name: "Stop (reject_once), id r\n    2. Go on\t" + strings.Repeat(" x", 600)},
		{ID: forged, Kind: "reject_once\n"}}}
	form := api.Question{Kind: api.KindForm, Digest: "d", Fields: json.RawMessage(`{"properties":{"q":{"oneOf":[` +
		`{"const":"a","title":"Stop\n    2. Go on"},{"const":"r\n    3. x","title":"` + strings.Repeat("y", 600) + `"},` +
		`{"const":"\n    4. y"}]}}}`)}
	field := api.Question{Kind: api.KindForm, Digest: "d", Fields: json.RawMessage(
		`{"properties":{"n\n    1. Go on":{"type":"string\n"}}}`)}
	for text, lines := range map[string]int{
		responder.QueryText(&q, 1<<16): 4, responder.QueryText(&form, 1<<16): 5, responder.QueryText(&field, 1<<16): 2,
	} {
		got := strings.Count(text, "\n") + 1
		if got != lines || strings.ContainsAny(text, "\x1b\u2028\t") || len(text) > 1500 {
			t.Errorf("%d lines, want %d: %q", got, lines, text)
		}
	}
	if text := responder.QueryText(&q, 1<<16); !strings.Contains(text, "… (allow_once), id a\n") {
		t.Errorf("the kind of a long option is not shown: %s", text)
	}
}
