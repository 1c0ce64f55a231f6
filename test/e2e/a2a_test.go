package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	a2atest "github.com/linesman/linesman/test/clients/a2a"
	"github.com/linesman/linesman/test/fixture"
)

// rpc calls a method of A2A, and returns its result or its error.
func (s *site) rpc(method, params string) (result, failure gjson.Result) {
	s.t.Helper()
	answer, _ := s.want(200, "POST", "/a2a", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method,
		params))
	return answer.Get("result"), answer.Get("error")
}

// One story: submit, events, result, resume, cancel; and what REST and the
// tools say of the run is the same.
func TestRealCodexOverA2A(t *testing.T) {
	fixture.Long(t, "starts a real agent for each interface")
	t.Parallel()
	d := newDaemon(t, 2, "go=resume", "sleep=shell-sleep")
	gitInit(t, d.dirs["go"])
	s := newSite(t, d.data, "read,submit")
	message := func(id, more, text, options string) string {
		return fmt.Sprintf(`{"message":{"messageId":%q,"role":"ROLE_USER",%s"parts":[{"text":%q},{"data":%s}]}}`, id, more,
			text, options)
	}
	options := fmt.Sprintf(`{"workingDir":%q,"governance_context":"gov-1"}`, d.dirs["go"])
	answer := s.open("POST", "/a2a", `{"jsonrpc":"2.0","id":1,"method":"SendStreamingMessage","params":`+message("m-1", "",
		"go", options)+`}`)
	defer answer.Body.Close()
	var stream bytes.Buffer
	if _, err := stream.ReadFrom(answer.Body); err != nil {
		t.Fatal(err)
	}
	var states, said []string
	var first string
	for line := range strings.SplitSeq(stream.String(), "\n") {
		event, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		e := gjson.Get(event, "result")
		switch {
		case e.Get("task").Exists():
			first, states = e.Get("task.id").String(), append(states, e.Get("task.status.state").String())
		case e.Get("statusUpdate").Exists():
			states = append(states, e.Get("statusUpdate.status.state").String())
		default:
			for _, p := range e.Get("artifactUpdate.artifact.parts.#.text").Array() {
				said = append(said, p.String())
			}
		}
	}
	if states = slices.Compact(states); len(states) < 2 || states[0] != "TASK_STATE_SUBMITTED" ||
		states[len(states)-1] != "TASK_STATE_COMPLETED" || len(said) == 0 {
		t.Fatalf("states %q, pieces %q\n%s", states, said, stream.String())
	}

	task, _ := s.rpc("GetTask", fmt.Sprintf(`{"id":%q}`, first))
	parts := task.Get("artifacts.0.parts").Array()
	data := parts[len(parts)-1].Get("data")
	run, _ := s.want(200, "GET", "/v1/runs/"+first, "")
	result := d.ask("_codex_local_results", map[string]any{"task_id": first, "format": "adcp"})
	for what, all := range map[string][]string{
		"state": {task.Get("status.state").String(), "TASK_STATE_" + strings.ToUpper(run.Get("state").String()),
			"TASK_STATE_" + strings.ToUpper(result.Get("status").String())},
		"thread": {task.Get("contextId").String(), run.Get("threadId").String(), result.Get("context_id").String()},
		"final text": {parts[0].Get("text").String(), run.Get("finalText").String(),
			result.Get("ext.linesman.final_text").String(),
			said[len(said)-1]},
		"summary":    {data.Get("message").String(), run.Get("summary").String(), result.Get("message").String()},
		"governance": {data.Get("governance_context").String(), "gov-1", result.Get("governance_context").String()},
		"tokens": {data.Get("metadata.thread_info.token_usage.input_tokens").String(),
			result.Get("metadata.thread_info.token_usage.input_tokens").String()},
	} {
		for _, one := range all[1:] {
			if one != all[0] || one == "" {
				t.Errorf("%s: the surfaces say %q", what, all)
			}
		}
	}

	more := fmt.Sprintf(`"contextId":%q,`, task.Get("contextId").String())
	second, failure := s.rpc("SendMessage", message("m-2", more, "go", "{}"))
	if second = second.Get("task"); second.Get("status.state").String() != "TASK_STATE_COMPLETED" ||
		second.Get("contextId").String() != task.Get("contextId").String() ||
		!strings.Contains(second.Get("artifacts.0.parts.0.text").String(), "42") {
		t.Errorf("the second turn: %s%s", second.Raw, failure.Raw)
	}

	slow, failure := s.rpc("SendMessage", strings.TrimSuffix(message("m-3", "", "sleep",
		fmt.Sprintf(`{"workingDir":%q,"skipGitRepoCheck":true}`, d.dirs["sleep"])), "}")+
		`,"configuration":{"returnImmediately":true}}`)
	id := slow.Get("task.id").String()
	if id == "" {
		t.Fatalf("not taken: %s", failure.Raw)
	}
	d.until(id, "its command", func(_, entry gjson.Result) bool {
		return strings.Contains(entry.Get("progress.current_activity").String(), "echo begun")
	})
	if _, failure = s.rpc("CancelTask", fmt.Sprintf(`{"id":%q}`, id)); failure.Exists() {
		t.Fatalf("cancel: %s", failure.Raw)
	}
	run, _ = s.want(200, "GET", "/v1/runs/"+id+"/wait?timeout=60", "")
	task, _ = s.rpc("GetTask", fmt.Sprintf(`{"id":%q}`, id))
	if run.Get("state").String() != "cancelled" || task.Get("status.state").String() != "TASK_STATE_CANCELED" {
		t.Errorf("cancelled: %s %s", run.Raw, task.Raw)
	}
	if left := commands(t, "sleep 61"); len(left) != 0 {
		t.Errorf("%d of its commands live on", len(left))
	}
	if _, failure = s.rpc("CancelTask", fmt.Sprintf(`{"id":%q}`, id)); failure.Get("code").Int() != -32002 {
		t.Errorf("cancelled again: %s", failure.Raw)
	}
}

