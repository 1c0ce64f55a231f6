package e2e

import (
	"encoding/json"
	"fmt"
	"net"
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
		if got := envelope.Get("error.message").String(); !strings.Contains(got,
			"outside of the directories of the setting work.roots: "+lab+"; to allow another one, ") {
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

// An `up` in a terminal is killed, and a command from elsewhere, without its settings, starts
// the next one in the background: it serves where the one before did, and as that did.
func TestUpInTheBackgroundContinuesTheOneBefore(t *testing.T) {
	t.Parallel()
	lab, data, home := secretDir(t), t.TempDir(), t.TempDir()
	const key = fixture.Sentinel + "of-the-up-before"
	write(t, filepath.Join(lab, "agent.sh"),
		`echo '{"type":"item.completed","item":{"id":"item_0","type":"agent_message","text":"in '"$(pwd)"'"}}'`)
	write(t, filepath.Join(lab, "linesman.toml"), fmt.Sprintf("[work]\nhard = '37m'\n[agents.codex]\n"+
		"command = ['/bin/sh', %q]\nenv = ['EXTRA_KEY']\n", filepath.Join(lab, "agent.sh")))
	environ := append(os.Environ(), "HOME="+home)
	free := fixture.FreeAddresses(t, 2)
	before := beginAt(t, lab, append(environ, "EXTRA_KEY="+key, "LINESMAN_WORK_IDLE=7m"), nil, "up", "--data-dir", data,
		"--config", "linesman.toml", "--max-runs", "5", "--nats-listen", free[0], "--http", free[1])
	before.Await(before.Stdout, "ready ")
	was := fixture.ReadAddress(t, data)
	before.Kill()

	elsewhere := t.TempDir()
	command := func(args ...string) (stdout, stderr string) {
		t.Helper()
		cmd := exec.Command(program, append(args, "--data-dir", data)...)
		cmd.Dir, cmd.Env = elsewhere, background(t, data, environ)
		stdout, stderr, code := fixture.Run(t, cmd)
		if code != 0 {
			t.Fatalf("%q: exit %d\n%s", args, code, stderr)
		}
		return stdout, stderr
	}
	_, said := command("status")
	now := fixture.ReadAddress(t, data)
	if now.PID == was.PID || now.NATS != was.NATS || now.HTTP != was.HTTP {
		t.Errorf("it serves at %s and %s, want another process at %s and %s", now.NATS, now.HTTP, was.NATS, was.HTTP)
	}
	if !strings.Contains(said, "EXTRA_KEY") || strings.Contains(said, key) {
		t.Errorf("the key that it does not have is not named: %q", said)
	}
	shown, _ := command("submit", "--dir", lab, "--skip-git-repo-check", "--wait", "--json", "Go.")
	if got := gjson.Get(shown, "summary").String(); got != "in "+lab {
		t.Errorf("a task in the directory of the one before: %s", shown)
	}
	if _, values := scrape(t, now.HTTP, now.Token); values["linesman_worker_slots"] != 5 {
		t.Errorf("%v slots, want those of the one before", values["linesman_worker_slots"])
	}

	kept := filepath.Join(data, "up.json")
	info, err := os.Stat(kept)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v: want only its owner to read it", info, err)
	}
	if text, err := os.ReadFile(kept); err != nil || strings.Contains(string(text), key) ||
		!strings.Contains(string(text), `"work.idle": "7m"`) {
		t.Errorf("it keeps %s, %v", text, err)
	}

	// Its port is taken by somebody else: the next one has another one, says so, and leaves it
	// to the one after that.
	command("down")
	taken, err := net.Listen("tcp", strings.TrimPrefix(was.HTTP, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	_, said = command("status")
	now = fixture.ReadAddress(t, data)
	if now.NATS != was.NATS || now.HTTP == was.HTTP || !strings.Contains(said, "in use") ||
		!strings.Contains(said, strings.TrimPrefix(was.HTTP, "http://")) || !strings.Contains(said, now.HTTP) {
		t.Errorf("it serves at %s and %s, and says %q", now.NATS, now.HTTP, said)
	}
	command("down")
	if err := taken.Close(); err != nil {
		t.Fatal(err)
	}
	command("status")
	if now = fixture.ReadAddress(t, data); now.NATS != was.NATS || now.HTTP != was.HTTP {
		t.Errorf("it serves at %s and %s, want at %s and %s again", now.NATS, now.HTTP, was.NATS, was.HTTP)
	}
	command("down")

	// It reads a file again that a command elsewhere named by a relative path.
	write(t, filepath.Join(elsewhere, "other.toml"), "log_level = 'debug'\n")
	command("status", "--config", "other.toml")
	again, err := os.FindProcess(fixture.ReadAddress(t, data).PID)
	if err == nil {
		err = again.Signal(syscall.SIGHUP)
	}
	if err != nil {
		t.Fatal(err)
	}
	fixture.Eventually(t, fixture.Patience, "the settings are read again", func() bool {
		text, err := os.ReadFile(filepath.Join(data, "up.log"))
		return err == nil && strings.Contains(string(text), "log_level and scrub were read again")
	})
	command("down")
}
