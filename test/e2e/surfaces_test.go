package e2e

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/responder/idempotency"
	"github.com/linesman/linesman/test/fixture"
)

// facts are what every surface says of a run, in the words of none.
type facts struct {
	State   string // as the streams have it
	Thread  string
	Summary string
	Events  []string // envelopes, or nil where a surface has events of its own
}

// surface is one way to ask for tasks and about them.
type surface struct {
	name   string
	submit func(dir, prompt string) (run string)
	resume func(run, thread, prompt string) (next string)
	wait   func(run string)
	cancel func(run string)
	facts  func(run string) facts
}

// One story on each surface: submit, wait, result, resume, cancel. Then every
// surface is asked about the runs of all, and tells the same of them.
func TestRealCodexIsSeenAlikeOnEverySurface(t *testing.T) {
	fixture.Long(t, "starts a real agent fourteen times")
	t.Parallel()
	const surfaces = 7
	var prompts []string // a scripted model is good for one story
	for i := range surfaces {
		prompts = append(prompts, fmt.Sprintf(fixture.Sentinel+"go%d=resume", i),
			fmt.Sprintf(fixture.Sentinel+"sleep%d=shell-sleep", i))
	}
	d := newDaemon(t, 2, prompts...)
	for _, dir := range d.dirs {
		gitInit(t, dir)
	}
	site := newSite(t, d.data, "read,submit")
	overNATS := d.ask
	client := d.client()
	overMCP := func(tool string, args map[string]any) gjson.Result {
		if args["format"] == nil {
			args["format"] = "json"
		}
		result, err := client.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: args})
		if err != nil {
			t.Fatalf("%s: %v", tool, err)
		}
		body, err := json.Marshal(result.StructuredContent)
		if err != nil {
			t.Fatal(err)
		}
		return gjson.ParseBytes(body)
	}
	all := []surface{
		tools(t, "NATS", overNATS), tools(t, "MCP", overMCP), adcpTools(t, "AdCP over NATS", overNATS),
		adcpTools(t, "AdCP over MCP", overMCP),
		restful(site), adcpRestful(site), overA2A(site),
	}
	runs := map[string]string{} // what each is to be, by its id
	for i, s := range all {
		goes, sleeps := fmt.Sprintf(fixture.Sentinel+"go%d", i), fmt.Sprintf(fixture.Sentinel+"sleep%d", i)
		first := s.submit(d.dirs[goes], goes)
		s.wait(first)
		runs[first] = "completed"
		next := s.resume(first, s.facts(first).Thread, goes)
		s.wait(next)
		runs[next] = "completed"
		slow := s.submit(d.dirs[sleeps], sleeps)
		d.until(slow, "its command", func(_, entry gjson.Result) bool {
			return strings.Contains(entry.Get("progress.current_activity").String(), "echo begun")
		})
		if f := s.facts(slow); f.State != "working" {
			t.Errorf("%s: the slow one is %s", s.name, f.State)
		}
		s.cancel(slow)
		s.wait(slow)
		runs[slow] = "cancelled"
	}
	if len(runs) != 3*surfaces {
		t.Errorf("%d runs, want %d", len(runs), 3*surfaces)
	}
	for run, state := range runs {
		want := all[0].facts(run)
		if want.State != state || want.Thread == "" || want.Summary == "" || len(want.Events) < 3 {
			t.Errorf("%s on %s: %+v, want it %s", run, all[0].name, want, state)
		}
		for _, s := range all[1:] {
			got := s.facts(run)
			if got.Events == nil {
				got.Events = want.Events
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s:\n%-16s %+v\n%-16s %+v", run, all[0].name, want, s.name, got)
			}
		}
	}
}

type ask func(tool string, args map[string]any) gjson.Result

// tools are a surface of v3.6.
func tools(t *testing.T, name string, ask ask) surface {
	call := func(tool string, args map[string]any) gjson.Result {
		e := ask(tool, args)
		if e.Get("status").String() != "ok" {
			t.Fatalf("%s: %s %v: %s", name, tool, args, e.Raw)
		}
		return e.Get("data")
	}
	return surface{
		name: name,
		submit: func(dir, prompt string) string {
			return call("_codex_local_exec", map[string]any{"task": prompt, "workingDir": dir}).Get("task_id").String()
		},
		resume: func(_, thread, prompt string) string {
			return call("_codex_local_resume", map[string]any{"threadId": thread, "task": prompt}).Get("task_id").String()
		},
		wait:   func(run string) { call("_codex_local_wait", map[string]any{"task_id": run, "timeout_sec": 90}) },
		cancel: func(run string) { call("_codex_local_cancel", map[string]any{"task_id": run}) },
		facts: func(run string) facts {
			e := ask("_codex_local_results", map[string]any{"task_id": run, "include_events": true})
			if e.Get("status").String() == "error" { // it has not ended
				return facts{State: e.Get("error.details.state").String()}
			}
			return facts{
				e.Get("data.state").String(), e.Get("data.metadata.thread_info.thread_id").String(), e.Get("data.summary").String(),
				envelopes(t, e.Get("data.events.items")),
			}
		},
	}
}

