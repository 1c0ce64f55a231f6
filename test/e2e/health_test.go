package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/test/fixture"
)

// asked is what `health --http` says of a role.
type asked struct {
	Healthy            bool
	Role, URL, Message string
	code               int
}

// overHTTP runs `health --http`, as in a container: without keys and without a data directory.
func overHTTP(t *testing.T, env []string, args ...string) (a asked) {
	t.Helper()
	cmd := exec.Command(program, append([]string{"health", "--http", "--json"}, args...)...)
	cmd.Env = append([]string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}, env...)
	out, stderr, code := fixture.Run(t, cmd)
	if err := json.Unmarshal([]byte(out), &a); err != nil {
		t.Fatalf("health: %v: %q %q", err, out, stderr)
	}
	a.code = code
	return a
}

// The same command checks every role, with no keys, and says what is missing.
func TestEveryRoleIsCheckedOverHTTP(t *testing.T) {
	t.Parallel()
	free, store := fixture.FreeAddresses(t, 5), t.TempDir()
	url := "nats://" + free[0]
	roles := map[string]*fixture.Process{}
	at := map[string]string{"worker": free[1], "responder": free[2], "active": free[3], "standby": free[4]}
	start := func(name, role string) {
		roles[name] = begin(t, nil, role, "--nats", url, "--data-dir", t.TempDir(), "--http", at[name])
		roles[name].Await(roles[name].Stderr, "no connection yet")
	}
	says := func(name string, healthy bool, text string) {
		t.Helper()
		var got asked
		if !fixture.Poll(fixture.Patience, func() bool {
			got = overHTTP(t, nil, at[name])
			return got.Healthy == healthy && strings.Contains(got.Role+got.Message, text)
		}) || (got.code == 0) != healthy || got.URL != "http://"+at[name]+"/readyz" {
			t.Errorf("%s: %+v, want healthy %v and %q\n%s", name, got, healthy, text, roles[name].Stderr)
		}
	}
	start("worker", "worker")
	start("responder", "responder")
	start("active", "normalizer")
	for name := range roles {
		says(name, false, "NATS is away")
	}
	stop := natsAt(t, free[0], store, "")
	says("active", true, "active")
	roles["standby"] = begin(t, nil, "normalizer", "--nats", url, "--data-dir", t.TempDir(), "--http", at["standby"])
	says("standby", true, "standby")
	says("worker", true, "ok")
	says("responder", true, "ok")
	for name, address := range at { // by the settings
		setting := "LINESMAN_MONITOR_HTTP="
		if name == "responder" {
			setting = "LINESMAN_HTTP="
		}
		var got asked
		if !fixture.Poll(fixture.Patience, func() bool {
			got = overHTTP(t, []string{setting + strings.Replace(address, "127.0.0.1", "0.0.0.0", 1)})
			return got.code == 0
		}) {
			t.Errorf("%s%s: %+v", setting, address, got)
		}
		if name == "responder" {
			continue
		}
		code, body := get(t, "http://"+address+"/metrics")
		for _, metric := range []string{"linesman_build_info{", "go_goroutines ", "process_resident_memory_bytes "} {
			if code != 200 || !strings.Contains(body, "\n"+metric) {
				t.Errorf("/metrics of %s: %d, without %s", name, code, metric)
			}
		}
	}

	stop()
	for name := range roles {
		says(name, false, "NATS is away")
	}
	natsAt(t, free[0], store, "")
	says("worker", true, "ok")
	says("responder", true, "ok") // it may be the last one that is connected again, see waitsAreLoggedOnce
	roles["active"].Signal(syscall.SIGTERM)
	if code := roles["active"].Code(); code != 0 {
		t.Errorf("the active normalizer ends with %d", code)
	}
	if got := overHTTP(t, nil, at["active"]); got.code != 3 || !strings.Contains(got.Message, "refused") {
		t.Errorf("a role that has ended: %+v", got)
	}
	says("standby", true, "active")

	nc, err := nats.Connect(url, nats.Timeout(fixture.Patience))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(fixture.Patience))
	if err == nil {
		err = js.DeleteStream(t.Context(), "LINESMAN_WORK")
	}
	if err != nil {
		t.Fatal(err)
	}
	says("worker", false, "the work queue is out of reach")
	waitsAreLoggedOnce(t, roles)

	roles["standby"].Signal(syscall.SIGTERM) // or else it makes the stream again
	roles["standby"].Code()
	if err := js.DeleteStream(t.Context(), "LINESMAN_RAW"); err != nil {
		t.Fatal(err)
	}
	says("responder", false, "stream LINESMAN_RAW")
}

