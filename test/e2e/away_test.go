package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/test/fixture"
)

// gate lets clients through to the server of a data directory until one of them
// sends certain words: then the server is gone for all of them, and what was on
// its way with it, until open.
type gate struct {
	t      *testing.T
	data   string // as that of the server, which it leads to
	server string
	words  []byte
	before int // so many times the words are let through

	mu    sync.Mutex
	shut  bool
	armed bool
	conns map[net.Conn]bool
}

func newGate(t *testing.T, words string) *gate {
	t.Helper()
	real := t.TempDir()
	up(t, real)
	g := &gate{t: t, data: t.TempDir(), words: []byte(words), armed: true, conns: map[net.Conn]bool{}}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })

	var here map[string]any
	b, err := os.ReadFile(filepath.Join(real, "linesman.json"))
	if err == nil {
		err = json.Unmarshal(b, &here)
	}
	if err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(here["nats"].(string))
	if err != nil {
		t.Fatal(err)
	}
	g.server, here["nats"], here["data"] = at.Host, "nats://"+listener.Addr().String(), g.data
	if b, err = json.Marshal(here); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(g.data, "linesman.json"), string(b))
	if b, err = os.ReadFile(filepath.Join(real, "credentials.json")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(g.data, "credentials.json"), string(b))
	lock, err := os.Create(filepath.Join(g.data, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lock.Close() })
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go g.serve(c)
		}
	}()
	return g
}

func (g *gate) serve(client net.Conn) {
	server, err := net.Dial("tcp", g.server)
	if err != nil {
		_ = client.Close()
		return
	}
	defer client.Close()
	defer server.Close()
	g.mu.Lock()
	if g.shut {
		g.mu.Unlock()
		return
	}
	g.conns[client], g.conns[server] = true, true
	g.mu.Unlock()
	go func() {
		_, _ = io.Copy(client, server)
		_ = client.Close()
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		if err != nil || g.cut(buf[:n]) {
			return
		}
		if _, err := server.Write(buf[:n]); err != nil {
			return
		}
	}
}

// cut shuts the gate if this is the moment.
func (g *gate) cut(sent []byte) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.armed && bytes.Contains(sent, g.words) {
		if g.before--; g.before >= 0 {
			return false
		}
		g.armed, g.shut = false, true
		for c := range g.conns {
			_ = c.Close()
		}
	}
	return g.shut
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = false
}

// awaitShut waits until the gate is shut.
func (g *gate) awaitShut() {
	g.t.Helper()
	fixture.Eventually(g.t, fixture.Patience, "the server is not away", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.shut
	})
}

// What a run asks and says before its agent begins.
var moments = map[string]string{"looks for its id": "$JS.API.STREAM.INFO.LINESMAN_RAW",
	"writes its first entry": "PUB linesman.raw.codex."}

func TestRunBegunWhileItsServerGoesAwayWaitsForTheNext(t *testing.T) {
	for moment, words := range moments {
		t.Run(moment, func(t *testing.T) {
			t.Parallel()
			g, agent := newGate(t, words), newScript(t, "say one\nexit 3\n")
			run := begin(t, nil, "run", "--data-dir", g.data, "--run", "begun", "--json", "--", agent.path)
			run.Await(run.Stderr, "is away: waiting for it, 1m0s at most")
			g.open()
			if code := run.Code(); code != 3 {
				t.Errorf("exit status %d, want the agent's 3\n%s", code, run.Stderr)
			}
			same(t, "run", printed(parse(t, run.Stdout.String())), expected(t, said("one"), 3))
			if n := strings.Count(run.Stderr.String(), "is away"); n != 1 {
				t.Errorf("it is said %d times, want once:\n%s", n, run.Stderr)
			}
		})
	}
}

// The connection is lost when the reader of the events asks its first question,
// and is there again at once: the agent ends well, and all is stored.
func TestRunWhoseFirstReadIsLostPrintsAllEvents(t *testing.T) {
	t.Parallel()
	g, agent := newGate(t, "$JS.API.STREAM.INFO.LINESMAN_EVENTS"), newScript(t, "say one\nexit 9\n")
	g.before = 1 // the question whether the id is known
	run := begin(t, nil, "run", "--data-dir", g.data, "--run", "begun", "--json", "--", agent.path)
	g.awaitShut()
	g.open()
	if code := run.Code(); code != 9 {
		t.Errorf("exit status %d, want the agent's 9\n%s", code, run.Stderr)
	}
	same(t, "run", printed(parse(t, run.Stdout.String())), expected(t, said("one"), 9))
}

// More than a pipe holds is taken while the server is away.
func TestPipeBegunWhileItsServerGoesAwayGoesOnReading(t *testing.T) {
	for moment, words := range moments {
		t.Run(moment, func(t *testing.T) {
			t.Parallel()
			g := newGate(t, words)
			in, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			pipe := begin(t, in, "pipe", "--data-dir", g.data, "--run", "piped", "--wait")
			g.awaitShut()
			lines := bytes.Repeat(said("one"), 2000)
			if _, err := w.Write(lines); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			g.open()
			if code := pipe.Code(); code != 0 {
				t.Errorf("exit status %d\n%s", code, pipe.Stderr)
			}
			out, code := execute(t, "events", "--data-dir", g.data, "--run", "piped", "--json")
			if n := strings.Count(out, "\n"); code != 0 || n != 2001 {
				t.Errorf("%d events, exit %d, want 2001", n, code)
			}
		})
	}
}
