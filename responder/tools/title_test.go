package tools_test

import (
	"slices"
	"strings"
	"testing"
)

func TestStatusHasTitlesAndIsFilteredByLabels(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	one := submitted(t, ask(t, s.tools, "_codex_local_exec", `{"task":"x","title":"Ticket 42","labels":{"ticket":"42"}}`))
	two := submitted(t, ask(t, s.tools, "_codex_local_exec", `{"task":"Second\nline","labels":{"ticket":"43"}}`))
	a := ask(t, s.tools, "_codex_local_status", `{}`)
	for i, want := range []string{"Ticket 42", "Second"} {
		ext, _ := a.Data["queue"].([]any)[i].(map[string]any)["ext"].(map[string]any)
		if ext["title"] != want {
			t.Errorf("entry %d: %v, want %s", i, ext, want)
		}
	}
	for args, want := range map[string][]string{
		`{"labels":["ticket=42"]}`:                                {one},
		`{"labels":["ticket=42","ticket=43"]}`:                    nil,
		`{"state":"queued","agent":"codex"}`:                      {one, two},
		`{"state":"working"}`:                                     nil,
		`{"agent":"claude"}`:                                      nil,
		`{"unseen":true}`:                                         nil,
		`{"since":"2020-01-01T00:00:00Z"}`:                        {one, two},
		`{"until":"2020-01-01T00:00:00Z","labels":["ticket=42"]}`: nil,
	} {
		if got := ids(ask(t, s.tools, "_codex_local_status", args), "queue"); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", args, got, want)
		}
	}
	for _, wrong := range []string{`{"labels":["x"]}`, `{"since":"now"}`, `{"state":"done"}`, `{"labels":"a=b"}`} {
		if a := ask(t, s.tools, "_codex_local_status", wrong); !strings.Contains(string(a.Envelope), "VALIDATION") {
			t.Errorf("%s: %s", wrong, a.Envelope)
		}
	}
}
