package rest

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

// Clients read streams and bodies by lines, and some take these characters for the end of one.
func TestNothingIsSentThatMayBeALineBreak(t *testing.T) {
	t.Parallel()
	const breaks, body = "\u0085\u2028\u2029", `{"text":"a` + "\u0085\u2028\u2029" + `b"}`
	var change bytes.Buffer
	if err := writeChange(&change,
		api.RunChange{Run: &api.Run{Summary: runs.Summary{Attributes: runs.Attributes{Title: breaks}}}}); err != nil {
		t.Fatal(err)
	}
	sent := map[string][]byte{"an event": frameOf("1", "text_output", []byte(body)), "a change": change.Bytes()}
	for _, answer := range []any{json.RawMessage(body),
		api.Run{Summary: runs.Summary{Attributes: runs.Attributes{Title: breaks}}}} {
		r := reply{}
		r.Body = answer
		b, err := r.encode(jsonType)
		if err != nil {
			t.Fatal(err)
		}
		sent[string(b)] = b
	}
	for what, b := range sent {
		if strings.ContainsAny(string(b), breaks) || !strings.Contains(string(b), `\u0085\u2028\u2029`) {
			t.Errorf("%s: %q", what, b)
		}
	}
}
