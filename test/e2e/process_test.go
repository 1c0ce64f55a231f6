package e2e

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/test/quiet"
)

// deadline is for what takes a moment, on a busy machine.
const deadline = 30 * time.Second

// process is a linesman in the background.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdout *text
	stderr *text
	ended  chan struct{}
}

// begin starts the program until the test ends. It logs at the level debug.
func begin(t *testing.T, stdin io.Reader, args ...string) *process {
	t.Helper()
	return beginIn(t, nil, stdin, args...)
}

// beginIn is begin in an environment, if that is not nil, and with its log level.
func beginIn(t *testing.T, env []string, stdin io.Reader, args ...string) *process {
	t.Helper()
	return beginAt(t, "", env, stdin, args...)
}

// beginAt is beginIn in a directory, "" being that of the test.
func beginAt(t *testing.T, dir string, env []string, stdin io.Reader, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(program, args...), stdout: newText(), stderr: newText(), ended: make(chan struct{})}
	p.cmd.Dir, p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = dir, stdin, p.stdout, p.stderr
	quiet.Watch(t, p.cmd)
	if env != nil {
		p.cmd.Env = env
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // its state says it
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
		if t.Failed() {
			t.Logf("%q:\n%s", p.cmd.Args[1:], p.stderr)
		}
	})
	return p
}

// background is an environment in which commands on a data directory start an
// `up` in the background, which ends with the test.
func background(t *testing.T, data string, env []string) []string {
	t.Helper()
	t.Cleanup(func() {
		down := exec.Command(program, "down", "--data-dir", data)
		quiet.Watch(t, down)
		if err := down.Run(); err != nil {
			t.Errorf("down: %v", err)
		}
	})
	return append(env, "LINESMAN_BACKGROUND_START=true")
}

// signal sends one that must find the process alive.
func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("%v to %q: %v\n%s", s, p.cmd.Args[1:], err, p.stderr)
	}
}

// kill is a kill -9, and returns when the process is gone.
func (p *process) kill() {
	p.t.Helper()
	p.signal(syscall.SIGKILL)
	<-p.ended
}

// code waits for the end and returns the exit code, -1 after a signal.
func (p *process) code() int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(3 * deadline):
		p.t.Fatalf("%q does not end\n%s%s", p.cmd.Args[1:], p.stdout, p.stderr)
	}
	return p.cmd.ProcessState.ExitCode()
}

// await waits until one of the process's outputs holds part.
func (p *process) await(w *text, part string) {
	p.t.Helper()
	p.awaitCount(w, part, 1)
}

// awaitCount waits until one of the process's outputs holds part n times.
func (p *process) awaitCount(w *text, part string, n int) {
	p.t.Helper()
	late := time.After(deadline)
	for ended := false; ; {
		s, more := w.now()
		if strings.Count(s, part) >= n {
			return
		}
		if ended {
			p.t.Fatalf("%q ended without %q", p.cmd.Args[1:], part)
		}
		select {
		case <-more:
		case <-p.ended:
			ended = true // look once more: its output is whole now
		case <-late:
			p.t.Fatalf("%q: no %q after %v in:\n%s", p.cmd.Args[1:], part, deadline, s)
		}
	}
}

// text is output that grows.
type text struct {
	mu   sync.Mutex
	b    strings.Builder
	more chan struct{} // closed and replaced at each write
}

func newText() *text { return &text{more: make(chan struct{})} }

func (w *text) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.b.Write(p)
	close(w.more)
	w.more = make(chan struct{})
	return len(p), nil
}

func (w *text) now() (string, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.String(), w.more
}

func (w *text) String() string {
	s, _ := w.now()
	return s
}

// script is an agent: a shell script in a directory of its own, where it runs.
// In it `await NAME` waits for a file that [touch] makes, and `say TEXT` prints
// a message as Codex does.
type script struct {
	t    *testing.T
	dir  string
	path string
}

func newScript(t *testing.T, body string) *script {
	t.Helper()
	dir := secretDir(t)
	s := &script{t: t, dir: dir, path: filepath.Join(dir, "agent")}
	text := `#!/bin/sh
cd "` + dir + `" || exit 99
await() { until test -e "$1"; do sleep 0.02; done; }
say() { echo '{"type":"item.completed","item":{"id":"item_0","type":"agent_message","text":"'"$1"'"},"unknown":"` + quiet.Sentinel + `said"}'; }
` + body
	syscall.ForkLock.RLock() // what is forked meanwhile has it open for writing until its exec: it could not be started
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(s.path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return s
}

// said is what the agent prints for some messages.
func said(texts ...string) []byte {
	var b strings.Builder
	for _, text := range texts {
		b.WriteString(`{"type":"item.completed","item":{"id":"item_0","type":"agent_message","text":"` + text + `"},"unknown":"` + quiet.Sentinel + `said"}` + "\n")
	}
	return []byte(b.String())
}

// touch makes a file that the script waits for.
func (s *script) touch(name string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), nil, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// events are those of a run, read until its completion.
func events(t *testing.T, data, run string) []record {
	t.Helper()
	out, code := execute(t, "events", "--data-dir", data, "--run", run, "--follow", "--json")
	if code != 0 {
		t.Fatalf("events: exit %d", code)
	}
	return parse(t, out)
}

// parse reads JSON records.
func parse(t *testing.T, out string) []record {
	t.Helper()
	var records []record
	for line := range strings.Lines(out) {
		var r record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("record %q: %v", line, err)
		}
		records = append(records, r)
	}
	return records
}

// noDirectories waits until no run is left on the worker's disk.
func noDirectories(t *testing.T, data string) {
	t.Helper()
	eventually(t, "a run directory is left", func() bool {
		left, err := os.ReadDir(filepath.Join(data, "runs"))
		return err == nil && len(left) == 0
	})
}

// awaitShim waits until the agent of a run directory has ended and the shim
// that watched over it is gone: then its lock is free.
func awaitShim(t *testing.T, dir string) {
	t.Helper()
	eventually(t, "the agent runs", func() bool {
		if _, err := os.Stat(filepath.Join(dir, "exit.json")); err != nil {
			return false
		}
		lock, err := os.Open(filepath.Join(dir, "shim"))
		if err != nil {
			return false
		}
		defer lock.Close()
		return unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil
	})
}

// eventually waits until a condition holds; after the deadline what is said fails the test.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for late := time.Now().Add(deadline); !holds(); <-tick.C {
		if time.Now().After(late) {
			t.Fatalf("%s after %v", what, deadline)
		}
	}
}
