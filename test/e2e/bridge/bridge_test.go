// Package bridge has a program of another language ask an agent by files, as
// the contract of those files says, with `linesman bridge` in between.
package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/lab/agents"
)

var linesman string // the program under test

func TestMain(m *testing.M) {
	os.Exit(fixture.Main(m, "bridges and servers are killed again and again, which takes ten seconds",
		func(dir string) error {
			linesman = filepath.Join(dir, "linesman")
			return fixture.Build(dir, "./cmd/linesman")
		}))
}

// world is a data directory, an agent, and a directory for requests.
type world struct {
	t                       *testing.T
	lab, data, work, python string
}

// newWorld makes one whose agent runs the shell script of the prompt's name.
func newWorld(t *testing.T, scripts map[string]string) *world {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3 on this machine")
	}
	if out, err := exec.CommandContext(t.Context(), python, "-c",
		"import sys; sys.exit(sys.version_info < (3, 10))").CombinedOutput(); err != nil {
		t.Skipf("python3 is older than 3.10: %v %s", err, out)
	}
	w := &world{t: t, lab: filepath.Join(t.TempDir(), fixture.Sentinel+"lab"), data: t.TempDir(), work: t.TempDir(),
		python: python}
	if err := os.Mkdir(w.lab, 0o700); err != nil { // where tasks work; it may be in no log
		t.Fatal(err)
	}
	for prompt, script := range scripts {
		w.write(prompt+".sh", script)
	}
	w.write("agent.sh", "for p; do :; done\n. '"+w.lab+"'/\"$p\".sh\n")
	w.write("linesman.toml", fmt.Sprintf("[work]\nroots = [%q]\n[agents.codex]\ncommand = ['/bin/sh', %q]\n", w.lab,
		filepath.Join(w.lab, "agent.sh")))
	return w
}

func (w *world) write(name, text string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.lab, name), []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// start starts linesman until the test ends, and returns once it is ready.
func (w *world) start(args ...string) *fixture.Process {
	w.t.Helper()
	cmd := exec.Command(linesman, append(args, "--data-dir", w.data, "--config", filepath.Join(w.lab, "linesman.toml"))...)
	cmd.Dir, cmd.Env = w.work, append(os.Environ(), "HOME="+w.lab)
	p := fixture.Start(w.t, cmd)
	w.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if code := p.Code(); code > 0 {
			w.t.Errorf("linesman %s: exit %d", args[0], code)
		}
	})
	p.Await(p.Stdout, "\n")
	if said := p.Stdout.String(); !strings.HasPrefix(said, "ready ") {
		w.t.Fatalf("linesman %s said %q", args[0], said)
	}
	return p
}

// up starts `linesman up`.
func (w *world) up() *fixture.Process {
	w.t.Helper()
	return w.start(append([]string{"up"}, fixture.Loopback()...)...)
}

// program runs the program once, and returns what it printed and its exit code.
func (w *world) program(args ...string) (string, int) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), fixture.Patience)
	defer cancel()
	script, err := filepath.Abs("program.py")
	if err != nil {
		w.t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, w.python, append([]string{"-B", script, w.work}, args...)...)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		w.t.Fatal(err)
	}
	if code := cmd.ProcessState.ExitCode(); code == 0 || code == 42 {
		return string(out), code
	}
	w.t.Fatalf("the program: %v\n%s", err, exit.Stderr)
	return "", 0
}

// answered waits for the response of a phase, and until its request is gone.
func (w *world) answered(phase int) {
	w.t.Helper()
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		w.t.Fatal(err)
	}
	defer watcher.Close()
	if err := watcher.Add(w.work); err != nil {
		w.t.Fatal(err)
	}
	late := time.After(fixture.Patience)
	for {
		_, missing := os.Lstat(filepath.Join(w.work, fmt.Sprintf(".agent-response-phase%d.json", phase)))
		_, gone := os.Lstat(filepath.Join(w.work, fmt.Sprintf(".agent-request-phase%d.json", phase)))
		if missing == nil && errors.Is(gone, os.ErrNotExist) {
			return
		}
		select {
		case <-watcher.Events:
		case <-late:
			w.t.Fatalf("phase %d has no answer: %v, %v", phase, missing, gone)
		}
	}
}

