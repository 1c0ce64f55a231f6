package bridge

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	request  = ".agent-request.json"
	response = ".agent-response.json"
)

func TestRequestIsAnsweredAndRemoved(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	l.start(l.config())
	const said = `{"sections": ["<a> & \"b\""], "rule": "✅  x"}`
	l.request(request, "id-1", "say "+said)
	r := l.response(response)
	if r["request_id"] != "id-1" || r["status"] != "success" || r["response"] != said || r["duration_seconds"] != 1.5 {
		t.Errorf("got %v", r)
	}
	l.removed()
	info, err := os.Stat(l.path(response))
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the response has mode %v", info.Mode())
	}
	l.until("nothing else is left", func() bool { return slices.Equal(l.names(l.dir), []string{response}) })
}

func TestPhasesHaveSeparateFiles(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	l.request(".agent-request-phase1.json", "id-1", "say one")
	l.request(".agent-request-phase5.json", "id-5", "say five")
	l.start(l.config())
	if r := l.response(".agent-response-phase1.json"); r["request_id"] != "id-1" || r["response"] != "one" {
		t.Errorf("got %v", r)
	}
	if r := l.response(".agent-response-phase5.json"); r["request_id"] != "id-5" || r["response"] != "five" {
		t.Errorf("got %v", r)
	}
}

func TestErrorsAreAnswered(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		body, status, kind, message string
	}{
		"the agent fails": {`{"request_id":"x","prompt":"fail"}`, "error", typeInvocation,
			"the agent failed (exit status 3)"},
		"refused": {`{"request_id":"x","prompt":"refuse"}`, "error", typeInvocation, "this is not allowed here"},
		"time over": {`{"request_id":"x","prompt":"hang","timeout_seconds":0.2}`, "timeout", typeTimeout,
			"Agent execution timeout after 0.2 seconds"},
		"capped": {`{"request_id":"x","prompt":"hang","timeout_seconds":999999}`, "timeout", typeTimeout,
			"Agent execution timeout after 1 seconds"},
		"never taken": {`{"request_id":"x","prompt":"away","timeout_seconds":0.2}`, "timeout", typeTimeout,
			"Agent execution timeout after 0.2 seconds"},
		"no prompt": {`{"request_id":"x"}`, "error", typeInvocation,
			"invalid request: prompt: must be text that is not blank"},
		"types that matter": {`{"request_id":"x","prompt":7,"timeout_seconds":"2","model":[]}`, "error", typeInvocation,
			"invalid request: prompt: must be text that is not blank; timeout_seconds: must be a number above 0; " +
				"model: must be text or null"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newFixture(t)
			c := l.config()
			if name == "capped" {
				c.MaxTimeout = time.Second
			}
			l.start(c)
			l.write(request, tt.body)
			r := l.response(response)
			if r["status"] != tt.status || r["error_type"] != tt.kind || r["error_message"] != tt.message ||
				r["response"] != nil {
				t.Errorf("got %v", r)
			}
			l.removed()
			if strings.Contains(tt.body, "hang") {
				l.until("the run is cancelled",
					func() bool { return strings.HasSuffix(strings.Join(l.names(l.runs), " "), ".cancelled") })
			}
		})
	}
}

// noting keeps the jobs that were submitted.
type noting struct {
	runner
	mu   sync.Mutex
	jobs []job
}

func (n *noting) Submit(ctx context.Context, j job) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.jobs = append(n.jobs, j)
	return n.runner.Submit(ctx, j)
}

// A submission that is repeated is the same task, else the queue takes it for another one with the same id.
func TestJobIsTheSameAtEachAttempt(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	c := l.config()
	n := &noting{runner: c.runner}
	c.runner = n
	l.start(c)
	l.write(request, `{"request_id":"x","prompt":"away","timeout_seconds":1}`)
	l.response(response)
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, j := range n.jobs {
		if !reflect.DeepEqual(j, n.jobs[0]) {
			t.Fatalf("got %+v after %+v", j, n.jobs[0])
		}
	}
	if n.jobs[0].Timeout != time.Second {
		t.Errorf("got %+v", n.jobs[0])
	}
}

func TestLateAnswerCounts(t *testing.T) {
	t.Parallel()
	if r := lateAnswer(t, "hang late"); r["status"] != "success" || r["response"] != "late" {
		t.Errorf("got %v", r)
	}
}

// lateAnswer returns the response to a request whose run is given its answer after the timeout. On a busy machine the
// timeout may pass before there is a run, which is then no late one: it is tried again with a longer timeout.
func lateAnswer(t *testing.T, prompt string) map[string]any {
	t.Helper()
	for limit := 2; ; limit *= 4 {
		l := newFixture(t)
		l.start(l.config())
		l.write(request, fmt.Sprintf(`{"request_id":"x","prompt":%q,"timeout_seconds":%d}`, prompt, limit))
		r := l.response(response)
		begun := slices.ContainsFunc(l.names(l.runs), func(name string) bool { return !strings.Contains(name, ".") })
		if begun || limit > 30 {
			return r
		}
	}
}

