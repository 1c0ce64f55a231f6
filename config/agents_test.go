package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A file names an agent that linesman does not know, and another file or a variable changes it.
func TestAFileNamesAnAgent(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.toml")
	text := `agents.crow = {acp = ["/opt/crow", "--talk"], env = ["CROW_HOME"]}
agents.qwen.acp = ["npx", "qwen"]`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(Sources{File: file, Environ: []string{"HOME=/home/dev", "LINESMAN_AGENTS_CROW_ENV=CROW_KEY"}})
	if err != nil {
		t.Fatal(err)
	}
	table := c.Table()
	if names := table.Names(); !slices.Equal(names[len(names)-2:], []string{"kimi", "crow"}) {
		t.Errorf("the agents are %q", names)
	}
	launches := c.Launches(table)
	for kind, want := range map[string]string{
		"crow": "/opt/crow --talk", "qwen_code": "npx qwen", "copilot_cli": "copilot --acp", "gemini_cli": "gemini --acp",
	} {
		if how := launches[kind]; strings.Join(how.ACP, " ") != want || how.Command[0] != how.ACP[0] {
			t.Errorf("%s is started by %q, and found by %q", kind, how.ACP, how.Command)
		}
	}
	if how := launches["crow"]; !slices.Equal(how.Env, []string{"CROW_KEY"}) || how.Setting != "agents.crow.env" {
		t.Errorf("it gets %q", how.Env)
	}
	if a, ok := table.Find("crow"); !ok || !a.LiveOnly() || a.Kind() != "crow" || a.Backend.Dialect() == nil {
		t.Errorf("it is %+v", a)
	}
	rows, err := Effective(Sources{File: file, Environ: []string{"HOME=/home/dev"}})
	var keys []string
	for _, s := range rows {
		if strings.HasPrefix(s.Key, "agents.crow.") || strings.HasPrefix(s.Key, "agents.qwen.") {
			keys = append(keys, s.Key)
		}
	}
	if want := []string{"agents.crow.acp", "agents.crow.env", "agents.qwen.acp", "agents.qwen.env"}; err != nil ||
		!slices.Equal(keys, want) {
		t.Errorf("its settings are %q, %v", keys, err)
	}
}
