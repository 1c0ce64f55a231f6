package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/lab/agents"
)

// optionsLab is an `up` whose agent is a real one with a scripted model.
type optionsLab struct {
	t              *testing.T
	name, dir, cwd string
	more           string // a directory beside cwd
	conn           *nats.Conn
}

// newOptionsLab starts it with settings of [work].
func newOptionsLab(t *testing.T, name, settings string) *optionsLab {
	t.Helper()
	dir := t.TempDir()
	env, argv, cwd := agents.Setup(t, name+"-add-dir", dir)
	l := &optionsLab{t: t, name: name, dir: dir, cwd: cwd, more: filepath.Join(filepath.Dir(cwd), "more")}
	if err := os.Mkdir(l.more, 0o755); err != nil {
		t.Fatal(err)
	}
	gitInit(t, cwd)
	var script strings.Builder
	for _, v := range env {
		if name, value, _ := strings.Cut(v, "="); name != "IS_SANDBOX" {
			fmt.Fprintf(&script, "export %s='%s'\n", name, value)
		}
	}
	fmt.Fprintf(&script, "exec '%s' \"$@\"\n", argv[0][0])
	write(t, filepath.Join(dir, "agent.sh"), script.String())
	write(t, filepath.Join(dir, "linesman.toml"), fmt.Sprintf(
		"[work]\nroots = [%q]\n%s\n[agents.%s]\ncommand = ['/bin/sh', %q]\n", filepath.Dir(cwd), settings, name,
		filepath.Join(dir, "agent.sh")))
	data := t.TempDir()
	up(t, data, "--config", filepath.Join(dir, "linesman.toml"))
	l.conn = operator(t, data)
	fixture.Eventually(t, fixture.Patience, "no worker", func() bool {
		return l.ask("workers", map[string]any{}).Get("workers.#").Int() == 1
	})
	return l
}

func (l *optionsLab) ask(verb string, request map[string]any) gjson.Result {
	l.t.Helper()
	body, err := json.Marshal(request)
	if err != nil {
		l.t.Fatal(err)
	}
	m, err := l.conn.Request("linesman.api."+verb, body, fixture.Patience)
	if err != nil {
		l.t.Fatalf("%s: %v", verb, err)
	}
	return gjson.ParseBytes(m.Data)
}

// run submits a task and waits for its end: the answer to the submission if it was refused, else the run and the
// messages of its first events.
func (l *optionsLab) run(options map[string]any) (run gjson.Result, events []gjson.Result) {
	l.t.Helper()
	request := map[string]any{"prompt": "Go.", "agent": l.name, "workingDir": l.cwd, "confirm": true}
	for k, v := range options {
		request[k] = v
	}
	done := l.ask("submit", request)
	id := done.Get("run").String()
	if done.Get("code").Exists() || id == "" {
		return done, nil
	}
	run = l.ask("wait", map[string]any{"run": id, "timeoutSec": 110})
	return run, l.ask("events", map[string]any{"run": id}).Get("events").Array()
}

// written reports whether the agent has written into the directory since it was asked before.
func (l *optionsLab) written() bool { return os.Remove(filepath.Join(l.more, "written.txt")) == nil }

// told reports whether the agent has told its model of the directory, before any command did.
func (l *optionsLab) told() bool {
	return slices.ContainsFunc(agents.Requests(l.t, l.dir), func(body json.RawMessage) bool {
		return strings.Contains(string(body), l.more) && !strings.Contains(string(body), "written.txt")
	})
}

// A directory that is added reaches the real agent.
func TestRealAgentsUseFurtherDirectories(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"codex", "claude"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newOptionsLab(t, name, "")
			run, _ := l.run(map[string]any{"mode": "workspace-write"})
			if wrote := l.written(); run.Get("state").String() != "completed" || wrote || l.told() {
				t.Fatalf("without the directory: written %t, told %t: %s", wrote, l.told(), run.Raw)
			}
			run, _ = l.run(map[string]any{"mode": "workspace-write", "addDirs": []string{"../more", l.more}})
			if wrote := l.written(); run.Get("state").String() != "completed" || !wrote || !l.told() {
				t.Errorf("with the directory: written %t, told %t: %s", wrote, l.told(), run.Raw)
			}
			run, _ = l.run(map[string]any{"mode": "workspace-write", "addDirs": []string{"../more"},
				"threadId": run.Get("threadId").String()})
			if run.Get("state").String() != "completed" || !l.written() {
				t.Errorf("in the same thread: %s", run.Raw)
			}
			run, _ = l.run(map[string]any{"addDirs": []string{"../gone"}})
			if run.Get("code").String() != "VALIDATION" || run.Get("field").String() != "addDirs.0" {
				t.Errorf("a directory that is not there: %s", run.Raw)
			}
		})
	}
}

