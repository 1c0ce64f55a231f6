package security

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/test/fixture"
)

// strange are names that would be a wildcard, another subject, or another
// place, if they were taken as they are.
var strange = []string{
	"*", ">", "a.b", "a.>", "kept.x", "../kept", "..", ".", "a/b", "/etc/passwd", "%2e%2e%2fkept", "a b", "a\nb",
	"kept\x00", "$JS", "\u202ekept", strings.Repeat("x", 65), "kept ", "kept*",
}

// operator connects to the server of a house.
func (h *house) operator(t *testing.T) *nats.Conn {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(h.data, "linesman.json"))
	if err != nil {
		t.Fatal(err)
	}
	var here struct {
		NATS string `json:"nats"`
	}
	if err := json.Unmarshal(b, &here); err != nil {
		t.Fatal(err)
	}
	credentials, err := embedded.LoadCredentials(h.data)
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(here.NATS, nats.UserInfo(embedded.OperatorUser, credentials[embedded.OperatorUser]),
		nats.CustomInboxPrefix(bus.InboxPrefix(embedded.OperatorUser)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// post sends a body with the token, and returns the answer.
func (h *house) post(t *testing.T, method, path, body string, header ...string) (int, string, http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, h.http+path, strings.NewReader(body))
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	r.Close = true
	r.Header.Set("Authorization", "Bearer "+h.token)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("A2A-Version", "1.0")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b), res.Header
}

// linesmanAt runs a command on the house, which may fail.
func (h *house) linesmanAt(t *testing.T, stdin string, args ...string) (out string, code int) {
	t.Helper()
	cmd := exec.Command(program(t, "linesman"), append([]string{args[0], "--data-dir", h.data}, args[1:]...)...)
	cmd.Env = []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}
	cmd.Stdin = strings.NewReader(stdin)
	out, said, code := fixture.Run(t, cmd)
	return out + said, code
}

const secret = fixture.Sentinel + "of-the-agent"

