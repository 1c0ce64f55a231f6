package tools_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/adcp"
	"github.com/linesman/linesman/responder/idempotency"
	"github.com/linesman/linesman/responder/tools"
	v36 "github.com/linesman/linesman/responder/v36"
	"github.com/linesman/linesman/responder/webhook"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/adcptest"
	"github.com/linesman/linesman/test/fixture/bustest"
	"github.com/linesman/linesman/test/fixture/servicetest"
)

// enveloped is an answer in the envelope of AdCP that was checked.
type enveloped struct {
	v36.Answer
	Status     string
	TaskID     string `json:"task_id"`
	ContextID  string `json:"context_id"`
	Message    string
	Timestamp  time.Time
	Replayed   bool
	Governance string          `json:"governance_context"`
	Context    json.RawMessage `json:"context"`
	Error      *adcp.Error     `json:"adcp_error"`
	Errors     []adcp.Error
}

// envelope calls a tool in format adcp, and checks what holds for every answer.
func envelope(t testing.TB, d *tools.Set, tool string, pairs ...any) enveloped {
	t.Helper()
	got, err := d.Call(t.Context(), tool, json.RawMessage(args(with(pairs, "format", "adcp")...)), nil)
	if err != nil {
		t.Fatal(err)
	}
	return enveloping(t, tool, got)
}

func enveloping(t testing.TB, tool string, got v36.Answer) enveloped {
	t.Helper()
	a := enveloped{Answer: got}
	var all map[string]json.RawMessage
	if err := errors.Join(json.Unmarshal(got.Envelope, &a), json.Unmarshal(got.Envelope, &all)); err != nil {
		t.Fatalf("%s: %v: %s", tool, err, got.Envelope)
	}
	if !got.JSON {
		t.Errorf("%s: it does not read as JSON", tool)
	}
	for _, name := range []string{"payload", "task_status", "response_status", "version", "schema_id"} {
		if all[name] != nil {
			t.Errorf("%s: %s is there: %s", tool, name, got.Envelope)
		}
	}
	if bytes.Contains(got.Envelope, []byte(`"task_status"`)) {
		t.Errorf("%s: task_status is there: %s", tool, got.Envelope)
	}
	if _, err := idempotency.Canonical(got.Envelope); err != nil {
		t.Errorf("%s: a name stands twice: %s", tool, got.Envelope)
	}
	if a.IsError != (a.Error != nil) || a.Error != nil && (len(a.Errors) == 0 || a.Errors[0].Severity != "error" ||
		a.Errors[0].Recovery == "") ||
		a.Error == nil && len(a.Errors) > 0 && a.Errors[0].Severity != "warning" {
		t.Errorf("%s: IsError is %v: %s", tool, a.IsError, got.Envelope)
	}
	if d := time.Since(a.Timestamp); d < -time.Minute || d > time.Minute {
		t.Errorf("%s: timestamp %v", tool, a.Timestamp)
	}
	adcptest.Envelope(t, got.Envelope)
	return a
}

// is checks the status and the code of an answer.
func (a enveloped) is(t testing.TB, status string, code adcp.Code) {
	t.Helper()
	var have adcp.Code
	if a.Error != nil {
		have = a.Error.Code
	}
	if a.Status != status || have != code {
		t.Errorf("%s %s, want %s %s: %s", a.Status, have, status, code, a.Envelope)
	}
}

// remembering gives a stage's tools a memory of requests.
func remembering(t testing.TB) *stage {
	return newStage(t, func(c *responder.Config) { c.Requests = &idempotency.Requests{Store: streams(c).RequestStore()} })
}

func key(s string) string { return "key-0123456789-" + s }

