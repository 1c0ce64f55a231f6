package a2a_test

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/linesman/linesman/runs"
)

func message(text string) string {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return `{"type":"item.completed","item":{"id":"item_9","type":"agent_message","text":` + string(quoted) + `}}`
}

// A stream ends with the part of the result that was not sent before.
func TestStreamEndsWithTheWholeResultOnce(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("0123456789abcdé", 13_000) // comes in several events, and is cut in the completion
	for name, said := range map[string][]string{
		"one message": {"Done."}, "an empty one": {""}, "an empty one at last": {"Well.", ""}, "a long one": {long},
		"a long one at last": {"Well.", long},
		"two long ones":      {"1" + long, long}, "a long one and a short one": {long, "Done."},
		"the same twice": {"Done.", "Done."},
	} {
		t.Run(name, func(t *testing.T) {
			d := newLab(t).endpoint(nil)
			var texts strings.Builder
			var worker *log
			ended := 0
			for e, err := range d.client(surfaces[0], token).SendStreamingMessage(t.Context(),
				&sdk.SendMessageRequest{Message: user("go")}) {
				if err != nil {
					t.Fatal(err)
				}
				switch e := e.(type) {
				case *sdk.Task:
					worker = d.work(string(e.ID))
				case *sdk.TaskStatusUpdateEvent:
					if e.Status.State == sdk.TaskStateWorking && worker != nil {
						worker.out(begins, turns)
						for _, text := range said {
							worker.line(message(text))
						}
						worker.out(ends).exit(runs.ReasonExited, 0)
						worker = nil
					}
				case *sdk.TaskArtifactUpdateEvent:
					for _, p := range e.Artifact.Parts {
						texts.WriteString(p.Text())
					}
					if e.LastChunk {
						ended++
						if said := data(t, e.Artifact.Parts); said.Get("metadata.duration").Raw == "" {
							t.Errorf("the last chunk holds %s", said.Raw)
						}
					}
				}
			}
			if want := strings.Join(said, ""); texts.String() != want {
				t.Errorf("the texts have %d bytes, want %d", texts.Len(), len(want))
			}
			if ended != 1 {
				t.Errorf("%d last chunks", ended)
			}
		})
	}
}

// The final text of an agent that prints its messages in parts is not sent again.
func TestStreamEndsWithTheWholeResultOnceWhereItComesInParts(t *testing.T) {
	t.Parallel()
	d := newLab(t).endpoint(nil)
	options := sdk.NewDataPart(map[string]any{"agent": "gemini"})
	message := sdk.NewMessage(sdk.MessageRoleUser, sdk.NewTextPart("go"), options)
	part := func(text string) string {
		return `{"type":"message","role":"assistant","content":"` + text + `","delta":true}`
	}
	var texts []string
	var worker *log
	for e, err := range d.client(surfaces[0], token).SendStreamingMessage(t.Context(),
		&sdk.SendMessageRequest{Message: message}) {
		if err != nil {
			t.Fatal(err)
		}
		switch e := e.(type) {
		case *sdk.Task:
			worker = d.begin("gemini_cli", string(e.ID), runs.Start{Source: "queue", Worker: "w1"})
		case *sdk.TaskStatusUpdateEvent:
			if e.Status.State == sdk.TaskStateWorking && worker != nil {
				worker.out(`{"type":"init"}`, part("I look."), `{"type":"tool_use","tool_name":"t","tool_id":"t1"}`, part("Two "),
					part("files."), `{"type":"result","status":"success"}`).exit(runs.ReasonExited, 0)
				worker = nil
			}
		case *sdk.TaskArtifactUpdateEvent:
			for _, p := range e.Artifact.Parts {
				if p.Text() != "" {
					texts = append(texts, p.Text())
				}
			}
		}
	}
	if want := []string{"I look.", "Two ", "files."}; !slices.Equal(texts, want) {
		t.Errorf("the texts are %q, want %q", texts, want)
	}
}

// The messages of a task's history can be long, and a page may have many tasks:
// an answer has a bound all the same, and keeps the newest ones.
func TestHistoryOfAnAnswerIsBounded(t *testing.T) {
	t.Parallel()
	d := newLab(t).endpoint(nil)
	long := strings.Repeat("x", 60<<10)
	for run := range 3 {
		l := d.work("long-"+strconv.Itoa(run)).out(begins, turns)
		for i := range 100 {
			l.line(message(strconv.Itoa(i) + long))
		}
		l.out(ends).exit(runs.ReasonExited, 0)
	}
	hundred := 100
	c := d.client(surfaces[0], token)
	task, err := c.GetTask(t.Context(), &sdk.GetTaskRequest{ID: "long-0", HistoryLength: &hundred})
	if err != nil {
		t.Fatal(err)
	}
	list, err := c.ListTasks(t.Context(), &sdk.ListTasksRequest{HistoryLength: &hundred})
	if err != nil {
		t.Fatal(err)
	}
	for what, tasks := range map[string][]*sdk.Task{"a task": {task}, "a page": list.Tasks} {
		size, messages := 0, 0
		for _, task := range tasks {
			for _, m := range task.History {
				messages++
				size += len(m.Parts[0].Text())
			}
		}
		if size > 4<<20 || messages < 50 {
			t.Errorf("the history of %s has %d bytes in %d messages", what, size, messages)
		}
	}
	l := d.work("thinks").out(begins, turns)
	l.line(message("I look."))
	for range 1600 {
		l.line(`{"type":"item.completed","item":{"id":"item_1","type":"reasoning","text":"Hm."}}`)
	}
	l.out(ends).exit(runs.ReasonExited, 0)
	thinks, err := c.GetTask(t.Context(), &sdk.GetTaskRequest{ID: "thinks", HistoryLength: &hundred})
	if err != nil || len(thinks.History) != 0 {
		t.Errorf("all texts are read for an old message: %v, %d messages", err, len(thinks.History))
	}
	if last := task.History[len(task.History)-1].Parts[0].Text(); !strings.HasPrefix(last, "99x") {
		t.Errorf("the last message is %.9s", last)
	}
}

// line writes a long line as a worker does: in chunks.
func (l *log) line(text string) {
	l.d.t.Helper()
	for b := []byte(text + "\n"); len(b) > 0; {
		n := min(len(b), runs.MaxChunk)
		l.append(runs.Entry{Kind: runs.Out, Offset: l.raw.Mark().Out, Body: b[:n]})
		b = b[n:]
	}
}