// story runs the program to its end, each time it needs an agent after the
// bridge has answered, and returns its two results.
func (w *world) story(prompt1, prompt5 string) []any {
	w.t.Helper()
	for n, args := 0, []string{prompt1, prompt5}; ; n++ {
		out, code := w.program(args...)
		if code == 0 {
			var results []any
			if err := json.Unmarshal([]byte(out), &results); err != nil || n != 2 {
				w.t.Fatalf("after %d answers the program said %q, %v", n, out, err)
			}
			return results
		}
		w.answered([]int{1, 5}[n])
		args = []string{prompt1, prompt5, "--resume"}
	}
}

// say is an agent that says something and ends with a status.
func say(text string, status int) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf(`cat <<'END'
{"type":"thread.started","thread_id":"0199a213-81c0-7800-8aa1-bbab2a035a53"}
{"type":"turn.started","unknown":"`+fixture.Sentinel+`said"}
{"type":"item.completed","item":{"id":"item_0","type":"agent_message","text":%s}}
{"type":"turn.completed","usage":{"input_tokens":1,"cached_input_tokens":0,"output_tokens":2}}
END
exit %d
`, b, status)
}

func TestProgramGoesOnWithItsAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{
		fixture.Sentinel + "sections": say("{\"sections\": [\"a\"], \"boundaries\": \"## ✅ <b> & \\u2028\\n\"}", 0),
		fixture.Sentinel + "broken":   say("x", 3),
	})
	w.up()
	w.start("bridge", "--dir", w.work, "--working-dir", w.lab)
	got := w.story(fixture.Sentinel+"sections", fixture.Sentinel+"broken")
	first, _ := got[0].(map[string]any)
	if first["boundaries"] != "## ✅ <b> & \u2028\n" {
		t.Errorf("phase 1: %v", got[0])
	}
	second, _ := got[1].(map[string]any)
	if second["error_type"] != "AgentInvocationError" ||
		second["error_message"] != "Failed: the agent ended with exit status 3" {
		t.Errorf("phase 5: %v", got[1])
	}
}

// The bridge is killed again and again, at whatever moment, while the program
// goes through its phases: each request is run once, and answered once.
func TestProgramSeesNothingOfKilledBridges(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.write("slow.sh", "echo run >>'"+w.lab+"/count'\nsleep 1\n"+say("done", 0))
	w.up()
	if _, code := w.program("slow", "slow"); code != 42 {
		t.Fatalf("the program ended with %d", code)
	}
	kills := w.killing("--working-dir", w.lab)
	w.answered(1)
	if _, code := w.program("slow", "slow", "--resume"); code != 42 {
		t.Fatalf("the program ended with %d", code)
	}
	w.answered(5)
	if n := kills(); n < 3 {
		t.Errorf("the bridge was killed %d times", n)
	}
	if out, code := w.program("slow", "slow", "--resume"); code != 0 || out != "[\"done\", \"done\"]\n" {
		t.Errorf("the program said %q and ended with %d", out, code)
	}
	if b, err := os.ReadFile(filepath.Join(w.lab, "count")); err != nil || string(b) != "run\nrun\n" {
		t.Errorf("the agent ran %q, %v", b, err)
	}
}

// The server of the bridge is killed while an agent works for a request, and
// comes back on another port.
func TestAnswerComesThoughTheServerWasAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.write("slow.sh", "echo run >>'"+w.lab+"/count'\nsleep 2\n"+say("done", 0))
	up := w.up()
	w.start("bridge", "--dir", w.work, "--working-dir", w.lab)
	if _, code := w.program("slow", "slow"); code != 42 {
		t.Fatalf("the program ended with %d", code)
	}
	w.appears("count")
	up.Kill()
	w.up()
	w.answered(1)
	// the next request runs it again
	if b, err := os.ReadFile(filepath.Join(w.lab, "count")); err != nil || string(b) != "run\n" {
		t.Errorf("the agent ran %q, %v", b, err)
	}
	if _, code := w.program("slow", "slow", "--resume"); code != 42 {
		t.Fatalf("the program ended with %d", code)
	}
}