// An error of an external agent that was told that its error is accepted is
// the answer, like a text.
func TestLateErrorCounts(t *testing.T) {
	t.Parallel()
	if r := lateAnswer(t, "hang taken"); r["status"] != "error" || r["error_message"] != "nobody knows" {
		t.Errorf("got %v", r)
	}
}

// Another program writes the response, and removes the request or keeps it.
// The run is notified, and the response file stays unchanged.
func TestResponseOfAnotherProgramEndsTheRun(t *testing.T) {
	t.Parallel()
	const good = `{"request_id":"id-1","version":"1.0","status":"success","response":"by hand",` +
		`"error_message":null,"error_type":null,` +
		`"created_at":"2025-11-24T14:22:45.123456+00:00","duration_seconds":12.7,"metadata":{}}`
	for name, tt := range map[string]struct{ written, notified string }{
		"a response": {good, "success by hand"},
		"an error": {
			strings.NewReplacer("success", "error", `"by hand"`, "null", `"error_message":null`, `"error_message":"no"`).
				Replace(good),
			"error no",
		},
		"no response by the contract": {`{"request_id":"id-1","result":"x"}`,
			"error the response of another program violates the contract"},
	} {
		for _, removed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/removed=%v", name, removed), func(t *testing.T) {
				l := newFixture(t)
				l.start(l.config())
				l.request(request, "id-1", "hang")
				l.until("it is submitted", func() bool { return len(l.names(l.runs)) == 1 })
				l.write(response, tt.written)
				if removed {
					if err := os.Remove(l.path(request)); err != nil && !errors.Is(err, os.ErrNotExist) {
						t.Fatal(err)
					}
				}
				l.until("the run is notified, and the request gone",
					func() bool { return len(l.names(l.runs)) == 2 && slices.Equal(l.names(l.dir), []string{response}) })
				run := l.names(l.runs)[0]
				if b, err := os.ReadFile(filepath.Join(l.runs, run+".overtaken")); err != nil || string(b) != tt.notified {
					t.Errorf("notified with %q, %v", b, err)
				}
				if b, err := os.ReadFile(l.path(response)); err != nil || string(b) != tt.written {
					t.Errorf("the response is %q, %v", b, err)
				}
			})
		}
	}
}

func TestIncompleteRequestIsNotMovedAside(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	c := l.config()
	c.Patience = time.Hour
	l.start(c)
	f, err := os.Create(l.path(request))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, part := range []string{`{"request_id": "id-`, `1", "prompt": "say `, `yes"}`} {
		if _, err := f.WriteString(part); err != nil {
			t.Fatal(err)
		}
	}
	if r := l.response(response); r["request_id"] != "id-1" || r["response"] != "yes" {
		t.Errorf("got %v", r)
	}
}

func TestInvalidRequestIsMovedAsideWithTheReason(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ body, why string }{
		"no JSON": {`{"request_id": "id-1", "prompt`, "it is not a JSON object\n"},
		"empty":   {"", "it is not a JSON object\n"},
		"null":    {"null", "it is not a JSON object\n"},
		"no id":   {`{"prompt": "say x"}`, "its request_id is not text of 1 to 128 bytes\n"},
		"huge": {strings.Repeat(" ", maxRequest) + `{"request_id": "x", "prompt": "y"}`,
			"it has more than 1048576 bytes\n"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newFixture(t)
			l.start(l.config())
			l.write(request, tt.body)
			l.until("it is moved, with the reason", func() bool {
				return !l.has(request) && l.logs.FilterMessage("moved an invalid request aside").Len() == 1
			})
			names := l.names(l.dir)
			if len(names) != 2 || names[1] != names[0]+".txt" || !strings.HasPrefix(names[0], request+".bad-") {
				t.Fatalf("left: %q", names)
			}
			if b, err := os.ReadFile(l.path(names[0])); err != nil || string(b) != tt.body {
				t.Errorf("the moved file has other content (%v)", err)
			}
			if b, err := os.ReadFile(l.path(names[1])); err != nil || string(b) != tt.why {
				t.Errorf("the reason is %q, %v", b, err)
			}
		})
	}
}

func TestNewRequestReplacesAWaitingOne(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	l.start(l.config())
	l.request(request, "old", "hang")
	l.until("it is submitted", func() bool { return len(l.names(l.runs)) == 1 })
	l.request(request, "new", "say new")
	if r := l.response(response); r["request_id"] != "new" {
		t.Errorf("got %v", r)
	}
	l.until("the old run is cancelled", func() bool { return len(l.names(l.runs)) == 3 })
}

