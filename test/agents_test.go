package test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/test/fixture"
)

// mayNameAnAgent are the files outside of agent/ that do: the default agent of a task and of input, the
// recording of `up --demo`, an example in a comment.
var mayNameAnAgent = []string{
	"api/request.go", "cmd/linesman/sources.go", "daemon/demo.go", "web/src/lib/agents.ts",
}

// Nothing but its package and the table names an agent, so that one more changes nothing else.
func TestNoCodeNamesAnAgent(t *testing.T) {
	root := fixture.Path(t)
	names := regexp.MustCompile(`["'](` + strings.Join(append(known.All().Kinds(), known.All().Names()...), "|") + `)["']`)
	var found []string
	for _, room := range []string{
		"api", "bus", "client", "cmd", "config", "daemon", "normalizer", "responder", "runs", "telemetry",
		"web/src", "worker",
	} {
		err := filepath.WalkDir(filepath.Join(root, room), func(path string, d fs.DirEntry, err error) error {
			name := strings.TrimPrefix(filepath.ToSlash(path), filepath.ToSlash(root)+"/")
			if err != nil || d.IsDir() || !slices.Contains([]string{".go", ".ts", ".tsx"}, filepath.Ext(name)) ||
				strings.Contains(name, "_test.") || strings.Contains(name, ".test.") || strings.Contains(name, "bustest/") ||
				strings.HasSuffix(name, "/recording.ts") { // of tests
				return err
			}
			text, err := os.ReadFile(path)
			if names.Match(text) {
				found = append(found, name)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if slices.Sort(found); !slices.Equal(found, mayNameAnAgent) {
		t.Errorf("these name an agent: %q; want %q", found, mayNameAnAgent)
	}
}
