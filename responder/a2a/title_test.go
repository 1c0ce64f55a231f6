package a2a_test

import (
	"testing"

	"github.com/linesman/linesman/runs"
)

func TestTasksSayWhatTheyAreFor(t *testing.T) {
	t.Parallel()
	d := newLab(t).endpoint(nil)
	sent := d.send("message-with-a-title", "", `{"title":"Ticket 42","labels":{"ticket":"42"}}`)
	if got := sent.Get("result.task.metadata"); got.Get("title").String() != "Ticket 42" ||
		got.Get("labels.ticket").String() != "42" {
		t.Errorf("sent: %s", sent.Raw)
	}
	d.send("message-without-a-title", "", `{}`)
	_, list := d.post("/a2a", `{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":{}}`, "A2A-Version", "1.0")
	if got := list.Get("result.tasks.#.metadata.title").Raw; got != `["go","Ticket 42"]` {
		t.Errorf("listed: %s in %.900s", got, list.Raw)
	}
	d.work("T-local-working").out(begins, turns)
	d.await("T-local-working", func(v runs.Header) bool { return v.Doing.Phase == "thinking" })
	_, list = d.post("/a2a", `{"jsonrpc":"2.0","id":2,"method":"ListTasks","params":{"status":"TASK_STATE_WORKING"}}`,
		"A2A-Version", "1.0")
	if got := list.Get("result.tasks.0.metadata"); got.Get("agent").String() != "codex" ||
		got.Get("workingDir").String() != "/home/dev/project" || got.Get("doing.phase").String() != "thinking" ||
		got.Get("tokens").Exists() {
		t.Errorf("working: %s in %.900s", got, list.Raw)
	}
	if bad := d.send("message-with-bad-labels", "", `{"labels":{"linesman.a":"b"}}`); bad.Get("result.task.status.state").
		String() != "TASK_STATE_REJECTED" {
		t.Errorf("a reserved label: %s", bad.Raw)
	}
}
