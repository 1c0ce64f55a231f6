package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"
	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/test/fixture"
)

// A command starts an `up`, and is served by another one that was faster. The
// late one does not take the data directory when `down` has ended the other.
func TestUpInTheBackgroundThatCameTooLateEndsWithItsStarter(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	lock, err := os.Create(filepath.Join(data, "lock")) // of the one that was faster
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Fatal(err)
	}
	starter, says, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer says.Close()
	late := exec.Command(program, "up", "--background", "--nats=", "--data-dir", data)
	late.Env = append(os.Environ(), "HOME="+t.TempDir(), "LINESMAN_BACKGROUND_IDLE=1m")
	late.Stdout, late.Stderr = says, says
	fixture.Watch(t, late)
	if err := late.Start(); err != nil {
		t.Fatal(err)
	}
	if err := starter.Close(); err != nil {
		t.Fatal(err)
	}
	if err := lock.Close(); err != nil { // which is `down`
		t.Fatal(err)
	}
	kill := time.AfterFunc(fixture.Patience, func() { _ = late.Process.Kill() })
	defer kill.Stop()
	_ = late.Wait() // its code says it
	if code := late.ProcessState.ExitCode(); code != 75 {
		t.Errorf("it ends with %d, want 75 at once", code)
	}
	if left, err := filepath.Glob(filepath.Join(data, "*")); err != nil || len(left) > 1 {
		t.Errorf("it left %q in the data directory, %v", left, err)
	}
}

// An MCP client stays, and an `up` in a terminal takes the place of the one in
// the background: a task that names no directory works in that of the `up` then,
// and in that of the client once another one is in the background.
func TestDirectoryOfATaskIsDecidedAtItsSubmission(t *testing.T) {
	t.Parallel()
	lab, data := secretDir(t), t.TempDir()
	dir := func(name string) string {
		path := filepath.Join(lab, name)
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	project, service := dir("project"), dir("service")
	settings := filepath.Join(lab, "linesman.toml")
	write(t, filepath.Join(lab, "agent.sh"),
		`echo '{"type":"item.completed","item":{"id":"item_0","type":"agent_message","text":"in '"$(pwd)"'"}}'`)
	write(t, settings, fmt.Sprintf("[work]\nroots = [%q]\n[agents.codex]\ncommand = ['/bin/sh', %q]\n", lab,
		filepath.Join(lab, "agent.sh")))
	mcp := exec.Command(program, "mcp", "--data-dir", data, "--config", settings)
	mcp.Dir, mcp.Env = project, background(t, data, append(os.Environ(), "HOME="+dir("home")))
	fixture.Watch(t, mcp)
	client, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(),
		&sdk.CommandTransport{Command: mcp}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	run := func(args map[string]any) gjson.Result {
		t.Helper()
		var body []byte
		fixture.Poll(fixture.Patience, func() bool {
			result, err := client.CallTool(t.Context(), &sdk.CallToolParams{Name: "_codex_local_run", Arguments: args})
			if err != nil {
				t.Fatal(err)
			}
			if body, err = json.Marshal(result.StructuredContent); err != nil {
				t.Fatal(err)
			}
			return !gjson.GetBytes(body, "error.retryable").Bool() // else it connects again
		})
		return gjson.ParseBytes(body)
	}
	works := func(want string) {
		t.Helper()
		envelope := run(map[string]any{"task": "Go.", "format": "json"})
		if got := envelope.Get("data.ext.summary").String(); got != "in "+want {
			t.Fatalf("it works %q, want in %q: %s", got, want, envelope)
		}
		envelope = run(map[string]any{"task": "Go.", "format": "json", "workingDir": data})
		if got := envelope.Get("error.message").String(); !strings.HasSuffix(got,
			"outside of the directories of the setting work.roots: "+lab) {
			t.Errorf("outside of work.roots: %s", envelope)
		}
	}
	works(project)

	p := beginAt(t, service, nil, nil, "up", "--data-dir", data, "--config", settings, "--nats-listen", "127.0.0.1:0",
		"--http", "127.0.0.1:0")
	p.Await(p.Stdout, "ready ")
	works(service)

	p.Signal(syscall.SIGTERM)
	if code := p.Code(); code != 0 {
		t.Errorf("up: exit %d", code)
	}
	works(project)
}
