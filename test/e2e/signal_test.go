package e2e

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/test/fixture"
)

func TestCtrlCIsTheAgents(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	agent := newScript(t, `
trap 'say interrupted; exit 7' INT
say one
while :; do sleep 0.02; done
`)
	run := beginIn(t, background(t, data, os.Environ()), nil, "run", "--data-dir", data, "--run", "polite", "--json", "--",
		agent.path)
	run.Await(run.Stdout, `"text":"one"`)
	run.Signal(syscall.SIGINT)
	if code := run.Code(); code != 7 {
		t.Errorf("exit status %d, want the agent's 7\n%s", code, run.Stderr)
	}
	same(t, "run", printed(parse(t, run.Stdout.String())), expected(t, said("one", "interrupted"), 7))
	if s := fixture.WithoutNotices(run.Stderr.String()); s != "linesman: run polite\n" {
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
	run.Await(run.Stdout, `"text":"one"`)
	run.Signal(syscall.SIGINT)
	run.Await(run.Stdout, `"text":"stubborn"`)
	run.Signal(syscall.SIGINT)
	if code := run.Code(); code != 9 {
		t.Errorf("exit status %d, want the agent's 9\n%s", code, run.Stderr)
	}
	wantCancelled(t, run, "one", "stubborn")
}

func TestSIGTERMCancels(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	agent := newScript(t, "say one\nexec sleep 100\n")
	up(t, data)
	run := begin(t, nil, "run", "--data-dir", data, "--run", "cancelled", "--json", "--", agent.path)
	run.Await(run.Stdout, `"text":"one"`)
	run.Signal(syscall.SIGTERM)
	if code := run.Code(); code != 128+15 {
		t.Errorf("exit status %d, want 143\n%s", code, run.Stderr)
	}
	wantCancelled(t, run, "one")
}

// A signal while linesman still looks for a server is not lost.
func TestSignalBeforeTheServerIsThere(t *testing.T) {
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
	for _, test := range []struct {
		signal syscall.Signal
		args   []string
		code   int
		said   string
	}{
		{syscall.SIGINT, []string{"run", "--run", "early", "--json", "--", "sleep", "100"}, 130,
			"linesman: ended by SIGINT; no agent was started\n"},
		{syscall.SIGTERM, []string{"run", "--run", "early", "--json", "--", "sleep", "100"}, 143,
			"linesman: ended by SIGTERM; no agent was started\n"},
		{syscall.SIGINT, []string{"status"}, 130, "linesman: ended by SIGINT\n"},
		{syscall.SIGTERM, []string{"status"}, 143, "linesman: ended by SIGTERM\n"},
	} {
		p := begin(t, nil, append([]string{test.args[0], "--data-dir", data}, test.args[1:]...)...)
		p.Await(p.Stderr, "is in use")
		p.Signal(test.signal)
		if code := p.Code(); code != test.code {
			t.Errorf("%s: exit status %d, want %d", test.args[0], code, test.code)
		}
		if said := p.Stderr.String(); !strings.HasSuffix(said, test.said) {
			t.Errorf("%s: stderr does not end with %q:\n%s", test.args[0], test.said, said)
		}
	}
}

// An attempt to connect takes up to five seconds.
func TestSignalEndsAnAttemptToConnectAtOnce(t *testing.T) {
	t.Parallel()
	canary := fixture.StartCanary(t)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	p := begin(t, nil, "status", "--nats", "nats://"+silent.Addr().String(), "--data-dir", t.TempDir())
	conn, err := silent.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	began := time.Now()
	p.Signal(syscall.SIGTERM)
	if code := p.Code(); code != 143 {
		t.Errorf("exit status %d, want 143\n%s", code, p.Stderr)
	}
	canary.Within("it ended", time.Since(began), 3*time.Second)
}

// wantCancelled checks that there is nothing after some messages but the one
// error of a cancel and the completion.
func wantCancelled(t *testing.T, run *fixture.Process, texts ...string) {
	t.Helper()
	got := printed(parse(t, run.Stdout.String()))
	want := expected(t, said(texts...), 0)
	want = append(want[:len(want)-1],
		`0.1 {"agent_kind":"codex","status":null,"final_text":null,"data":null,"error":{"kind":"backend","message":"cancelled"}}`)
	if len(got) > 0 && strings.Contains(got[max(0, len(got)-2)], `"kind":"Error"`) {
		t.Errorf("an event after the cancel: %s", got[len(got)-2])
	}
	same(t, "run", got, want)
}
