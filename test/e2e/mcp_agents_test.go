package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
)

// An MCP client starts agents of two kinds, waits for them, reads their answers, and cancels one.
func TestMCPClientDrivesEveryAgent(t *testing.T) {
	t.Parallel()
	data, lab := t.TempDir(), t.TempDir()
	settings := "[work]\n" + fmt.Sprintf("roots = [%q]\n", lab)
	for _, name := range []string{"codex", "claude"} {
		recording, err := filepath.Abs(filepath.Join("../corpus", name, "hello.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		script := filepath.Join(lab, name+".sh")
		write(t, script, fmt.Sprintf("while [ -e hold ]; do sleep 0.05; done; cat %q\n", recording))
		settings += fmt.Sprintf("[agents.%s]\ncommand = ['/bin/sh', %q]\n", name, script)
	}
	config := filepath.Join(lab, "linesman.toml")
	write(t, config, settings)
	up(t, data, "--config", config)

	cmd := exec.Command(program, "mcp", "--data-dir", data, "--tools", "agents")
	fixture.Watch(t, cmd)
	client, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(),
		&sdk.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	call := func(tool string, args map[string]any, into any) *sdk.CallToolResult {
		t.Helper()
		out, err := client.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: args})
		if err != nil {
			t.Fatal(err)
		}
		body, err := json.Marshal(out.StructuredContent)
		if err == nil {
			err = json.Unmarshal(body, into)
		}
		if err != nil {
			t.Fatalf("%s: %v: %s", tool, err, body)
		}
		return out
	}
	for _, name := range []string{"codex", "claude"} {
		dir := filepath.Join(lab, "work-"+name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		hold := filepath.Join(dir, "hold")
		write(t, hold, "")
		submission := map[string]any{
			"agent": name, "prompt": "Say hello.", "directory": dir, "mode": "read-only", "skipGitRepoCheck": true,
		}
		var done api.Submitted
		if out := call("_agent_run", submission, &done); out.IsError || done.Run == "" {
			t.Fatalf("%s: %+v", name, out.Content)
		}
		var run struct {
			api.Run
			Next string
		}
		working := func() bool {
			out := call("_agent_status", map[string]any{"run": done.Run}, &run)
			return !out.IsError && run.State == runs.StateWorking
		}
		if !fixture.Poll(fixture.Patience, working) {
			t.Fatalf("%s: %+v", name, run)
		}
		if out := call("_agent_wait", map[string]any{"run": done.Run, "timeout_seconds": 1}, &run); out.IsError ||
			run.State != runs.StateWorking {
			t.Errorf("%s: wait for a run that works: %+v", name, out.Content)
		}
		if err := os.Remove(hold); err != nil {
			t.Fatal(err)
		}
		var result api.Result
		if out := call("_agent_wait", map[string]any{"run": done.Run}, &result); out.IsError ||
			result.State != runs.StateCompleted || result.FinalText == nil || result.Output.Stdout != "" {
			t.Errorf("%s: %+v", name, out.Content[0].(*sdk.TextContent).Text)
		}
		if out := call("_agent_results", map[string]any{"run": done.Run, "include_output": true}, &result); out.IsError ||
			!strings.Contains(result.Output.Stdout, "{") {
			t.Errorf("%s: results: %+v", name, out.Content)
		}

		write(t, hold, "")
		call("_agent_run", submission, &done)
		if !fixture.Poll(fixture.Patience, working) {
			t.Fatalf("%s: the second: %+v", name, run)
		}
		var cancelled api.Cancelled
		if out := call("_agent_cancel", map[string]any{"run": done.Run}, &cancelled); out.IsError {
			t.Errorf("%s: cancel: %+v", name, out.Content)
		}
		if call("_agent_wait", map[string]any{"run": done.Run}, &result); result.State != runs.StateCancelled {
			t.Errorf("%s: a cancelled run: %s", name, result.State)
		}
	}
	var page api.RunPage
	if call("_agent_list", map[string]any{"agent": "claude"}, &page); len(page.Runs) != 2 {
		t.Errorf("%d runs of claude", len(page.Runs))
	}
}