// appears waits for a file of the lab.
func (w *world) appears(name string) {
	w.t.Helper()
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		w.t.Fatal(err)
	}
	defer watcher.Close()
	if err := watcher.Add(w.lab); err != nil {
		w.t.Fatal(err)
	}
	late := time.After(fixture.Patience)
	for {
		if _, err := os.Stat(filepath.Join(w.lab, name)); err == nil {
			return
		}
		select {
		case <-watcher.Events:
		case <-late:
			w.t.Fatalf("there is no %s", name)
		}
	}
}

// killing runs bridges one after another, each killed somewhat later than the
// one before, until the test ends or stop is called, which says how many
// there were.
func (w *world) killing(flags ...string) (stop func() int) {
	over, count := make(chan struct{}), make(chan int, 1)
	go func() {
		n := 0
		defer func() { count <- n }()
		for life := 50 * time.Millisecond; ; life += 50 * time.Millisecond {
			cmd := exec.Command(linesman, append([]string{"bridge", "--dir", w.work, "--data-dir", w.data, "--config",
				filepath.Join(w.lab, "linesman.toml")}, flags...)...)
			cmd.Env = append(os.Environ(), "HOME="+w.lab)
			fixture.Watch(w.t, cmd)
			if err := cmd.Start(); err != nil {
				w.t.Errorf("start a bridge: %v", err)
				return
			}
			last := false
			select {
			case <-over:
				last = true
			case <-time.After(life):
			}
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			if n++; last {
				return
			}
		}
	}()
	stop = sync.OnceValue(func() int {
		close(over)
		return <-count
	})
	w.t.Cleanup(func() { stop() })
	return stop
}

// The real Codex answers, with a text that is longer than events are, too.
func TestRealCodexAnswers(t *testing.T) {
	t.Parallel()
	agents.Codex(t)
	w := newWorld(t, nil)
	for _, scenario := range []string{"schema", "long-message"} {
		env, argv, _ := agents.Setup(t, "codex-"+scenario, filepath.Join(w.lab, scenario))
		script := ""
		for _, v := range env {
			name, value, _ := strings.Cut(v, "=")
			script += fmt.Sprintf("export %s='%s'\n", name, value)
		}
		w.write(scenario+".sh", script+fmt.Sprintf("exec '%s' \"$@\"\n", argv[0][0]))
	}
	w.up()
	w.start("bridge", "--dir", w.work, "--working-dir", w.lab, "--skip-git-repo-check")
	got := w.story("schema", "long-message")
	if first, _ := got[0].(map[string]any); first["files"] != 1.0 {
		t.Errorf("phase 1: %v", got[0])
	}
	if second, _ := got[1].(string); second != strings.Repeat("All work and no play. ", 9500) {
		t.Errorf("phase 5: %d bytes: %.200v", len(second), got[1])
	}
}

func TestExampleGoesOnWithItsAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{fixture.Sentinel + "hello": say("Hello.", 0)})
	dir := t.TempDir()
	if err := fixture.Build(dir, "./examples/bridge"); err != nil {
		t.Fatal(err)
	}
	example := filepath.Join(dir, "bridge")
	w.up()
	w.start("bridge", "--dir", w.work, "--working-dir", w.lab)
	run := func(args ...string) (string, int) {
		cmd := exec.CommandContext(t.Context(), example, args...)
		cmd.Dir = w.work
		out, err := cmd.Output()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}
	if out, code := run(fixture.Sentinel + "hello"); out != "" || code != 42 {
		t.Fatalf("it said %q and ended with %d", out, code)
	}
	w.answered(1)
	if out, code := run("--resume"); out != "Hello.\n" || code != 0 {
		t.Errorf("it said %q and ended with %d", out, code)
	}
	if out, code := run("--resume"); out != "" || code != 1 {
		t.Errorf("without an answer it said %q and ended with %d", out, code)
	}
}
