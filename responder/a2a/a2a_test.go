package a2a_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"
	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/responder/a2a"
	"github.com/linesman/linesman/responder/httpserver"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/adcptest"
)

var update = flag.Bool("update", false, "rewrite golden files")

func sent(t *testing.T, c *a2aclient.Client, q *sdk.SendMessageRequest) *sdk.Task {
	t.Helper()
	got, err := c.SendMessage(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	task, ok := got.(*sdk.Task)
	if !ok {
		t.Fatalf("got a %T, want a task", got)
	}
	return task
}

// data is the last data part of parts, which must be an envelope of AdCP once
// it has a status.
func data(t *testing.T, parts sdk.ContentParts) gjson.Result {
	t.Helper()
	for _, p := range slices.Backward(parts) {
		if p.Data() != nil {
			raw, err := json.Marshal(p.Data())
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"status", "task_id", "context_id", "payload"} {
				if gjson.GetBytes(raw, name).Exists() {
					t.Errorf("the data has %s: %s", name, raw)
				}
			}
			adcptest.Envelope(t, append([]byte(`{"status":"working",`), raw[1:]...))
			return gjson.ParseBytes(raw)
		}
	}
	t.Fatal("there is no data part")
	return gjson.Result{}
}

func TestTaskIsToldFromItsMessageToItsEnd(t *testing.T) {
	t.Parallel()
	d := newLab(t).endpoint(nil)
	for _, s := range surfaces {
		t.Run(s.name, func(t *testing.T) {
			c := d.client(s, token)
			m := user("Count the files.")
			m.Parts = append(m.Parts, sdk.NewDataPart(map[string]any{"skipGitRepoCheck": true, "governance_context": "gov-1",
				"context": map[string]any{"trace": "7"}}))
			task := sent(t, c, now(m))
			if task.Status.State != sdk.TaskStateSubmitted || task.ContextID != string(task.ID) || len(task.Artifacts) != 0 {
				t.Fatalf("queued: %+v", task)
			}
			said := data(t, task.Status.Message.Parts)
			if said.Get("governance_context").String() != "gov-1" || said.Get("context.trace").String() != "7" ||
				said.Get("queue_position").Raw != "0" {
				t.Errorf("data of a queued task: %s", said.Raw)
			}
			id := string(task.ID)
			l := d.work(id).out(begins, turns, says)
			d.await(id, func(v runs.Header) bool { return v.State == runs.StateWorking && v.Thread != "" })
			task, err := c.GetTask(t.Context(), &sdk.GetTaskRequest{ID: task.ID})
			if err != nil {
				t.Fatal(err)
			}
			if task.Status.State != sdk.TaskStateWorking || task.ContextID != thread || task.Status.Timestamp == nil ||
				len(task.History) != 0 {
				t.Errorf("at work: %+v", task)
			}
			if got := data(t, task.Status.Message.Parts).Get("governance_context").String(); got != "gov-1" {
				t.Errorf("governance context %q", got)
			}
			l.out(secret, answers, ends).exit(runs.ReasonExited, 0)
			three := 3
			task, err = c.GetTask(t.Context(), &sdk.GetTaskRequest{ID: task.ID, HistoryLength: &three})
			if err != nil {
				t.Fatal(err)
			}
			if task.Status.State != sdk.TaskStateCompleted || len(task.Artifacts) != 1 || len(task.History) != 2 {
				t.Fatalf("ended: %+v", task)
			}
			parts := task.Artifacts[0].Parts
			said = data(t, parts)
			if parts[0].Text() != "Two files." || parts[len(parts)-1].Data() == nil ||
				said.Get("governance_context").String() != "gov-1" ||
				said.Get("metadata.thread_info.thread_id").String() != thread || said.Get("message").String() == "" {
				t.Errorf("the result: %q %s", parts[0].Text(), said.Raw)
			}
			whole, err := json.Marshal(task)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(whole), "sentinel") {
				t.Errorf("the task holds output as it was written: %s", whole)
			}
			if task.History[0].Parts[0].Text() != "I will look." || task.History[1].Role != sdk.MessageRoleAgent {
				t.Errorf("history: %+v", task.History)
			}
		})
	}
}

func TestBlockingSendAnswersAtTheEnd(t *testing.T) {
	t.Parallel()
	d := newLab(t).endpoint(nil)
	for _, s := range surfaces {
		t.Run(s.name, func(t *testing.T) {
			c := d.client(s, token)
			answer := make(chan *sdk.Task, 1)
			m := user("go")
			m.ID = "blocking-" + s.name + "-0123456789"
			go func() {
				got, err := c.SendMessage(t.Context(), &sdk.SendMessageRequest{Message: m})
				if err != nil {
					t.Error(err)
				}
				task, _ := got.(*sdk.Task)
				answer <- task
			}()
			id := string(sent(t, d.client(surfaces[0], token), now(m)).ID) // the same message: the same task
			select {
			case <-answer:
				t.Fatal("answered before the end")
			default:
			}
			d.finish(id)
			if task := <-answer; task == nil || string(task.ID) != id || task.Status.State != sdk.TaskStateCompleted ||
				task.ContextID != thread {
				t.Errorf("got %+v", task)
			}
		})
	}
}

