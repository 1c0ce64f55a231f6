package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/test/fixture"
)

// natsAt starts a NATS server at an address of loopback; with a password where
// that is not "". At an address that had another server it may need several tries: a
// program that another test starts has a copy of its socket until it runs.
func natsAt(t *testing.T, address, store, password string) (stop func()) {
	t.Helper()
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(fixture.Patience); ; {
		o := &server.Options{Host: at.Addr().String(), Port: int(at.Port()), JetStream: true, StoreDir: store, NoSigs: true,
			NoLog: true, JetStreamMaxStore: 1 << 50} // not a part of the free space
		if password != "" {
			o.Username, o.Password = "us", password
		}
		s, err := server.NewServer(o)
		if err != nil {
			t.Fatal(err)
		}
		log := natsLog{t, new(atomic.Bool)}
		s.SetLogger(log, false, false)
		s.Start()
		stop = func() {
			s.Shutdown()
			s.WaitForShutdown()
		}
		for !log.failed.Load() && time.Now().Before(deadline) {
			if s.ReadyForConnections(100 * time.Millisecond) {
				t.Cleanup(stop)
				return stop
			}
		}
		stop()
		if !time.Now().Before(deadline) {
			t.Fatal("the NATS server does not start")
		}
	}
}

// natsLog prints what keeps a server from starting.
type natsLog struct {
	t      *testing.T
	failed *atomic.Bool
}

func (l natsLog) Fatalf(format string, v ...any) {
	l.t.Logf("NATS: "+format, v...)
	l.failed.Store(true)
}
func (l natsLog) Errorf(format string, v ...any) { l.t.Logf("NATS: "+format, v...) }
func (natsLog) Warnf(string, ...any)             {}
func (natsLog) Noticef(string, ...any)           {}
func (natsLog) Debugf(string, ...any)            {}
func (natsLog) Tracef(string, ...any)            {}

// startNATS starts a NATS server of somebody else: one account, no streams.
func startNATS(t *testing.T) (url string) {
	t.Helper()
	address := fixture.FreeAddresses(t, 1)[0]
	natsAt(t, address, t.TempDir(), "")
	return "nats://" + address
}

