package tools_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/idempotency"
	"github.com/linesman/linesman/responder/tools"
	v36 "github.com/linesman/linesman/responder/v36"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/servicetest"
)

// talk begins a live run, in its first turn.
func (s *stage) talk(id string, keep bool) *servicetest.Live {
	s.T.Helper()
	l := s.BeginLive("codex", id, runs.Start{Source: "queue", Worker: "w1", Keep: keep})
	l.Asks()
	return l
}

// asking is what a tool for live runs answers.
type asking struct {
	api.Asking
	Next string
}

// text is what the agent said last.
func (a asking) text() string {
	if a.Detail == nil || a.FinalText == nil {
		return ""
	}
	return *a.FinalText
}

// A model starts a conversation, sends messages, waits for its turns and answers what the agent asks.
func TestToolsTalkToALiveRun(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	l := s.talk("T-local-talks", true)
	call := func(tool string, into any, pairs ...any) {
		t.Helper()
		if e := own(t.Context(), t, s, tool, args(append([]any{"run", "T-local-talks"}, pairs...)...), into); e != nil {
			t.Fatalf("%s: %v", tool, e)
		}
	}
	var wait asking
	if e := own(hasty(t), t, s, api.ToolLiveWait, args("run", "T-local-talks"), &wait); e != nil || wait.Reached ||
		wait.State != runs.StateWorking || !strings.Contains(wait.Next, "again with the same arguments") {
		t.Errorf("a wait that is over: %+v %v", wait, e)
	}
	l.EndTurn("One.", "end_turn")
	call(api.ToolLiveWait, &wait)
	want := api.Conversation{Turn: 1, Last: "completed", WaitsFor: "message", Process: 1}
	if !wait.Reached || wait.text() != "One." || *wait.Conversation != want || !strings.Contains(wait.Next, "_live_send") {
		t.Errorf("after the first turn: %+v", wait)
	}

	var sent, again struct {
		api.Sent
		Next string
	}
	const key = "key"
	call("_agent_live_send", &sent, "text", "Two?", "idempotency_key", key)
	if sent.Message == "" || sent.Turn != 2 || sent.Entry == 0 || sent.Next != fmt.Sprintf(
		"Call _agent_live_wait with this run and after %d.", sent.Entry) {
		t.Errorf("sent %+v", sent)
	}
	call("_agent_live_send", &again, "text", "Two?", "idempotency_key", key) // its answer was lost
	if again.Message != sent.Message || again.Waiting != 0 {
		t.Errorf("sent again: %+v", again)
	}
	var told []string
	var mu sync.Mutex
	end := waits(t, s, args("run", "T-local-talks", "after", sent.Entry), &mu, &told)
	fixture.Eventually(t, fixture.Patience, "no progress", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(told) > 0
	})
	l.Permission("make", servicetest.Hour())
	if wait = end(); !wait.Reached || len(wait.Asked) != 1 || wait.Asked[0].Command != "make" || !strings.Contains(
		wait.Next, "call _agent_answer") || !strings.Contains(wait.Next, "_agent_live_wait with these questions") {
		t.Errorf("a question: %+v", wait)
	}
	wait = asking{}
	if e := own(hasty(t), t, s, api.ToolLiveWait, args("run", "T-local-talks", "until", "turn"), &wait); e != nil ||
		wait.Reached {
		t.Errorf("others answer: %+v %v", wait, e)
	}
	if e := own(hasty(t), t, s, api.ToolLiveWait, args("run", "T-local-talks", "known_questions", []string{"q1"}),
		&wait); e != nil || len(wait.Asked) != 1 {
		t.Errorf("the question is known: %+v %v", wait, e)
	}
	var done struct {
		api.Answered
		Next string
	}
	call(api.ToolAgentAnswer, &done, "option", "allow")
	call("_agent_live_send", &sent, "text", "Three?")
	if done.Outcome != "allow" || !sent.Waits || sent.Waiting != 1 {
		t.Errorf("answered %+v, then sent %+v", done, sent)
	}
	call("_agent_live_stop", &sent)
	l.EndTurn("Half of two.", "cancelled")
	wait = asking{}
	call(api.ToolLiveWait, &wait, "after", sent.Entry)
	want = api.Conversation{Turn: 2, Last: "failed", WaitsFor: "message", Waiting: 1, Held: true, Process: 1}
	if !wait.Reached || *wait.Conversation != want || !strings.Contains(wait.Next, "held until the next message") {
		t.Errorf("after a turn that was cancelled: %+v %+v", wait, wait.Conversation)
	}
	call("_agent_live_end", &sent)
	if !strings.Contains(sent.Next, "until end") {
		t.Errorf("at the end: %+v", sent)
	}
	l.Quit()
	call(api.ToolLiveWait, &wait, "until", "end")
	if !wait.State.Final() {
		t.Errorf("after the end: %+v", wait)
	}
	if got := strings.Join(slices.Compact(told), ", "); !strings.HasSuffix(got, "Waiting for an answer") {
		t.Errorf("progress %q", got)
	}
}

