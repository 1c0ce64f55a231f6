package daemon_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/linesman/linesman/agents"
	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/config"
	"github.com/linesman/linesman/daemon"
	"github.com/linesman/linesman/runs"
	lab "github.com/linesman/linesman/test/lab/agents"
)

// realAgents are the agents of the table, and a scenario in which each tries to run a
// command and to write the file new.txt.
var realAgents = map[string]string{"claude": "claude-tools", "gemini": "gemini-tools", "opencode": "opencode-tools"}

// realDaemon runs all roles for the real program of an agent, whose model plays a
// scenario. It returns a client and the project's directory.
func realDaemon(t *testing.T, short, scenario string) (*client.Client, string) {
	t.Helper()
	dir := t.TempDir()
	env, argv, project := lab.Setup(t, scenario, dir)
	settings := config.Default()
	settings.DataDir, settings.NATSListen, settings.HTTP = filepath.Join(dir, "data"), "127.0.0.1:0", ""
	settings.Work.Roots, settings.Work.Danger = config.List{project}, true
	var names config.List
	for _, v := range env {
		name, _, _ := strings.Cut(v, "=")
		names = append(names, name)
	}
	settings.Agents[short] = &config.Agent{Command: config.List{argv[0][0]}, Env: names}
	ctx, cancel := context.WithCancel(t.Context())
	d, err := daemon.New(ctx, daemon.Config{Settings: settings, Environ: env})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	if err := d.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	b, err := d.Server.Connect(ctx, embedded.OperatorUser)
	if err != nil {
		t.Fatal(err)
	}
	return client.New(b), project
}

// do has an agent do a task, and returns what became of it.
func do(t *testing.T, c *client.Client, q api.Submission) (*api.Run, *api.Result) {
	t.Helper()
	q.Confirm, q.SkipGit = true, true
	task, err := c.Submit(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	run, err := c.Wait(t.Context(), task.Run, nil)
	if err != nil {
		t.Fatal(err)
	}
	result, err := c.Results(t.Context(), api.ResultsRequest{Run: task.Run, ResultRequest: api.ResultRequest{
		Output: true}})
	if err != nil {
		t.Fatal(err)
	}
	return run, result
}

// A mode of a task is what the real agent may do.
func TestRealAgentsObeyTheModeOfATask(t *testing.T) {
	for short, scenario := range realAgents {
		a, _ := agents.Known.Find(short)
		for _, mode := range []runs.Mode{runs.ReadOnly, runs.WorkspaceWrite, runs.DangerFull} {
			t.Run(short+"/"+string(mode), func(t *testing.T) {
				c, project := realDaemon(t, short, scenario)
				run, result := do(t, c, api.Submission{Agent: short, Prompt: "Go.", Mode: mode, Dir: project})
				if run.State != runs.StateCompleted || run.Agent != a.Kind() || run.ThreadID == "" {
					t.Errorf("a run of %s in state %s, thread %q: %s", run.Agent, run.State, run.ThreadID, result.Output.Stderr)
				}
				_, err := os.Stat(filepath.Join(project, "new.txt"))
				if written := err == nil; written != mode.Writes() {
					t.Errorf("new.txt: %v, in mode %s", err, mode)
				}
			})
		}
	}
}

// A task resumes the session of an earlier one, and its result has what the agent told.
func TestRealAgentsResumeASession(t *testing.T) {
	for short, scenario := range map[string]string{
		"claude": "claude-resume-id", "gemini": "gemini-resume", "opencode": "opencode-resume",
	} {
		t.Run(short, func(t *testing.T) {
			c, project := realDaemon(t, short, scenario)
			first, _ := do(t, c, api.Submission{Agent: short, Prompt: "Remember 42.", Mode: runs.DangerFull, Dir: project})
			if first.State != runs.StateCompleted || first.ThreadID == "" {
				t.Fatalf("state %s, thread %q", first.State, first.ThreadID)
			}
			second, result := do(t, c, api.Submission{
				Agent: short, Prompt: "Which number?", Mode: runs.DangerFull, Dir: project, Thread: first.ThreadID,
			})
			if second.ThreadID != first.ThreadID || second.State != runs.StateCompleted {
				t.Errorf("state %s, thread %q, want %q: %s", second.State, second.ThreadID, first.ThreadID,
					result.Output.Stderr)
			}
			if text := result.Run.FinalText; text == nil || *text != "42." {
				t.Errorf("final text %v, want 42.", text)
			}
			if u := result.Run.Usage; u == nil || u.Output == 0 {
				t.Errorf("usage %+v, want the tokens of the second run", u)
			}
		})
	}
}

// A cancelled task ends its agent with all that the agent started.
func TestRealAgentsAreCancelled(t *testing.T) {
	for short, scenario := range map[string]string{
		"claude": "claude-sigint", "gemini": "gemini-sigterm", "opencode": "opencode-sigterm",
	} {
		t.Run(short, func(t *testing.T) {
			c, project := realDaemon(t, short, scenario)
			task, err := c.Submit(t.Context(), api.Submission{
				Agent: short, Prompt: "Go.", Mode: runs.DangerFull, Confirm: true, SkipGit: true, Dir: project,
			})
			if err != nil {
				t.Fatal(err)
			}
			for e, err := range c.Follow(t.Context(), client.Filter{Run: task.Run, Follow: true}) {
				if err != nil {
					t.Fatal(err)
				}
				if e.Kind != "status" { // the agent works
					break
				}
				if short == "opencode" { // it prints no call before the call has ended
					break
				}
			}
			if _, err := c.Cancel(t.Context(), api.Cancel{Run: task.Run}); err != nil {
				t.Fatal(err)
			}
			run, err := c.Wait(t.Context(), task.Run, nil)
			if err != nil || run.State != runs.StateCancelled {
				t.Errorf("got %+v, %v; want it cancelled", run, err)
			}
		})
	}
}
