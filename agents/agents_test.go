package agents_test

import (
	"strings"
	"testing"

	"github.com/linesman/linesman/agents"
)

func TestTheProgramTellsTheAgent(t *testing.T) {
	for line, want := range map[string]string{
		"codex exec --json x":                "codex",
		"/opt/bin/codex exec":                "codex",
		"env A=b C= codex exec":              "codex",
		"env -i A=b /usr/bin/env codex":      "codex",
		"npx -y @openai/codex@0.60.1 exec":   "codex",
		"npx codex":                          "codex",
		"claude -p x":                        "claude_code",
		"npx @google/gemini-cli -p x":        "",
		"aider x":                            "",
		"env":                                "",
		"npx -y":                             "",
		"sh -c codex":                        "",
		"/home/dev/codex/run.sh exec --json": "",
	} {
		kind := ""
		if a, known := agents.Known.OfCommand(strings.Fields(line)); known {
			kind = a.Kind()
		}
		if kind != want {
			t.Errorf("%q: %q, want %q", line, kind, want)
		}
	}
}
