package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/bustest"
	"github.com/linesman/linesman/test/lab/agents"
)

// daemon is a `linesman up` that takes tasks. What it starts for a task is the
// real codex with the scripted model of the scenario that the prompt names.
type daemon struct {
	t    *testing.T
	data string
	up   *fixture.Server
	conn *nats.Conn
	dirs map[string]string // working directory, by prompt
}

// newDaemon prepares a scenario for every prompt, given as PROMPT=SCENARIO, and
// starts a worker with so many slots.
func newDaemon(t *testing.T, slots int, prompts ...string) *daemon {
	t.Helper()
	agents.Codex(t)
	lab := secretDir(t)
	d := &daemon{t: t, data: t.TempDir(), dirs: map[string]string{}}
	for _, p := range prompts {
		prompt, scenario, _ := strings.Cut(p, "=")
		env, argv, cwd := agents.Setup(t, "codex-"+scenario, filepath.Join(lab, prompt))
		var script strings.Builder
		for _, v := range env {
			name, value, _ := strings.Cut(v, "=")
			fmt.Fprintf(&script, "export %s='%s'\n", name, value)
		}
		fmt.Fprintf(&script, "exec '%s' \"$@\"\n", argv[0][0])
		write(t, filepath.Join(lab, prompt+".sh"), script.String())
		d.dirs[prompt] = cwd
	}
	// The agent's command: it looks at the prompt, the last argument.
	write(t, filepath.Join(lab, "agent.sh"), "for p; do :; done\n. '"+lab+"'/\"$p\".sh\n")
	write(t, filepath.Join(lab, "linesman.toml"), fmt.Sprintf(
		"[work]\nmax_runs = %d\nroots = [%q]\n[agents.codex]\ncommand = ['/bin/sh', %q]\n", slots, lab,
		filepath.Join(lab, "agent.sh")))
	d.up = up(t, d.data, "--config", filepath.Join(lab, "linesman.toml"))
	d.conn = operator(t, d.data)
	return d
}

// secretDir is a directory whose path may be in no log.
func secretDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), fixture.Sentinel+"dir")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// operator connects to the server of a data directory.
func operator(t *testing.T, data string) *nats.Conn {
	t.Helper()
	return operatorBus(t, data).Inside()
}

