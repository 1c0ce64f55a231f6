package e2e

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/test/fixture"
)

// quietEnv is an environment without settings.
func quietEnv(t *testing.T) []string {
	t.Helper()
	return []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}
}

// A role that runs reads log_level and scrub again, and only valid ones. Its runs continue,
// with each event once.
func TestUpReadsLogLevelAndScrubAgain(t *testing.T) {
	fixture.NeedSignal(t, syscall.SIGHUP)
	t.Parallel()
	data, file := t.TempDir(), filepath.Join(t.TempDir(), "linesman.toml")
	write := func(settings string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("log_level = \"warn\"\n")
	server := beginIn(t, quietEnv(t), nil, append([]string{"up", "--data-dir", data, "--config", file},
		fixture.Loopback()...)...)
	server.Await(server.Stdout, "ready ")
	if text := server.Stderr.String(); strings.Contains(text, " info ") {
		t.Errorf("it logs at the level warn: %s", text)
	}
	const secret = "sk-" + "proj-abcdefghijklmnopqrstuvwxyz012345"
	agent := newScript(t, "say 'one "+secret+"'; await go; say 'two "+secret+"'\n")
	run := begin(t, nil, "run", "--data-dir", data, "--run", "long", "--json", "--", agent.path)
	run.Await(run.Stdout, "one "+secret)

	write("log_level = \"debug\"\nscrub = true\n")
	server.Signal(syscall.SIGHUP)
	server.Await(server.Stderr, `log_level and scrub were read again {"log_level": "debug", "scrub": true}`)
	server.Await(server.Stderr, "normalizer reading") // with the new setting
	agent.touch("go")
	if code := run.Code(); code != 0 {
		t.Errorf("run: exit %d\n%s", code, run.Stderr)
	}
	var all strings.Builder
	for _, r := range events(t, data, "long") {
		all.Write(r.Event)
	}
	for text, want := range map[string]int{"one " + secret: 1, "one ": 1, "two " + secret: 0, "two [REDACTED:": 1} {
		if n := strings.Count(all.String(), text); n != want {
			t.Errorf("%d times %q in the events, want %d:\n%s", n, text, want, &all)
		}
	}

	write("scrub = \"maybe\"\n")
	server.Signal(syscall.SIGHUP)
	server.Await(server.Stderr, "the settings are not changed")
	write("log_level = \"warn\"\nscrub = true\n")
	server.Signal(syscall.SIGHUP)
	server.AwaitCount(server.Stderr, `"to": "warn"`, 1)
	server.Signal(syscall.SIGUSR1)
	server.AwaitCount(server.Stderr, `"to": "debug"`, 2)
	server.Signal(syscall.SIGUSR2)
	server.AwaitCount(server.Stderr, `"to": "warn"`, 2)
	server.Signal(syscall.SIGTERM)
	if code := server.Code(); code != 0 {
		t.Errorf("up: exit %d\n%s", code, server.Stderr)
	}
}

// A file that is away for a moment, as its directory is not mounted, does not turn scrub off.
func TestUpKeepsItsSettingsWhileTheirFileIsMissing(t *testing.T) {
	fixture.NeedSignal(t, syscall.SIGHUP)
	t.Parallel()
	data := t.TempDir()
	file := filepath.Join(data, "config.toml")
	server := beginIn(t, quietEnv(t), nil, append([]string{"up", "--data-dir", data}, fixture.Loopback()...)...)
	server.Await(server.Stdout, "ready ")
	reload := func(says string, times int) {
		t.Helper()
		server.Signal(syscall.SIGHUP)
		server.AwaitCount(server.Stderr, says, times)
	}
	const scrubs, not = `log_level and scrub were read again {"log_level": "info", "scrub": true}`, "the settings are not changed"
	write(t, file, "scrub = true\n")
	reload(scrubs, 1)
	for i := range 2 { // it is missed as long as it is away
		if err := os.RemoveAll(file); err != nil {
			t.Fatal(err)
		}
		reload(not, i+1)
	}
	if said := server.Stderr.String(); !strings.Contains(said, file) || strings.Contains(said, `"scrub": false`) {
		t.Errorf("it says\n%s", said)
	}
	write(t, file, "scrub = true\n")
	reload(scrubs, 2)
	write(t, file, "") // without the setting scrub is off
	reload(`"scrub": false`, 1)
	server.Signal(syscall.SIGTERM)
	if code := server.Code(); code != 0 {
		t.Errorf("up: exit %d\n%s", code, server.Stderr)
	}
}

// The signals do not end an `up` either that still waits for the one in the background to give way: it obeys them then.
func TestUpThatWaitsForItsDataDirectoryIsNotEndedBySignals(t *testing.T) {
	fixture.NeedSignal(t, syscall.SIGHUP)
	t.Parallel()
	data := t.TempDir()
	up(t, data).Stop()
	lock, err := os.Create(filepath.Join(data, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Fatal(err)
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	write(t, filepath.Join(data, "linesman.json"), fmt.Sprintf(`{"nats":"nats://%s","pid":%d,"background":true}`,
		silent.Addr(), os.Getpid()))
	p := beginIn(t, quietEnv(t), nil, append([]string{"up", "--data-dir", data}, fixture.Loopback()...)...)
	asks, err := silent.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer asks.Close()
	p.Signal(syscall.SIGHUP)
	p.Signal(syscall.SIGUSR1)
	for _, c := range []io.Closer{lock, asks, silent} {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	p.Await(p.Stdout, "ready ")
	p.Await(p.Stderr, "log_level and scrub were read again")
	p.Await(p.Stderr, `{"from": "info", "to": "debug"}`)
	p.Signal(syscall.SIGTERM)
	if code := p.Code(); code != 0 {
		t.Errorf("up: exit %d\n%s", code, p.Stderr)
	}
}

// The signals do not end a role, even one that waits for NATS.
func TestEveryRoleChangesItsLogLevel(t *testing.T) {
	fixture.NeedSignal(t, syscall.SIGHUP)
	t.Parallel()
	url := "nats://" + fixture.FreeAddresses(t, 1)[0]
	for _, role := range []string{"worker", "normalizer", "responder"} {
		p := beginIn(t, append(quietEnv(t), "LINESMAN_HTTP=127.0.0.1:0"), nil, role, "--nats", url, "--data-dir", t.TempDir())
		p.Await(p.Stderr, "no connection yet")
		for _, s := range []struct {
			signal syscall.Signal
			says   string
		}{
			{syscall.SIGUSR1, `{"from": "info", "to": "debug"}`}, {syscall.SIGUSR2, `{"from": "debug", "to": "info"}`},
			{syscall.SIGHUP, "log_level and scrub were read again"},
		} {
			p.Signal(s.signal)
			p.Await(p.Stderr, s.says)
		}
		p.Signal(syscall.SIGTERM)
		if code := p.Code(); code != 0 {
			t.Errorf("%s: exit %d\n%s", role, code, p.Stderr)
		}
	}
}