// Worker and responder start before NATS, then NATS that refuses them, then one
// that has no streams, then the normalizer: each of it is said once, and in the
// end a task is done.
func TestRolesStartInAnyOrder(t *testing.T) {
	t.Parallel()
	address, store := fixture.FreeAddresses(t, 1)[0], t.TempDir()
	url := "nats://" + address
	lab := t.TempDir()
	settings := filepath.Join(lab, "linesman.toml")
	text := "[work]\nroots = ['" + lab + "']\n[agents.codex]\ncommand = ['/bin/sh', '-c', 'true']\n"
	if err := os.WriteFile(settings, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	at := func(command string, args ...string) *fixture.Process {
		return begin(t, nil, append([]string{command, "--nats", url, "--data-dir", t.TempDir(), "--config", settings},
			args...)...)
	}
	worker, responder := at("worker"), at("responder", "--http", "127.0.0.1:0")
	early := []*fixture.Process{worker, responder}
	for _, p := range early {
		p.Await(p.Stderr, "NATS is out of reach at "+url)
	}
	stop := natsAt(t, address, store, "secret")
	for _, p := range early {
		p.Await(p.Stderr, "refused the credentials")
	}
	stop()
	natsAt(t, address, store, "")
	responder.Await(responder.Stderr, `waiting for a stream {"stream": "KV_linesman_runs", "why": "it does not exist yet: a normalizer makes it"}`)
	worker.Await(worker.Stderr, "the work queue is out of reach")
	normalizer := at("normalizer")
	normalizer.Await(normalizer.Stderr, "normalizer reading") // there are all streams
	worker.Await(worker.Stderr, "worker ready")
	responder.Await(responder.Stdout, "ready http=")

	out, code := execute(t, "submit", "--nats", url, "--dir", lab, "--skip-git-repo-check", "--wait", "Go.")
	if code != 0 && code != 1 { // the agent says nothing: how that ends is no matter here
		t.Errorf("submit: exit %d: %s", code, out)
	}
	for _, p := range append(early, normalizer) {
		p.Signal(syscall.SIGTERM)
		if code := p.Code(); code != 0 {
			t.Errorf("%s: exit %d, want 0", p.Cmd.Args[1], code)
		}
		text := p.Stderr.String()
		for _, once := range []string{"waiting for a stream", "the work queue is out of reach", "refused the credentials"} {
			if n := strings.Count(text, once); n > 1 {
				t.Errorf("%s: says %d times %q", p.Cmd.Args[1], n, once)
			}
		}
	}
}

// A role that waits for NATS ends in order; one with settings that no waiting
// mends ends at once.
func TestRoleThatWaitsForNATSCanBeEnded(t *testing.T) {
	t.Parallel()
	url := "nats://" + fixture.FreeAddresses(t, 1)[0]
	for _, role := range []string{"worker", "normalizer", "responder"} {
		p := beginIn(t, append(os.Environ(), "LINESMAN_HTTP=127.0.0.1:0"), nil, role, "--nats", url, "--data-dir",
			t.TempDir())
		p.Await(p.Stderr, "no connection yet, trying again")
		p.Signal(syscall.SIGTERM)
		if code := p.Code(); code != 0 {
			t.Errorf("%s: exit %d after SIGTERM, want 0", role, code)
		}
		for what, args := range map[string][]string{
			"a file that is missing": {"--creds", "/no/such.creds"},
			"a directory without":    {"--creds", t.TempDir()},
		} {
			p := begin(t, nil, append([]string{role, "--nats", url, "--data-dir", t.TempDir()}, args...)...)
			if code := p.Code(); code != 2 {
				t.Errorf("%s with %s: exit %d, want 2", role, what, code)
			}
		}
		none := begin(t, nil, role, "--data-dir", t.TempDir())
		if code := none.Code(); code != 3 {
			t.Errorf("%s without a server: exit %d, want 3", role, code)
		}
	}
}

// A directory that is not allowed is refused at the submission, which names the
// setting and what is allowed, and one that is missing, too. Of one that is gone before its
// task starts the answer of the run names the setting, and the worker's log what is allowed.
func TestRefusedDirectoryNamesItsSetting(t *testing.T) {
	t.Parallel()
	data, root := t.TempDir(), t.TempDir()
	settings, s := filepath.Join(t.TempDir(), "linesman.toml"), newScript(t, "await go")
	if err := os.WriteFile(settings, fmt.Appendf(nil, "[work]\nroots = [%q]\nmax_runs = 1\n[agents.codex]\n"+
		"command = ['/bin/sh', %q]\n", root, s.path), 0o600); err != nil {
		t.Fatal(err)
	}
	p := begin(t, nil, "up", "--data-dir", data, "--config", settings, "--nats-listen", "127.0.0.1:0", "--http",
		"127.0.0.1:0")
	p.Await(p.Stdout, "ready nats=")
	out, code := execute(t, "submit", "--data-dir", data, "--dir", "/", "--json", "Go.")
	if want := "is outside of the directories of the setting work.roots: " + root + "; to allow another one, start " +
		"`linesman up --root DIR`, or add it to work.add_roots in " + settings + " ("; code != 2 ||
		!strings.HasPrefix(gjson.Get(out, "message").String(), want) || gjson.Get(out, "field").String() != "workingDir" {
		t.Errorf("submit: exit %d: %s, want %s", code, out, want)
	}
	gone := filepath.Join(root, "none")
	out, code = execute(t, "submit", "--data-dir", data, "--dir", gone, "--json", "Go.")
	if code != 2 || gjson.Get(out, "message").String() != "does not exist" {
		t.Errorf("submit in a missing directory: exit %d: %s", code, out)
	}
	if err := os.Mkdir(gone, 0o700); err != nil {
		t.Fatal(err)
	}
	execute(t, "submit", "--data-dir", data, "--dir", root, "--skip-git-repo-check", "Take the slot.")
	waits, _ := execute(t, "submit", "--data-dir", data, "--dir", gone, "--skip-git-repo-check", "Go.")
	if err := os.Remove(gone); err != nil {
		t.Fatal(err)
	}
	s.touch("go")
	out, code = execute(t, "wait", "--data-dir", data, strings.TrimSpace(waits))
	if code != 1 || !strings.Contains(out, "outside of the directories of its setting work.roots") ||
		strings.Contains(out, root) {
		t.Errorf("submit: exit %d: %s", code, out)
	}
	p.Await(p.Stderr, fmt.Sprintf(`"work.roots": [%q]`, root))
}

// A server that comes back with other passwords: a command that only reads ends
// and says why.
func TestFollowingEventsEndsWhereTheCredentialsAreRefused(t *testing.T) {
	t.Parallel()
	address, store := fixture.FreeAddresses(t, 1)[0], t.TempDir()
	url := "nats://" + address
	stop := natsAt(t, address, store, "")
	normalizer := begin(t, nil, "normalizer", "--nats", url, "--data-dir", t.TempDir())
	normalizer.Await(normalizer.Stderr, "normalizer reading") // there are all streams
	if out, code := execute(t, "run", "--nats", url, "--data-dir", t.TempDir(), "--run", "T-1", "--", "echo",
		"{}"); code != 0 {
		t.Fatalf("run: exit %d: %s", code, out)
	}
	events := begin(t, nil, "events", "--follow", "--nats", url, "--data-dir", t.TempDir())
	events.Await(events.Stdout, "T-1")
	stop()
	natsAt(t, address, store, "secret")
	if code := events.Code(); code != 3 {
		t.Errorf("exit %d, want 3", code)
	}
	if text := events.Stderr.String(); !strings.Contains(text, "refused the credentials") {
		t.Errorf("it says %q", text)
	}
}

// A probe must not restart a responder for a server that is away.
func TestResponderThatWaitsForNATSIsAliveAndNotReady(t *testing.T) {
	t.Parallel()
	free := fixture.FreeAddresses(t, 2)
	address, own := free[0], free[1]
	url := "nats://" + address
	p := begin(t, nil, "responder", "--nats", url, "--data-dir", filepath.Join(t.TempDir(), "new"), "--http", own)
	p.Await(p.Stderr, "no connection yet, trying again")
	at := func(path string) (int, string) { return get(t, "http://"+own+path) }
	for path, want := range map[string]struct {
		code int
		text string
	}{"/healthz": {200, "ok"}, "/readyz": {503, "NATS is away"}, "/v1/runs": {503, "UNAVAILABLE"},
		"/mcp": {503, "UNAVAILABLE"}, "/": {503, "UNAVAILABLE"}} {
		if code, body := at(path); code != want.code || !strings.Contains(body, want.text) {
			t.Errorf("%s: %d %s, want %d %s", path, code, body, want.code, want.text)
		}
	}
	natsAt(t, address, t.TempDir(), "")
	begin(t, nil, "normalizer", "--nats", url, "--data-dir", t.TempDir())
	p.Await(p.Stdout, "ready http=")
	if code, body := at("/readyz"); code != 200 {
		t.Errorf("/readyz: %d %s", code, body)
	}
	if code, _ := at("/v1/runs"); code != 401 {
		t.Errorf("/v1/runs without a token: %d, want 401", code)
	}
	p.Signal(syscall.SIGTERM)
	if code := p.Code(); code != 0 {
		t.Errorf("exit %d, want 0", code)
	}
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Close = true
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}
