package adcp

import (
	"bufio"
	"bytes"
	"encoding/json"
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

// notice is what the receiver tells of a request.
type notice struct {
	Way      string
	Status   int // of its answer
	Verified bool
	Tampered []string // what the SDK should have refused
	Handled  struct{ Task, Status, Data string }
	Error    string
}

// The SDK of AdCP verifies and reads notifications of a real linesman, in both ways of signing them, for tasks that
// were submitted over A2A or otherwise, and refuses those that were tampered with.
func TestTheSDKVerifiesNotifications(t *testing.T) {
	fixture.Long(t, "installs the SDK of Node.js")
	node := fixture.Need(t, "AGENTS", "node")
	dir := fixture.Install(t, "AGENTS", "test", "clients", "adcp")
	scratch := t.TempDir()
	key := filepath.Join(scratch, "key.pem")
	if _, text, code := fixture.Run(t, exec.CommandContext(t.Context(), program, "setup", "webhook-key", key)); code != 0 {
		t.Fatal(text)
	}
	agent := filepath.Join(scratch, "agent.sh")
	hello := fixture.Path(t, "test", "corpus", "codex", "hello.jsonl")
	if err := os.WriteFile(agent, []byte("#!/bin/sh\ncat '"+hello+"'\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	up := fixture.Up(t, program, t.TempDir(), append(os.Environ(), "HOME="+t.TempDir(), "LINESMAN_PUSH_ALLOW_PRIVATE=true",
		"LINESMAN_ADCP_WEBHOOK_KEY="+key, "LINESMAN_ADCP_BRAND_JSON_URL=https://brand.example/.well-known/brand.json",
		"LINESMAN_AGENTS_CODEX_COMMAND="+agent, "LINESMAN_WORK_ROOTS="+scratch))

	const secret = "a-secret-of-more-than-32-characters-0"
	var stderr bytes.Buffer
	receiver := exec.CommandContext(t.Context(), node, filepath.Join(dir, "webhook.mjs"), secret, up.HTTP, up.Token,
		scratch)
	receiver.Stderr = &stderr
	out, err := receiver.StdoutPipe()
	if err == nil {
		err = receiver.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = receiver.Process.Kill()
		_ = receiver.Wait()
	})
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatalf("the receiver does not start: %s", stderr.String())
	}
	var first struct{ URL, Task, Error string }
	if err := json.Unmarshal(lines.Bytes(), &first); err != nil || first.Task == "" {
		t.Fatalf("%v: %s", err, lines.Bytes())
	}

	const overA2A = "a2a, "
	runs := map[string]string{first.Task: overA2A + "hmac"} // the way, by run
	task := func(key, more string) string {
		return `{"task":"go","workingDir":"` + scratch + `","skipGitRepoCheck":true,"idempotency_key":"key-0123456789-` + key + `"` +
			more + `}`
	}
	for way, config := range map[string]string{
		"hmac": `{"url":"` + first.URL + `/hmac","operation_id":"op-1","authentication":{"schemes":["HMAC-SHA256"],"credentials":"` +
			secret + `"}}`,
		"rfc9421": `{"url":"` + first.URL + `/rfc9421/a%7eb/../c%2fd?b=2&a=1"}`,
	} {
		answer := post(t, up, "/v1/runs", task(way, `,"push_notification_config":`+config))
		runs[answer.Get("task_id").String()] = way
		if answer.Get("status").String() != "submitted" || answer.Get("push_notification_config.url").String() == "" {
			t.Fatalf("%s: %s", way, answer.Raw)
		}
	}
	answer := post(t, up, "/a2a", `{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"kind":"message",`+
		`"messageId":"m-1","role":"user","parts":[{"kind":"data","data":{"skill":"codex-run","parameters":`+task("a2a", "")+
		`}}]},"configuration":{"pushNotificationConfig":{"url":"`+first.URL+`/rfc9421/a2a"}}}}`)
	runs[answer.Get("result.artifacts.0.parts.0.data.task_id").String()] = overA2A + "rfc9421"
	if len(runs) != 4 || runs[""] != "" {
		t.Fatalf("submitted %v, at last %s", runs, answer.Raw)
	}
	again := false
	for ended := 0; ended < len(runs) && lines.Scan(); {
		var n notice
		if err := json.Unmarshal(lines.Bytes(), &n); err != nil {
			t.Fatalf("%v: %s", err, lines.Bytes())
		}
		protocol, known := strings.CutSuffix(runs[n.Handled.Task], n.Way)
		if !n.Verified || len(n.Tampered) > 0 || !known || protocol != "" && n.Handled.Data != n.Handled.Status {
			t.Errorf("%+v", n)
		}
		if n.Status == http.StatusServiceUnavailable { // the next attempt has another nonce, or the SDK calls it a replay
			again = true
		} else if n.Handled.Status == "completed" {
			ended++
		}
	}
	if !again {
		t.Error("no attempt was repeated")
	}
	if stderr.Len() > 0 {
		t.Errorf("the receiver: %s", stderr.String())
	}
}

// post sends a request, and returns the answer in the form of AdCP.
func post(t *testing.T, up *fixture.Server, path, body string) gjson.Result {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, up.HTTP+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	q.Header = http.Header{"Authorization": {"Bearer " + up.Token}, "Content-Type": {"application/json"},
		"Accept": {"application/adcp+json"}}
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	got, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return gjson.ParseBytes(got)
}