func TestStreamTellsAllUpToTheEnd(t *testing.T) {
	t.Parallel()
	d := newLab(t).endpoint(nil)
	for _, s := range surfaces {
		t.Run(s.name, func(t *testing.T) {
			c := d.client(s, token)
			var kinds []string
			var texts []string
			var contexts []string
			var worker *log
			m := user("go")
			m.Parts = append(m.Parts, sdk.NewDataPart(map[string]any{"governance_context": "gov-1"}))
			for e, err := range c.SendStreamingMessage(t.Context(), &sdk.SendMessageRequest{Message: m}) {
				if err != nil {
					t.Fatal(err)
				}
				contexts = append(contexts, e.TaskInfo().ContextID)
				switch e := e.(type) {
				case *sdk.Task:
					kinds = append(kinds, string(e.Status.State))
					worker = d.work(string(e.ID))
				case *sdk.TaskStatusUpdateEvent:
					if last := string(e.Status.State); kinds[len(kinds)-1] != last {
						kinds = append(kinds, last)
					}
					if !e.Status.State.Terminal() && data(t, e.Status.Message.Parts).Get("governance_context").String() != "gov-1" {
						t.Errorf("without its governance context: %+v", e.Status)
					}
					if e.Status.State == sdk.TaskStateWorking && worker != nil {
						worker.out(begins, turns, says, answers, ends).exit(runs.ReasonExited, 0)
						worker = nil
					}
				case *sdk.TaskArtifactUpdateEvent:
					if e.Append != (len(texts) > 0) || e.Artifact.ID != "result" {
						t.Errorf("piece %d: append %v of %s", len(texts), e.Append, e.Artifact.ID)
					}
					for _, p := range e.Artifact.Parts {
						if p.Data() != nil {
							texts = append(texts, "data")
						} else {
							texts = append(texts, p.Text())
						}
					}
					if e.LastChunk {
						kinds = append(kinds, "last")
					}
				}
			}
			if want := []string{"TASK_STATE_SUBMITTED", "TASK_STATE_WORKING", "last", "TASK_STATE_COMPLETED"}; !slices.Equal(
				kinds, want) {
				t.Errorf("states %q, want %q", kinds, want)
			}
			if want := []string{"I will look.", "Two files.", "data"}; !slices.Equal(texts, want) {
				t.Errorf("pieces %q, want %q", texts, want)
			}
			if len(slices.Compact(contexts)) != 1 {
				t.Errorf("contexts %q within one stream", contexts)
			}
		})
	}
}

// Who was cut off in mid-stream subscribes again, at another responder, and
// contains all messages of the agent.
func TestSubscriberThatWasCutOffLosesNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	first := l.endpoint(nil)
	task := sent(t, first.client(surfaces[0], token), now(user("go")))
	worker := first.work(string(task.ID)).out(begins, turns, says)
	events := 0
	for e, err := range first.client(surfaces[0], token).SubscribeToTask(t.Context(),
		&sdk.SubscribeToTaskRequest{ID: task.ID}) {
		if err != nil {
			if events == 0 {
				t.Fatal(err)
			}
			break // cut off by the responder's end
		}
		if events++; events == 1 {
			if _, ok := e.(*sdk.Task); !ok {
				t.Errorf("the first event is a %T", e)
			}
		}
		if u, ok := e.(*sdk.TaskArtifactUpdateEvent); ok && u.Artifact.Parts[0].Text() == "I will look." {
			first.stop()
		}
	}
	second := l.endpoint(nil)
	for _, s := range surfaces {
		if s.name == "jsonrpc" {
			continue // it is the one that finishes, below
		}
		ctx, cancel := context.WithCancel(t.Context())
		for _, err := range second.client(s, token).SubscribeToTask(ctx, &sdk.SubscribeToTaskRequest{ID: task.ID}) {
			if err != nil {
				t.Errorf("%s: %v", s.name, err)
			}
			break
		}
		cancel()
	}
	var texts []string
	var last sdk.TaskState
	for e, err := range second.client(surfaces[0], token).SubscribeToTask(t.Context(),
		&sdk.SubscribeToTaskRequest{ID: task.ID}) {
		if err != nil {
			t.Fatal(err)
		}
		switch e := e.(type) {
		case *sdk.Task:
			last = e.Status.State
			go func() {
				worker.d = second
				worker.out(answers, ends).exit(runs.ReasonExited, 0)
			}()
		case *sdk.TaskArtifactUpdateEvent:
			for _, p := range e.Artifact.Parts {
				texts = append(texts, p.Text())
			}
		case *sdk.TaskStatusUpdateEvent:
			last = e.Status.State
		}
	}
	if want := []string{"I will look.", "Two files.", ""}; !slices.Equal(texts, want) || last != sdk.TaskStateCompleted {
		t.Errorf("pieces %q up to %s, want %q", texts, last, want)
	}
	for _, s := range surfaces {
		for _, err := range second.client(s, token).SubscribeToTask(t.Context(), &sdk.SubscribeToTaskRequest{ID: task.ID}) {
			if !errors.Is(err, sdk.ErrUnsupportedOperation) {
				t.Errorf("%s: subscribing to an ended task: %v", s.name, err)
			}
		}
	}
}