// A name from outside is a run's id or a mistake, at every entry: it matches
// no other run, becomes no subject, and leads out of no directory.
func TestNamesFromOutsideStayNames(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	line := `{"type":"item.completed","item":{"id":"i","type":"agent_message","text":"` + secret + `"}}` + "\n"
	if out, code := h.linesmanAt(t, line, "pipe", "--run", "kept", "--wait"); code != 0 {
		t.Fatalf("pipe: %d %s", code, out)
	}
	nc := h.operator(t)
	heard, err := nc.SubscribeSync(names.Prefix + ".>")
	if err != nil {
		t.Fatal(err)
	}
	if err := heard.SetPendingLimits(-1, -1); err != nil {
		t.Fatal(err)
	}
	session := h.open(t, "/mcp")
	before := tree(t, filepath.Dir(h.data))

	quote := func(s string) string { b, _ := json.Marshal(s); return string(b) }
	for entry, ask := range map[string]func(t *testing.T, name string) string{
		"nats": func(t *testing.T, name string) string {
			var all strings.Builder
			for _, tool := range []string{
				"_codex_local_status", "_codex_local_results", "_codex_local_wait", "_codex_local_cancel", "status", "describe",
				"results", "events", "output", "detail",
			} {
				m, err := nc.Request(names.API()+"."+tool, []byte(arguments(tool, quote(name))), patience)
				if err != nil {
					t.Fatalf("%s: %v", tool, err)
				}
				all.Write(m.Data)
			}
			return all.String()
		},
		"nats, submit": func(t *testing.T, name string) string {
			m, err := nc.Request(names.API()+"._codex_local_exec", []byte(`{"task":"x","task_id":`+quote(name)+`,"run":`+
				quote(name)+`,"resume":`+quote(name)+`,"thread_id":`+quote(name)+`}`), patience)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(m.Data), `"VALIDATION"`) {
				t.Errorf("submit with %q: %s", name, m.Data)
			}
			return string(m.Data)
		},
		"mcp": func(t *testing.T, name string) string {
			var all strings.Builder
			for _, tool := range []string{"_codex_local_results", "_codex_local_wait", "_codex_local_cancel",
				"_codex_cloud_results"} {
				body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `","arguments":{"task_id":` +
					quote(name) + `}}}`
				_, answer, _ := h.post(t, "POST", "/mcp", body, "Mcp-Session-Id", session, "MCP-Protocol-Version", "2025-06-18")
				all.WriteString(answer)
			}
			return all.String()
		},
		"rest": func(t *testing.T, name string) string {
			var all strings.Builder
			for _, where := range []string{"", "/events", "/output", "/detail", "/wait?timeout=1s"} {
				code, answer, _ := h.post(t, "GET", "/v1/runs/"+url.PathEscape(name)+where, "")
				if code < 400 && code != http.StatusTemporaryRedirect && !(name == "." && where == "") { // which is the list
					t.Errorf("GET runs/%q%s: %d", name, where, code)
				}
				if code < 400 {
					continue
				}
				all.WriteString(answer)
			}
			code, answer, _ := h.post(t, "POST", "/v1/runs/"+url.PathEscape(name)+"/cancel", "{}")
			if code < 300 {
				t.Errorf("POST runs/%q/cancel: %d", name, code)
			}
			return all.String() + answer
		},
		"a2a": func(t *testing.T, name string) string {
			var all strings.Builder
			for _, method := range []string{"GetTask", "CancelTask", "SubscribeToTask"} {
				_, answer, _ := h.post(t, "POST", "/a2a", `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{"id":`+
					quote(name)+`}}`)
				if !strings.Contains(answer, `"error"`) {
					t.Errorf("%s of %q: %s", method, name, answer)
				}
				all.WriteString(answer)
			}
			_, answer, _ := h.post(t, "POST", "/a2a",
				`{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m","taskId":`+quote(name)+
					`,"contextId":`+quote(name)+`,"role":"ROLE_USER","parts":[{"text":"x"}]}}}`)
			if !strings.Contains(answer, `"error"`) {
				t.Errorf("SendMessage to %q: %s", name, answer)
			}
			return all.String() + answer
		},
		"command line": func(t *testing.T, name string) string {
			if strings.ContainsRune(name, 0) { // no argument can hold it
				return ""
			}
			var all strings.Builder
			for _, args := range [][]string{
				{"results", "--", name}, {"wait", "--", name}, {"cancel", "--", name}, {"forget", "--", name},
				{"events", "--run=" + name, "--json"},
				{"run", "--run=" + name, "--", "true"}, {"pipe", "--run=" + name}, {"run", "--agent=" + name, "--", "true"},
			} {
				out, code := h.linesmanAt(t, "", args...)
				if code == 0 {
					t.Errorf("%q ended with 0: %s", args, out)
				}
				all.WriteString(out)
			}
			return all.String()
		},
	} {
		t.Run(entry, func(t *testing.T) {
			some := strange
			if entry == "command line" {
				some = []string{"*", ">", "kept.x", "../kept", "a/b", "a\nb"} // a process each
			}
			for _, name := range some {
				if answer := ask(t, name); strings.Contains(answer, secret) {
					t.Errorf("%q told of another run: %s", name, answer)
				}
			}
		})
	}

	// The same ways, with its own name, do tell of the run.
	told := map[string]string{}
	if m, err := nc.Request(names.API()+"._codex_local_results", []byte(`{"task_id":"kept"}`), patience); err == nil {
		told["nats"] = string(m.Data)
	}
	_, told["mcp"], _ = h.post(t, "POST", "/mcp",
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"_codex_local_results","arguments":{"task_id":"kept"}}}`,
		"Mcp-Session-Id", session, "MCP-Protocol-Version", "2025-06-18")
	_, told["rest"], _ = h.post(t, "GET", "/v1/runs/kept/events", "")
	_, told["a2a"], _ = h.post(t, "POST", "/a2a", `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"kept"}}`)
	told["command line"], _ = h.linesmanAt(t, "", "results", "kept")
	for entry, answer := range told {
		if !strings.Contains(answer, secret) {
			t.Errorf("%s does not tell of the run when it is asked for it: %s", entry, answer)
		}
	}

	known := regexp.MustCompile(`^linesman\.(raw\.[a-z_]+\.[A-Za-z0-9_-]+|work\.[a-z]+\.[A-Za-z0-9_-]+|control\.[A-Za-z0-9_-]+|api\.[a-z_]+|push\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+)$`)
	if err := nc.FlushTimeout(patience); err != nil {
		t.Fatal(err)
	}
	seen := 0
	for {
		m, err := heard.NextMsg(time.Millisecond)
		if err != nil {
			break
		}
		seen++
		if !known.MatchString(m.Subject) || strings.Contains(m.Subject, ".raw.") {
			t.Errorf("published on %q", m.Subject)
		}
	}
	if seen < len(strange) { // the requests themselves are heard
		t.Errorf("only %d messages heard", seen)
	}
	if after := tree(t, filepath.Dir(h.data)); strings.Join(after, "\n") != strings.Join(before, "\n") {
		t.Errorf("files before:\n%s\nafter:\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
	}
}

// The bridge takes names from files and from what is in them.
func TestNamesOfTheFileBridgeStayNames(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	above := t.TempDir()
	dir := filepath.Join(above, "watched")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(path string, body any) {
		b, err := json.Marshal(body)
		if err == nil {
			err = os.WriteFile(path, b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	request := func(id string) map[string]any {
		return map[string]any{"request_id": id, "version": "1.0", "phase": 1, "phase_name": id, "agent_name": id,
			"prompt": "Go.", "timeout_seconds": 60}
	}
	before := tree(t, filepath.Dir(h.data))
	var want []string
	for i, name := range strange {
		if strings.ContainsAny(name, "\n\x00") || strings.TrimSpace(name) == "" {
			continue // no request at all, and tested with the bridge
		}
		write(filepath.Join(dir, fmt.Sprintf(".agent-request-%d.json", i)), request(name))
		want = append(want, fmt.Sprintf(".agent-response-%d.json", i))
	}
	left := []string{".agent-request-a b.json", ".agent-request-*.json", ".agent-request->.json",
		".agent-request-" + strings.Repeat("x", 65) + ".json"}
	for _, name := range left { // what is between is not a name
		write(filepath.Join(dir, name), request("other-"+name))
	}
	role(t, "ready dir=", "bridge", "--dir", dir, "--working-dir", dir, "--data-dir", h.data)
	soon(t, "all answers", func() bool {
		for _, name := range want {
			if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
				return false
			}
		}
		return true
	})
	for _, path := range tree(t, above) {
		name := filepath.Base(path)
		if path == above || path == dir || slices.Contains(want, name) || slices.Contains(left, name) ||
			strings.HasPrefix(name, ".agent-request-") || strings.HasPrefix(name, ".linesman") {
			continue
		}
		t.Errorf("there is %s", path)
	}
	for _, path := range tree(t, filepath.Dir(h.data)) {
		rel, err := filepath.Rel(h.data, path)
		if err != nil {
			t.Fatal(err)
		}
		ours := strings.HasPrefix(rel, "bridge") || strings.HasPrefix(rel, "runs")
		if !ours && !slices.Contains(before, path) || !regexp.MustCompile(`^[A-Za-z0-9._/-]*$`).MatchString(rel) {
			t.Errorf("there is %s", path)
		}
	}
}

// open begins a session of MCP.
func (h *house) open(t *testing.T, path string) string {
	t.Helper()
	_, body, header := h.post(t, "POST", path,
		`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`)
	id := header.Get("Mcp-Session-Id")
	if id == "" {
		t.Fatalf("no session: %s", body)
	}
	h.post(t, "POST", path, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, "Mcp-Session-Id", id,
		"MCP-Protocol-Version", "2025-06-18")
	return id
}

// tree is all that is below a directory, but for the streams' own files.
func tree(t *testing.T, dir string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && d.Name() == "jetstream" {
			return filepath.SkipDir
		}
		all = append(all, path)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// After a story with everything in it nothing below the data directory is for
// anybody else, whatever the umask was.
func TestNothingInTheDataDirectoryIsForOthers(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0)) // what is private is so by itself
	h := newHouse(t)
	if out, code := h.linesmanAt(t, "", "token", "create", "ci"); code != 0 {
		t.Fatalf("token: %s", out)
	}
	if out, code := h.linesmanAt(t, "{}\n", "pipe", "--run", "piped", "--wait"); code != 0 {
		t.Fatalf("pipe: %s", out)
	}
	in := t.TempDir()
	file := filepath.Join(in, "go")
	// While the agent looks, there is a run directory with all its files.
	agent := `i=0; while [ ! -e "$0" ]; do i=$((i+1)); [ $i -lt 600 ] || exit 1; echo '{"type":"turn.started"}'; sleep 0.05; done`
	done := make(chan string, 1)
	go func() {
		out, _ := h.linesmanAt(t, "", "run", "--run", "held", "--", "/bin/sh", "-c", agent, file)
		done <- out
	}()
	out := filepath.Join(h.data, "runs", "held", "out")
	soon(t, "the agent's output", func() bool { info, err := os.Stat(out); return err == nil && info.Size() > 0 })
	private := func() (files int) {
		err := filepath.WalkDir(h.data, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return nil // gone meanwhile: a stream's block, a mark's older self
			}
			info, err := d.Info()
			if err != nil {
				return nil
			}
			files++
			want := fs.FileMode(0o600)
			if d.IsDir() {
				want = 0o700
			}
			if mode := info.Mode().Perm(); mode&^want != 0 {
				t.Errorf("%s: mode %v", strings.TrimPrefix(path, h.data), mode)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return files
	}
	if files := private(); files < 40 {
		t.Errorf("only %d files and directories while a run works", files)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	select {
	case <-done:
	case <-time.After(fixture.Patience):
		t.Fatal("the run does not end")
	}
	private()
}

// arguments are those of a tool, or of a verb, that name a run.
func arguments(name, run string) string {
	if strings.HasPrefix(name, "_") {
		return `{"task_id":` + run + `,"timeout_sec":1,"include_output":true}`
	}
	return `{"run":` + run + `}`
}