const (
	thread = "01a1fd7b-f84f-78d0-8880-a6cacce2ab1b"
	token  = `eyJhbGciOiJFZERTQSJ9.e30.c2ln <&>"\`
)

// TestALifeInAdCP goes from submission to result, with a token that comes back
// in every answer.
func TestALifeInAdCP(t *testing.T) {
	s := remembering(t)
	ack := envelope(t, s.tools, "_codex_local_exec", "task", "Fix it.", "idempotency_key", key("life"),
		"governance_context", token,
		"context", map[string]any{"trace": "<1>"})
	ack.is(t, "submitted", "")
	if ack.TaskID == "" || ack.Governance != token || ack.Replayed ||
		!bytes.Contains(ack.Envelope, []byte(`"capability":"background"`)) {
		t.Errorf("%s", ack.Envelope)
	}
	status := func(want string) {
		t.Helper()
		a := envelope(t, s.tools, "_codex_local_status", "task_id", ack.TaskID)
		a.is(t, want, "")
		if a.TaskID != ack.TaskID || a.Governance != token {
			t.Errorf("%s", a.Envelope)
		}
	}
	status("submitted")
	early := envelope(t, s.tools, "_codex_local_results", "task_id", ack.TaskID)
	early.is(t, "submitted", "")
	if len(early.Errors) != 1 || early.Governance != token {
		t.Errorf("before the end: %s", early.Envelope)
	}
	l := s.Begin("codex", ack.TaskID, runs.Start{Source: "queue", Worker: "w1"})
	s.Await(ack.TaskID, servicetest.Working)
	status("working")
	late := envelope(t, s.tools, "_codex_local_wait", "task_id", ack.TaskID, "timeout_sec", 1)
	late.is(t, "working", "")
	if len(late.Errors) != 1 || late.Errors[0].Code != "TASK_TIMEOUT" || late.Errors[0].Recovery != "transient" ||
		late.Governance != token {
		t.Errorf("a wait that ran out: %s", late.Envelope)
	}
	out, _ := recording(t, "hello")
	l.Out(out).Exit(0)
	status("completed")
	for _, tool := range []string{"_codex_local_results", "_codex_local_wait"} {
		a := envelope(t, s.tools, tool, "task_id", ack.TaskID)
		a.is(t, "completed", "")
		if a.ContextID == "" || a.Governance != token || a.Message == "" ||
			!bytes.Contains(a.Envelope, []byte(`"metadata":{`)) {
			t.Errorf("%s", a.Envelope)
		}
		other := envelope(t, s.tools, tool, "task_id", ack.TaskID, "context_id", thread)
		if a.ContextID != thread {
			other.is(t, "rejected", "VALIDATION_ERROR")
		}
		envelope(t, s.tools, tool, "task_id", ack.TaskID, "context_id", a.ContextID).is(t, "completed", "")
	}
	envelope(t, s.tools, "_codex_local_status").is(t, "completed", "")
	envelope(t, s.tools, "_codex_local_cancel", "task_id", ack.TaskID, "idempotency_key", key("cancel")).is(t, "rejected",
		"VALIDATION_ERROR")
}

func TestEachStateHasItsStatus(t *testing.T) {
	s := remembering(t)
	s.play(t, "T-failed", "failed", 1)
	s.Begin("codex", "T-idle", runs.Start{Source: "queue"}).End(runs.Exit{Reason: runs.ReasonIdle})
	l := s.Begin("codex", "T-cancelled", runs.Start{Source: "queue"})
	l.Append(runs.Entry{Kind: runs.Cancelled, Body: runs.Encode(runs.Remark{})})
	l.End(runs.Exit{Reason: runs.ReasonCancelled})
	for _, tool := range []string{"_codex_local_results", "_codex_local_wait", "_codex_local_status"} {
		envelope(t, s.tools, tool, "task_id", "T-failed").is(t, "failed", "TOOL_ERROR")
		idle := envelope(t, s.tools, tool, "task_id", "T-idle")
		idle.is(t, "failed", "TASK_TIMEOUT")
		if idle.Error != nil && idle.Error.Recovery != "terminal" {
			t.Errorf("%s", idle.Envelope)
		}
		envelope(t, s.tools, tool, "task_id", "T-cancelled").is(t, "canceled", "")
		envelope(t, s.tools, tool, "task_id", "T-none").is(t, "unknown", "REFERENCE_NOT_FOUND")
	}
}

func TestRefusedRequestsAreRejected(t *testing.T) {
	s := remembering(t)
	for _, tool := range tools.List() {
		in := inputsOf(t, tool)
		if !bytes.Contains(tool.InputSchema, []byte(`"adcp"`)) {
			a := ask(t, s.tools, tool.Name, args(with(good[tool.Name], "format", "adcp")...))
			refused(t, a, "format", true)
			continue
		}
		for _, name := range []string{"idempotency_key", "context", "context_id", "governance_context"} {
			if _, ok := in.Properties[name]; !ok {
				t.Errorf("%s has no %s", tool.Name, name)
			}
		}
		a := envelope(t, s.tools, tool.Name, append([]any{"nonsense", sentinel, "idempotency_key", key("x"), "context",
			map[string]any{"a": 1}}, good[tool.Name]...)...)
		a.is(t, "rejected", "VALIDATION_ERROR")
		if a.Error == nil || len(a.Error.Issues) != 1 || a.Error.Issues[0].Pointer != "/nonsense" ||
			a.Error.Issues[0].Keyword != "additionalProperties" ||
			string(a.Context) != `{"a":1}` || strings.Contains(a.Text(), sentinel) {
			t.Errorf("%s", a.Envelope)
		}
		changes := strings.HasSuffix(tool.Name, "_run") || strings.HasSuffix(tool.Name, "_exec") ||
			strings.HasSuffix(tool.Name, "_resume") ||
			strings.HasSuffix(tool.Name, "_cancel") || strings.HasSuffix(tool.Name, "_submit")
		without := envelope(t, s.tools, tool.Name, good[tool.Name]...)
		if missing := without.Error != nil && without.Error.Field == "idempotency_key"; missing != changes {
			t.Errorf("%s without a key: %s", tool.Name, without.Envelope)
		}
		for _, bad := range []string{`{"format":"adcp"`, `["format":"adcp"]`, `{"format":"adcp"} x`} {
			got, err := s.tools.Call(t.Context(), tool.Name, json.RawMessage(bad), nil)
			if err != nil {
				t.Fatal(err)
			}
			enveloping(t, tool.Name, got).is(t, "rejected", "INVALID_REQUEST")
		}
	}
}

func TestContextComesBackAsItWasWritten(t *testing.T) {
	s := remembering(t)
	context := `{ "z" : 1.0, "a":"\u003c<&>", "n": 123456789012345678901 ,"e":[ ] }`
	for _, c := range []string{`"_":0`, `"task_id":"T-none"`, `"limit":3`} { // two refusals and a list
		got, err := s.tools.Call(t.Context(), "_codex_local_status", json.RawMessage(`{"format":"adcp","context":`+context+
			`,`+c+`}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(got.Envelope, []byte(`"context":`+context)) {
			t.Errorf("%s", got.Envelope)
		}
	}
	a := envelope(t, s.tools, "_codex_local_status", "context",
		map[string]string{"a": strings.Repeat("x", webhook.MaxContext)})
	a.is(t, "rejected", "VALIDATION_ERROR")
	if a.Context != nil {
		t.Error("a context that was refused comes back")
	}
}

func TestTheSameRequestIsCarriedOutOnce(t *testing.T) {
	s := remembering(t)
	request := []any{"task", "Fix it.", "idempotency_key", key("same"), "governance_context", token, "context",
		map[string]any{"n": 1}}
	first := envelope(t, s.tools, "_codex_local_exec", request...)
	again := envelope(t, s.tools, "_codex_local_exec", with(with(request, "context", map[string]any{"n": 2}),
		"governance_context", "other")...)
	again.is(t, "submitted", "")
	if !again.Replayed || first.Replayed || again.TaskID != first.TaskID || string(again.Context) != `{"n":2}` ||
		again.Governance != token {
		t.Errorf("%s\n%s", first.Envelope, again.Envelope)
	}
	inner := func(a enveloped) string {
		_, rest, _ := strings.Cut(a.Text(), `"accepted"`)
		return rest
	}
	if inner(first) != inner(again) || inner(first) == "" {
		t.Errorf("the answer changed:\n%s\n%s", first.Text(), again.Text())
	}
	// In another format, and by another name of the key, it is the same request.
	if a := ask(t, s.tools, "_codex_local_exec", args("task", "Fix it.", "idempotencyKey", key("same"))); submitted(t,
		a) != first.TaskID {
		t.Errorf("%s", a.Envelope)
	}
	envelope(t, s.tools, "_codex_local_exec", with(request, "task", "Break it.")...).is(t, "rejected",
		"IDEMPOTENCY_CONFLICT")
	envelope(t, s.tools, "_codex_local_run", with(request, "async", true)...).is(t, "rejected", "IDEMPOTENCY_CONFLICT")
	refusedKey := ask(t, s.tools, "_codex_local_exec", args("task", "Break it.", "idempotency_key", key("same"), "format",
		"json"))
	refused(t, refusedKey, "idempotency_key", true)

	// Somebody else's key is another key.
	got, err := s.tools.Call(responder.WithCaller(t.Context(), "somebody"), "_codex_local_exec",
		json.RawMessage(args(with(request, "format", "adcp")...)), nil)
	if err != nil {
		t.Fatal(err)
	}
	if a := enveloping(t, "exec", got); a.TaskID == first.TaskID || a.Replayed {
		t.Errorf("%s", got.Envelope)
	}

	// A cancel, too.
	cancel := []any{"task_id", first.TaskID, "idempotency_key", key("cancel")}
	envelope(t, s.tools, "_codex_local_cancel", cancel...).is(t, "canceled", "")
	s.Await(first.TaskID, servicetest.Ended)
	if a := envelope(t, s.tools, "_codex_local_cancel", cancel...); a.Status != "canceled" || !a.Replayed ||
		a.Governance != token {
		t.Errorf("%s", a.Envelope)
	}
}

func TestARefusedRequestFreesItsKey(t *testing.T) {
	s := remembering(t)
	s.play(t, "T-done", "hello", 0)
	pairs := []any{"task_id", "T-done", "idempotency_key", key("free")}
	envelope(t, s.tools, "_codex_local_cancel", pairs...).is(t, "rejected", "VALIDATION_ERROR")
	envelope(t, s.tools, "_codex_local_exec", "task", "Fix it.", "idempotency_key", key("free")).is(t, "submitted", "")
}

// TestADuplicateOfAForegroundRunJoinsIt: it waits for the same run.
func TestADuplicateOfAForegroundRunJoinsIt(t *testing.T) {
	s := remembering(t)
	request := json.RawMessage(args("task", "Fix it.", "idempotency_key", key("join"), "format", "adcp"))
	answers := make(chan v36.Answer, 2)
	call := func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for end := time.Now().Add(fixture.Patience); ; <-tick.C {
			a, err := s.tools.Call(t.Context(), "_codex_local_run", request, nil)
			if err != nil {
				t.Error(err)
			}
			// until the first one is submitted
			if !bytes.Contains(a.Envelope, []byte("IDEMPOTENCY_IN_FLIGHT")) || time.Now().After(end) {
				answers <- a
				return
			}
		}
	}
	go call()
	task := s.take(t)
	go call()
	out, _ := recording(t, "hello")
	s.Begin("codex", task.Run, runs.Start{Source: "queue"}).Out(out).Exit(0)
	replayed := 0
	for range 2 {
		a := enveloping(t, "run", <-answers)
		a.is(t, "completed", "")
		if a.TaskID != task.Run {
			t.Errorf("%s", a.Envelope)
		}
		if a.Replayed {
			replayed++
		}
	}
	if replayed != 1 {
		t.Errorf("%d of 2 are replayed", replayed)
	}
}

