package known_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/linesman/linesman/runs"
)

// Each phase is in a recording of a real agent, or of an external run.
func TestEveryPhaseIsRecorded(t *testing.T) {
	var all strings.Builder
	for _, pattern := range []string{"../*/testdata/doing.golden", "../../normalizer/external/testdata/doing.golden"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("no file %s, %v", pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(text)
		}
	}
	for _, phase := range []runs.Phase{"starting", runs.Thinking, runs.RunningTool, runs.Writing, runs.Retrying,
		runs.RateLimited, runs.Compacting, runs.AwaitingAgent, runs.AwaitingInput} {
		if !strings.Contains(all.String(), ", "+string(phase)) && !strings.Contains(all.String(), "    "+string(phase)) {
			t.Errorf("no recording has the phase %s", phase)
		}
	}
}
