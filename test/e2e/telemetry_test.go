package e2e

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/nats-io/nats.go"
	"github.com/tidwall/gjson"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/linesman/linesman/api"
	lclient "github.com/linesman/linesman/client"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/otlptest"
)

// tracing starts an up that exports to a receiver. Its agent writes TRACEPARENT into a file
// with the name of its prompt's first word, and plays a recording with a command.
func tracing(t *testing.T, r *otlptest.Receiver, env ...string) (lab string, s *site, d *daemon) {
	t.Helper()
	lab, data := secretDir(t), t.TempDir()
	recording, err := os.ReadFile("../corpus/codex/shell-ok.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(lab, "recording"), string(recording))
	agent := filepath.Join(lab, "codex")
	syscall.ForkLock.RLock() // what is forked meanwhile has it open for writing until its exec
	err = os.WriteFile(agent, []byte(`#!/bin/sh
for prompt; do :; done
echo "$TRACEPARENT $OTEL_EXPORTER_OTLP_HEADERS" >'`+lab+`'/"${prompt%% *}"
cat '`+lab+`'/recording
`), 0o700)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(lab, "linesman.toml")
	write(t, config, fmt.Sprintf("[agents.codex]\ncommand = [%q]\n[work]\nroots = [%q]\n", agent, lab))
	env = append(append(os.Environ(), r.Env()...), env...)
	fixture.Up(t, program, data, append(env, "OTEL_EXPORTER_OTLP_HEADERS=x-key=otlp"), "--config", config)
	return lab, newSite(t, data, "read,submit"), &daemon{t: t, data: data, conn: operator(t, data)}
}

// The span of a run is a child of its submitter's on every interface, and the agent gets the
// span of the run.
func TestTraceparentOfASubmitterBecomesTheParent(t *testing.T) {
	t.Parallel()
	r := otlptest.New(t)
	lab, s, d := tracing(t, r)
	context := func(n int) string { return fmt.Sprintf("00-%032x-%016x-01", 1000+n, 100+n) }
	rest := func(prompt string, header ...string) {
		answer := s.open("POST", "/v1/runs", fmt.Sprintf(`{"task":%q,"workingDir":%q,"skipGitRepoCheck":true}`, prompt, lab),
			header...)
		body, _ := io.ReadAll(answer.Body)
		if _ = answer.Body.Close(); answer.StatusCode != 202 {
			t.Fatalf("REST: %d %s", answer.StatusCode, body)
		}
	}
	arguments := func(prompt string) map[string]any {
		return map[string]any{"task": prompt, "workingDir": lab, "skipGitRepoCheck": true, "format": "json"}
	}
	overNATS := func(header, prompt, trace string) {
		m := nats.NewMsg("linesman.api.submit")
		m.Data = fmt.Appendf(nil, `{"prompt":%q,"workingDir":%q,"skipGitRepoCheck":true}`, prompt, lab)
		m.Header[header] = []string{trace}
		a, err := d.conn.RequestMsg(m, fixture.Patience)
		if err != nil || !gjson.GetBytes(a.Data, "run").Exists() {
			t.Fatalf("NATS: %v %s", err, a.Data)
		}
	}
	rest("rest", "traceparent", context(0))
	overNATS("traceparent", "nats", context(1))
	overNATS("Traceparent", "carrier", context(2))
	if _, err := d.client().CallTool(t.Context(), &sdk.CallToolParams{
		Meta: sdk.Meta{"traceparent": context(3)}, Name: "_codex_local_exec", Arguments: arguments("mcp"),
	}); err != nil {
		t.Error(err)
	}
	answer := s.open("POST", "/a2a", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":`+
		`{"messageId":"m","role":"ROLE_USER","parts":[{"text":"a2a"},{"data":{"workingDir":%q,"skipGitRepoCheck":true}}]},"configuration":`+
		`{"returnImmediately":true}}}`, lab), "traceparent", context(4))
	_ = answer.Body.Close()
	if _, err := lclient.New(operatorBus(t, d.data)).Submit(t.Context(), api.Submission{
		Task: runs.Task{Attributes: runs.Attributes{Dir: lab}, Prompt: "go", SkipGit: true}, Traceparent: context(5),
	}); err != nil {
		t.Error(err)
	}
	rest("invalid", "traceparent", "00-"+strings.Repeat("0", 32)+"-0000000000000001-01")
	rest("none")

	names := []string{"rest", "nats", "carrier", "mcp", "a2a", "go", "invalid", "none"}
	all := r.Await(t, "run ", len(names))
	roots := map[string]*tracepb.Span{} // by trace
	for _, span := range all {
		if span.Name == "run codex" {
			roots[fmt.Sprintf("%x", span.TraceId)] = span
		}
	}
	for i, name := range names {
		got, err := os.ReadFile(filepath.Join(lab, name))
		if err != nil {
			t.Fatal(err)
		}
		if i > 5 {
			if string(got) != " \n" {
				t.Errorf("%s: the agent has TRACEPARENT %s", name, got)
			}
			continue
		}
		root := roots[context(i)[3:35]]
		if root == nil || fmt.Sprintf("%x", root.ParentSpanId) != context(i)[36:52] {
			t.Errorf("%s: the span of the run is %v", name, root)
			continue
		}
		if want := fmt.Sprintf("00-%x-%x-01 \n", root.TraceId, root.SpanId); string(got) != want {
			t.Errorf("%s: the agent has TRACEPARENT %s, want %s", name, got, want)
		}
	}
	own := &site{t, s.url, fixture.ReadAddress(t, d.data).Token}
	exported := fmt.Sprintf("linesman_telemetry_spans_total{outcome=%q} %d\n", "exported", len(all))
	if !fixture.Poll(fixture.Patience, func() bool { // they are counted once they are acknowledged
		_, body := own.want(200, "GET", "/metrics", "")
		return strings.Contains(string(body), exported)
	}) {
		t.Errorf("the metrics do not have %s", exported)
	}
	if _, headers := r.Metrics(); headers[0].Get("X-Key") != "otlp" && !r.Collected() {
		t.Errorf("headers %v", headers[0])
	}
}