// adcpTools are the tools in the envelope of AdCP.
func adcpTools(t *testing.T, name string, ask ask) surface {
	n := 0
	call := func(tool string, args map[string]any) gjson.Result {
		n++
		args["format"], args["idempotency_key"] = "adcp", fmt.Sprintf(fixture.Sentinel+"%s.%024d",
			strings.ReplaceAll(name, " ", "_"), n)
		e := ask(tool, args)
		if code := e.Get("adcp_error.code").String(); code != "" && code != "TOOL_ERROR" {
			t.Fatalf("%s: %s %v: %s", name, tool, args, e.Raw)
		}
		return e
	}
	return surface{
		name: name,
		submit: func(dir, prompt string) string {
			return call("_codex_local_exec", map[string]any{"task": prompt, "workingDir": dir}).Get("task_id").String()
		},
		resume: func(_, thread, prompt string) string {
			return call("_codex_local_resume", map[string]any{"context_id": thread, "threadId": thread, "task": prompt}).Get(
				"task_id").String()
		},
		wait:   func(run string) { call("_codex_local_wait", map[string]any{"task_id": run, "timeout_sec": 90}) },
		cancel: func(run string) { call("_codex_local_cancel", map[string]any{"task_id": run}) },
		facts: func(run string) facts {
			e := call("_codex_local_results", map[string]any{"task_id": run, "include_events": true})
			return facts{standing(e), e.Get("context_id").String(), e.Get("summary").String(),
				envelopes(t, e.Get("events.items"))}
		},
	}
}

// standing is the state of a run, by the status of AdCP.
func standing(e gjson.Result) string {
	switch s := e.Get("status").String(); {
	case s == "canceled":
		return "cancelled"
	case s == "submitted":
		return "queued"
	case s == "failed" && e.Get("adcp_error.code").String() == "TASK_TIMEOUT":
		return "timeout"
	default:
		return s
	}
}

func restful(s *site) surface {
	return surface{
		name: "REST",
		submit: func(dir, prompt string) string {
			e, _ := s.want(http.StatusAccepted, "POST", "/v1/runs", fmt.Sprintf(`{"task":%q,"workingDir":%q}`, prompt, dir))
			return e.Get("run").String()
		},
		resume: func(run, _, prompt string) string {
			e, _ := s.want(http.StatusAccepted, "POST", "/v1/runs/"+run+"/resume", fmt.Sprintf(`{"task":%q}`, prompt))
			return e.Get("run").String()
		},
		wait: func(run string) { s.want(http.StatusOK, "GET", "/v1/runs/"+run+"/wait?timeout=90", "") },
		cancel: func(run string) {
			answer := s.open("POST", "/v1/runs/"+run+"/cancel", "")
			_ = answer.Body.Close()
			if answer.StatusCode != http.StatusOK && answer.StatusCode != http.StatusAccepted {
				s.t.Fatalf("cancel over REST: %d", answer.StatusCode)
			}
		},
		facts: func(run string) facts {
			e, _ := s.want(http.StatusOK, "GET", "/v1/runs/"+run, "")
			page, _ := s.want(http.StatusOK, "GET", "/v1/runs/"+run+"/events?limit=1000", "")
			return facts{e.Get("state").String(), e.Get("threadId").String(), e.Get("summary").String(),
				raws(page.Get("events.#.event"))}
		},
	}
}

// adcpRestful is REST in the envelope of AdCP.
func adcpRestful(s *site) surface {
	n := 0
	call := func(method, path, body string) gjson.Result {
		if n++; method == "POST" {
			body = strings.TrimSuffix(body, "}") + fmt.Sprintf(`,"idempotency_key":%q}`,
				fmt.Sprintf(fixture.Sentinel+"rest.%024d", n))
			body = strings.Replace(body, "{,", "{", 1)
		}
		answer := s.open(method, path, body, "Accept", "application/adcp+json")
		defer answer.Body.Close()
		var e json.RawMessage
		if err := json.NewDecoder(answer.Body).Decode(&e); err != nil || answer.StatusCode >= 300 {
			s.t.Fatalf("%s %s: %d, %v: %s", method, path, answer.StatusCode, err, e)
		}
		return gjson.ParseBytes(e)
	}
	return surface{
		name: "AdCP over REST",
		submit: func(dir, prompt string) string {
			return call("POST", "/v1/runs", fmt.Sprintf(`{"task":%q,"workingDir":%q}`, prompt, dir)).Get("task_id").String()
		},
		resume: func(run, _, prompt string) string {
			return call("POST", "/v1/runs/"+run+"/resume", fmt.Sprintf(`{"task":%q}`, prompt)).Get("task_id").String()
		},
		wait:   func(run string) { call("GET", "/v1/runs/"+run+"/wait?timeout=90", "") },
		cancel: func(run string) { call("POST", "/v1/runs/"+run+"/cancel", "{}") },
		facts: func(run string) facts {
			e, page := call("GET", "/v1/runs/"+run, ""), call("GET", "/v1/runs/"+run+"/events?limit=1000", "")
			return facts{standing(e), e.Get("context_id").String(), e.Get("message").String(), raws(page.Get("events.#.event"))}
		},
	}
}

