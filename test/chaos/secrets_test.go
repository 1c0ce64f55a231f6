package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/test/fixture"
)

// secrets are the words in the files of the site that let somebody in.
func (s *site) secrets() map[string]string {
	s.t.Helper()
	all := map[string]string{}
	for _, dir := range append([]string{filepath.Join(s.dir, "office")}, s.data...) {
		some, err := fixture.Secrets(dir)
		if err != nil {
			s.t.Fatal(err)
		}
		maps.Copy(all, some)
	}
	return all
}

// post asks the HTTP server of `up` for something. It returns the status, the
// answer, and the session that MCP has made.
func (s *site) post(path, token string, header map[string]string, body any) (code int, answer, session string) {
	s.t.Helper()
	here, err := os.ReadFile(filepath.Join(s.data[0], "linesman.json"))
	if err != nil {
		s.t.Fatal(err)
	}
	b, err := json.Marshal(body)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, gjson.GetBytes(here, "http").String()+path,
		bytes.NewReader(b))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for name, value := range header {
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, string(text), resp.Header.Get("Mcp-Session-Id")
}

// Whatever comes in, well formed or not, by whichever surface, the logs hold
// nothing of it at any level: neither what is to be done, nor who may.
func TestLogsHoldNoPromptNoKeyAndNoCredentials(t *testing.T) {
	t.Parallel()
	s := newUp(t, drawn(t, 0), "")
	token := s.secrets()["the token"]
	if token == "" || s.secrets()["the password of worker"] == "" {
		t.Fatal("there are no secrets: nothing can be said of leaks")
	}
	word := func(what string) string { return Sentinel + what }
	hook := map[string]any{"url": "https://receiver.invalid/" + word("url"), "token": word("push-token"),
		"authentication": map[string]any{"schemes": []string{"Bearer"},
			"credentials": word("push-credentials-0123456789abcdef")}}
	task := map[string]any{"task": word("task-in-no-directory"), "workingDir": "/" + word("dir"), "skipGitRepoCheck": true,
		"labels": map[string]string{"ticket": word("label")}, "idempotency_key": word("key-0123456789"),
		"pushNotificationConfig": hook}
	_, prompt := s.prompt("talk", "lines=5")
	good := map[string]any{"task": prompt, "workingDir": s.dir, "skipGitRepoCheck": true}
	once := maps.Clone(good)
	once["idempotencyKey"] = word("key-0123456789")
	_, _, session := s.post("/mcp", token, nil, map[string]any{"jsonrpc": "2.0", "id": 0, "method": "initialize",
		"params": map[string]any{
			"protocolVersion": "2025-06-18", "capabilities": map[string]any{},
			"clientInfo": map[string]any{"name": word("client"), "version": "1"}}})
	mcp := map[string]string{"Mcp-Session-Id": session}
	s.post("/mcp", token, mcp, map[string]any{"jsonrpc": "2.0", "method": "notifications/initialized"})
	taken := 0
	for _, c := range []struct {
		path, token string
		header      map[string]string
		body        any
	}{
		{"/v1/runs", token, nil, once},
		{"/v1/runs", token, nil, once}, // the same again
		{"/v1/runs", token, nil, good},
		{"/v1/runs", token, nil, task},
		{"/v1/runs", word("token"), nil, task},
		{"/v1/runs/" + word("run") + "/cancel", token, nil, map[string]any{"reason": word("reason")}},
		{"/v1/runs", token, nil, word("no-object")},
		{"/mcp", token, mcp, map[string]any{"jsonrpc": "2.0", "id": word("id"), "method": "tools/call",
			"params": map[string]any{"name": "_codex_local_exec", "arguments": task}}},
		{"/mcp", token, mcp, map[string]any{"jsonrpc": "2.0", "id": 2, "method": "tools/call",
			"params": map[string]any{"name": "_codex_local_exec", "arguments": good}}},
		{"/mcp", token, mcp, map[string]any{"jsonrpc": "2.0", "id": 1, "method": word("method")}},
		{"/a2a", token, nil, map[string]any{"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": map[string]any{
			"message": map[string]any{"kind": "message", "messageId": word("message"), "role": "user",
				"parts": []any{map[string]any{"kind": "text", "text": word("text")}}},
			"configuration": map[string]any{"pushNotificationConfig": hook}}}},
		{"/v1/runs/last/messages", token, map[string]string{"Idempotency-Key": word("message-key")},
			map[string]any{"text": word("message-text"), "when": word("when")}},
		{"/v1/runs/last/messages", token, map[string]string{"Idempotency-Key": word("message-key")},
			map[string]any{"text": word("message-text")}},
		{"/v1/runs/last/messages/" + word("message-id"), token, nil, map[string]any{"text": word("message-text")}},
		{"/" + word("path"), token, nil, nil},
	} {
		code, answer, _ := s.post(c.path, c.token, c.header, c.body)
		t.Logf("%s: %d %.160s", c.path, code, answer)
		if code == http.StatusOK || code == http.StatusCreated || code == http.StatusAccepted {
			taken++
		}
	}
	for _, tool := range []string{
		"submit", "status", "cancel", "wait", "results", "_codex_local_exec", "_codex_local_status", "_codex_local_cancel",
		"_codex_local_wait", "_codex_local_results",
	} {
		if _, err := s.ask(tool, map[string]any{"task": word("nats-task"), "task_id": word("id"),
			"workingDir": "/" + word("dir"), "reason": word("reason")}); err != nil {
			t.Logf("%s: %v", tool, err) // not every name is a tool
		}
	}
	s.direct[s.run("talk", []string{"--label", "secret=" + word("run-label")}, "lines=10")].code()
	s.settle()
	said := s.roles["up"].said()
	if taken < 5 || !strings.Contains(said, "tool called") {
		t.Fatalf("%d of the requests were taken, and `up` says:\n%s", taken, said)
	}
	logs, err := os.ReadDir(filepath.Join(s.dir, "logs"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range logs {
		b, err := os.ReadFile(s.log(f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(f.Name(), "run-") { // it prints events as well, with what callers say of themselves
			b = bytes.ReplaceAll(b, []byte(word("run-label")), nil)
		}
		for _, leak := range fixture.Leaks(b, s.secrets()) {
			t.Errorf("log %s: %s", f.Name(), leak)
		}
	}
	t.Logf("%d bytes of logs, %d secrets", len(said), len(s.secrets()))
}
