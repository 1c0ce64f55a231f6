package e2e

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/test/fixture"
)

// turnBegins is the beginning of a turn of Codex, callBegins an open call in it, and turnEnds its end.
const (
	turnBegins = `echo '{"type":"thread.started","thread_id":"0199a213-81c0-7800-8aa1-bbab2a035a53"}'; echo '{"type":"turn.started"}'` + "\n"
	callBegins = `echo '{"type":"item.started","item":{"id":"item_1","type":"command_execution","command":"make","status":"in_progress"}}'` + "\n"
	turnEnds   = `echo '{"type":"turn.completed","usage":{"input_tokens":90,"cached_input_tokens":0,"output_tokens":10}}'` + "\n"
)

// A run with a long tool call, one that hangs, and then the worker of the first one is
// killed: no line arrives any more.
func TestWatchReportsStallsAlsoOfADeadWorker(t *testing.T) {
	t.Parallel()
	url, dir := startNATS(t), secretDir(t)
	settings := filepath.Join(dir, "linesman.toml")
	write(t, settings, "lost_after = '3s'\n[limits]\ngrace = '1s'\n")
	at := func(data, command string, args ...string) []string {
		return append([]string{command, "--nats", url, "--config", settings, "--data-dir", filepath.Join(dir, data)}, args...)
	}
	office := begin(t, nil, at("office", "normalizer")...)
	office.Await(office.Stderr, "normalizer reading")
	responder := begin(t, nil, at("office", "responder", "--http", "127.0.0.1:0")...)
	responder.Await(responder.Stdout, "ready http=")

	watch := begin(t, nil, at("watcher", "watch", "--json", "--stalled-after", "2s", "--budget",
		"tokens=100/run,tokens=100/day/label:team")...)
	run := func(id string, body string) *fixture.Process {
		agent := newScript(t, body)
		p := begin(t, nil, at(id, "run", "--run", id, "--label", "team=web", "--json", "--", agent.path)...)
		p.Await(p.Stdout, `"run":"`+id+`"`)
		return p
	}
	tool := run("tool", turnBegins+callBegins+"await go")
	hangs := run("hangs", turnBegins+"await go")
	watch.Await(watch.Stdout, `{"id":"hangs/stalled/`)
	if got := watch.Stdout.String(); strings.Contains(got, `{"id":"tool/stalled/`) &&
		!strings.Contains(got, `{"id":"tool/lost/`) { // on a busy machine a heartbeat can be missing
		t.Errorf("a tool call is reported:\n%s", got)
	}
	tool.Kill()
	watch.Await(watch.Stdout, `{"id":"tool/lost/`)
	watch.Await(watch.Stdout, `{"id":"tool/stalled/`)

	run("spends", turnBegins+turnEnds).Code()
	run("fails", turnBegins+"exit 3").Code()
	for _, id := range []string{
		"spends/completed", "spends/budget/tokens=100/run", "fails/failed", "/budget/tokens=100/day/label%3Ateam/web",
	} {
		watch.Await(watch.Stdout, id+`"`)
	}
	hangs.Signal(syscall.SIGINT)
	hangs.Code()
	// The next worker takes the run over, and ends it.
	worker := begin(t, nil, at("tool", "worker")...)
	if _, code := execute(t, at("office", "cancel", "tool")...); code != 0 {
		t.Errorf("cancel: exit %d", code)
	}
	noDirectories(t, filepath.Join(dir, "tool"))
	worker.Signal(syscall.SIGTERM)
	worker.Code()
	watch.Signal(syscall.SIGTERM)
	if code := watch.Code(); code != 0 {
		t.Errorf("watch: exit %d\n%s", code, watch.Stderr)
	}
	ids := map[string]int{}
	for line := range strings.Lines(watch.Stdout.String()) {
		var n struct{ ID string }
		if err := json.Unmarshal([]byte(line), &n); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if ids[n.ID]++; ids[n.ID] > 1 {
			t.Errorf("%s twice", n.ID)
		}
	}
}

// hook is a receiver of notices.
type hook struct {
	*httptest.Server
	mu  sync.Mutex
	ids []string // that came, in this order
	bad []string // what was wrong

	each func(id string, times int) int // the status to answer; 0: none
}

