package e2e

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/test/fixture"
)

// site is the HTTP of a `linesman up`.
type site struct {
	t          *testing.T
	url, token string
}

// site reads where a data directory is served, with a token that may do what
// the scopes say.
func newSite(t *testing.T, data, scopes string) *site {
	t.Helper()
	create := exec.CommandContext(t.Context(), program, "token", "create", "test", "--scope", scopes, "--data-dir", data)
	fixture.Watch(t, create)
	out, err := create.Output()
	if err != nil {
		t.Fatalf("token create: %v", err)
	}
	return &site{t, fixture.ReadAddress(t, data).HTTP, strings.TrimSpace(string(out))}
}

func (s *site) open(method, path, body string, header ...string) *http.Response {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+s.token)
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer
}

// want sends a request, for a status.
func (s *site) want(status int, method, path, body string) (gjson.Result, []byte) {
	s.t.Helper()
	answer := s.open(method, path, body)
	defer answer.Body.Close()
	got, err := io.ReadAll(answer.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	if answer.StatusCode != status {
		s.t.Fatalf("%s %s: %d, want %d: %s", method, path, answer.StatusCode, status, got)
	}
	return gjson.ParseBytes(got), got
}

// events reads the kinds of a run's events from a stream, to its end, and
// checks that their ids rise.
func (s *site) events(run string) (kinds []string, data []string) {
	s.t.Helper()
	answer := s.open("GET", "/v1/runs/"+run+"/events", "", "Accept", "text/event-stream")
	defer answer.Body.Close()
	last := int64(0)
	lines := bufio.NewReader(answer.Body)
	for {
		line, err := lines.ReadString('\n')
		if err == io.EOF {
			return kinds, data
		}
		if err != nil {
			s.t.Fatal(err)
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch name {
		case "id":
			id := gjson.Parse(value).Int()
			if id <= last {
				s.t.Fatalf("event %d comes after %d", id, last)
			}
			last = id
		case "event":
			kinds = append(kinds, value)
		case "data":
			data = append(data, value)
		}
	}
}

// One story: submit, events, result, resume, cancel; and what the tools say of
// the run over NATS is the same.
func TestRealCodexOverREST(t *testing.T) {
	fixture.Long(t, "starts a real agent for each interface")
	t.Parallel()
	d := newDaemon(t, 2, "go=resume", "sleep=shell-sleep")
	gitInit(t, d.dirs["go"])
	s := newSite(t, d.data, "read,submit,raw")
	workers, _ := s.want(200, "GET", "/v1/workers", "")
	if w := workers.Get("workers.0"); w.Get("slots").Int() != 2 || w.Get("lastSeenAt").String() == "" {
		t.Errorf("workers %s", workers.Raw)
	}

	ack, _ := s.want(202, "POST", "/v1/runs", fmt.Sprintf(`{"task":"go","workingDir":%q}`, d.dirs["go"]))
	first := ack.Get("run").String()
	kinds, data := s.events(first)
	if len(kinds) < 3 || kinds[len(kinds)-1] != "completion" || len(kinds) != len(data) {
		t.Fatalf("events %q", kinds)
	}
	run, _ := s.want(200, "GET", "/v1/runs/"+first+"/wait?timeout=60", "")
	if run.Get("state").String() != "completed" || run.Get("exit.code").Raw != "0" || run.Get("threadId").String() == "" ||
		run.Get("finalText").String() == "" {
		t.Fatalf("the run: %s", run.Raw)
	}
	page, _ := s.want(200, "GET", "/v1/runs/"+first+"/events?limit=1000", "")
	for i, e := range page.Get("events").Array() {
		if i >= len(kinds) || e.Get("kind").String() != kinds[i] || e.Get("event").Raw != data[i] {
			t.Fatalf("event %d of the page is not that of the stream: %.300s", i, e.Raw)
		}
	}
	if n := len(page.Get("events").Array()); n != len(kinds) || !page.Get("done").Bool() {
		t.Errorf("%d events on the page, %d in the stream", n, len(kinds))
	}

	_, stdout := s.want(200, "GET", "/v1/runs/"+first+"/output?limit=1048576", "")
	result := d.ask("_codex_local_results", map[string]any{"task_id": first, "include_output": true,
		"max_output_bytes": 1 << 20})
	for what, pair := range map[string][2]string{
		"state":   {run.Get("state").String(), result.Get("data.state").String()},
		"thread":  {run.Get("threadId").String(), result.Get("data.metadata.thread_info.thread_id").String()},
		"summary": {run.Get("summary").String(), result.Get("data.summary").String()},
		"output":  {string(stdout), result.Get("data.output.stdout").String()},
	} {
		if pair[0] == "" || pair[0] != pair[1] {
			t.Errorf("%s: %q over HTTP, %q over NATS", what, pair[0], pair[1])
		}
	}

	ack, _ = s.want(202, "POST", "/v1/runs/"+first+"/resume", `{"task":"go"}`)
	second, _ := s.want(200, "GET", "/v1/runs/"+ack.Get("run").String()+"/wait?timeout=60", "")
	if second.Get("state").String() != "completed" || second.Get("threadId").String() != run.Get("threadId").String() ||
		second.Get("workingDir").String() != d.dirs["go"] || !strings.Contains(second.Get("finalText").String(), "42") {
		t.Errorf("the second turn: %s", second.Raw)
	}

	ack, _ = s.want(202, "POST", "/v1/runs", fmt.Sprintf(`{"task":"sleep","workingDir":%q,"skipGitRepoCheck":true}`,
		d.dirs["sleep"]))
	slow := ack.Get("run").String()
	d.until(slow, "its command", func(_, entry gjson.Result) bool {
		return strings.Contains(entry.Get("progress.current_activity").String(), "echo begun")
	})
	answer := s.open("POST", "/v1/runs/"+slow+"/cancel", `{"reason":"not needed"}`)
	_ = answer.Body.Close()
	if answer.StatusCode != 200 && answer.StatusCode != 202 {
		t.Errorf("cancel: %d", answer.StatusCode)
	}
	run, _ = s.want(200, "GET", "/v1/runs/"+slow+"/wait?timeout=60", "")
	if run.Get("state").String() != "cancelled" || !run.Get("cancelRequested").Bool() {
		t.Errorf("the cancelled one: %s", run.Raw)
	}
	if left := commands(t, "sleep 61"); len(left) != 0 {
		t.Errorf("%d of its commands live on", len(left))
	}
	problem, _ := s.want(409, "POST", "/v1/runs/"+slow+"/cancel", "")
	if problem.Get("code").String() != "CONFLICT" || problem.Get("state").String() != "cancelled" {
		t.Errorf("cancelled again: %s", problem.Raw)
	}
	runs, _ := s.want(200, "GET", "/v1/runs?workingDir="+d.dirs["go"], "")
	if ids := runs.Get("runs.#.run").Array(); len(ids) != 2 || ids[1].String() != first {
		t.Errorf("the runs of a directory: %s", runs.Raw)
	}
}

func TestRESTExample(t *testing.T) {
	t.Parallel()
	lab := secretDir(t)
	example := built(t, "rest")
	for _, name := range []string{"shell-ok", "failed"} {
		recording, err := os.ReadFile(filepath.Join("..", "corpus", "codex", name+".jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(lab, name+".jsonl"), string(recording))
	}
	write(t, filepath.Join(lab, "agent.sh"), "for prompt; do :; done\ncat '"+lab+
		"'/\"$prompt\".jsonl\n[ \"$prompt\" = shell-ok ]\n")
	write(t, filepath.Join(lab, "linesman.toml"), fmt.Sprintf("[agents.codex]\ncommand = ['/bin/sh', %q]\n",
		filepath.Join(lab, "agent.sh")))
	data := t.TempDir()
	up(t, data, "--config", filepath.Join(lab, "linesman.toml"))
	s := newSite(t, data, "read,submit")
	for _, tt := range []struct {
		prompt, token, stdout, stderr string
		ok                            bool
	}{
		{"shell-ok", s.token, "Two files.\n", "\ncompletion {", true},
		{"failed", s.token, "", "rest: the task is failed: ", false},
		{" ", s.token, "", "rest: submit: VALIDATION: task: must not be blank\n", false},
		{"shell-ok", "wrong", "", "rest: submit: UNAUTHORIZED: ", false},
	} {
		var stdout, stderr bytes.Buffer
		cmd := exec.CommandContext(t.Context(), example, tt.prompt)
		cmd.Env = append(os.Environ(), "REST_URL="+s.url, "REST_TOKEN="+tt.token)
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if err := cmd.Run(); (err == nil) != tt.ok || stdout.String() != tt.stdout || !strings.Contains(stderr.String(),
			tt.stderr) {
			t.Errorf("%q: %v\n%s%s", tt.prompt, err, stdout.String(), stderr.String())
		}
	}
}