// waitsAreLoggedOnce looks at what the roles have logged of their start without NATS, of one
// outage, and of a queue that is missing: that they wait, and that they resume, each once.
func waitsAreLoggedOnce(t *testing.T, roles map[string]*fixture.Process) {
	t.Helper()
	const waits, resumes = "the work queue is out of reach", "the work queue answers again"
	for name, p := range roles {
		text := p.Stderr.String()
		counts := map[string][2]int{ // at least, at most
			"connection lost": {1, 1}, "reconnected": {1, 1}, "info connected": {1, 1}, "no connection yet": {1, 1},
			"standing by: another": {0, 2}, "normalizer reading": {0, 2}, "starting over from the streams": {0, 2},
			"Codex Cloud is not polled": {0, 2}, "webhook notifications are not created": {0, 2},
			"cannot read the outbox": {0, 2}, waits: {0, 4}, resumes: {0, 2},
		} // of a queue that is deleted, its consumer may be missing first: that is another reason
		if name == "standby" { // it was started later
			counts["info connected"], counts["no connection yet"] = [2]int{}, [2]int{}
			counts["standing by: another"], counts["normalizer reading"] = [2]int{1, 2}, [2]int{1, 2}
		}
		for what, want := range counts {
			if n := strings.Count(text, what); n < want[0] || n > want[1] {
				t.Errorf("%s logs %d times %q, want %v:\n%s", name, n, what, want, text)
			}
		}
		began, ended := strings.Count(text, waits), strings.Count(text, resumes)
		if began < ended || began > ended+2 { // one may follow, and the last outage lasts
			t.Errorf("%s: %d outages of the queue begin, %d end:\n%s", name, began, ended, text)
		}
	}
}

// An up is checked as thoroughly as by its keys.
func TestUpIsCheckedOverHTTP(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	server := up(t, data)
	here := []string{"LINESMAN_DATA_DIR=" + data}
	var got asked
	if !fixture.Poll(fixture.Patience, func() bool { got = overHTTP(t, here); return got.code == 0 }) || got.URL != "" {
		t.Errorf("all of it, by its keys: %+v", got)
	}
	if !fixture.Poll(fixture.Patience, func() bool { got = overHTTP(t, here, server.HTTP); return got.code == 0 }) ||
		got.Role != "ok" {
		t.Errorf("%+v", got)
	}
	server.Stop()
	if got := overHTTP(t, append(here, "LINESMAN_HTTP="+strings.TrimPrefix(server.HTTP, "http://"))); got.code != 3 {
		t.Errorf("after its end: %+v", got)
	}
}

// An up serves health and metrics at an address of their own, too, without a token and without
// anything else.
func TestUpIsMonitoredWithoutAToken(t *testing.T) {
	t.Parallel()
	monitor := fixture.FreeAddresses(t, 1)[0]
	p := beginIn(t, append(os.Environ(), "LINESMAN_MONITOR_HTTP="+monitor), nil, "up", "--data-dir", t.TempDir(),
		"--nats-listen", "127.0.0.1:0", "--http", "127.0.0.1:0")
	p.Await(p.Stdout, "ready ")
	for path, want := range map[string]int{
		"/healthz": 200, "/readyz": 200, "/metrics": 200,
		"/": 404, "/v1/runs": 404, "/mcp": 404, "/session": 404, "/signin": 404,
	} {
		var code int
		var body string
		if !fixture.Poll(fixture.Patience, func() bool { code, body = get(t, "http://"+monitor+path); return code == want }) {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	var code int
	var body string
	if !fixture.Poll(fixture.Patience, func() bool {
		code, body = get(t, "http://"+monitor+"/metrics")
		return strings.Contains(body, "\nlinesman_runs{")
	}) {
		t.Errorf("the metrics are %d %.300s", code, body)
	}
}
