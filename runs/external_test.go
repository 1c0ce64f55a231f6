package runs_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/linesman/linesman/runs"
)

// A reply is found after any earlier output.
func TestReplyRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := runs.Reply{Status: rapid.SampledFrom([]string{runs.ReplySuccess, runs.ReplyError,
			runs.ReplyTimeout}).Draw(t, "status")}
		text := rapid.String().Draw(t, "text")
		if want.Status == runs.ReplySuccess {
			want.Text = text
		} else {
			want.Error = "x" + text
		}
		if !utf8.ValidString(text) {
			t.Skip("not UTF-8")
		}
		line, err := want.Line()
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Count(line, []byte{'\n'}) != 1 || line[len(line)-1] != '\n' {
			t.Fatalf("not a line: %q", line)
		}
		question, err := runs.Question{Prompt: "what?", Model: "m"}.Line()
		if err != nil {
			t.Fatal(err)
		}
		for _, before := range [][]byte{nil, question, []byte("incomplete line\n")} {
			if got, err := runs.FindReply(append(bytes.Clone(before), line...)); err != nil || got != want {
				t.Fatalf("got %+v, %v; want %+v", got, err, want)
			}
		}
		if q, ok := runs.FindQuestion(append(question, line...)); !ok || q.Prompt != "what?" || q.Model != "m" {
			t.Fatalf("question %+v, %v", q, ok)
		}
	})
}

func TestOutputWithoutReply(t *testing.T) {
	for _, out := range []string{"", "\n", "{}", `{"type":"external.question","prompt":"x"}` + "\n",
		`{"type":"external.reply","status":"success","te`} {
		if r, err := runs.FindReply([]byte(out)); !errors.Is(err, runs.ErrNoReply) {
			t.Errorf("%q: %+v, %v", out, r, err)
		}
	}
	if _, ok := runs.FindQuestion([]byte(`{"type":"external.question","prompt":"x"}`)); ok {
		t.Error("an incomplete question was accepted")
	}
}

func TestInvalidQuestionsAndRepliesAreRejected(t *testing.T) {
	for name, c := range map[string]struct {
		line  func() ([]byte, error)
		field string
	}{
		"blank":       {runs.Question{Prompt: " \n"}.Line, "prompt"},
		"long":        {runs.Question{Prompt: strings.Repeat("x", runs.MaxShortPrompt+1)}.Line, "prompt"},
		"model":       {runs.Question{Prompt: "x", Model: " x"}.Line, "model"},
		"no status":   {runs.Reply{Text: "x"}.Line, "status"},
		"no error":    {runs.Reply{Status: runs.ReplyError, Text: "x"}.Line, "error"},
		"blank error": {runs.Reply{Status: runs.ReplyTimeout, Error: " "}.Line, "error"},
		"not UTF-8":   {runs.Reply{Status: runs.ReplySuccess, Text: "\xff"}.Line, "text"},
		"large":       {runs.Reply{Status: runs.ReplySuccess, Text: strings.Repeat("x", runs.MaxReply)}.Line, "text"},
		"with escapes": {runs.Reply{Status: runs.ReplySuccess,
			Text: strings.Repeat("\x01", runs.MaxReply/6)}.Line, "text"},
	} {
		_, err := c.line()
		var field *runs.FieldError
		if !errors.As(err, &field) || field.Field != c.field {
			t.Errorf("%s: %v, want an error of %s", name, err, c.field)
		}
	}
	if line, err := (runs.Reply{Status: runs.ReplySuccess,
		Text: strings.Repeat("x", runs.MaxReply-100)}).Line(); err != nil || len(line) > runs.MaxReply {
		t.Errorf("%d bytes, %v", len(line), err)
	}
}
