package responder

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// FuzzEnvironments reads a file that a person wrote: it gives bounded
// environments, or says what is wrong without a word of it.
func FuzzEnvironments(f *testing.F) {
	for _, s := range []string{
		`[]`, `{}`, `[{"id":"e1","name":"Shop","repo_url":"https://x/y","created":"2025-11-18T10:30:00Z"}]`,
		`{"environments":[{"id":"e1"}]}`,
		`{"e1":{"name":"Shop"},"e2":{"stack":"go"}}`, `[{"id":1}]`, `{"":{}}`, `[{"id":"a\u0000"}]`, `{"environments":{}}`,
		"\xff", `nul`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		all, err := parseEnvironments(body)
		if err != nil {
			var broken *brokenFile
			if !errors.As(err, &broken) || len(err.Error()) > 256 || broken.line < 0 {
				t.Errorf("%q", err)
			}
			return
		}
		if len(all) > maxEnvironments {
			t.Errorf("%d environments", len(all))
		}
		for _, e := range all {
			b, err := json.Marshal(e)
			if err != nil || e.ID == "" || len(b) > 8*7*maxEnvironmentText || strings.ContainsAny(e.ID+e.Name, "\n\x00") {
				t.Errorf("%s, %v", b, err)
			}
		}
	})
}
