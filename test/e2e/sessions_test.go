package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	lab "github.com/linesman/linesman/test/lab/agents"
)

// The logs that real agents write become the same events, each once, also if the command
// that follows them is killed meanwhile.
func TestSessionsOfRealAgentsAreFollowed(t *testing.T) {
	for short, c := range map[string]struct{ scenario, files string }{
		"codex":  {"codex-shell-slow", ".codex/sessions/*/*/*/*.jsonl"},
		"claude": {"claude-tools", ".claude/projects/*/*.jsonl"},
	} {
		t.Run(short, func(t *testing.T) {
			t.Parallel()
			data, dir := t.TempDir(), t.TempDir()
			env, argv, cwd := lab.Setup(t, c.scenario, dir)
			up(t, data)
			follow := begin(t, nil, "events", "--data-dir", data, "--follow", "--json")
			watch := func() interface{ Kill() } {
				return beginIn(t, env, nil, "watch-sessions", "--data-dir", data, "--agent", short)
			}
			first := watch()
			agent := exec.CommandContext(t.Context(), argv[0][0], argv[0][1:]...)
			agent.Env, agent.Dir = env, cwd
			if err := agent.Start(); err != nil {
				t.Fatal(err)
			}
			follow.Await(follow.Stdout, `"kind":"ToolCall"`)
			first.Kill()
			watch()
			if err := agent.Wait(); err != nil {
				t.Fatal(err)
			}
			files, err := filepath.Glob(filepath.Join(dir, "home", c.files))
			if err != nil || len(files) != 1 {
				t.Fatalf("logs %q, %v; want one", files, err)
			}
			log, err := os.ReadFile(files[0])
			if err != nil {
				t.Fatal(err)
			}
			a, _ := known.Agents.Find(short)
			var want []string
			fold := normalizer.NewFold(a.Backend, "x", 0)
			fold.Apply(1, runs.Entry{Kind: runs.Out, Body: log}, func(m normalizer.Message) {
				want = append(want, mask(fmt.Sprintf("%d.%d %s", m.Line, m.Part, m.Body)))
			})
			if fold.Record.Unknown+fold.Record.Malformed > 0 || fold.Record.TurnsDone != 1 {
				t.Errorf("the log is not understood: %s", fold.Record.JSON())
			}
			follow.Await(follow.Stdout, fmt.Sprintf(`"line":%s,`, strings.Split(want[len(want)-1], ".")[0]))
			got := parse(t, follow.Stdout.String())
			for _, r := range got {
				if r.Run != got[0].Run || r.Agent != a.Kind() {
					t.Errorf("an event of %s in run %s, want all in %s of %s", r.Agent, r.Run, got[0].Run, a.Kind())
				}
			}
			same(t, "events", printed(got), want)
		})
	}
}

// The log of an agent that linesman runs is no second run of it.
func TestSessionsOfRunsAreNotFollowed(t *testing.T) {
	t.Parallel()
	data, dir := t.TempDir(), t.TempDir()
	env, argv, cwd := lab.Setup(t, "codex-hello", dir)
	logs := filepath.Join(dir, "home", ".codex", "sessions")
	up(t, data)
	beginIn(t, env, nil, "watch-sessions", "--data-dir", data)
	run := append([]string{"run", "--data-dir", data, "--run", "T-own", "--"}, argv[0]...)
	if p := beginAt(t, cwd, env, nil, run...); p.Code() != 0 {
		t.Fatalf("linesman run: %s", p.Stderr)
	}
	if own, err := filepath.Glob(filepath.Join(logs, "*/*/*/rollout-*.jsonl")); len(own) != 1 || err != nil {
		t.Fatalf("the agent has the logs %q, %v; want one", own, err)
	}
	// The same log of another session is found later, and followed later.
	const recorded, session = "../corpus/codex-sessions/shell-ok", "01a1fd7c-3234-7431-a730-2b1ea25bc865"
	if err := os.CopyFS(filepath.Join(logs, "2026/01/01"), os.DirFS(recorded)); err != nil {
		t.Fatal(err)
	}
	onlyOwnAndRecorded(t, data, session)
}

// The log of an agent that linesman runs is no second run of it either if the server is killed
// before it knows the session of the run.
func TestSessionsOfRunsAreNotFollowedWhenTheServerIsKilled(t *testing.T) {
	for _, short := range []string{"codex", "claude"} {
		t.Run(short, func(t *testing.T) {
			t.Parallel()
			data, dir := t.TempDir(), t.TempDir()
			scenario, logs := "codex-shell-slow", ".codex/sessions/*/*/*/*.jsonl"
			if short == "claude" {
				scenario, logs = "claude-tools", ".claude/projects/*/*.jsonl"
			}
			env, argv, cwd := lab.Setup(t, scenario, dir)
			server := func() *fixture.Process {
				s := begin(t, nil, "up", "--data-dir", data, "--nats-listen", "127.0.0.1:0",
					"--http", "127.0.0.1:0")
				s.Await(s.Stdout, "ready")
				return s
			}
			first := server()
			watch := beginIn(t, env, nil, "watch-sessions", "--data-dir", data, "--no-daemon", "--agent", short)
			watch.Await(watch.Stderr, "watching for sessions")
			run := beginAt(t, cwd, env, nil, append([]string{"run", "--data-dir", data, "--no-daemon", "--run", "T-own", "--"},
				argv[0]...)...)
			fixture.Eventually(t, fixture.Patience, "the log of the agent", func() bool {
				files, err := filepath.Glob(filepath.Join(dir, "home", logs))
				return len(files) == 1 && err == nil
			})
			first.Kill()
			server()
			if run.Code() != 0 {
				t.Fatalf("linesman run: %s", run.Stderr)
			}
			// The same log of another session is found later, and followed later.
			recorded, session := "../corpus/codex-sessions/shell-ok", "01a1fd7c-3234-7431-a730-2b1ea25bc865"
			to := filepath.Join(dir, "home", ".codex/sessions/2026/01/01")
			if short == "claude" {
				recorded, session = "../corpus/claude-sessions/tools", "8484184b-2a90-44c2-b8f0-38e6d9070ce3"
				to = filepath.Join(dir, "home", ".claude/projects/-other")
			}
			if err := os.CopyFS(to, os.DirFS(recorded)); err != nil {
				t.Fatal(err)
			}
			onlyOwnAndRecorded(t, data, session)
		})
	}
}

// onlyOwnAndRecorded fails the test unless the events are those of the run T-own, and of another
// run with a session, for which it waits.
func onlyOwnAndRecorded(t *testing.T, data, session string) {
	t.Helper()
	follow := begin(t, nil, "events", "--data-dir", data, "--follow", "--json")
	follow.Await(follow.Stdout, session)
	found := map[string]int{}
	for _, r := range parse(t, follow.Stdout.String()) {
		found[r.Run]++
	}
	if len(found) != 2 || found["T-own"] == 0 {
		t.Errorf("events by run %v; want those of T-own, and of the recorded session", found)
	}
}
