package claude_test

import (
	"slices"
	"testing"

	"github.com/linesman/linesman/agent/claude"
	"github.com/linesman/linesman/runs"
)

// Further directories are the values of one flag, before the session and the prompt. For an external sandbox Claude
// Code gets the variable IS_SANDBOX.
func TestOptionsOfClaude(t *testing.T) {
	task := runs.Task{Attributes: runs.Attributes{Mode: runs.DangerFull, Model: "m",
		Thread: "01a1fe74-f5b4-7e33-89c9-b25c3e636bcc"}, Prompt: "Go.", AddDirs: []string{"/a b", "/c"}}
	l := claude.Agent.Launch
	want := []string{"-p", "--output-format=stream-json", "--verbose", "--dangerously-skip-permissions", "--model=m",
		"--add-dir", "/a b", "/c", "--resume=01a1fe74-f5b4-7e33-89c9-b25c3e636bcc", "--", "Go."}
	if got := l.Argv(task, ""); !slices.Equal(got, want) || l.Set(task) != nil ||
		l.Prompt(append([]string{"claude"}, got...)) != "Go." {
		t.Errorf("got  %q %q\nwant %q", got, l.Set(task), want)
	}
	task.Unboxed = new(true)
	if got := l.Argv(task, ""); !slices.Equal(got, want) || !slices.Equal(l.Set(task), []string{"IS_SANDBOX=1"}) {
		t.Errorf("got  %q %q\nwant %q", got, l.Set(task), want)
	}
	if got := l.FlagsOf(&task); !slices.Equal(got, []string{"--add-dir", "--dangerously-skip-permissions"}) {
		t.Errorf("the flags %q", got)
	}
}
