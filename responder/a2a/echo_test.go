package a2a_test

import (
	"slices"
	"strings"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/idempotency"
	"github.com/linesman/linesman/runs"
)

// The answer to a repeated message is marked as replayed, as on other surfaces:
// before the end of its task and after it, in one answer and in a stream.
func TestMessageThatComesAgainIsSaidToBeReplayed(t *testing.T) {
	t.Parallel()
	d := newLab(t).endpoint(nil)
	for _, s := range surfaces {
		t.Run(s.name, func(t *testing.T) {
			c := d.client(s, token)
			q := now(user("go"))
			task := sent(t, c, q)
			if said := data(t, task.Status.Message.Parts); said.Get("replayed").Exists() {
				t.Errorf("the first time: %s", said.Raw)
			}
			if said := data(t, sent(t, c, q).Status.Message.Parts); !said.Get("replayed").Bool() {
				t.Errorf("the second time: %s", said.Raw)
			}
			d.finish(string(task.ID))
			ended := sent(t, c, q)
			if said := data(t, ended.Artifacts[0].Parts); ended.ID != task.ID || !said.Get("replayed").Bool() {
				t.Errorf("after its end: %s", said.Raw)
			}
			for e, err := range c.SendStreamingMessage(t.Context(), &sdk.SendMessageRequest{Message: q.Message}) {
				if err != nil {
					t.Fatal(err)
				}
				if said := data(t, e.(*sdk.Task).Artifacts[0].Parts); !said.Get("replayed").Bool() {
					t.Errorf("in a stream: %s", said.Raw)
				}
			}
			asked, err := c.GetTask(t.Context(), &sdk.GetTaskRequest{ID: task.ID})
			if err != nil {
				t.Fatal(err)
			}
			if said := data(t, asked.Artifacts[0].Parts); said.Get("replayed").Exists() {
				t.Errorf("to who asks for the task: %s", said.Raw)
			}
		})
	}
}

// A repeated message gets the task of the first one, whatever its context has become: a run that takes messages, or one
// that cannot be continued.
func TestAMessageThatComesAgainIsForNoOtherTask(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	d := l.endpoint(nil)
	d.work("before").out(strings.Replace(begins, thread, talksThread, 1)).exit(runs.ReasonExited, 0)
	options := sdk.NewDataPart(map[string]any{"live": true, "keep": true})
	m := sdk.NewMessage(sdk.MessageRoleUser, sdk.NewTextPart("go"), options)
	m.ContextID = talksThread
	task := sent(t, d.client(surfaces[0], token), now(m))
	again := func(d *endpoint) {
		t.Helper()
		got := sent(t, d.client(surfaces[0], token), now(m))
		if got.ID != task.ID || got.ContextID != talksThread || !data(t, got.Status.Message.Parts).Get("replayed").Bool() {
			t.Errorf("again: %+v", got)
		}
	}
	d.talk(string(task.ID))
	d.turn(string(task.ID), 1)
	again(d)
	others := slices.DeleteFunc(known.All(), func(a agent.Agent) bool { return a.Kind() == "codex" })
	requests := &idempotency.Requests{Store: l.bus.RequestStore()}
	again(l.endpointOf(responder.Config{Requests: requests, Agents: others}, nil))
}

// A context that is refused does not come back, on no surface: it may be one
// that cannot be written again.
func TestContextThatIsRefusedDoesNotComeBack(t *testing.T) {
	t.Parallel()
	d := newLab(t).endpoint(nil)
	for name, context := range map[string]string{
		"too deep":  `{"a":` + strings.Repeat("[", 9980) + strings.Repeat("]", 9980) + `}`,
		"too large": `{"a":"` + strings.Repeat("x", 100<<10) + `"}`,
		"too wide":  `{"a":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`,
	} {
		for path, body := range map[string]string{
			"/a2a":                 `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":MESSAGE}}`,
			"/a2a/v1/message:send": `{"message":MESSAGE}`,
		} {
			message := `{"messageId":"m","role":"ROLE_USER","parts":[{"text":"go"},{"data":{"context":` + context + `}}]}`
			status, got := d.post(path, strings.Replace(body, "MESSAGE", message, 1), "A2A-Version", "1.0")
			task := got.Get("task")
			if path == "/a2a" {
				task = got.Get("result.task")
			}
			data := task.Get("artifacts.0.parts.0.data")
			if status != 200 || task.Get("status.state").String() != "TASK_STATE_REJECTED" ||
				data.Get("adcp_error.field").String() != "context" {
				t.Errorf("%s at %s: %d %.300s", name, path, status, got.Raw)
			}
			if data.Get("context").Exists() {
				t.Errorf("%s at %s: it comes back", name, path)
			}
		}
	}
}
