package worker

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/worker/launch"
)

// The worker checks the options of a task again before it starts anything, and what it made of them is in run.json.
func TestOptionsOfATaskAreCheckedByTheWorker(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	able := agent.Launch{
		Command: []string{"crow"}, Able: []string{runs.CanAddDirs}, AbleIf: []string{runs.CanUnboxed},
		Flags: map[string]string{runs.CanAddDirs: "--add", runs.CanUnboxed: "--open"},
		Args:  func(t runs.Task, _ string) []string { return t.AddDirs },
	}
	unable := able
	unable.Able, unable.AbleIf = []string{runs.CanModel}, nil
	tasks := Tasks{
		Rules:  launch.Rules{Dir: dir, Roots: []string{dir}, Danger: true},
		Agents: map[string]agent.Launch{"crow": able, "raven": unable},
	}
	task := func(kind string) runs.QueuedTask {
		return runs.QueuedTask{Run: "r", Task: runs.Task{Prompt: "x", AddDirs: []string{"sub", "./sub"},
			Attributes: runs.Attributes{Agent: kind, Mode: runs.DangerFull, Dir: dir}}}
	}
	refused := func(q runs.QueuedTask, want string) {
		t.Helper()
		_, err := tasks.spec(dir, q)
		if field, ok := errors.AsType[*runs.FieldError](err); !ok || field.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	refused(task("raven"), "agent: does not have the capability "+runs.CanAddDirs+" here")
	q := task("crow")
	q.Unboxed = new(true)
	refused(q, "externalSandbox: is not allowed by this worker: see its setting work.external_sandbox")
	q = task("crow")
	q.Live = true
	able.ACP, able.AbleLive = []string{"crow", "acp"}, []string{runs.CanAddDirs}
	tasks.Agents["rook"] = able
	refused(q, "live: is not for this agent: it has no command for the protocol")
	q.Agent = "rook"
	if spec, err := tasks.spec(dir, q); err != nil || !slices.Equal(spec.AddDirs, []string{filepath.Join(dir, "sub")}) {
		t.Errorf("%+v, %v", spec, err)
	}
	able.AbleLive = nil
	tasks.Agents["rook"] = able
	refused(q, "live: does not have the capability "+runs.CanAddDirs)
	q = task("crow")
	q.Unboxed, q.AddDirs = new(true), []string{"/"}
	tasks.Rules.Boxed = true
	refused(q, "addDirs.0: is not in a directory that this worker allows")
	q.Unboxed, q.Agent, q.AddDirs = new(true), "raven", nil
	refused(q, "agent: does not have the capability "+runs.CanUnboxed+" here")

	q = task("crow")
	q.Unboxed = new(true)
	var again runs.QueuedTask // as the queue keeps it
	if err := json.Unmarshal(runs.Encode(q), &again); err != nil {
		t.Fatal(err)
	}
	spec, err := tasks.spec(dir, again)
	if err != nil || !slices.Equal(spec.Argv, []string{"crow", filepath.Join(dir, "sub")}) || !spec.Unboxed ||
		!slices.Equal(spec.Flags, []string{"--add", "--open"}) {
		t.Errorf("%+v: %v", spec, err)
	}
	var kept Spec
	if err := json.Unmarshal(runs.Encode(spec), &kept); err != nil || !kept.Unboxed || len(kept.Flags) != 2 {
		t.Errorf("run.json keeps %+v: %v", kept, err)
	}
}
