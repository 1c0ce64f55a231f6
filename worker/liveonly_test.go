package worker

import (
	"errors"
	"slices"
	"testing"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/worker/launch"
)

// An agent that only speaks the Agent Client Protocol is started so, whoever queued its task; one that has no
// command for it is refused.
func TestATaskOfAnAgentWithoutACommandLineIsLive(t *testing.T) {
	dir := t.TempDir()
	tasks := Tasks{
		Rules: launch.Rules{Dir: dir, Roots: []string{dir}},
		Agents: map[string]agent.Launch{
			"crow":  {Command: []string{"crow"}, ACP: []string{"crow", "--talk"}},
			"codex": {Command: []string{"codex"}, Args: func(runs.Task, string) []string { return []string{"exec"} }},
		},
	}
	task := runs.QueuedTask{Run: "r", Task: runs.Task{Prompt: "x",
		Attributes: runs.Attributes{Agent: "crow", Mode: runs.ReadOnly, Dir: dir}}}
	spec, err := tasks.spec(dir, task)
	if err != nil || !spec.Live || !slices.Equal(spec.Argv, []string{"crow", "--talk"}) || spec.PromptBytes != 1 {
		t.Errorf("it is started by %q, live %t: %v", spec.Argv, spec.Live, err)
	}
	task.Live, task.Policy = true, []string{"ask edit"}
	if spec, err = tasks.spec(dir, task); err != nil || !slices.Equal(spec.Narrows, task.Policy) {
		t.Errorf("its rules are %q: %v", spec.Narrows, err)
	}
	task.Policy = []string{"allow *"} // by another program, which had the right to queue tasks
	_, err = tasks.spec(dir, task)
	if field, ok := errors.AsType[*runs.FieldError](err); !ok || field.Field != "policy" {
		t.Errorf("a task that makes the policy of its worker wider: %v", err)
	}
	task.Agent, task.Policy = "codex", nil
	_, err = tasks.spec(dir, task)
	if field, ok := errors.AsType[*runs.FieldError](err); !ok || field.Field != "live" {
		t.Errorf("a live task of an agent without the protocol: %v", err)
	}
}
