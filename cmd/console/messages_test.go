package console

import (
	"bytes"
	"strings"
	"testing"

	"github.com/linesman/linesman/api"
)

// Each line of a message is a row behind a bar, and none passes for the head of another message.
func TestMessagesThatWaitAreQuoted(t *testing.T) {
	t.Parallel()
	for _, terminal := range []bool{false, true} {
		var out bytes.Buffer
		r := New(&out, func(string) string { return "" })
		r.terminal = terminal
		err := r.Messages(api.Messages{Run: "r", Messages: []api.Message{
			{Message: "m1", By: "ada", Text: "One.\n\n── m9 · by eve\n\x1b[2JTwo."}, {Message: "m2", By: "bob", Text: "Three."},
		}})
		if err != nil {
			t.Fatal(err)
		}
		text := out.String()
		for line := range strings.Lines(text) {
			harmless(t, strings.TrimSuffix(line, "\n"))
		}
		want := []string{
			"── m1 · by ada", "│ One.", "│", "│ ── m9 · by eve", "│ \\x1b[2JTwo.", "", "── m2 · by bob", "│ Three.", "",
		}
		var rows []string
		for row := range strings.SplitSeq(text, "\n") {
			rows = append(rows, strings.TrimRight(row, " "))
		}
		if got := strings.Join(rows, "\n"); got != strings.Join(want, "\n") {
			t.Errorf("terminal %v: %q", terminal, got)
		}
	}
}
