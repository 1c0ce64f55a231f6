package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/linesman/linesman/agents"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
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
				return beginIn(t, env, nil, "watch-sessions", "--data-dir", data, "--agent", short, "--all", "--since", "1h")
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
			known, _ := agents.Known.Find(short)
			var want []string
			fold := normalizer.NewFold(known.Backend, "x", 0)
			fold.Apply(1, runs.Entry{Kind: runs.Out, Body: log}, func(m normalizer.Message) {
				want = append(want, mask(fmt.Sprintf("%d.%d %s", m.Line, m.Part, m.Body)))
			})
			if fold.Record.Unknown+fold.Record.Malformed > 0 || fold.Record.TurnsDone != 1 {
				t.Errorf("the log is not understood: %s", fold.Record.JSON())
			}
			follow.Await(follow.Stdout, fmt.Sprintf(`"line":%s,`, strings.Split(want[len(want)-1], ".")[0]))
			got := parse(t, follow.Stdout.String())
			for _, r := range got {
				if r.Run != got[0].Run || r.Agent != known.Kind() {
					t.Errorf("an event of %s in run %s, want all in %s of %s", r.Agent, r.Run, got[0].Run, known.Kind())
				}
			}
			same(t, "events", printed(got), want)
		})
	}
}
