package responder_test

import (
	"strings"
	"testing"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

// A run that failed has its output in its result, but a person's session only on request.
func TestOutputOfASessionIsOnRequest(t *testing.T) {
	t.Parallel()
	s := stage(t)
	for source, shown := range map[string]bool{"run": true, runs.SourceSession: false} {
		id := "T-" + source
		s.Begin("codex", id, runs.Start{Source: source, Worker: "w1"}).Out([]byte("{\"type\":\"turn.failed\"}\n")).Exit(1)
		for _, asked := range []bool{false, true} {
			result, err := s.Service.Result(t.Context(), id, api.ResultRequest{Output: asked})
			if err != nil {
				t.Fatal(err)
			}
			if has := strings.Contains(result.Output.Stdout, "turn.failed"); has != (shown || asked) {
				t.Errorf("%s, asked for %t: output %t", source, asked, has)
			}
		}
	}
}