func TestNewRequestReplacesOneFromBeforeARestart(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	stop := l.start(l.config())
	l.request(request, "old", "hang")
	l.until("it is submitted", func() bool { return len(l.names(l.runs)) == 1 })
	stop()
	l.request(request, "new", "say new")
	l.start(l.config())
	if r := l.response(response); r["request_id"] != "new" {
		t.Errorf("got %v", r)
	}
	l.until("the old run is cancelled", func() bool { return len(l.names(l.runs)) == 3 })
}

func TestMissingRequestIsAbandoned(t *testing.T) {
	t.Parallel()
	for _, restart := range []bool{false, true} {
		l := newFixture(t)
		stop := l.start(l.config())
		l.request(request, "id-1", "hang")
		l.until("it is submitted", func() bool { return len(l.names(l.runs)) == 1 })
		if restart {
			stop()
		}
		if err := os.Remove(l.path(request)); err != nil {
			t.Fatal(err)
		}
		if restart {
			l.start(l.config())
		}
		l.until("its run is cancelled", func() bool { return len(l.names(l.runs)) == 2 })
		if names := l.names(l.dir); len(names) != 0 {
			t.Errorf("left: %q", names)
		}
	}
}

func TestStaleResponseIsMovedAside(t *testing.T) {
	t.Parallel()
	for name, old := range map[string]string{
		"another id": `{"request_id":"old","response":"x"}`, "no JSON": "{", "huge": strings.Repeat(" ", 1<<10),
	} {
		t.Run(name, func(t *testing.T) {
			l := newFixture(t)
			l.write(response, old)
			l.request(request, "id-1", "say x")
			l.start(l.config())
			l.removed()
			if r := l.response(response); r["request_id"] != "id-1" {
				t.Errorf("got %v", r)
			}
			names := l.names(l.dir)
			if len(names) != 2 || !strings.HasPrefix(names[1], response+".stale-") {
				t.Fatalf("left: %q", names)
			}
			if b, err := os.ReadFile(l.path(names[1])); err != nil || string(b) != old {
				t.Errorf("it is %q, %v", b, err)
			}
		})
	}
}

// The response may exist already, written by a bridge with another state or by
// hand.
func TestResponseOfAnotherProgramStays(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	const mine = `{"request_id":"id-1","mine":true}`
	l.write(response, mine)
	l.request(request, "id-1", "say x")
	l.start(l.config())
	l.removed()
	if b, err := os.ReadFile(l.path(response)); err != nil || string(b) != mine {
		t.Errorf("it is %q, %v", b, err)
	}
	if names := l.names(l.runs); len(names) != 0 {
		t.Errorf("it was run: %q", names)
	}
}

func TestAnIDIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	l.start(l.config())
	l.request(request, "id-1", "say x")
	l.removed()
	if err := os.Remove(l.path(response)); err != nil {
		t.Fatal(err)
	}
	l.request(request, "id-1", "say x")
	l.removed()
	if l.has(response) || len(l.names(l.runs)) != 1 {
		t.Errorf("answered again: %q %q", l.names(l.dir), l.names(l.runs))
	}
}