// overA2A is A2A 1.0, JSON-RPC.
func overA2A(s *site) surface {
	n := 0
	send := func(context, prompt, options string) string {
		n++
		result, failure := s.rpc("SendMessage", fmt.Sprintf(
			`{"message":{"messageId":"story-%d","role":"ROLE_USER",%s"parts":[{"text":%q},{"data":%s}]},"configuration":{"returnImmediately":true}}`,
			n, context, prompt, options))
		if failure.Exists() {
			s.t.Fatalf("SendMessage: %s", failure.Raw)
		}
		return result.Get("task.id").String()
	}
	call := func(method, run string) gjson.Result {
		result, failure := s.rpc(method, fmt.Sprintf(`{"id":%q}`, run))
		if failure.Exists() {
			s.t.Fatalf("%s: %s", method, failure.Raw)
		}
		return result
	}
	return surface{
		name:   "A2A",
		submit: func(dir, prompt string) string { return send("", prompt, fmt.Sprintf(`{"workingDir":%q}`, dir)) },
		resume: func(_, thread, prompt string) string {
			return send(fmt.Sprintf(`"contextId":%q,`, thread), prompt, "{}")
		},
		wait: func(run string) { // a stream ends with its task; there is none of a task that has ended
			answer := s.open("POST", "/a2a", fmt.Sprintf(
				`{"jsonrpc":"2.0","id":1,"method":"SubscribeToTask","params":{"id":%q}}`, run))
			defer answer.Body.Close()
			if _, err := io.Copy(io.Discard, answer.Body); err != nil {
				s.t.Fatal(err)
			}
		},
		cancel: func(run string) { call("CancelTask", run) },
		facts: func(run string) facts {
			task := call("GetTask", run)
			parts := task.Get("artifacts.0.parts").Array()
			if len(parts) == 0 {
				parts = task.Get("status.message.parts").Array()
			}
			var data gjson.Result
			for _, p := range parts {
				if d := p.Get("data"); d.Exists() {
					data = d
				}
			}
			state := strings.ToLower(strings.TrimPrefix(task.Get("status.state").String(), "TASK_STATE_"))
			if state == "canceled" {
				state = "cancelled"
			}
			return facts{State: state, Thread: task.Get("contextId").String(), Summary: data.Get("message").String()}
		},
	}
}

// envelopes are those of the events of a tool, which have the type of the agent's line, too.
func envelopes(t *testing.T, list gjson.Result) []string {
	t.Helper()
	var all []map[string]json.RawMessage
	if err := json.Unmarshal([]byte(cmp.Or(list.Raw, "[]")), &all); err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		if len(e["type"]) < len(`"x"`) {
			t.Errorf("an event has no type: %s", e)
		}
		delete(e, "type")
	}
	bare, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return raws(gjson.ParseBytes(bare))
}

// raws are the members of a list, in one spelling: an MCP client reads an
// object, and not how it was written.
func raws(list gjson.Result) []string {
	all := []string{}
	for _, v := range list.Array() {
		b, err := idempotency.Canonical([]byte(v.Raw))
		if err != nil {
			panic(err)
		}
		all = append(all, string(b))
	}
	return all
}

func TestAdCPExample(t *testing.T) {
	t.Parallel()
	example := built(t, "adcp")
	s := recordings(t, "shell-ok", "failed")
	for _, tt := range []struct {
		prompt, token, stdout, stderr string
		ok                            bool
	}{
		{"shell-ok", s.token, "Two files.\n", ` submitted {"asked_by":"examples/adcp"}`, true},
		{"failed", s.token, "", "adcp: the task is failed: ", false},
		{" ", s.token, "", "adcp: VALIDATION_ERROR: task: must not be blank\n", false},
		{"shell-ok", "wrong", "", "adcp: AUTH_REQUIRED: a bearer token is missing or wrong", false},
	} {
		var stdout, stderr bytes.Buffer
		cmd := exec.CommandContext(t.Context(), example, tt.prompt)
		cmd.Env = append(os.Environ(), "ADCP_URL="+s.url, "ADCP_TOKEN="+tt.token)
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if err := cmd.Run(); (err == nil) != tt.ok || stdout.String() != tt.stdout || !strings.Contains(stderr.String(),
			tt.stderr) {
			t.Errorf("%q: %v\n%s%s", tt.prompt, err, stdout.String(), stderr.String())
		}
	}
}