func TestAnotherResponderKnowsTheTask(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	first := l.endpoint(nil)
	m := user("go")
	task := sent(t, first.client(surfaces[0], token), now(m))
	first.stop()
	second := l.endpoint(nil)
	c := second.client(surfaces[1], token)
	got, err := c.GetTask(t.Context(), &sdk.GetTaskRequest{ID: task.ID})
	if err != nil || got.Status.State != sdk.TaskStateSubmitted {
		t.Fatalf("got %+v, %v", got, err)
	}
	if again := sent(t, c, now(m)); again.ID != task.ID {
		t.Errorf("the same message made task %s, want %s", again.ID, task.ID)
	}
}

func TestHundredSendsOfOneMessageStartOneRun(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	endpoints := []*endpoint{l.endpoint(nil), l.endpoint(nil)}
	var begun []string
	for _, id := range []string{"0193a0f0-7d7e-7b1e-9d5b-1f2f3a4b5c6d", "short", "of any form: ünïcödé\n" +
		strings.Repeat("x", 4000)} {
		m := user("go " + id[:5])
		m.ID = id
		ids := make([]string, 100)
		var group sync.WaitGroup
		for i := range ids {
			c := endpoints[i%2].client(surfaces[i%len(surfaces)], token)
			group.Go(func() {
				got, err := c.SendMessage(t.Context(), now(m))
				if err != nil {
					t.Error(err)
					return
				}
				ids[i] = string(got.(*sdk.Task).ID)
			})
		}
		group.Wait()
		slices.Sort(ids)
		if ids = slices.Compact(ids); len(ids) != 1 || ids[0] == "" {
			t.Errorf("message %.20q started %d runs", id, len(ids))
		}
		begun = append(begun, ids...)
	}
	for _, run := range begun { // either endpoint may have taken it
		endpoints[0].await(run, func(runs.Header) bool { return true })
	}
	if n := len(endpoints[0].service.Snapshot(0, nil).Queued); n != 3 {
		t.Errorf("%d runs are queued, want 3", n)
	}
	other := user("another text")
	other.ID = "short"
	task := sent(t, endpoints[0].client(surfaces[0], token), now(other))
	if task.Status.State != sdk.TaskStateRejected ||
		data(t, task.Artifacts[0].Parts).Get("adcp_error.code").String() != "IDEMPOTENCY_CONFLICT" {
		t.Errorf("another message of the same id: %+v", task)
	}
}

