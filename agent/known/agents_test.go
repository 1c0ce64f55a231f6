package known_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/runs"
)

func TestTheProgramTellsTheAgent(t *testing.T) {
	for line, want := range map[string]string{
		"codex|exec|--json|x":                       "codex",
		"/opt/bin/codex|exec":                       "codex",
		"env|A=b|C=|codex|exec":                     "codex",
		"env|-i|A=b|/usr/bin/env|codex":             "codex",
		"env|-u|A|codex":                            "codex",
		"npx|-y|@openai/codex@0.60.1|exec":          "codex",
		"npx|codex":                                 "codex",
		"npx|-p|@openai/codex|codex|exec":           "codex",
		"claude|-p|x":                               "claude_code",
		"npx|@google/gemini-cli|-p|x":               "gemini_cli",
		"npx|-y|@anthropic-ai/claude-code@2|-p":     "claude_code",
		"bunx|opencode-ai|run|x":                    "opencode",
		"pnpm|dlx|@openai/codex|exec":               "codex",
		"npm|exec|-y|--|@openai/codex|exec":         "codex",
		"npm|run|codex":                             "",
		"timeout|-k|5|60|nice|-n|5|claude|-p":       "claude_code",
		"nohup|setsid|codex|exec":                   "codex",
		"sh|-c|codex":                               "codex",
		"bash|-lc|cd repo && exec claude -p 'x'":    "claude_code",
		"bash|-c|A=b npx -y @openai/codex exec":     "codex",
		"bash|-eu|-c|echo codex; gemini -p x":       "gemini_cli",
		"bash|-c|echo codex":                        "",
		"bash|codex":                                "",
		"docker|run|--rm|img|claude|-p|fix codex":   "claude_code",
		"docker|exec|box|sh|-c|opencode run claude": "opencode",
		"podman|run|example.com/claude:1|-p":        "",
		"ssh|host|claude|-p|x":                      "claude_code",
		"ssh|host|cd /src && codex exec":            "codex",
		"aider|x":                                   "",
		"env":                                       "",
		"npx|-y":                                    "",
		"timeout|60":                                "",
		"/home/dev/codex/run.sh|exec|--json":        "",
		"":                                          "",
	} {
		kind := ""
		if a, ok := known.Agents.OfCommand(strings.Split(line, "|")); ok {
			kind = a.Kind()
		}
		if kind != want {
			t.Errorf("%q: %q, want %q", line, kind, want)
		}
	}
}

// Of each agent, its names are its own, and it has a command line for tasks, the Agent Client Protocol, or both.
func TestEachAgentHasNamesAndAWayToStart(t *testing.T) {
	names := map[string]string{"auto": "", "external": "", "codex_cloud": ""}
	for _, a := range known.All() {
		for _, name := range []string{a.Kind(), a.Short} {
			if of, taken := names[name]; taken && of != a.Name {
				t.Errorf("%s is a name of %s and of %q", name, a.Name, of)
			}
			names[name] = a.Name
		}
		if err := agent.CheckName(a.Kind()); err != nil || a.Install == "" || a.Tested == "" || a.Sandbox == "" {
			t.Errorf("%s lacks what people are told: %v", a.Name, err)
		}
		for _, mode := range []runs.Mode{runs.ReadOnly, runs.WorkspaceWrite, runs.DangerFull} {
			if a.LiveOnly() && a.Live.Mode(string(mode)) == "" {
				t.Errorf("%s has no mode for %s", a.Name, mode)
			}
		}
		a.ACP = a.Live.Command()
		argv := a.Argv(runs.Task{Prompt: "x", Attributes: runs.Attributes{Dir: "/d"}}, "")
		if a.LiveOnly() != (len(argv) > 0 && slices.Equal(argv, a.Live.Command())) {
			t.Errorf("%s is started by %q", a.Name, argv)
		}
	}
	for _, name := range []string{"auto", "external", "codex_cloud", "Crow", "1st", "a-b", ""} {
		if agent.CheckName(name) == nil {
			t.Errorf("%q is the name of an agent", name)
		}
	}
}

// Of each agent, and of command lines that people type, whether the output can be read.
func TestWhetherACommandLinePrintsJSON(t *testing.T) {
	for line, want := range map[string]bool{
		"claude": false, "claude|fix it": false, "claude|-p|fix it": false, "claude|--output-format|stream-json": false,
		"claude|-p|--output-format=stream-json|x": true, "claude|--print|--verbose|--output-format|stream-json|x": true,
		"codex": false, "codex|exec|x": false, "codex|--json": false, "codex|exec|--json|x": true, "codex|e|--json": true,
		"codex|exec|--experimental-json|x": true, "bash|-c|codex exec --json x": true, "bash|-c|(codex exec x)": false,
		"gemini|-p|x": false, "gemini|-o|stream-json|-p|x": true, "opencode|run|x": false, "opencode": false,
		"opencode|run|--format|json|x": true, "opencode|run|--format=json|x": true,
	} {
		argv := strings.Split(line, "|")
		a, ok := known.Agents.OfCommand(argv)
		if got := a.PrintsJSON(argv); !ok || got != want {
			t.Errorf("%q: known %v, prints JSON %v, want %v", line, ok, got, want)
		}
	}
	for _, a := range known.Agents {
		if argv := strings.Fields(a.JSONCall); !a.PrintsJSON(argv) {
			t.Errorf("%q prints no JSON", argv)
		}
		if argv := a.Argv(runs.Task{Prompt: "x", Attributes: runs.Attributes{Dir: "/d"}}, ""); !a.PrintsJSON(argv) {
			t.Errorf("%q prints no JSON", argv)
		}
	}
}
