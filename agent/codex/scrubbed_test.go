package codex

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
)

// An error message is only decoded as far as it is published, but a secret that ends behind that is
// replaced as a whole, and what follows it is published.
func TestLongErrorMessages(t *testing.T) {
	key := "-----BEGIN PRIVATE KEY-----" + strings.Repeat("k\n", 4000) + "-----END PRIVATE KEY-----"
	for _, message := range []string{
		"short é", strings.Repeat("é", 2048), strings.Repeat("é", 2049), strings.Repeat("\n🚀", 100_000),
		"before " + key + " after", strings.Repeat("x", 4090) + key,
	} {
		line, err := json.Marshal(map[string]string{"type": "error", "message": message})
		if err != nil {
			t.Fatal(err)
		}
		for _, scrub := range []func(string) string{func(s string) string { return s }, runs.Scrub} {
			var got []string
			f := normalizer.NewFold(normalizer.Scrubbed(Backend{}, scrub), "T-local-x", 0)
			f.Apply(1, runs.Entry{Kind: runs.Out, Body: append(line, '\n')}, func(m normalizer.Message) {
				var event struct{ Message string }
				if err := json.Unmarshal(m.Body, &event); err != nil {
					t.Fatal(err)
				}
				got = append(got, event.Message)
			})
			if want := bounds.Truncate(scrub(message), bounds.MaxMessage); len(got) != 1 || got[0] != want {
				t.Errorf("%.20q... of %d bytes: %.60q, want %.60q", message, len(message), got, want)
			}
		}
	}
}