func operatorBus(t *testing.T, data string) *bus.Bus {
	t.Helper()
	credentials, err := embedded.LoadCredentials(data)
	if err != nil {
		t.Fatal(err)
	}
	inside, public := credentials.Logins(fixture.ReadAddress(t, data).NATS, embedded.OperatorUser)
	b, err := bus.Connect(bustest.Patient(t), inside, public, bus.Names{Prefix: bus.DefaultPrefix}, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// ask calls a tool and returns its envelope.
func (d *daemon) ask(tool string, args map[string]any) gjson.Result {
	d.t.Helper()
	body, err := json.Marshal(args)
	if err != nil {
		d.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(d.t.Context(), 2*time.Minute)
	defer cancel()
	m, err := d.conn.RequestWithContext(ctx, "linesman.api."+tool, body)
	if err != nil {
		d.t.Fatalf("%s: %v", tool, err)
	}
	return gjson.ParseBytes(m.Data)
}

// submit submits the task of a prompt, and returns its run.
func (d *daemon) submit(prompt string, more map[string]any) string {
	d.t.Helper()
	args := map[string]any{"task": prompt, "workingDir": d.dirs[prompt], "skipGitRepoCheck": true}
	for k, v := range more {
		args[k] = v
	}
	e := d.ask("_codex_local_exec", args)
	if e.Get("status").String() != "ok" {
		d.t.Fatalf("submit %s: %s", prompt, e.Raw)
	}
	return e.Get("data.task_id").String()
}

// until asks for a run's status until is holds for its entry.
func (d *daemon) until(run, what string, is func(status, entry gjson.Result) bool) gjson.Result {
	d.t.Helper()
	var status, entry gjson.Result
	if !fixture.Poll(fixture.Patience, func() bool {
		status, entry = d.ask("_codex_local_status", map[string]any{"verbose": true}), gjson.Result{}
		for _, list := range []string{"tasks", "queue", "recently_completed"} {
			status.Get("data." + list).ForEach(func(_, v gjson.Result) bool {
				if v.Get("task_id").String() == run {
					entry = v
				}
				return true
			})
		}
		return is(status, entry)
	}) {
		d.t.Fatalf("%s: %s does not come:\n%s", run, what, status.Raw)
	}
	return entry
}

func (d *daemon) wait(run string) gjson.Result {
	d.t.Helper()
	return d.ask("_codex_local_wait", map[string]any{"task_id": run, "timeout_sec": 90, "include_output": true})
}

// Three tasks and two slots: the third waits, its position is told, one of the
// first is cancelled and its processes are gone, the third gets its slot.
func TestRealCodexTasksWaitForSlots(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, 2, "one=shell-sleep", "two=shell-sleep", "three=shell-ok")
	working := func(_, entry gjson.Result) bool { return entry.Get("state").String() == "working" }
	one := d.submit("one", nil)
	two := d.submit("two", nil)
	d.until(one, "work", working)
	d.until(two, "work", working)
	three := d.submit("three", nil)
	entry := d.until(three, "its place", func(_, entry gjson.Result) bool { return entry.Get("position").Exists() })
	if got := entry.Get("position").Int(); got != 0 {
		t.Errorf("position %d, want 0", got)
	}
	begun := func(_, entry gjson.Result) bool {
		return strings.Contains(entry.Get("progress.current_activity").String(), "echo begun")
	}
	busy := d.until(one, "its command", begun)
	d.until(two, "its command", begun)
	if p := busy.Get("progress.percent").Int(); p <= 0 || p >= 100 {
		t.Errorf("progress %s", busy.Raw)
	}
	status := d.ask("_codex_local_status", nil)
	if s := status.Get("data.summary"); s.Get("running").Int() != 2 || s.Get("queued").Int() != 1 ||
		status.Get("meta.total").Int() != 3 {
		t.Errorf("status %s", status.Raw)
	}

	// Codex says that it runs a command before it does.
	d.until(two, "its command's process", func(_, _ gjson.Result) bool { return len(commands(t, "sleep 61")) == 2 })
	cancelled := d.ask("_codex_local_cancel", map[string]any{"task_id": one, "reason": "not needed"})
	if s := cancelled.Get("data.state").String(); s != "cancelled" && s != "cancelling" {
		t.Fatalf("cancel: %s", cancelled.Raw)
	}
	if e := d.wait(one); e.Get("data.state").String() != "cancelled" {
		t.Errorf("the cancelled one: %s", e.Raw)
	}
	if left := commands(t, "sleep 61"); len(left) != 1 {
		t.Errorf("%d of its commands live on", len(left)-1)
	}

	e := d.wait(three)
	if e.Get("data.state").String() != "completed" || e.Get("meta.exit_code").Int() != 0 ||
		!e.Get("meta.exit_code").Exists() {
		t.Errorf("the third: %s", e.Raw)
	}
	r := d.ask("_codex_local_results", map[string]any{"task_id": three, "include_output": true, "include_events": true})
	if out := r.Get("data.output.stdout").String(); !strings.Contains(out, `"type":"turn.completed"`) {
		t.Errorf("output %.300s", r.Raw)
	}
	items := r.Get("data.events.items").Array()
	if len(items) == 0 || int64(len(items)) != r.Get("data.events.count").Int() {
		t.Errorf("%d events of %s", len(items), r.Get("data.events.count").Raw)
	}
	if r.Get("data.metadata.thread_info.thread_id").String() == "" ||
		r.Get("data.metadata.thread_info.cache_hit_rate").Float() > 1 {
		t.Errorf("thread %s", r.Get("data.metadata.thread_info").Raw)
	}
	again := d.ask("_codex_local_cancel", map[string]any{"task_id": three})
	if again.Get("error.code").String() != "VALIDATION" || again.Get("error.details.state").String() != "completed" {
		t.Errorf("cancel what has ended: %s", again.Raw)
	}
	if e := d.ask("_codex_local_cancel", map[string]any{"task_id": two}); e.Get("status").String() != "ok" {
		t.Errorf("cancel: %s", e.Raw)
	}
	d.wait(two)
}

// commands are the processes of this test, by the directory they run in, whose
// command line holds text and not more.
func commands(t *testing.T, text string) (found []string) {
	t.Helper()
	for pid, line := range processes(t, filepath.Dir(t.TempDir())) {
		if line == text {
			found = append(found, pid)
		}
	}
	return found
}

// processes are the command lines of the processes that run in a directory or below
// it, by their ids.
func processes(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Skipf("no /proc to look at: %v", err)
	}
	found := map[string]string{}
	for _, e := range entries {
		at, err := os.Readlink(filepath.Join("/proc", e.Name(), "cwd"))
		if err != nil || at != dir && !strings.HasPrefix(at, dir+"/") {
			continue
		}
		raw, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err != nil || len(raw) == 0 { // it has ended
			continue
		}
		found[e.Name()] = strings.ReplaceAll(strings.TrimSuffix(string(raw), "\x00"), "\x00", " ")
	}
	return found
}

func TestRealCodexThreadIsResumed(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, 1, "go=resume")
	gitInit(t, d.dirs["go"]) // resume runs where the first one ran, and cannot waive the check for a repository
	first := d.submit("go", nil)
	e := d.wait(first)
	thread := e.Get("data.metadata.thread_info.thread_id").String()
	if e.Get("data.state").String() != "completed" || thread == "" {
		t.Fatalf("the first: %s", e.Raw)
	}
	ack := d.ask("_codex_local_resume", map[string]any{"threadId": thread, "task": "go"})
	if ack.Get("data.thread_id").String() != thread {
		t.Fatalf("resume: %s", ack.Raw)
	}
	e = d.wait(ack.Get("data.task_id").String())
	if e.Get("data.state").String() != "completed" || e.Get("data.metadata.thread_info.thread_id").String() != thread {
		t.Errorf("the second: %s", e.Raw)
	}
	if !strings.Contains(e.Get("data.output.stdout").String(), "42.") {
		t.Errorf("it does not remember: %s", e.Raw)
	}
}

