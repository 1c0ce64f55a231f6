package security

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/test/fixture"
)

// planted are the words that only the owner of a run may read, by where an agent put them.
var planted = func() map[string]string {
	words := map[string]string{}
	for _, where := range []string{
		"prompt", "command", "output", "arguments", "result", "diff", "plan", "sub-prompt", "stderr", "file",
	} {
		words[where] = fixture.Sentinel + "in-" + where
	}
	return words
}()

// plant is a run whose agent puts the planted words everywhere, behind what a record has of a
// text.
func (h *house) plant(t *testing.T, run string) {
	t.Helper()
	text := func(where string, before int) string {
		b, err := json.Marshal(strings.Repeat("x", before) + " " + planted[where])
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	lines := []string{
		`{"type":"thread.started","thread_id":"0199a213-81c0-7800-8aa1-bbab2a035a53"}`, `{"type":"turn.started"}`,
		`{"type":"item.completed","item":{"id":"i1","type":"command_execution","command":` + text("command", 1000) +
			`,"aggregated_output":` + text("output", 1000) + `,"exit_code":0,"status":"completed"}}`,
		`{"type":"item.completed","item":{"id":"i2","type":"mcp_tool_call","server":"s","tool":"t","arguments":{"a":` +
			text("arguments", 1000) + `},"result":{"content":[{"type":"text","text":` + text("result", 1000) +
			`}]},"status":"completed"}}`,
		`{"type":"item.completed","item":{"id":"i3","type":"file_change","changes":[{"path":"a.go","kind":"update","diff":` +
			text("diff", 1000) + `}],"status":"completed"}}`,
		`{"type":"item.completed","item":{"id":"i4","type":"todo_list","items":[{"text":"one","completed":true},{"text":` +
			text("plan", 340) + `,"completed":false}]}}`,
		`{"type":"item.completed","item":{"id":"i5","type":"collab_tool_call","tool":"spawn_agent","prompt":` +
			text("sub-prompt", 1000) + `,"agents_states":{},"status":"completed"}}`,
		`{"type":"turn.completed","usage":{"input_tokens":1,"cached_input_tokens":0,"output_tokens":2}}`,
	}
	dir := t.TempDir()
	out, agent := filepath.Join(dir, "lines"), filepath.Join(dir, "codex")
	script := "#!/bin/sh\n[ \"$1\" = exec ] || exit 1\necho " + planted["file"] + " >a.go\necho " +
		planted["stderr"] + " >&2\ncat " + out + "\n"
	if err := os.WriteFile(filepath.Join(dir, "a.go"), []byte("package a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"init", "--quiet"}, {"add", "a.go"}, {"-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "--no-gpg-sign", "-qm", "a"},
	} {
		if said, err := exec.Command("git", append([]string{"-C", dir}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git: %v %s", err, said)
		}
	}
	if err := os.WriteFile(out, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(agent, []byte(script), 0o700); err != nil { //nolint:gosec // it is a program
		t.Fatal(err)
	}
	cmd := exec.Command(program(t, "linesman"), "run", "--data-dir", h.data, "--run", run, "--", agent, "exec", "--json",
		"Do it\n"+planted["prompt"])
	cmd.Dir, cmd.Env = dir, []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}
	if out, said, code := fixture.Run(t, cmd); code != 0 {
		t.Fatalf("run: %d %s%s", code, out, said)
	}
}

// scoped is a token with scopes.
func (h *house) scoped(t *testing.T, scopes string) string {
	t.Helper()
	cmd := exec.Command(program(t, "linesman"), "token", "create", strings.ReplaceAll(scopes, ",", "-"), "--scope", scopes,
		"--data-dir", h.data)
	cmd.Env = []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}
	out, said, code := fixture.Run(t, cmd)
	if code != 0 {
		t.Fatalf("token: %d %s", code, said)
	}
	return strings.TrimSpace(out)
}

// login connects to the server of a house as a user.
func (h *house) login(t *testing.T, user string) *nats.Conn {
	t.Helper()
	credentials, err := embedded.LoadCredentials(h.data)
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(fixture.ReadAddress(t, h.data).NATS, nats.UserInfo(user, credentials[user]),
		nats.CustomInboxPrefix(bus.InboxPrefix(user)), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// told are the places whose planted words are in a text.
func told(text string) (where []string) {
	for name, word := range planted {
		if strings.Contains(text, word) {
			where = append(where, name)
		}
	}
	slices.Sort(where)
	return where
}

// without is an answer that has nothing of what the owner of a run may read.
const without = "without"

// asking is a request over HTTP, and the planted words in its answer for a caller with the
// right.
type asking struct {
	method, path, body string
	header             []string
	owner              []string
}

// Without the scope raw, and the rights of an operator on NATS, nothing of a run's details is
// in any answer, nor in what linesman stores and sends beside the raw log.
func TestDetailsNeedTheirRight(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	subscriber := h.login(t, embedded.SubscriberUser)
	live, err := subscriber.SubscribeSync(names.Prefix + ".live.>")
	if err == nil {
		err = subscriber.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	h.plant(t, "kept")
	p := &place{}
	t.Run("http", func(t *testing.T) { h.answers(t, p) })
	t.Run("nats", func(t *testing.T) { h.requests(t, p) })
	t.Run("streams", func(t *testing.T) { h.stored(t) })
	events := 0
	for ; ; events++ {
		m, err := live.NextMsg(100 * time.Millisecond)
		if err != nil {
			break
		}
		if where := told(string(m.Data) + m.Subject + fmt.Sprint(m.Header)); len(where) > 0 {
			t.Errorf("%s was published with %v", m.Subject, where)
		}
	}
	if events < 5 {
		t.Errorf("only %d events were published", events)
	}
}

// answers tries each request with tokens of each scope.
func (h *house) answers(t *testing.T, p *place) {
	but := func(not ...string) []string {
		return slices.DeleteFunc(slices.Sorted(maps.Keys(planted)), func(s string) bool { return slices.Contains(not, s) })
	}
	every, printed, inResults := but("file"), but("file", "prompt", "stderr"), but("file", "prompt")
	sse, adcp := []string{"Accept", "text/event-stream"}, []string{"Accept", "application/adcp+json"}
	of := func(tail string, owner []string, header ...string) asking {
		return asking{"GET", "/v1/runs/kept" + tail, "", append([]string{"Accept", "application/json"}, header...), owner}
	}
	a2a := func(method, params string) asking {
		return asking{"POST", "/a2a", `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":` + params + `}`, nil, nil}
	}
	tool := asking{"POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"_codex_local_results",` +
		`"arguments":{"task_id":"kept","include_output":true,"include_events":true,"format":"json"}}}`,
		[]string{"Mcp-Session-Id", h.open(t, "/mcp"), "MCP-Protocol-Version", "2025-06-18"}, inResults}
	rows := []string{}
	all := map[string]asking{}
	add := func(row string, a asking) {
		rows = append(rows, row)
		all[row] = a
	}
	add("GET /v1/runs/{id}/detail", of("/detail", every))
	add("the same as a stream", of("/detail", every, sse...))
	add("the same as AdCP", of("/detail", every, adcp...))
	add("GET /v1/runs/{id}/output", of("/output?limit=1000000", printed, "Accept", "*/*"))
	add("GET /v1/runs/{id}/output?stream=stderr", of("/output?stream=stderr", []string{"stderr"}, "Accept", "*/*"))
	add("GET /v1/runs/{id}/diff", of("/diff", []string{"file"}))
	add("the same as a patch", of("/diff", []string{"file"}, "Accept", "text/x-diff"))
	add("GET /v1/runs/{id}", of("", nil))
	add("GET /v1/runs/{id} as AdCP", of("", nil, adcp...))
	add("GET /v1/runs/{id}/wait", of("/wait", nil))
	add("GET /v1/runs/{id}/events", of("/events?limit=1000", nil))
	add("the same events as a stream", of("/events", nil, sse...))
	add("the same events as AdCP", of("/events?limit=1000", nil, adcp...))
	add("GET /v1/runs", asking{"GET", "/v1/runs", "", nil, nil})
	add("GET /v1/events", asking{"GET", "/v1/events?limit=1000", "", nil, nil})
	add("GetTask of A2A, with its history", a2a("GetTask", `{"id":"kept","historyLength":100}`))
	add("ListTasks of A2A", a2a("ListTasks", `{"includeArtifacts":true}`))
	add("results of MCP with output", tool)
	columns := []string{"read", "read,submit", "read,raw", "read,submit,raw"}
	tokens := map[string]string{}
	for _, scopes := range columns {
		tokens[scopes] = h.scoped(t, scopes)
	}
	p.compare(t, "Ask over HTTP", columns, rows, func(t *testing.T, row, scopes string) string {
		a := all[row]
		code, answer, _ := h.post(t, a.method, a.path, a.body, append([]string{"Authorization", "Bearer " + tokens[scopes]},
			a.header...)...)
		switch where := told(answer); {
		case code == http.StatusForbidden && len(where) == 0:
			return string(no)
		case len(where) == 0:
			if code != http.StatusOK || !strings.Contains(answer, "kept") && !strings.Contains(answer, "turn started") {
				t.Errorf("%s with %s is not about the run: %d %.300s", row, scopes, code, answer)
			}
			return without
		case !slices.Equal(where, a.owner):
			t.Errorf("%s with %s tells of %v, want %v", row, scopes, where, a.owner)
		}
		return string(yes)
	})
	for _, path := range []string{"/healthz", "/readyz", "/", "/v1/workers", "/.well-known/agent-card.json"} {
		if _, answer, _ := h.post(t, "GET", path, ""); len(told(answer)) > 0 {
			t.Errorf("%s tells of %v", path, told(answer))
		}
	}
}

// requests tries each verb as each user.
func (h *house) requests(t *testing.T, p *place) {
	body := map[string]string{
		"detail": `{"run":"kept","limit":1000}`, "diff": `{"run":"kept"}`, "output": `{"run":"kept"}`, "results": `{"run":"kept","output":true}`,
		"_codex_local_results": `{"task_id":"kept","include_output":true}`,
	}
	rows := []string{}
	for _, verb := range []string{"detail", "diff", "output", "results", "_codex_local_results"} {
		rows = append(rows, names.API()+"."+verb)
	}
	p.watch = map[string]*nats.Conn{}
	for _, user := range users {
		p.watch[user] = h.login(t, user)
	}
	p.compare(t, "Request", users, rows, func(t *testing.T, row, user string) string {
		a := p.ask(t, user, row, nil, body[strings.TrimPrefix(row, names.API()+".")])
		var output struct{ Data []byte }
		_ = json.Unmarshal(a.body, &output) // an answer without bytes has none
		if a.verdict == yes && len(told(string(a.body)+string(output.Data))) == 0 {
			t.Errorf("%s as %s: %.300s", row, user, a.body)
			return without
		}
		return string(a.verdict)
	})
	m, err := p.watch[embedded.OperatorUser].Request("$SRV.STATS.linesman", nil, patience)
	if err != nil || len(told(string(m.Data))) > 0 {
		t.Errorf("the statistics: %v, %v", err, told(string(m.Data)))
	}
}

// stored searches all streams. Only RAW has what an agent wrote.
func (h *house) stored(t *testing.T) {
	h.storedOnly(t, len(planted)-1) // diffs may be in other notes of RAW, compressed
}

// storedOnly is stored where RAW has the words of so many places.
func (h *house) storedOnly(t *testing.T, places int) {
	for _, s := range streams() {
		user := embedded.OperatorUser
		if s.public {
			user += "_public"
		}
		js, err := jetstream.New(h.login(t, user))
		if err != nil {
			t.Fatal(err)
		}
		stream, err := js.Stream(t.Context(), s.name)
		if err != nil {
			t.Fatal(err)
		}
		var all strings.Builder
		state := stream.CachedInfo().State
		for seq := max(state.FirstSeq, 1); seq <= state.LastSeq; seq++ {
			if m, err := stream.GetMsg(t.Context(), seq); err == nil { // some are gone
				fmt.Fprintf(&all, "%s %v %s\n", m.Subject, m.Header, m.Data)
			}
		}
		where := told(all.String())
		if s.name == names.Raw() && len(where) < places {
			t.Errorf("%s has only %v: nothing is tested", s.name, where)
		}
		if s.name != names.Raw() && len(where) > 0 {
			t.Errorf("%s has %v", s.name, where)
		}
	}
}