func TestLinksAndPipesAreIgnored(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	outside := filepath.Join(t.TempDir(), "secret.json")
	if err := os.WriteFile(outside, []byte(`{"request_id":"x","prompt":"say x"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, l.path(".agent-request-a.json")); err != nil {
		t.Fatal(err)
	}
	l.write("inside.json", `{"request_id":"y","prompt":"say y"}`)
	if err := os.Symlink("inside.json", l.path(".agent-request-b.json")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(l.path(".agent-request-c.json"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, l.path(response)); err != nil { // at the path of the response
		t.Fatal(err)
	}
	before := l.names(l.dir)
	l.start(l.config())
	l.request(request, "id-1", "say x")
	l.removed()
	if info, err := os.Lstat(l.path(response)); err != nil || !info.Mode().IsRegular() {
		t.Errorf("the response file: %v, %v", info, err)
	}
	if b, err := os.ReadFile(outside); err != nil || !strings.Contains(string(b), "say x") {
		t.Errorf("the target of the link is %q, %v", b, err)
	}
	if len(l.names(l.runs)) != 1 || len(l.names(l.dir)) != len(before)+1 {
		t.Errorf("runs %q, files %q", l.names(l.runs), l.names(l.dir))
	}
}

func TestDirectoryMayBeCreatedLater(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	if err := os.Rename(l.dir, l.dir+".not-yet"); err != nil {
		t.Fatal(err)
	}
	c := l.config()
	if err := newBridge(c).run(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing directory with Must: %v", err)
	}
	c.Dirs[0].Must = false
	l.start(c)
	if err := os.Rename(l.dir+".not-yet", l.dir); err != nil {
		t.Fatal(err)
	}
	l.request(request, "id-1", "say x")
	l.response(response)
}

func TestOneBridgePerDirectory(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	stop := l.start(l.config())
	if err := newBridge(l.config()).run(t.Context()); !errors.Is(err, errBusy) {
		t.Errorf("a second bridge: %v", err)
	}
	stop()
	ctx, cancel := context.WithCancel(t.Context())
	c := l.config()
	c.Ready = cancel
	if err := newBridge(c).run(ctx); err != nil {
		t.Errorf("after the first has ended: %v", err)
	}
}

func TestLogsAndJournalHoldNoContent(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	c := l.config()
	l.start(c)
	l.request(request, "id-1", "say SENTINEL")
	l.request(".agent-request-2.json", "id-2", "fail")
	l.write(".agent-request-3.json", `{"prompt":"SENTINEL`)
	l.until("all are processed", func() bool {
		return !l.has(request) && !l.has(".agent-request-2.json") && !l.has(".agent-request-3.json")
	})
	l.until("all is logged", func() bool { return l.logs.Len() >= 5 })
	for _, e := range l.logs.All() {
		if text := e.Message + " " + strings.Join(values(e.ContextMap()), " "); strings.Contains(text, "SENTINEL") {
			t.Errorf("logged: %s", text)
		}
	}
	for _, dir := range l.names(l.state) {
		for _, name := range l.names(filepath.Join(l.state, dir)) {
			if b, err := os.ReadFile(filepath.Join(l.state, dir, name)); err != nil || strings.Contains(string(b), "SENTINEL") {
				t.Errorf("remembered: %s, %v", b, err)
			}
		}
	}
}

func TestDirectoryIsFollowedByItsPath(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	l.start(l.config())
	l.request(request, "old", "hang")
	l.until("it is submitted", func() bool { return len(l.names(l.runs)) == 1 })
	if err := os.Rename(l.dir, l.dir+".old"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(l.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	l.request(request, "new", "say new")
	if r := l.response(response); r["request_id"] != "new" {
		t.Errorf("got %v", r)
	}
	l.until("the old run is cancelled", func() bool { return len(l.names(l.runs)) == 3 })
	if names := l.names(l.dir + ".old"); !slices.Equal(names, []string{request}) {
		t.Errorf("the directory that went away holds %q", names)
	}
}

func TestAnswerToAMissingRequestIsDropped(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	l.request(request, "old", "say old")
	l.crash("answered")
	l.request(request, "new", "say new")
	l.start(l.config())
	l.removed()
	if r := l.response(response); r["request_id"] != "new" {
		t.Errorf("got %v", r)
	}
	l.until("nothing else is left", func() bool { return slices.Equal(l.names(l.dir), []string{response}) })
}

// A child process that is being started has copies of all descriptors. The
// lock of a directory must not wait for its exec.
func TestDirectoryIsFreeOnceItIsClosed(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	first, err := openLockedDir(l.dir)
	if err != nil {
		t.Fatal(err)
	}
	inherited, err := unix.Dup(int(first.lock.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(inherited)
	first.close()
	second, err := openLockedDir(l.dir)
	if err != nil {
		t.Fatal(err)
	}
	second.close()
}

func TestOnlyTheNewestAreKeptAside(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	p, err := openLockedDir(l.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	l.write("mine.json.bad-1", "")
	for i := range 3 * maxQuarantined {
		l.write(request, "")
		v, err := p.stat(request)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.quarantine(request, "bad", "why", v, time.UnixMilli(int64(i))); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(l.names(l.dir)); n != 2*maxQuarantined+1 {
		t.Errorf("%d files are left, want %d", n, 2*maxQuarantined+1)
	}
	if !l.has(request+".bad-19700101T000000095Z") || l.has(request+".bad-19700101T000000001Z") {
		t.Errorf("left: %q", l.names(l.dir))
	}
}

func TestJournalForgetsTheOldest(t *testing.T) {
	t.Parallel()
	j, err := openJournal(filepath.Join(t.TempDir(), "a", "b"))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().UnixMilli()
	long := time.UnixMilli(now).Add(-remembered - time.Hour).UnixMilli()
	for id, e := range map[string]entry{
		"old": {At: long, Answered: long}, "open": {At: long}, "new": {At: now, Answered: now},
	} {
		e.ID, e.Name, e.Run = id, request, "T-local-1"
		if err := j.put(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.put(entry{ID: "x", Name: request, Run: "T-local-2", At: now}); err != nil {
		t.Fatal(err)
	}
	again, err := openJournal(j.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range []*journal{j, again} {
		_, old := j.get("old")
		_, open := j.get("open")
		_, recent := j.get("new")
		if old || !open || !recent {
			t.Errorf("remembered: old %v, open %v, new %v", old, open, recent)
		}
	}
}