func TestMessageGoesOnInItsContext(t *testing.T) {
	t.Parallel()
	d := newLab(t).endpoint(nil)
	c := d.client(surfaces[0], token)
	first := sent(t, c, now(user("go")))
	m := user("more")
	m.ContextID = first.ContextID
	if _, err := c.SendMessage(t.Context(), now(m)); !errors.Is(err, sdk.ErrUnsupportedOperation) {
		t.Errorf("a context without a thread yet: %v", err)
	}
	d.finish(string(first.ID))
	for i, name := range []string{string(first.ID), thread, strings.ToUpper(thread)} {
		m := user("more " + name)
		m.ContextID = name
		task := sent(t, c, now(m))
		if task.ContextID != name || task.Status.State != sdk.TaskStateSubmitted {
			t.Errorf("in context %s: %+v", name, task)
		}
		d.finish(string(task.ID))
		list, err := c.ListTasks(t.Context(), &sdk.ListTasksRequest{ContextID: name})
		if err != nil || len(list.Tasks) != i+2 || list.Tasks[0].ID != task.ID || list.Tasks[0].ContextID != name {
			t.Errorf("tasks of context %s: %+v, %v", name, list, err)
		}
	}
	m = user("more")
	m.ContextID = "0193a0f0-7d7e-7b1e-9d5b-1f2f3a4b5c6d"
	if _, err := c.SendMessage(t.Context(), now(m)); !errors.Is(err, sdk.ErrInvalidParams) {
		t.Errorf("an invented context: %v", err)
	}
	d.play("foreign", "failed", "", 1)
	for id, want := range map[string]error{string(first.ID): sdk.ErrUnsupportedOperation, "nothing": sdk.ErrTaskNotFound} {
		m := user("more")
		m.TaskID = sdk.TaskID(id)
		if _, err := c.SendMessage(t.Context(), now(m)); !errors.Is(err, want) {
			t.Errorf("a message for task %s: %v, want %v", id, err, want)
		}
	}
	m = user("more")
	m.TaskID, m.ContextID = first.ID, "another"
	if _, err := c.SendMessage(t.Context(), now(m)); !errors.Is(err, sdk.ErrInvalidParams) {
		t.Errorf("a task in another context: %v", err)
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	d := newLab(t).endpoint(nil)
	for _, s := range surfaces {
		t.Run(s.name, func(t *testing.T) {
			c := d.client(s, token)
			task := sent(t, c, now(user("go")))
			got, err := c.CancelTask(t.Context(), &sdk.CancelTaskRequest{ID: task.ID})
			if err != nil || got.Status.State != sdk.TaskStateCanceled {
				t.Fatalf("got %+v, %v", got, err)
			}
			d.await(string(task.ID), func(v runs.Header) bool { return v.State.Final() })
			if _, err := c.CancelTask(t.Context(), &sdk.CancelTaskRequest{ID: task.ID}); !errors.Is(err,
				sdk.ErrTaskNotCancelable) {
				t.Errorf("cancelled again: %v", err)
			}
			if _, err := c.CancelTask(t.Context(), &sdk.CancelTaskRequest{ID: "nothing"}); !errors.Is(err, sdk.ErrTaskNotFound) {
				t.Errorf("an unknown one: %v", err)
			}
		})
	}
}

func TestTaskOfTheCloudIsShownAndLeftAlone(t *testing.T) {
	t.Parallel()
	d := newLab(t).endpoint(nil)
	c := d.client(surfaces[0], token)
	l := d.begin("codex_cloud", "T-cloud-1", runs.Start{Source: "cloud"})
	d.await("T-cloud-1", func(v runs.Header) bool { return v.State == runs.StateWorking })
	task, err := c.GetTask(t.Context(), &sdk.GetTaskRequest{ID: "T-cloud-1"})
	if err != nil || task.Status.State != sdk.TaskStateWorking || task.ContextID != "T-cloud-1" {
		t.Errorf("got %+v, %v", task, err)
	}
	if _, err := c.CancelTask(t.Context(), &sdk.CancelTaskRequest{ID: "T-cloud-1"}); !errors.Is(err,
		sdk.ErrUnsupportedOperation) {
		t.Errorf("cancelled: %v", err)
	}
	m := user("more")
	m.ContextID = "T-cloud-1"
	if _, err := c.SendMessage(t.Context(), now(m)); !errors.Is(err, sdk.ErrUnsupportedOperation) {
		t.Errorf("gone on with: %v", err)
	}
	l.exit(runs.ReasonEOF, 0)
	if task, err = c.GetTask(t.Context(), &sdk.GetTaskRequest{ID: "T-cloud-1"}); err != nil ||
		!task.Status.State.Terminal() || len(task.Artifacts) != 1 {
		t.Errorf("ended: %+v, %v", task, err)
	}
}

func TestStatesAreThoseOfTheTable(t *testing.T) {
	t.Parallel()
	d := newLab(t).endpoint(nil)
	c := d.client(surfaces[0], token)
	for _, tt := range []struct {
		id     string
		reason runs.Reason
		code   int
		state  sdk.TaskState
		error  string
	}{
		{"done", runs.ReasonExited, 0, sdk.TaskStateCompleted, ""},
		{"broken", runs.ReasonExited, 1, sdk.TaskStateFailed, "TOOL_ERROR"},
		{"slow", runs.ReasonHard, 143, sdk.TaskStateFailed, "TASK_TIMEOUT"},
		{"idle", runs.ReasonIdle, 143, sdk.TaskStateFailed, "TASK_TIMEOUT"},
		{"away", runs.ReasonCancelled, 143, sdk.TaskStateCanceled, ""},
	} {
		d.work(tt.id).out(begins, secret, ends).exit(tt.reason, tt.code)
		task, err := c.GetTask(t.Context(), &sdk.GetTaskRequest{ID: sdk.TaskID(tt.id)})
		if err != nil {
			t.Fatal(err)
		}
		said := data(t, task.Artifacts[0].Parts)
		if task.Status.State != tt.state || said.Get("adcp_error.code").String() != tt.error ||
			said.Get("errors.#").Int() != int64(len(tt.error)/max(len(tt.error), 1)) {
			t.Errorf("%s: %s, %s", tt.id, task.Status.State, said.Raw)
		}
		if strings.Contains(said.Raw, "sentinel") {
			t.Errorf("%s: output as it was written: %s", tt.id, said.Raw)
		}
	}
}

func TestListPagesByStatusTime(t *testing.T) {
	t.Parallel()
	d := newLab(t).endpoint(nil)
	var ids []string
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		d.play(id, "shell-ok", "", 0)
		ids = append([]string{id}, ids...)
	}
	for _, s := range surfaces[:2] {
		c := d.client(s, token)
		var got []string
		for page := ""; ; {
			list, err := c.ListTasks(t.Context(), &sdk.ListTasksRequest{PageSize: 2, PageToken: page})
			if err != nil {
				t.Fatal(err)
			}
			if list.TotalSize != 5 || list.PageSize != len(list.Tasks) {
				t.Errorf("%d in all, %d on the page of %d", list.TotalSize, list.PageSize, len(list.Tasks))
			}
			for _, task := range list.Tasks {
				got = append(got, string(task.ID))
				if len(task.Artifacts) != 0 {
					t.Error("artifacts that nobody asked for")
				}
			}
			if page = list.NextPageToken; page == "" {
				break
			}
		}
		if !slices.Equal(got, ids) {
			t.Errorf("%s: %q, want %q", s.name, got, ids)
		}
		list, err := c.ListTasks(t.Context(), &sdk.ListTasksRequest{Status: sdk.TaskStateCompleted, PageSize: 1,
			IncludeArtifacts: true})
		if err != nil || len(list.Tasks) != 1 || len(list.Tasks[0].Artifacts) != 1 {
			t.Errorf("with artifacts: %+v, %v", list, err)
		}
		if list, err = c.ListTasks(t.Context(), &sdk.ListTasksRequest{Status: sdk.TaskStateWorking}); err != nil ||
			len(list.Tasks) != 0 {
			t.Errorf("those at work: %+v, %v", list, err)
		}
		for _, never := range []sdk.TaskState{sdk.TaskStateRejected, sdk.TaskStateAuthRequired} {
			if none, err := c.ListTasks(t.Context(), &sdk.ListTasksRequest{Status: never}); err != nil || len(none.Tasks) != 0 ||
				none.TotalSize != 0 || none.NextPageToken != "" {
				t.Errorf("%s: %s: %+v, %v", s.name, never, none, err)
			}
		}
		if _, err := c.ListTasks(t.Context(), &sdk.ListTasksRequest{PageSize: 2, PageToken: list.NextPageToken +
			"x"}); !errors.Is(err, sdk.ErrInvalidParams) {
			t.Errorf("a token of ours that is none: %v", err)
		}
		middle := time.UnixMilli(int64(d.await("c", func(runs.Header) bool { return true }).EndedAt))
		one := 1
		list, err = c.ListTasks(t.Context(), &sdk.ListTasksRequest{StatusTimestampAfter: &middle, HistoryLength: &one})
		// the other one sends seconds
		if err != nil || s.name == "jsonrpc" && len(list.Tasks) != 3 || len(list.Tasks[0].History) != 1 {
			t.Errorf("%s: since the third: %+v, %v", s.name, list, err)
		}
		_, raw := d.ask("GET", "/a2a/v1/tasks?historyLength=1&statusTimestampAfter="+
			middle.UTC().Format("2006-01-02T15:04:05.000Z"), "", "A2A-Version", "1.0")
		if raw.Get("tasks.#").Int() != 3 || raw.Get("tasks.0.history.#").Int() != 1 {
			t.Errorf("since the third: %s", raw.Raw)
		}
	}
	if _, raw := d.post("/a2a", `{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":{"status":"TASK_STATE_WORKING"}}`); !raw.Get("result.nextPageToken").Exists() {
		t.Errorf("without nextPageToken: %s", raw.Raw)
	}
}