// recordings starts an up whose agent plays the recording that its prompt
// names, and for "slow" waits until it is ended.
func recordings(t *testing.T, names ...string) *site {
	t.Helper()
	lab, data := secretDir(t), t.TempDir()
	for _, name := range names {
		recording, err := os.ReadFile(filepath.Join("..", "corpus", "codex", name+".jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(lab, name+".jsonl"), string(recording))
	}
	write(t, filepath.Join(lab, "agent.sh"), `for prompt; do :; done
case $prompt in
slow) exec sleep 300 ;;
again) prompt=shell-ok ;;
esac
cat '`+lab+`'/"$prompt".jsonl
[ "$prompt" = shell-ok ]
`)
	write(t, filepath.Join(lab, "parrot.sh"), parrot)
	write(t, filepath.Join(lab, "linesman.toml"), fmt.Sprintf(
		"[agents.codex]\ncommand = ['/bin/sh', %q]\n[agents.parrot]\nacp = ['/bin/sh', %q]\n",
		filepath.Join(lab, "agent.sh"), filepath.Join(lab, "parrot.sh")))
	up(t, data, "--config", filepath.Join(lab, "linesman.toml"))
	return newSite(t, data, "read,submit,answer")
}

func TestA2AClientFromElsewhere(t *testing.T) {
	t.Parallel()
	s := recordings(t, "shell-ok")
	for _, c := range [][2]string{{"JSONRPC", "1.0"}, {"HTTP+JSON", "1.0"}, {"JSONRPC", "0.3"}} {
		t.Run(c[0]+" "+c[1], func(t *testing.T) {
			said := a2atest.Story(t, s.url, s.token, c[0], c[1], "shell-ok", "slow", "parrot")
			g := gjson.ParseBytes(said)
			const thread = "01a1fd7c-3234-7431-a730-2b1ea25bc865"
			for path, want := range map[string]string{
				"name": "linesman", "first": "TASK_STATE_SUBMITTED", "last": "TASK_STATE_COMPLETED",
				"state": "TASK_STATE_COMPLETED",
				"said":  `["I will list the files.","Two files."]`, "final": "Two files.", "context": thread,
				"history":                             `["I will list the files.","Two files."]`,
				"data.metadata.thread_info.thread_id": thread, "secondState": "TASK_STATE_COMPLETED", "secondContext": thread,
				"asks": "TASK_STATE_INPUT_REQUIRED", "question.command": "polly --want cracker", "question.id": "q1",
				"answered": "TASK_STATE_COMPLETED", "answer": "Polly may.",
			} {
				if got := g.Get(path).String(); got != want {
					t.Errorf("%s: %q, want %q", path, got, want)
				}
			}
			for path, want := range map[string]string{"cancelledAgain": "has ended", "unknown": "no task of this id",
				"subscribed": "has ended", "text": "the options are y (Yes), n (No)"} {
				if got := g.Get(path).String(); !strings.Contains(got, want) {
					t.Errorf("%s: %q, want something of %q", path, got, want)
				}
			}
			if state := g.Get("cancelled").String(); state != "TASK_STATE_CANCELED" && state != "TASK_STATE_WORKING" {
				t.Errorf("cancelled: %s", state)
			}
			if list := g.Get("listed").Array(); c[1] == "1.0" &&
				(len(list) < 2 || list[0].String() != g.Get("second").String()) {
				t.Errorf("listed %v", list)
			}
			if t.Failed() {
				t.Logf("%s", said)
			}
		})
	}
}

func TestA2ACommandLine(t *testing.T) {
	fixture.Long(t, "builds the command line of a2a-go")
	t.Parallel()
	cli, s := a2atest.BuildCLI(t), recordings(t, "shell-ok", "failed")
	call := func(ok bool, args ...string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, cli, append(args, "--auth", "Bearer "+s.token)...)
		out, err := cmd.CombinedOutput()
		if (err == nil) != ok {
			t.Fatalf("a2a %q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	if card := gjson.Parse(call(true, "discover", s.url, "-o", "json")); card.Get("name").String() != "linesman" {
		t.Errorf("discover: %s", card.Raw)
	}
	// where the card says
	if out := call(true, "send", s.url, "shell-ok", "--stream", "--timeout", "1m"); !strings.Contains(out, "Two files.") {
		t.Errorf("send: %s", out)
	}
	for _, transport := range []string{"jsonrpc", "rest"} {
		at := s.url + map[string]string{"jsonrpc": "/a2a", "rest": "/a2a/v1"}[transport]
		sent := gjson.Parse(call(true, "send", at, "shell-ok", "-o", "json", "--transport", transport))
		id := sent.Get("id").String()
		if id == "" {
			id = sent.Get("task.id").String()
		}
		got := gjson.Parse(call(true, "get", "task", at, id, "-o", "json", "--transport", transport))
		if got.Get("status.state").String() != "TASK_STATE_COMPLETED" ||
			got.Get("artifacts.0.parts.0.text").String() != "Two files." {
			t.Errorf("%s: sent %s\ngot %s", transport, sent.Raw, got.Raw)
		}
		if out := call(false, "cancel", at, id, "--transport", transport); !strings.Contains(out, "has ended") {
			t.Errorf("%s: cancel: %s", transport, out)
		}
		if out := call(false, "get", "task", at, "nothing", "--transport", transport); !strings.Contains(out,
			"no task of this id") {
			t.Errorf("%s: get nothing: %s", transport, out)
		}
		if out := call(true, "send", at, "failed", "--stream", "-o", "json", "--transport", transport); !strings.Contains(out,
			"TASK_STATE_FAILED") {
			t.Errorf("%s: stream: %s", transport, out)
		}
		if out := call(true, "list", "tasks", at, "-o", "json", "--transport", transport); !strings.Contains(out, id) {
			t.Errorf("%s: list: %s", transport, out)
		}
	}
}

func TestA2AExample(t *testing.T) {
	t.Parallel()
	example := built(t, "a2a")
	s := recordings(t, "shell-ok", "failed")
	for _, tt := range []struct {
		prompt, token, stdout, stderr string
		ok                            bool
	}{
		{"shell-ok", s.token, "Two files.\n", "\n> I will list the files.\n", true},
		{"failed", s.token, "", "a2a: the task is TASK_STATE_FAILED: ", false},
		{" ", s.token, "", "a2a: the task is TASK_STATE_REJECTED: task: must not be blank", false},
		{"shell-ok", "wrong", "", "a2a: ", false},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var stdout, stderr bytes.Buffer
		cmd := exec.CommandContext(ctx, example, tt.prompt)
		cmd.Env = append(os.Environ(), "A2A_URL="+s.url, "A2A_TOKEN="+tt.token)
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if err := cmd.Run(); (err == nil) != tt.ok || stdout.String() != tt.stdout || !strings.Contains(stderr.String(),
			tt.stderr) {
			t.Errorf("%q: %v\n%s%s", tt.prompt, err, stdout.String(), stderr.String())
		}
	}
}