func gitInit(t *testing.T, dir string) {
	t.Helper()
	if out, err := exec.Command("git", "init", "-q", dir).CombinedOutput(); err != nil {
		t.Fatalf("git init: %v %s", err, out)
	}
}

func TestRealCodexSilentTaskTimesOut(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, 1, "go=shell-sleep")
	run := d.submit("go", map[string]any{"idleTimeoutSec": 4})
	e := d.wait(run)
	if e.Get("status").String() != "ok" || e.Get("data.state").String() != "timeout" {
		t.Fatalf("wait: %s", e.Raw)
	}
	trouble := e.Get("data.metadata.error_context")
	if trouble.Get("timeout_type").String() != "idle" {
		t.Errorf("error context: %s", trouble.Raw)
	}
	partial := trouble.Get("partial_results")
	if !strings.Contains(partial.Get("last_output").String(), "I wait for it.") ||
		len(partial.Get("last_events").Array()) == 0 {
		t.Errorf("partial results: %s", partial.Raw)
	}
	if left := commands(t, "sleep 61"); len(left) != 0 {
		t.Errorf("%d commands live on", len(left))
	}
}

func TestRealCodexFailureIsExplained(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, 1, "go=failed")
	run := d.submit("go", nil)
	e := d.wait(run)
	if e.Get("data.state").String() != "failed" {
		t.Fatalf("wait: %s", e.Raw)
	}
	trouble := e.Get("data.metadata.error_context")
	if trouble.Get("error_message").String() == "" {
		t.Errorf("no message: %s", e.Raw)
	}
	if !e.Get("data.output.included").Bool() {
		t.Errorf("the output of a failed task is left out: %s", e.Get("data.output").Raw)
	}
	status := d.ask("_codex_local_status", nil)
	if got := status.Get("data.recently_completed.0"); got.Get("task_id").String() != run ||
		got.Get("state").String() != "failed" {
		t.Errorf("status %s", status.Raw)
	}
}