func TestBadRequestsAreRefused(t *testing.T) {
	t.Parallel()
	d := newLab(t).endpoint(nil)
	d.play("ended", "shell-ok", "", 0)
	send := func(message string) string {
		return `{"jsonrpc":"2.0","id":7,"method":"SendMessage","params":{"message":` + message +
			`,"configuration":{"returnImmediately":true}}}`
	}
	for what, tt := range map[string]struct {
		body string
		code int64
		says string
	}{
		"no JSON":          {`{"jsonrpc"`, -32700, ""},
		"no request":       {`{"jsonrpc":"2.0","id":1}`, -32600, ""},
		"unknown method":   {`{"jsonrpc":"2.0","id":1,"method":"Nothing"}`, -32601, ""},
		"params of a type": {`{"jsonrpc":"2.0","id":1,"method":"GetTask","params":[1]}`, -32602, ""},
		"no id":            {`{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{}}`, -32602, "id: is required"},
		"unknown task": {`{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"nothing"}}`, -32001,
			"there is no task of this id"},
		"no id at all": {`{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"../../x *>"}}`, -32001,
			"there is no task of this id"},
		"negative history": {`{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"ended","historyLength":-1}}`,
			-32602, "historyLength: must not be negative"},
		"no message":   {`{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{}}`, -32602, "message: is required"},
		"no messageId": {send(`{"role":"ROLE_USER","parts":[{"text":"go"}]}`), -32602, "message.messageId: is required"},
		"no role":      {send(`{"messageId":"m","parts":[{"text":"go"}]}`), -32602, "message.role: must be ROLE_USER"},
		"agent's role": {send(`{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"go"}]}`), -32602,
			"message.role: must be ROLE_USER"},
		"no parts": {send(`{"messageId":"m","role":"ROLE_USER","parts":[]}`), -32602, "message.parts: are required"},
		"null part": {send(`{"messageId":"m","role":"ROLE_USER","parts":[null]}`), -32602,
			"message.parts: none may be null"},
		"too many parts": {send(`{"messageId":"m","role":"ROLE_USER","parts":[` + strings.Repeat(`{"text":"x"},`,
			64) + `{"text":"x"}]}`), -32602, "message.parts: at most 64"},
		"file": {send(`{"messageId":"m","role":"ROLE_USER","parts":[{"url":"https://example.com/x"}]}`), -32005,
			"message.parts: texts and one data part are taken, no files"},
		"bytes": {send(`{"messageId":"m","role":"ROLE_USER","parts":[{"raw":"eA=="}]}`), -32005,
			"message.parts: texts and one data part are taken, no files"},
		"two data parts": {send(`{"messageId":"m","role":"ROLE_USER","parts":[{"text":"go"},{"data":{}},{"data":{}}]}`),
			-32602, "message.parts: one data part holds all options"},
		"data of a type": {send(`{"messageId":"m","role":"ROLE_USER","parts":[{"text":"go"},{"data":[1]}]}`), -32602,
			"message.parts: the data must be an object"},
		"format": {send(`{"messageId":"m","role":"ROLE_USER","parts":[{"text":"go"},{"data":{"format":"json"}}]}`),
			-32602, "message.parts: format is no option: the protocol says it"},
		"two prompts": {send(`{"messageId":"m","role":"ROLE_USER","parts":[{"text":"go"},{"data":{"task":"x"}}]}`),
			-32602, "message.parts: task is no option: the text part says it"},
		"push":              {`{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"go"}]},"configuration":{"returnImmediately":true,"taskPushNotificationConfig":{"url":"https://example.com/x"}}}}`, -32003, "there are no push notifications here"},
		"push configs":      {`{"jsonrpc":"2.0","id":1,"method":"ListTaskPushNotificationConfigs","params":{"taskId":"ended"}}`, -32003, "there are no push notifications here"},
		"output of no type": {`{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"go"}]},"configuration":{"acceptedOutputModes":["image/png"]}}}`, -32005, "acceptedOutputModes: a task gives text/plain and application/json"},
		"extended card": {`{"jsonrpc":"2.0","id":1,"method":"GetExtendedAgentCard","params":{}}`, -32004,
			"there is no extended card: the public one says all"},
		"page size": {`{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":{"pageSize":101}}`, -32602,
			"pageSize: must be 1 to 100"},
		"state": {`{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":{"status":"DONE"}}`, -32602,
			"status: must be a state of tasks"},
		"ended": {`{"jsonrpc":"2.0","id":1,"method":"SubscribeToTask","params":{"id":"ended"}}`, -32004,
			"the task has ended, it is completed: nothing comes of it any more"},
		"0.3 unknown task": {`{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"id":"nothing"}}`, -32001,
			"there is no task of this id"},
	} {
		status, got := d.post("/a2a", tt.body)
		if status != 200 || got.Get("error.code").Int() != tt.code || tt.says != "" &&
			got.Get("error.message").String() != tt.says {
			t.Errorf("%s: %d %s, want %d %q", what, status, got.Raw, tt.code, tt.says)
		}
	}
	for what, tt := range map[string]struct{ options, code, field, says string }{
		"unknown option":   {`{"timeout":5}`, "VALIDATION_ERROR", "timeout", "timeoutSec"},
		"wrong mode":       {`{"mode":"everything"}`, "VALIDATION_ERROR", "mode", "must be one of read-only"},
		"without confirm":  {`{"mode":"workspace-write"}`, "VALIDATION_ERROR", "confirm", "must be true"},
		"relative path":    {`{"workingDir":"x"}`, "VALIDATION_ERROR", "workingDir", "must be an absolute path"},
		"limit of a limit": {`{"timeoutSec":80000}`, "VALIDATION_ERROR", "timeoutSec", "at most 3600"},
	} {
		status, got := d.post("/a2a", send(`{"messageId":"m","role":"ROLE_USER","parts":[{"text":"go"},{"data":`+tt.options+
			`}]}`))
		task := got.Get("result.task")
		failure := task.Get("artifacts.0.parts.@reverse.0.data.adcp_error")
		if status != 200 || task.Get("status.state").String() != "TASK_STATE_REJECTED" ||
			failure.Get("code").String() != tt.code ||
			failure.Get("field").String() != tt.field || !strings.Contains(failure.Raw, tt.says) ||
			task.Get("contextId").String() != "" { // a later request could not use it
			t.Errorf("%s: %d %s", what, status, got.Raw)
		}
	}
	if n := len(d.service.Snapshot(0, nil).Queued); n != 0 {
		t.Errorf("%d runs were begun by requests that were refused", n)
	}
	rest := `{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"go"}]}}`
	for what, tt := range map[string]struct {
		method, path, body string
		status             int
		reason             string
	}{
		"unknown task":      {"GET", "/tasks/nothing", "", 404, "TASK_NOT_FOUND"},
		"cancel an unknown": {"POST", "/tasks/nothing:cancel", "", 404, "TASK_NOT_FOUND"},
		"cancel an ended":   {"POST", "/tasks/ended:cancel", "", 400, "TASK_NOT_CANCELABLE"},
		"page size":         {"GET", "/tasks?pageSize=1000", "", 400, "INVALID_PARAMS"},
		"history":           {"GET", "/tasks?historyLength=x", "", 400, "INVALID_PARAMS"},
		"time":              {"GET", "/tasks?statusTimestampAfter=x", "", 400, "INVALID_PARAMS"},
		"no JSON":           {"POST", "/message:send", "{", 400, "PARSE_ERROR"},
		"push":              {"GET", "/tasks/ended/pushNotificationConfigs", "", 400, "PUSH_NOTIFICATION_NOT_SUPPORTED"},
		"stream of nothing": {"POST", "/tasks/nothing:subscribe", "", 404, "TASK_NOT_FOUND"},
		"stream of an end":  {"POST", "/tasks/ended:subscribe", "", 400, "UNSUPPORTED_OPERATION"},
		"stream of no send": {"POST", "/message:stream", `{"message":{"messageId":"m","role":"ROLE_USER","parts":[]}}`, 400,
			"INVALID_PARAMS"},
		"no such path": {"GET", "/nothing", "", 404, ""},
		"too large":    {"POST", "/message:send", `{"x":"` + strings.Repeat("x", 1<<20) + `"}`, 413, ""},
	} {
		status, got := d.ask(tt.method, "/a2a/v1"+tt.path, tt.body, "A2A-Version", "1.0")
		if status != tt.status || tt.reason != "" &&
			got.Get("error.details.#(@type==type.googleapis.com/google.rpc.ErrorInfo).reason").String() != tt.reason {
			t.Errorf("%s: %d %s, want %d %s", what, status, got.Raw, tt.status, tt.reason)
		}
	}
	if status, got := d.post("/a2a", `{"x":"`+strings.Repeat("x", 1<<20)+`"}`); status != 413 ||
		got.Get("error.code").Int() != -32600 {
		t.Errorf("a body that is too large: %d %.200s", status, got.Raw)
	}
	for version, want := range map[string]int64{"1.0": 0, "1.0.1": 0, "0.3": -32601, "2.0": -32009, "1.1": -32009,
		"x": -32009, "1.0.0.0": -32009} {
		_, got := d.post("/a2a", `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"ended"}}`, "A2A-Version",
			version)
		if got.Get("error.code").Int() != want {
			t.Errorf("version %s: %s, want %d", version, got.Raw, want)
		}
		status, got := d.post("/a2a/v1/message:send?A2A-Version="+version,
			rest[:len(rest)-1]+`,"configuration":{"returnImmediately":true}}`)
		if (status != 200) != (want == -32009 || version == "0.3") {
			t.Errorf("version %s over HTTP+JSON: %d %s", version, status, got.Raw)
		}
	}
}

