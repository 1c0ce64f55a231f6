package e2e

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/test/fixture"
)

// begin starts the program until the test ends. It logs at the level debug.
func begin(t *testing.T, stdin io.Reader, args ...string) *fixture.Process {
	t.Helper()
	return beginIn(t, nil, stdin, args...)
}

// beginIn is begin in an environment, if that is not nil, and with its log
// level.
func beginIn(t *testing.T, env []string, stdin io.Reader, args ...string) *fixture.Process {
	t.Helper()
	return beginAt(t, "", env, stdin, args...)
}

// beginAt is beginIn in a directory, "" being that of the test.
func beginAt(t *testing.T, dir string, env []string, stdin io.Reader, args ...string) *fixture.Process {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Stdin, cmd.Env = dir, stdin, env
	if env != nil {
		return fixture.StartAsIs(t, cmd)
	}
	return fixture.Start(t, cmd)
}

// background is an environment in which commands on a data directory start an
// `up` in the background, which ends with the test.
func background(t *testing.T, data string, env []string) []string {
	t.Helper()
	t.Cleanup(func() {
		down := exec.Command(program, "down", "--data-dir", data)
		fixture.Watch(t, down)
		if err := down.Run(); err != nil {
			t.Errorf("down: %v", err)
		}
	})
	return append(env, "LINESMAN_BACKGROUND_START=true")
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
say() { echo '{"type":"item.completed","item":{"id":"item_0","type":"agent_message","text":"'"$1"'"},"timestamp":"` + fixture.Sentinel + `said"}'; }
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
		b.WriteString(`{"type":"item.completed","item":{"id":"item_0","type":"agent_message","text":"` + text +
			`"},"timestamp":"` + fixture.Sentinel + `said"}` + "\n")
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
	fixture.Eventually(t, fixture.Patience, "a run directory is left", func() bool {
		left, err := os.ReadDir(filepath.Join(data, "runs"))
		return err == nil && len(left) == 0
	})
}

// awaitShim waits until the agent of a run directory has ended and the shim
// that watched over it is gone: then its lock is free.
func awaitShim(t *testing.T, dir string) {
	t.Helper()
	fixture.Eventually(t, fixture.Patience, "the agent runs", func() bool {
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