// A directory that is added reaches the real agent of a live run, too. Codex may write temporary files without it, and
// Kimi Code asks for each command all the same.
func TestRealAgentsUseFurtherDirectoriesLive(t *testing.T) {
	fixture.Long(t, "starts real agents")
	t.Parallel()
	for _, name := range []string{"codex", "claude", "kimi"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLiveOptionsLab(t, name)
			options := map[string]any{"mode": "workspace-write", "live": true, "ask": false, "prompt": "Alone."}
			run, _ := l.run(options)
			if wrote := l.written(); !run.Get("state").Exists() || wrote && name != "codex" || l.told() {
				t.Fatalf("without the directory: written %t, told %t: %s", wrote, l.told(), run.Raw)
			}
			options["prompt"], options["addDirs"] = "Beside.", []string{"../more"}
			run, _ = l.run(options)
			if wrote := l.written(); run.Get("state").String() != "completed" || wrote != (name != "kimi") || !l.told() {
				t.Errorf("with the directory: written %t, told %t: %s", wrote, l.told(), run.Raw)
			}
		})
	}
}

// newLiveOptionsLab is newOptionsLab with the agent as a server of the protocol.
func newLiveOptionsLab(t *testing.T, name string) *optionsLab {
	t.Helper()
	a, _ := known.All().Find(name)
	dir, data := t.TempDir(), t.TempDir()
	scenario := filepath.Join(dir, "scenario.json")
	var turns []string
	const command = "echo hello > ../more/written.txt"
	item := fmt.Sprintf(`{"shell":%q}`, command)
	if name == "kimi" {
		item = agents.Command(t, name, command)
	}
	for _, prompt := range []string{"Alone.", "Beside."} {
		turns = append(turns, fmt.Sprintf(`{"match":%q,"items":[%s]},{"match":%q,"items":[{"message":"Tried."}]}`, prompt,
			item, prompt))
	}
	write(t, scenario, fmt.Sprintf(`{"cli":%q,"turns":[%s]}`, name, strings.Join(turns, ",")))
	env, cwd := agents.SetupLive(t, a.Live.Program, scenario, dir)
	l := &optionsLab{t: t, name: name, dir: dir, cwd: cwd, more: filepath.Join(filepath.Dir(cwd), "more")}
	if err := os.Mkdir(l.more, 0o755); err != nil {
		t.Fatal(err)
	}
	gitInit(t, cwd)
	var passed []string
	for _, v := range env[3:] {
		variable, _, _ := strings.Cut(v, "=")
		passed = append(passed, strconv.Quote(variable))
	}
	config := filepath.Join(data, "linesman.toml")
	write(t, config, fmt.Sprintf("[work]\nroots = [%q]\n[agents.%s]\nenv = [%s]\n", filepath.Dir(cwd), name,
		strings.Join(passed, ", ")))
	fixture.Up(t, program, data, env, "--config", config)
	l.conn = operator(t, data)
	return l
}

// Without the setting, a task that relies on a sandbox around the worker is refused; with it the real agent runs
// without its own, which root may only in a sandbox, and its first event says so.
func TestRealAgentsRunInAnExternalSandbox(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"codex", "claude"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newOptionsLab(t, name, "")
			run, _ := l.run(map[string]any{"externalSandbox": true})
			if run.Get("code").String() != "UNSUPPORTED" || run.Get("capability").String() != runs.CanUnboxed {
				t.Errorf("without the setting: %s", run.Raw)
			}
			l = newOptionsLab(t, name, "external_sandbox = true")
			run, events := l.run(map[string]any{"externalSandbox": true, "confirm": false})
			if run.Get("state").String() != "completed" || run.Get("mode").String() != "danger-full-access" || !l.written() {
				t.Fatalf("%s", run.Raw)
			}
			run, _ = l.run(map[string]any{"externalSandbox": true, "threadId": run.Get("threadId").String()})
			if run.Get("state").String() != "completed" || !l.written() {
				t.Errorf("in the same thread: %s", run.Raw)
			}
			warnings := 0
			for i, e := range events {
				if strings.Contains(e.Raw, runs.UnboxedWarning) {
					if warnings++; i > 0 {
						t.Errorf("the warning is event %d", i)
					}
				}
			}
			if warnings != 1 {
				t.Errorf("%d warnings in %d events", warnings, len(events))
			}
			if run, _ := l.run(map[string]any{"mode": "danger-full-access"}); run.Get("code").String() != "VALIDATION" {
				t.Errorf("without the option: %s", run.Raw)
			}
		})
	}
}
