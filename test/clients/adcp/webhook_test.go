package adcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/linesman/linesman/test/fixture"
)

// notice is what the receiver tells of a request.
type notice struct {
	Way      string
	Status   int // of its answer
	Verified bool
	Tampered []string // what the SDK should have refused
	Handled  struct{ Task, Status string }
	Error    string
}

// The SDK of AdCP verifies notifications of a real linesman in both ways, and refuses those that were tampered with.
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
	receiver := exec.CommandContext(t.Context(), node, filepath.Join(dir, "webhook.mjs"), secret,
		up.HTTP+"/.well-known/jwks.json")
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
	url := lines.Text()

	runs := map[string]string{} // by way
	for way, config := range map[string]string{
		"hmac":    `{"url":"` + url + `/hmac","operation_id":"op-1","authentication":{"schemes":["HMAC-SHA256"],"credentials":"` + secret + `"}}`,
		"rfc9421": `{"url":"` + url + `/rfc9421/a%7eb/../c%2fd?b=2&a=1"}`,
	} {
		answer := submit(t, up, `{"task":"go","workingDir":"`+scratch+`","skipGitRepoCheck":true,"idempotency_key":"key-0123456789-`+
			way+`","push_notification_config":`+config+`}`)
		if runs[way] = answer.Task; answer.Status != "submitted" || answer.Task == "" || answer.Push.URL == "" {
			t.Fatalf("%s: %+v", way, answer)
		}
	}
	for again, ended := false, 0; ended < 2 && lines.Scan(); {
		var n notice
		if err := json.Unmarshal(lines.Bytes(), &n); err != nil {
			t.Fatalf("%v: %s", err, lines.Bytes())
		}
		if !n.Verified || len(n.Tampered) > 0 || n.Handled.Task != runs[n.Way] {
			t.Errorf("%+v", n)
		}
		if n.Status == http.StatusServiceUnavailable { // the next attempt has another nonce, or the SDK calls it a replay
			again = true
		} else if n.Handled.Status == "completed" {
			ended++
		}
		if ended == 2 && !again {
			t.Error("no attempt was repeated")
		}
	}
	if stderr.Len() > 0 {
		t.Errorf("the receiver: %s", stderr.String())
	}
}

// submitted is an answer in the form of AdCP.
type submitted struct {
	Status string
	Task   string               `json:"task_id"`
	Push   struct{ URL string } `json:"push_notification_config"`
}

func submit(t *testing.T, up *fixture.Server, body string) (a submitted) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, up.HTTP+"/v1/runs", strings.NewReader(body))
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
	if err := json.NewDecoder(answer.Body).Decode(&a); err != nil {
		t.Fatal(fmt.Errorf("status %d: %w", answer.StatusCode, err))
	}
	return a
}