func TestAHundredDuplicatesOverTwoRespondersStartOneRun(t *testing.T) {
	s := remembering(t)
	b, err := s.Server.Connect(bustest.Patient(t), embedded.ResponderUser, s.Operator.Names, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	second := responder.New(responder.Config{
		Streams: b, Queue: bus.DefaultQueue, LostAfter: time.Minute, Requests: &idempotency.Requests{Store: b.RequestStore()},
		Patience: fixture.Patience,
	})
	servicetest.During(t, "responder", second.Run)
	if err := second.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	both := []*tools.Set{s.tools, tools.New(second)}
	request := json.RawMessage(args("task", "Fix it.", "idempotency_key", key("many"), "format", "adcp"))
	answers := make([]v36.Answer, 100)
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() {
			var err error
			if answers[i], err = both[i%2].Call(t.Context(), "_codex_local_exec", request, nil); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	fresh, ids := 0, map[string]bool{}
	for _, got := range answers {
		a := enveloping(t, "exec", got)
		if a.Error != nil {
			a.is(t, "rejected", "IDEMPOTENCY_IN_FLIGHT")
			if a.Error.RetryAfter < 1 {
				t.Errorf("%s", a.Envelope)
			}
			continue
		}
		ids[a.TaskID] = true
		if !a.Replayed {
			fresh++
		}
	}
	if fresh != 1 || len(ids) != 1 {
		t.Errorf("%d fresh answers, runs %v", fresh, ids)
	}
	stream, err := s.jetstream(t).Stream(t.Context(), s.Operator.Work())
	if err != nil {
		t.Fatal(err)
	}
	if n := stream.CachedInfo().State.Msgs; n != 1 {
		t.Errorf("%d tasks are queued", n)
	}
}

// TestAResponderKilledHalfwayStartsNothingTwice begins a request as one that is
// killed does, at each point, and asks again.
func TestAResponderKilledHalfwayStartsNothingTwice(t *testing.T) {
	s := remembering(t)
	store := s.Operator.RequestStore()
	for i, point := range []string{"before it submits", "between task and entry", "after it submitted"} {
		t.Run(point, func(t *testing.T) {
			run, k := fmt.Sprint("T-killed-", i), key(fmt.Sprint("killed-", i))
			hash, err := idempotency.Hash([]byte(`{"tool":"_codex_local_exec","arguments":{"task":"Fix it."}}`))
			if err != nil {
				t.Fatal(err)
			}
			r := &idempotency.Requests{Store: store}
			if _, err := r.Begin(t.Context(), idempotency.Request{Caller: responder.Caller(t.Context()), Key: k, Hash: hash,
				Run: run}, time.Now()); err != nil {
				t.Fatal(err)
			}
			task := runs.QueuedTask{Run: run, Task: runs.Task{Attributes: runs.Attributes{Agent: "codex", Mode: runs.ReadOnly},
				Prompt: "Fix it."}}
			switch i {
			case 1:
				if _, err := s.jetstream(t).Publish(t.Context(), s.Operator.WorkSubject(bus.DefaultQueue, run),
					runs.Encode(task)); err != nil {
					t.Fatal(err)
				}
			case 2:
				if _, err := s.Service.Submit(t.Context(), api.Submission{Run: run,
					Task: runs.Task{Prompt: "Fix it."}}); err != nil {
					t.Fatal(err)
				}
			}
			a := envelope(t, s.tools, "_codex_local_exec", "task", "Fix it.", "idempotency_key", k)
			a.is(t, "submitted", "")
			if a.TaskID != run || a.Replayed != (i == 2) {
				t.Errorf("%s", a.Envelope)
			}
			if got := s.take(t); got.Run != run {
				t.Errorf("queued: %s", got.Run)
			}
			if a := envelope(t, s.tools, "_codex_local_exec", "task", "Fix it.", "idempotency_key", k); a.TaskID != run ||
				!a.Replayed {
				t.Errorf("asked once more: %s", a.Envelope)
			}
		})
	}
	stream, err := s.jetstream(t).Stream(t.Context(), s.Operator.Work())
	if err != nil {
		t.Fatal(err)
	}
	if n := stream.CachedInfo().State.LastSeq; n != 3 {
		t.Errorf("%d tasks were ever queued, want 3", n)
	}
}

func TestContextIDIsTheThreadToResume(t *testing.T) {
	s := remembering(t)
	s.Begin("codex", "T-before", runs.Start{Source: "queue", Attributes: runs.Attributes{Dir: "/srv/project"}}).
		Out([]byte(`{"type":"thread.started","thread_id":"` + thread + `"}` + "\n")).Exit(1)
	a := envelope(t, s.tools, "_codex_local_exec", "task", "Go on.", "context_id", thread, "idempotency_key",
		key("thread"))
	a.is(t, "submitted", "")
	if got := s.take(t); got.Thread != thread || got.Dir != "/srv/project" || a.ContextID != thread {
		t.Errorf("%+v: %s", got, a.Envelope)
	}
	a = envelope(t, s.tools, "_codex_local_exec", "task", "Go on.", "context_id", "T-before", "idempotency_key",
		key("run"))
	a.is(t, "submitted", "")
	if got := s.take(t); got.Thread != thread || a.ContextID != thread {
		t.Errorf("by a run: %+v: %s", got, a.Envelope)
	}
	other := strings.Replace(thread, "0", "1", 1)
	s.Begin("codex", "T-other", runs.Start{Source: "queue"}).
		Out([]byte(`{"type":"thread.started","thread_id":"` + other + `"}` + "\n")).Exit(1)
	a = envelope(t, s.tools, "_codex_local_resume", "task", "Go on.", "threadId", thread, "context_id", other,
		"idempotency_key", key("other"))
	a.is(t, "rejected", "VALIDATION_ERROR")
}

// Any other name is a label of the caller: it begins a thread, comes back as the context of the run, and is a filter.
func TestContextIDIsALabelOfTheCaller(t *testing.T) {
	s := remembering(t)
	const name = "campaign 7/é"
	request := []any{"task", "Go.", "context_id", "campaign 7", "labels", map[string]string{"a": "b"}, "idempotency_key",
		key("label")}
	a := envelope(t, s.tools, "_codex_local_exec", request...)
	a.is(t, "submitted", "")
	got := s.take(t)
	if got.Thread != "" || a.ContextID != "campaign 7" || got.Labels.Value(runs.LabelContext) != "campaign 7" ||
		got.Labels.Value("a") != "b" {
		t.Errorf("%+v: %s", got, a.Envelope)
	}
	if again := envelope(t, s.tools, "_codex_local_exec", request...); !again.Replayed || again.ContextID != "campaign 7" {
		t.Errorf("again: %s", again.Envelope)
	}
	for name, want := range map[string]string{"campaign 7": "submitted", "another": "rejected"} {
		if one := envelope(t, s.tools, "_codex_local_status", "task_id", a.TaskID, "context_id", name); one.Status != want {
			t.Errorf("the task in %s: %s", name, one.Envelope)
		}
	}
	for name, want := range map[string]int64{"campaign 7": 1, "another": 0} {
		all := envelope(t, s.tools, "_codex_local_status", "context_id", name)
		if n := gjson.GetBytes(all.Envelope, "summary.queued").Int(); n != want {
			t.Errorf("%d in %s: %s", n, name, all.Envelope)
		}
	}
	for _, bad := range []string{name, strings.Repeat("x", 257), " ", "a\nb"} {
		envelope(t, s.tools, "_codex_local_exec", "task", "Go.", "context_id", bad, "idempotency_key", key("bad")).is(t,
			"rejected", "VALIDATION_ERROR")
	}
	begun := s.Begin("codex", "T-labelled", runs.Start{Source: "queue", Attributes: runs.Attributes{
		Labels: runs.LabelsOf(map[string]string{runs.LabelContext: "mine"})}})
	begun.Out([]byte(`{"type":"thread.started","thread_id":"` + thread + `"}` + "\n"))
	s.Await("T-labelled", func(v runs.Header) bool { return v.Thread == thread })
	if one := envelope(t, s.tools, "_codex_local_status", "task_id", "T-labelled", "context_id", thread); one.ContextID !=
		"mine" {
		t.Errorf("with a thread: %s", one.Envelope)
	}
}

func TestWithoutAMemoryKeysAreRefused(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	envelope(t, s.tools, "_codex_local_exec", "task", "Fix it.", "idempotency_key", key("none")).is(t, "rejected",
		"UNSUPPORTED_FEATURE")
	if a := ask(t, s.tools, "_codex_local_exec", args("task", "Fix it.", "idempotency_key",
		key("none"))); a.Error.Code != "UNSUPPORTED" {
		t.Errorf("%s", a.Envelope)
	}
	if n := len(s.Service.Snapshot(5, nil).Queued); n != 0 {
		t.Errorf("%d are queued", n)
	}
}

// What came of a cancel is told again also when the run is gone meanwhile.
func TestARepeatedCancelOutlivesTheRecordOfItsRun(t *testing.T) {
	s := remembering(t)
	first := envelope(t, s.tools, "_codex_local_exec", "task", "Fix it.", "idempotency_key", key("submit"))
	request := []any{"task_id", first.TaskID, "idempotency_key", key("cancel")}
	envelope(t, s.tools, "_codex_local_cancel", request...).is(t, "canceled", "")
	s.Await(first.TaskID, servicetest.Ended)
	v, _ := s.Service.Get(first.TaskID)
	if _, err := s.Service.Cleanup(t.Context(), api.Cleanup{Stuck: time.Hour, Old: 1}); err != nil {
		t.Fatal(err)
	}
	if _, ok := s.Service.Get(v.ID); ok {
		t.Fatal("the run is still there")
	}
	again := envelope(t, s.tools, "_codex_local_cancel", request...)
	again.is(t, "canceled", "")
	if !again.Replayed || again.TaskID != first.TaskID {
		t.Errorf("%s", again.Envelope)
	}
	envelope(t, s.tools, "_codex_local_cancel", "task_id", first.TaskID, "idempotency_key", key("another")).is(t,
		"unknown", "REFERENCE_NOT_FOUND")
}

// A full queue refuses what is new, and not what is in it already.
func TestARequestThatIsInAFullQueueIsAnError(t *testing.T) {
	s := remembering(t)
	js, run, k := s.jetstream(t), "T-in-the-queue", key("in-the-queue")
	hash, err := idempotency.Hash([]byte(`{"tool":"_codex_local_exec","arguments":{"task":"Fix it."}}`))
	if err != nil {
		t.Fatal(err)
	}
	r := &idempotency.Requests{Store: s.Operator.RequestStore()}
	if _, err := r.Begin(t.Context(), idempotency.Request{Caller: responder.Caller(t.Context()), Key: k, Hash: hash,
		Run: run}, time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Service.Submit(t.Context(), api.Submission{Run: run, Task: runs.Task{Prompt: "Fix it."}}); err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), s.Operator.Work())
	if err != nil {
		t.Fatal(err)
	}
	full := stream.CachedInfo().Config
	full.MaxMsgs = 1
	if _, err := js.UpdateStream(t.Context(), full); err != nil {
		t.Fatal(err)
	}
	a := envelope(t, s.tools, "_codex_local_exec", "task", "Fix it.", "idempotency_key", k)
	a.is(t, "submitted", "")
	if a.TaskID != run || !a.Replayed {
		t.Errorf("%s", a.Envelope)
	}
	if a := envelope(t, s.tools, "_codex_local_exec", "task", "Another.", "idempotency_key",
		key("another")); a.Error == nil {
		t.Errorf("the queue is not full: %s", a.Envelope)
	}
}
