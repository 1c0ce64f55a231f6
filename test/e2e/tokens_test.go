package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/lab/agents"
)

// tokenScenarios are runs of real agents whose tokens are not simply in their output.
var tokenScenarios = []struct {
	name, what string
	differs    string // why another program that reads the logs counts something else; "": it does not
	partial    bool   // the agent does not tell all
}{
	{name: "codex-shell-ok", what: "one turn"},
	{name: "codex-resume", what: "two runs of a thread"},
	{name: "codex-fork", what: "a run, and one of its fork"},
	{name: "codex-subagent", what: "a sub-agent"},
	{name: "codex-subagent-fork", what: "a sub-agent that begins with the history of its parent"},
	{name: "codex-review", what: "a review: a sub-agent, and a last line with zeros"},
	{name: "codex-compact", what: "two runs with compactions",
		differs: "it counts a total twice that Codex repeats around a compaction"},
	{name: "claude-tools", what: "one turn"},
	{name: "claude-resume-id", what: "a run, one that resumes it, one that forks it"},
	{name: "claude-subagent", what: "a sub-agent"},
	{name: "claude-compact", what: "a run, and its compaction",
		differs: "the request of a compaction is in no log; the last line has it"},
	{name: "gemini-shell-ok", what: "one turn"},
	{name: "gemini-subagent", what: "a sub-agent: its tokens are in the total alone"},
	{name: "opencode-shell-ok", what: "one turn, and a title, which opencode does not report", partial: true},
	{name: "opencode-subagent", what: "a sub-agent and a title, which opencode does not report", partial: true},
}

// What a run has used is what the model served for it, and what tokens.md says. UPDATE_DOCS=1
// writes the table there.
func TestTokensAreWhatTheModelServed(t *testing.T) {
	fixture.Long(t, "runs real agents")
	rows := make([]string, len(tokenScenarios))
	t.Run("agents", func(t *testing.T) {
		for i, s := range tokenScenarios {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				dir, data := t.TempDir(), t.TempDir()
				env, argv, cwd := agents.Setup(t, s.name, dir)
				up(t, data)
				b := operatorBus(t, data)
				var own, subs, total runs.Usage
				split := true // the parts are known
				thread := ""
				for n, line := range argv {
					for k, arg := range line {
						line[k] = strings.ReplaceAll(arg, agents.Thread, thread)
					}
					id := fmt.Sprint("run-", n+1)
					agentRun(t, data, id, env, line, cwd, "")
					var r *runs.Record
					fixture.Eventually(t, fixture.Patience, "the run has not ended", func() bool {
						var ok bool
						var err error
						if r, ok, err = b.Record(t.Context(), id); err != nil {
							t.Fatal(err)
						}
						return ok && r.State.Final()
					})
					if r.State != runs.StateCompleted {
						t.Fatalf("%s: %s", id, r.Outcome())
					}
					if thread == "" {
						thread = r.Thread
					}
					spent := r.Spent()
					if spent.Total == nil || spent.Earlier || spent.Partial != s.partial {
						t.Fatalf("%s: %+v: %s", id, spent, r.JSON())
					}
					split = split && spent.Own != nil
					total = total.Plus(spent.Total)
					own, subs = own.Plus(spent.Own), subs.Plus(spent.Subagents)
					if row := r.Header().Tokens; row.Input != spent.Total.Input || row.Output != spent.Total.Output {
						t.Errorf("%s: the row has %+v, the total is %+v", id, row, spent.Total)
					}
				}
				served := len(agents.Requests(t, dir))
				if same := int64(1200*served) == total.Input && int64(80*served) == total.Output; same == s.partial {
					t.Errorf("%d requests were served, that are %d/%d, and the runs used %s", served, 1200*served, 80*served,
						counts(total))
				}
				agent, _, _ := strings.Cut(s.name, "-")
				other, why := otherCount(t, agent, env), s.differs
				if differs := other != "" && other != counts(total); differs != (why != "") {
					t.Errorf("ccusage counts %s, the runs used %s: %q", other, counts(total), why)
				}
				cells := []string{agent, s.what, fmt.Sprint(served), counts(own), counts(subs), counts(total), other}
				if !split {
					cells[3], cells[4] = "–", "–"
				}
				if s.partial {
					cells[4], cells[5] = "–", "at least "+cells[5]
				}
				if why != "" {
					cells[6] += ": " + why
				}
				rows[i] = "| " + strings.Join(cells, " | ") + " |"
			})
		}
	})
	if t.Failed() || slices.Contains(rows, "") { // an agent is not installed
		return
	}
	table := "| Agent | Runs | Requests | Own | Sub-agents | Total | ccusage |\n" +
		"| --- | --- | --- | --- | --- | --- | --- |\n" + strings.Join(rows, "\n") + "\n"
	const begin = "<!-- made by UPDATE_DOCS=1 TEST_ALL=1 go test ./test/e2e -run TokensAre -->\n"
	const end = "<!-- end of the tokens -->\n"
	const path = "tokens.md"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(page), begin)
	kept, after, ended := strings.Cut(rest, end)
	switch {
	case !found || !ended:
		t.Fatalf("%s has no table", path)
	case kept == table:
	case os.Getenv("UPDATE_DOCS") == "1":
		if err := os.WriteFile(path, []byte(before+begin+table+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s is stale; it must be\n%s", path, table)
	}
}

func counts(u runs.Usage) string { return fmt.Sprintf("%d/%d", u.Input, u.Output) }

var numbers = regexp.MustCompile(`(?s)\{.*\}`)

// otherCount returns what ccusage counts in the logs of an agent, input and output; "": it reads none
// of that agent.
func otherCount(t *testing.T, agent string, env []string) string {
	t.Helper()
	name := map[string]string{"codex": "ccusage-codex", "claude": "ccusage"}[agent]
	if name == "" {
		return ""
	}
	cmd := exec.Command(agents.Program(t, name), "session", "--json", "--offline")
	cmd.Env = env
	out, stderr, code := fixture.Run(t, cmd)
	totals := gjson.Get(numbers.FindString(out), "totals")
	if code != 0 || !totals.Exists() {
		t.Fatalf("%s: exit %d: %s%s", name, code, out, stderr)
	}
	in := totals.Get("inputTokens").Int()
	if agent == "claude" { // which counts cached tokens apart
		in += totals.Get("cacheReadTokens").Int() + totals.Get("cacheCreationTokens").Int()
	}
	return fmt.Sprintf("%d/%d", in, totals.Get("outputTokens").Int())
}