func TestScopes(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	d := l.endpoint(nil)
	reads, err := httpserver.CreateToken(l.tokens(), "reader", httpserver.Read, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	d.play("ended", "shell-ok", "", 0)
	for _, s := range surfaces {
		c := d.client(s, reads)
		if _, err := c.GetTask(t.Context(), &sdk.GetTaskRequest{ID: "ended"}); err != nil {
			t.Errorf("%s: a reader reads: %v", s.name, err)
		}
		if _, err := c.SendMessage(t.Context(), now(user("go"))); !errors.Is(err, sdk.ErrUnauthorized) {
			t.Errorf("%s: a reader sends: %v", s.name, err)
		}
		for _, err := range c.SendStreamingMessage(t.Context(), now(user("go"))) {
			if !errors.Is(err, sdk.ErrUnauthorized) {
				t.Errorf("%s: a reader sends for a stream: %v", s.name, err)
			}
		}
		if _, err := c.CancelTask(t.Context(), &sdk.CancelTaskRequest{ID: "ended"}); !errors.Is(err, sdk.ErrUnauthorized) {
			t.Errorf("%s: a reader cancels: %v", s.name, err)
		}
		if _, err := d.client(s, "wrong").GetTask(t.Context(), &sdk.GetTaskRequest{ID: "ended"}); err == nil {
			t.Errorf("%s: a wrong token reads", s.name)
		}
	}
	if n := len(d.service.Snapshot(0, nil).Queued); n != 0 {
		t.Errorf("%d runs were begun", n)
	}
}

func TestStreamsAreBounded(t *testing.T) {
	t.Parallel()
	d := newLab(t).endpoint(func(c *a2a.Config) { c.Held = 1 })
	c := d.client(surfaces[0], token)
	task := sent(t, c, now(user("go")))
	next := func(ctx context.Context) error {
		for _, err := range c.SubscribeToTask(ctx, &sdk.SubscribeToTaskRequest{ID: task.ID}) {
			return err
		}
		return nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	held := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		for _, err := range c.SubscribeToTask(ctx, &sdk.SubscribeToTaskRequest{ID: task.ID}) {
			if err == nil {
				close(held)
			}
			if ctx.Err() != nil {
				return
			}
		}
	})
	<-held
	if err := next(t.Context()); !errors.Is(err, sdk.ErrServerError) {
		t.Errorf("a second stream: %v", err)
	}
	if _, err := c.SendMessage(t.Context(), &sdk.SendMessageRequest{Message: user("go")}); !errors.Is(err,
		sdk.ErrServerError) {
		t.Errorf("a blocking send: %v", err)
	}
	cancel()
	group.Wait()
	end := time.After(fixture.Patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for next(t.Context()) != nil { // the place is free once the server has seen that the client left
		select {
		case <-tick.C:
		case <-end:
			t.Fatal("the place of a client that left is not freed")
		}
	}
}

// A client that takes nothing is left, with its connection open, and its place
// is another's.
func TestSlowClientIsLeft(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	d := l.endpoint(nil)
	worker := d.work("loud").out(begins)
	line := `{"type":"item.completed","item":{"id":"item_1","type":"agent_message","text":"` + strings.Repeat("x",
		60<<10) + `"}}`
	for range 200 {
		worker.out(line)
	}
	for _, s := range surfaces {
		d := l.endpoint(func(c *a2a.Config) { c.Held, c.Slow = 1, 200*time.Millisecond })
		d.await("loud", func(runs.Header) bool { return true })
		dialer := net.Dialer{}
		c, err := dialer.DialContext(t.Context(), "tcp", strings.TrimPrefix(d.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		path, body := s.path, `{"jsonrpc":"2.0","id":1,"method":"SubscribeToTask","params":{"id":"loud"}}`
		switch s.name {
		case "rest":
			path, body = path+"/tasks/loud:subscribe", ""
		case "jsonrpc-0.3":
			body = strings.Replace(body, "SubscribeToTask", "tasks/resubscribe", 1)
		}
		if _, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+
			"%s\r\nA2A-Version: %s\r\nContent-Length: %d\r\n\r\n%s",
			path, token, s.version, len(body), body); err != nil {
			t.Fatal(err)
		}
		first := make([]byte, 15)
		if _, err := io.ReadFull(c, first); err != nil || string(first) != "HTTP/1.1 200 OK" {
			t.Fatalf("%s: %q, %v", s.name, first, err)
		}
		end := time.After(fixture.Patience)
		tick := time.NewTicker(10 * time.Millisecond)
		for free := false; !free; {
			for _, err := range d.client(surfaces[0], token).SubscribeToTask(t.Context(),
				&sdk.SubscribeToTaskRequest{ID: "loud"}) {
				free = err == nil
				break
			}
			select {
			case <-tick.C:
			case <-end:
				t.Fatalf("%s: the place of a client that takes nothing is not freed", s.name)
			}
		}
		tick.Stop()
	}
}

func TestCardSaysWhereAndHow(t *testing.T) {
	t.Parallel()
	d := newLab(t).endpoint(nil)
	status, got := d.ask("GET", "/.well-known/agent-card.json", "", "Authorization", "")
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, got.Raw)
	}
	card := strings.ReplaceAll(got.Raw, d.url, "http://127.0.0.1:8080") + "\n"
	golden := filepath.Join("testdata", "card.json")
	if *update {
		if err := os.WriteFile(golden, []byte(card), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if card != string(want) {
		t.Errorf("the card is\n%swant\n%s", card, want)
	}
	parsed, err := agentcard.DefaultResolver.Resolve(t.Context(), d.url)
	if err != nil {
		t.Fatal(err)
	}
	if len(parsed.SupportedInterfaces) != 3 || parsed.SupportedInterfaces[0].URL != d.url+"/a2a" ||
		!parsed.Capabilities.Streaming {
		t.Errorf("as a client reads it: %+v", parsed)
	}
	if ext := parsed.Capabilities.Extensions; len(ext) != 1 || ext[0].Required || ext[0].Params != nil {
		t.Errorf("extensions %+v", ext)
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestCardWithoutAnAddressOfItsOwnNamesTheOneThatWasAsked(t *testing.T) {
	t.Parallel()
	d := newLab(t).endpoint(func(c *a2a.Config) { c.URL = "" })
	for proto, scheme := range map[string]string{"": "http", "https": "https", "x": "http"} {
		_, card := d.ask("GET", "/.well-known/agent-card.json", "", "X-Forwarded-Proto", proto)
		if got, want := card.Get("supportedInterfaces.0.url").String(), scheme+strings.TrimPrefix(d.url, "http")+
			"/a2a"; got != want {
			t.Errorf("%q: %s, want %s", proto, got, want)
		}
	}
}