// Spans have prompts, texts, commands and outputs only with the variable for content, and
// then redacted.
func TestContentIsExportedOnRequestOnly(t *testing.T) {
	t.Parallel()
	const secret = "ghp_" + "0123456789abcdefghijklmnopqrstuvwxyz"
	for _, capture := range []string{"", "true"} {
		r := otlptest.New(t)
		lab, s, _ := tracing(t, r, "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT="+capture)
		s.want(202, "POST", "/v1/runs", fmt.Sprintf(`{"task":"content %s %s","workingDir":%q,"skipGitRepoCheck":true}`,
			fixture.Sentinel, secret, lab))
		var turn, tool *tracepb.Span
		for _, span := range r.Await(t, "run ", 1) {
			if strings.Contains(span.String(), secret) {
				t.Errorf("capture %q: the secret is in %s", capture, span.Name)
			}
			if capture == "" && strings.Contains(span.String(), fixture.Sentinel) {
				t.Errorf("the prompt is in %v", span)
			}
			switch {
			case strings.HasPrefix(span.Name, "invoke_agent"):
				turn = span
			case strings.HasPrefix(span.Name, "execute_tool"):
				tool = span
			}
		}
		for _, c := range []struct {
			span      *tracepb.Span
			key, word string
		}{
			{turn, "gen_ai.input.messages", fixture.Sentinel}, {turn, "gen_ai.output.messages", `"role":"assistant"`},
			{tool, "gen_ai.tool.call.arguments", "ls -1; echo"}, {tool, "gen_ai.tool.call.result", "a.txt\nsrc"},
		} {
			got := otlptest.Text(c.span, c.key)
			if (capture == "") != (got == "") || !strings.Contains(got, c.word) && capture != "" {
				t.Errorf("capture %q: %s is %q", capture, c.key, got)
			}
		}
		for key, want := range map[string]string{
			"gen_ai.operation.name": "invoke_agent", "gen_ai.provider.name": "openai", "gen_ai.agent.name": "codex",
			"gen_ai.response.finish_reasons": "stop", "gen_ai.usage.input_tokens": "2400",
			"gen_ai.usage.cache_read.input_tokens": "2000", "gen_ai.usage.output_tokens": "160",
		} {
			if got := otlptest.Text(turn, key); got != want {
				t.Errorf("%s is %q, want %q", key, got, want)
			}
		}
	}
}

// A value that is not of the standard turns the export off, and nothing else.
func TestWrongEnvironmentExportsNothing(t *testing.T) {
	t.Parallel()
	r := otlptest.New(t)
	data := t.TempDir()
	env := append(append(os.Environ(), r.Env()...), "OTEL_EXPORTER_OTLP_PROTOCOL=http/json")
	server := fixture.Up(t, program, data, env)
	server.Await(server.Stderr, "traces are not exported")
	if _, code := execute(t, "run", "--data-dir", data, "--", "true"); code != 0 {
		t.Errorf("run: exit %d", code)
	}
	if all, _, _ := r.Spans(); len(all) != 0 {
		t.Errorf("%d spans", len(all))
	}
}
