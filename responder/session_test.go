package responder_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

// A run that failed has its output in its result, but a person's session only on request.
func TestOutputOfASessionIsOnRequest(t *testing.T) {
	t.Parallel()
	s := stage(t)
	for line, shown := range map[string]bool{
		`{"type":"turn.failed"}`: true, `{"type":"event_msg","payload":{"type":"turn_aborted"}}`: false,
	} {
		id := fmt.Sprintf("T-%t", shown)
		s.Begin("codex", id, runs.Start{Source: "tail", Worker: "w1"}).Out([]byte(line + "\n")).Exit(1)
		for _, asked := range []bool{false, true} {
			result, err := s.Service.Result(t.Context(), id, api.ResultRequest{Output: asked})
			if err != nil {
				t.Fatal(err)
			}
			if has := strings.Contains(result.Output.Stdout, line); has != (shown || asked) {
				t.Errorf("%s: asked for %t: output %t", line, asked, has)
			}
		}
	}
}