// waits begins a wait with progress.
func waits(t *testing.T, s *stage, args string, mu *sync.Mutex, told *[]string) (end func() asking) {
	t.Helper()
	done := make(chan asking, 1)
	go func() {
		var out asking
		a, err := s.tools.Call(context.WithoutCancel(t.Context()), api.ToolLiveWait, []byte(args), func(p v36.Progress) {
			mu.Lock()
			defer mu.Unlock()
			*told = append(*told, p.Message)
		})
		if err != nil || json.Unmarshal(a.Envelope, &out) != nil {
			t.Errorf("%v %s", err, a.Envelope)
		}
		done <- out
	}()
	return func() asking { return <-done }
}

// A live run that a tool starts is kept and asks, unless the call says otherwise. The same call again starts one run.
func TestToolStartsALiveRun(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.serve(t, func(c *responder.Config) {
		c.Agents, c.Requests = known.Agents, &idempotency.Requests{Store: s.Bus.RequestStore()}
	})
	for i, more := range [][]any{{}, {"keep", false, "ask", false}} {
		pairs := append([]any{"prompt", "Talk.", "directory", "/srv/app", "mode", "workspace-write", "confirm", true,
			"title", "Chat", "timeout_seconds", 60, "idempotency_key", fmt.Sprintf("0123456789abcdef-%d", i)}, more...)
		var first, again asking
		for _, run := range []*asking{&first, &again} {
			e := own(t.Context(), t, s, "_agent_live_start", args(pairs...), run)
			if e != nil || run.State != runs.StateQueued || run.Title != "Chat" ||
				!strings.Contains(run.Next, api.ToolLiveWait) {
				t.Fatalf("%+v %v", run, e)
			}
		}
		if first.ID != again.ID {
			t.Errorf("the same call started %s and %s", first.ID, again.ID)
		}
		task := s.take(t)
		if keep := i == 0; !task.Live || task.Keep != keep || (task.Ask == nil || *task.Ask) != keep || task.Hard != 60 {
			t.Errorf("%q: %+v", more, task)
		}
	}
}