func newHook(t *testing.T, secret string) *hook {
	t.Helper()
	h := &hook{}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(r.Header.Get("X-ADCP-Timestamp") + "." + string(body)))
		var n struct{ ID string }
		h.mu.Lock()
		if want := "sha256=" + hex.EncodeToString(mac.Sum(nil)); err != nil || r.Header.Get("X-ADCP-Signature") != want ||
			json.Unmarshal(body, &n) != nil {
			h.bad = append(h.bad, string(body))
		}
		h.ids = append(h.ids, n.ID)
		times := h.count(n.ID)
		h.mu.Unlock()
		switch status := h.each(n.ID, times); status {
		case 0:
			panic(http.ErrAbortHandler)
		default:
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(status)
		}
	}))
	t.Cleanup(h.Close)
	return h
}

// count returns how often a notice came; mu is held.
func (h *hook) count(id string) (n int) {
	for _, one := range h.ids {
		if one == id {
			n++
		}
	}
	return n
}

func (h *hook) await(t *testing.T, id string, times int) {
	t.Helper()
	fixture.Eventually(t, fixture.Patience, id+" did not come", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.count(id) >= times
	})
}

// The watcher is killed after it has sent a notice and before it has an answer, and again
// while the receiver refuses: each notice comes, and only what was in doubt comes again.
func TestWatchThatIsKilledLosesNoNotice(t *testing.T) {
	t.Parallel()
	data, dir := t.TempDir(), secretDir(t)
	secret := fixture.Sentinel + "0123456789-0123456789-0123456789"
	write(t, filepath.Join(dir, "secret"), secret+"\n")
	write(t, filepath.Join(dir, "linesman.toml"), "[push]\nallow_private = true\n")
	h := newHook(t, secret)
	server := up(t, data)
	var running atomic.Pointer[fixture.Process]
	start := func() *fixture.Process {
		watch := begin(t, nil, "watch", "--data-dir", data, "--config", filepath.Join(dir, "linesman.toml"), "--state",
			filepath.Join(dir, "state"), "--on", "completed,failed", "--webhook", h.URL+"/"+fixture.Sentinel, "--secret-file",
			filepath.Join(dir, "secret"))
		running.Store(watch)
		watch.AwaitEither("watching")
		return watch
	}
	h.each = func(id string, times int) int {
		switch {
		case id == "killed/failed" && times == 1:
			running.Load().Kill()
			return 0
		case id == "busy/completed" && times <= 2:
			return http.StatusTooManyRequests
		}
		return http.StatusNoContent
	}
	run := func(id, body string) {
		agent := newScript(t, body)
		_, _, _ = fixture.Run(t, exec.Command(program, "run", "--data-dir", data, "--run", id, "--", agent.path))
	}
	watch := start()
	run("first", turnBegins+turnEnds)
	h.await(t, "first/completed", 1)
	run("killed", "exit 3")
	h.await(t, "killed/failed", 1)
	run("away", turnBegins+turnEnds)
	fixture.Eventually(t, fixture.Patience, "the watcher is alive", watch.Over)
	watch = start()
	h.await(t, "killed/failed", 2)
	h.await(t, "away/completed", 1)
	run("busy", turnBegins+turnEnds)
	h.await(t, "busy/completed", 2)
	fixture.Eventually(t, fixture.Patience, "the watcher has noted the answers", func() bool {
		b, err := os.ReadFile(filepath.Join(dir, "state"))
		pending := gjson.GetBytes(b, "pending").Raw
		return err == nil && !strings.Contains(pending, `"killed"`) && !strings.Contains(pending, `"away"`)
	})
	watch.Kill()
	watch = start()
	h.await(t, "busy/completed", 3)
	server.Kill() // the watcher waits for the next one
	up(t, data)
	run("later", turnBegins+turnEnds)
	h.await(t, "later/completed", 1)
	watch.Signal(syscall.SIGTERM)
	if code := watch.Code(); code != 0 {
		t.Errorf("watch: exit %d\n%s", code, watch.Stderr)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	got := map[string]int{}
	for _, id := range h.ids {
		got[id]++
	}
	want := map[string]int{"first/completed": 1, "killed/failed": 2, "away/completed": 1, "busy/completed": 3,
		"later/completed": 1}
	if got["busy/completed"] == 4 { // it was accepted, and in doubt, when the watcher was killed
		want["busy/completed"] = 4
	}
	if !maps.Equal(got, want) || h.bad != nil {
		t.Errorf("got %v, want %v; wrong: %q", got, want, h.bad)
	}
}
