package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestCtrlCIsTheAgents(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	agent := newScript(t, `
trap 'say interrupted; exit 7' INT
say one
while :; do sleep 0.02; done
`)
	run := beginIn(t, background(t, data, os.Environ()), nil, "run", "--data-dir", data, "--run", "polite", "--json", "--", agent.path)
	run.await(run.stdout, `"text":"one"`)
	run.signal(syscall.SIGINT)
	if code := run.code(); code != 7 {
		t.Errorf("exit status %d, want the agent's 7\n%s", code, run.stderr)
	}
	same(t, "run", printed(parse(t, run.stdout.String())), expected(t, said("one", "interrupted"), 7))
	if s := run.stderr.String(); s != "linesman: run polite\n" {
		t.Errorf("stderr holds more than the run's id:\n%s", s)
	}
}

// What the agent prints after the cancel gives no events.
func TestSecondCtrlCCancels(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	agent := newScript(t, `
trap 'say stubborn' INT
trap 'say late; exit 9' TERM
say one
while :; do sleep 0.02; done
`)
	up(t, data)
	run := begin(t, nil, "run", "--data-dir", data, "--run", "cancelled", "--json", "--", agent.path)
	run.await(run.stdout, `"text":"one"`)
	run.signal(syscall.SIGINT)
	run.await(run.stdout, `"text":"stubborn"`)
	run.signal(syscall.SIGINT)
	if code := run.code(); code != 9 {
		t.Errorf("exit status %d, want the agent's 9\n%s", code, run.stderr)
	}
	wantCancelled(t, run, "one", "stubborn")
}

func TestSIGTERMCancels(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	agent := newScript(t, "say one\nexec sleep 100\n")
	up(t, data)
	run := begin(t, nil, "run", "--data-dir", data, "--run", "cancelled", "--json", "--", agent.path)
	run.await(run.stdout, `"text":"one"`)
	run.signal(syscall.SIGTERM)
	if code := run.code(); code != 128+15 {
		t.Errorf("exit status %d, want 143\n%s", code, run.stderr)
	}
	wantCancelled(t, run, "one")
}

// Ctrl-C while linesman still looks for a server is not lost.
func TestCtrlCBeforeTheAgentIsThere(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	lock, err := os.Create(filepath.Join(data, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Fatal(err)
	}
	run := begin(t, nil, "run", "--data-dir", data, "--run", "early", "--json", "--", "sleep", "100")
	run.await(run.stderr, "is in use")
	run.signal(syscall.SIGINT)
	if code := run.code(); code != 128+2 {
		t.Errorf("exit status %d, want 130\n%s", code, run.stderr)
	}
	if said := run.stderr.String(); !strings.Contains(said, "no agent was started") {
		t.Errorf("it does not say that no agent was started:\n%s", said)
	}
}

// wantCancelled checks that there is nothing after some messages but the one
// error of a cancel and the completion.
func wantCancelled(t *testing.T, run *process, texts ...string) {
	t.Helper()
	got := printed(parse(t, run.stdout.String()))
	want := expected(t, said(texts...), 0)
	want = append(want[:len(want)-1],
		`0.1 {"agent_kind":"codex","status":null,"final_text":null,"data":null,"error":{"kind":"backend","message":"cancelled"}}`)
	if len(got) > 0 && strings.Contains(got[max(0, len(got)-2)], `"kind":"Error"`) {
		t.Errorf("an event after the cancel: %s", got[len(got)-2])
	}
	same(t, "run", got, want)
}
