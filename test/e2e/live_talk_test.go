package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/tidwall/gjson"
	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/agent/acp"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
)

// talk is a conversation with an agent itself, over the files that a shim gives it: a FIFO that the agent holds
// open itself, and a file.
type talk struct {
	t       *testing.T
	in, out string
	id      int64
	project string
	asked   []string // ids of questions
}

func newTalk(t *testing.T, a acp.Agent, env []string, project string) *talk {
	t.Helper()
	dir := t.TempDir()
	k := &talk{t: t, in: filepath.Join(dir, "stdin"), out: filepath.Join(dir, "out"), project: project}
	if err := unix.Mkfifo(k.in, 0o600); err != nil {
		t.Fatal(err)
	}
	stdin, err := os.OpenFile(k.in, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := os.Create(k.out)
	if err != nil {
		t.Fatal(err)
	}
	defer stdout.Close()
	path, _, _ := strings.Cut(strings.TrimPrefix(env[0], "PATH="), ":")
	cmd := exec.Command(filepath.Join(path, a.Program), a.Args...)
	cmd.Env, cmd.Dir, cmd.Stdin, cmd.Stdout = env, project, stdin, stdout
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	fixture.Watch(t, cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		if out, err := os.ReadFile(k.out); err == nil && t.Failed() {
			t.Logf("it said: %s", out[max(0, len(out)-8<<10):])
		}
	})
	return k
}

// write writes to the agent. No process but the agent has the FIFO open afterwards.
func (k *talk) write(text ...[]byte) {
	k.t.Helper()
	f, err := os.OpenFile(k.in, os.O_WRONLY, 0)
	if err != nil {
		k.t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(bytes.Join(text, nil)); err != nil {
		k.t.Fatal(err)
	}
}

// torn is what a shim writes where the one before it was killed: a part of a line that it ends, and an empty line.
func torn(line []byte) []byte { return append(bytes.Clone(line[:len(line)/2]), "!\n\n"...) }

// call sends a request, and returns its response.
func (k *talk) call(method, params string) gjson.Result {
	k.t.Helper()
	k.request(method, params)
	return k.response(k.id)
}

// request sends a request, with parameters as JSON.
func (k *talk) request(method, params string) {
	k.t.Helper()
	k.id++
	line := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", k.id, method, params)
	k.write(torn(line), line)
}

// selects answers a permission request by an option.
func selects(id, option string) []byte {
	return outcome(id, fmt.Sprintf(`"selected","optionId":%q`, option))
}

// withdraws answers one without an option.
func withdraws(id string) []byte { return outcome(id, `"cancelled"`) }

func outcome(id, outcome string) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{"outcome":{"outcome":%s}}}`+"\n", id, outcome)
}

// find waits for a message of the agent.
func (k *talk) find(what string, is func(m gjson.Result) bool) (found gjson.Result) {
	k.t.Helper()
	fixture.Eventually(k.t, fixture.Patience, what, func() bool {
		out, err := os.ReadFile(k.out)
		if err != nil {
			k.t.Fatal(err)
		}
		for line := range bytes.Lines(out) {
			if m := gjson.ParseBytes(line); bytes.HasSuffix(line, []byte("\n")) && is(m) {
				found = m
				return true
			}
		}
		return false
	})
	return found
}

func (k *talk) response(id int64) gjson.Result {
	k.t.Helper()
	return k.find(fmt.Sprintf("no response to request %d", id), func(m gjson.Result) bool {
		return m.Get("id").Int() == id && !m.Get("method").Exists() && m.Get("id").Type == gjson.Number
	})
}

// question waits for the next permission request, and returns its id, and the options that allow and reject once.
func (k *talk) question() (id, allow, reject string) {
	k.t.Helper()
	m := k.find("nobody is asked", func(m gjson.Result) bool {
		id := m.Get("id").Raw
		return m.Get("method").String() == "session/request_permission" && !slices.Contains(k.asked, id)
	})
	k.asked = append(k.asked, m.Get("id").Raw)
	option := func(kind string) string { return m.Get(`params.options.#(kind=="` + kind + `").optionId`).String() }
	return m.Get("id").Raw, option("allow_once"), option("reject_once")
}

// talks holds an agent to what linesman relies on and no surface shows.
func (s *speaker) talks(t *testing.T, a agent.Agent, env []string, project string) {
	t.Helper()
	_ = os.Remove(filepath.Join(project, "one.txt"))
	if a.SetLive != nil {
		env = append(slices.Clone(env), a.SetLive(runs.Task{Attributes: runs.Attributes{Mode: runs.ReadOnly}})...)
	}
	k := newTalk(t, a.Live, env, project)
	hello := k.call("initialize", `{"protocolVersion":1,"clientCapabilities":{"elicitation":{"form":{}},`+
		`"fs":{"readTextFile":false,"writeTextFile":false},"session":{"compaction":{},"notices":{}},"terminal":false},`+
		`"clientInfo":{"name":"linesman","version":"test"}}`)
	if got := hello.Get("result.protocolVersion").Int(); got != 1 {
		t.Fatalf("it speaks version %d: %s", got, hello)
	}
	for _, auth := range a.Live.Auth {
		if slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, auth.Variable+"=") }) {
			k.call("authenticate", fmt.Sprintf(`{"methodId":%q}`, auth.Method))
			break
		}
	}
	session := k.call("session/new", fmt.Sprintf(`{"cwd":%q,"mcpServers":[]}`, project)).Get("result.sessionId").String()
	if mode := a.Live.Mode(string(runs.ReadOnly)); mode != "" {
		k.call("session/set_mode", fmt.Sprintf(`{"modeId":%q,"sessionId":%q}`, mode, session))
	}
	if s.short == "gemini" { // as in the tasks
		k.call("session/set_model", fmt.Sprintf(`{"modelId":"gemini-2.5-flash","sessionId":%q}`, session))
	}
	prompt := func(text string) {
		k.request("session/prompt", fmt.Sprintf(`{"prompt":[{"text":%q,"type":"text"}],"sessionId":%q}`, text, session))
	}

	prompt("Talk one")
	id, allow, reject := k.question()
	answer := selects(id, allow)
	k.write(torn(answer), answer, answer, selects(id, reject), selects("987", allow), withdraws(`"none"`))
	if end := k.response(k.id).Get("result.stopReason").String(); end != "end_turn" {
		t.Errorf("the turn with two answers: %s", end)
	}
	k.ran("one\n")

	prompt("Talk two")
	id, allow, _ = k.question()
	// As a conversation does: some agents end the turn only then, and some take a late answer to a question that is open.
	k.write(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":%q}}`+"\n", session),
		withdraws(id))
	if end := k.response(k.id).Get("result.stopReason").String(); end != "cancelled" {
		t.Errorf("the turn that is cancelled: %s", end)
	}
	k.write(selects(id, allow)) // late
	prompt("Talk three")
	if end := k.response(k.id).Get("result.stopReason").String(); end != "end_turn" {
		t.Errorf("the turn after it: %s", end)
	}
	k.ran("one\n")
}

// ran checks which commands have run.
func (k *talk) ran(want string) {
	k.t.Helper()
	(&story{t: k.t, project: k.project}).has(map[string]string{"one.txt": want})
}
