package launch_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/worker/launch"
)

func TestARefusalSaysWhy(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	rules := launch.Rules{Dir: root, Roots: []string{root}}
	for dir, want := range map[string]string{
		"/":                         "outside of the directories of the setting work.roots: " + root,
		filepath.Join(root, "none"): "working directory: does not exist",
	} {
		task := runs.Task{Attributes: runs.Attributes{Dir: dir}}
		_, err := rules.Directory(task)
		if got := rules.Why(task, err); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", dir, got, want)
		}
	}
	mode := runs.Task{Attributes: runs.Attributes{Mode: runs.DangerFull}}
	if got := rules.Why(mode, rules.Allow(mode)); got != "mode: danger-full-access is not allowed by this worker" {
		t.Errorf("mode: %q", got)
	}
	if got := rules.Why(mode, nil); got != "" {
		t.Errorf("no refusal: %q", got)
	}
}