// What a run does not take is an error of the service, with the names of the parameters.
func TestMistakesInToolsForLiveRuns(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.talk("once", false)
	s.talk("full", true)
	ended := s.talk("ended", true)
	ended.Turn("Done.")
	for i := range runs.MaxQueued {
		if _, err := s.Service.Send(t.Context(), api.SendRequest{Run: "full", Text: fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
	}
	queued, err := s.Service.Submit(t.Context(), api.Submission{Task: runs.Task{
		Attributes: runs.Attributes{Agent: "codex"}, Prompt: "Wait.", Live: true, Keep: true}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		tool, args string
		code       api.Code
		field      string
	}{
		{"_agent_live_start", args("prompt", "x", "thread", "t"), api.Validation, "thread"},
		{"_agent_live_start", args("prompt", "x", "live", true), api.Validation, "live"},
		{"_agent_live_start", args("prompt", "x", "mode", "workspace-write"), api.Validation, "confirm"},
		{"_agent_live_send", args("run", "full"), api.Validation, "text"},
		{"_agent_live_send", args("run", "full", "text", " "), api.Validation, "text"},
		{"_agent_live_send", args("run", "full", "text", "x", "when", "soon"), api.Validation, "when"},
		{"_agent_live_send", args("run", "full", "text", strings.Repeat("x", runs.MaxMessage+1)), api.Validation, "text"},
		{"_agent_live_send", args("run", "full", "text", "x"), api.Conflict, ""},
		{"_agent_live_send", args("run", "none", "text", "x"), api.NotFound, ""},
		{"_agent_live_send", args("run", "once", "text", "x"), api.Conflict, ""},
		{"_agent_live_send", args("run", "ended", "text", "x"), api.Ended, "run"},
		{"_agent_live_send", args("run", queued.Run, "text", "x"), api.Conflict, ""},
		{"_agent_live_stop", args("run", "full", "turn", 2), api.Conflict, ""},
		{"_agent_live_stop", args("run", "full", "turn", 0), api.Validation, "turn"},
		{"_agent_live_stop", args("run", "once"), api.Conflict, ""},
		{"_agent_live_stop", args("run", "none"), api.NotFound, ""},
		{"_agent_live_end", args("run", "once"), api.Conflict, ""},
		{"_agent_live_end", args("run", "ended"), api.Ended, "run"},
		{"_agent_live_end", args("run", "none"), api.NotFound, ""},
		{api.ToolLiveWait, args("run", "none"), api.NotFound, ""},
		{api.ToolLiveWait, args("run", "full", "until", "now"), api.Validation, "until"},
		{api.ToolLiveWait, args("run", "full", "after", "x"), api.Validation, "after"},
	} {
		var none struct{}
		e := own(t.Context(), t, s, c.tool, c.args, &none)
		if e == nil || e.Code != c.code {
			t.Errorf("%s %.80s: %v, want %s", c.tool, c.args, e, c.code)
			continue
		}
		if c.field != "" && e.Field != c.field && !slices.ContainsFunc(e.Issues, func(i api.Issue) bool {
			return i.Field == c.field
		}) {
			t.Errorf("%s %.80s: %+v, want the field %s", c.tool, c.args, e, c.field)
		}
	}
	// A wait takes each run, also one that has ended, has not begun, or goes on without messages.
	var wait asking
	for run, want := range map[string]string{"ended": "completed", queued.Run: "queued", "once": "working"} {
		if e := own(hasty(t), t, s, api.ToolLiveWait, args("run", run), &wait); e != nil || string(wait.State) != want {
			t.Errorf("a wait for %s: %+v %v", run, wait, e)
		}
	}
	// The end of a call ends the wait alone.
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	a, err := s.tools.Call(ctx, api.ToolLiveWait, []byte(args("run", "full")), nil)
	if err != nil || len(a.Envelope) == 0 {
		t.Errorf("%s %v", a.Envelope, err)
	}
	if v, _ := s.Service.Get("full"); v.State != runs.StateWorking {
		t.Errorf("after the end of a call: %+v", v)
	}
}

// Who may not answer sees the ids of questions alone, over HTTP as in REST.
func TestToolsForLiveRunsShowQuestionsToThoseWhoMayAnswer(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	l := s.talk("talks", true)
	l.Asks(l.Permission("sentinel", servicetest.Hour()))
	over := responder.WithSurface(t.Context(), responder.OverMCP)
	for may, ctx := range map[bool]context.Context{false: over, true: responder.WithAnswers(over, true)} {
		a, err := s.tools.Call(ctx, api.ToolLiveWait, []byte(args("run", "talks")), nil)
		if err != nil || gjson.GetBytes(a.Envelope, "questions.0").String() != "q1" ||
			strings.Contains(string(a.Envelope), `"command":"sentinel"`) != may ||
			gjson.GetBytes(a.Envelope, "asked").Exists() != may {
			t.Errorf("may answer: %t: %v %s", may, err, a.Envelope)
		}
	}
}

// The set for live runs has the five tools for them, and the one that answers questions.
func TestSetOfToolsForLiveRuns(t *testing.T) {
	size, names := 0, []string{}
	for _, tool := range tools.Named("live") {
		size += len(tool.Description) + len(tool.InputSchema)
		names = append(names, strings.TrimPrefix(tool.Name, "_agent_"))
		if tool.Name == "_agent_live_send" && !gjson.GetBytes(tool.InputSchema, "properties.idempotency_key").Exists() {
			t.Error("a message cannot have a key")
		}
	}
	if got := strings.Join(names, " "); got != "live_start live_send live_wait answer live_stop live_end" || size > 6500 {
		t.Errorf("%s, %d bytes", got, size)
	}
}
