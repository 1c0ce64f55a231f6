package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/test/lab/agents"
)

// call runs an agent that has linesman for an MCP server, in dir, and returns
// what it printed, line by line.
func call(t *testing.T, dir string, env []string, argv ...string) []gjson.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = dir, append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "LANG=C.UTF-8"}, env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, &stderr)
	}
	var lines []gjson.Result
	for line := range strings.Lines(string(out)) {
		lines = append(lines, gjson.Parse(line))
	}
	return lines
}

// snapshot insists that text is the envelope of a status.
func snapshot(t *testing.T, text string, running int64) {
	t.Helper()
	e := gjson.Parse(text)
	if e.Get("tool").String() != "_codex_local_status" || e.Get("status").String() != "ok" ||
		e.Get("data.summary.queued").Int() != running {
		t.Errorf("the tool said %.2000s", text)
	}
}

// The real Codex calls a tool of ours over stdio, where nothing runs yet: then
// `linesman mcp` starts a server.
func TestRealCodexCallsOurTools(t *testing.T) {
	t.Parallel()
	codex := agents.Codex(t)
	dir, data := t.TempDir(), t.TempDir()
	config := fmt.Sprintf(`model = "gpt-5.5"
model_provider = "mock"
check_for_update_on_startup = false
features.plugins = false
[analytics]
enabled = false
[model_providers.mock]
name = "mock"
base_url = "http://127.0.0.1:%d/v1"
wire_api = "responses"
[mcp_servers.linesman]
command = %q
args = ["mcp", "--data-dir", %q]
required = true # Codex begins only when it has the tools
startup_timeout_sec = 60
default_tools_approval_mode = "approve"
`, agents.Mock(t, "codex-linesman"), program, data)
	write(t, filepath.Join(dir, "config.toml"), config)
	background(t, data, nil) // Codex passes on what it wants
	lines := call(t, dir, []string{"CODEX_HOME=" + dir}, codex, "exec", "--json", "--skip-git-repo-check", "Look.")
	for _, l := range lines {
		if item := l.Get("item"); l.Get("type").String() == "item.completed" && item.Get("type").String() == "mcp_tool_call" {
			if item.Get("status").String() != "completed" {
				t.Errorf("the call: %s", item.Raw)
			}
			snapshot(t, item.Get("result.content.0.text").String(), 0)
			if item.Get("result.structured_content.tool").String() != "_codex_local_status" {
				t.Errorf("structured content: %s", item.Raw)
			}
			return
		}
	}
	t.Errorf("no call in %v", lines)
}

// The real Claude Code does so beside a `linesman up` that has a task waiting.
func TestRealClaudeCallsOurTools(t *testing.T) {
	t.Parallel()
	claude := agents.Claude(t)
	dir, data := t.TempDir(), t.TempDir()
	up(t, data, "--max-runs", "0")
	d := &daemon{t: t, data: data, conn: operator(t, data)}
	if e := d.ask("_codex_local_exec", map[string]any{"task": "Wait."}); e.Get("status").String() != "ok" {
		t.Fatalf("submit: %s", e.Raw)
	}
	config, err := json.Marshal(map[string]any{"mcpServers": map[string]any{
		"linesman": map[string]any{"command": program, "args": []string{"mcp", "--data-dir", data}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "mcp.json"), string(config))
	env := []string{
		"CLAUDE_CONFIG_DIR=" + filepath.Join(dir, ".claude"), "ANTHROPIC_API_KEY=unused", "IS_SANDBOX=1",
		fmt.Sprintf("ANTHROPIC_BASE_URL=http://127.0.0.1:%d", agents.Mock(t, "claude-linesman")),
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_TELEMETRY=1", "DISABLE_ERROR_REPORTING=1",
		"DISABLE_AUTOUPDATER=1",
		"MCP_CONNECTION_NONBLOCKING=false", "MCP_CONNECT_TIMEOUT_MS=60000", // else -p does not wait for the tools
	}
	lines := call(t, dir, env, claude, "-p", "--output-format", "stream-json", "--verbose",
		"--dangerously-skip-permissions",
		"--model", "claude-sonnet-4-5", "--mcp-config", filepath.Join(dir, "mcp.json"), "--strict-mcp-config", "Look.")
	for _, l := range lines {
		for _, c := range l.Get("message.content").Array() {
			if c.Get("type").String() != "tool_result" {
				continue
			}
			text := c.Get("content")
			if text.IsArray() {
				text = text.Get("0.text")
			}
			if c.Get("is_error").Bool() {
				t.Errorf("the call: %s", c.Raw)
			}
			snapshot(t, text.String(), 1)
			return
		}
	}
	t.Errorf("no call in %v", lines)
}
