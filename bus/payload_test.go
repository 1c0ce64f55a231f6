package bus_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// longest is a task whose message is as large as one can be.
func longest(run string) runs.QueuedTask {
	return runs.QueuedTask{Run: run, Task: runs.Task{Attributes: runs.Attributes{Agent: "codex", Mode: runs.ReadOnly},
		Prompt: "x" + strings.Repeat("\x01", runs.MaxPrompt-1)}}
}

func TestPromptThatDoesNotFitSaysWhichSettingDoes(t *testing.T) {
	b := bustest.ConnectPlain(t, bustest.ServePlain(t, server.Options{}))
	bustest.EnsureSmall(t, b)
	_, _, err := b.Submit(t.Context(), bus.DefaultQueue, longest("T-1"), 1)
	var field *runs.FieldError
	if !errors.As(err, &field) || field.Field != "prompt" ||
		!strings.Contains(field.Problem, "max_payload of the NATS server is 1048576: set it to 8388608 there") {
		t.Errorf("got %v", err)
	}
	if queued, err := b.Queued(t.Context(), bus.DefaultQueue, "T-1"); queued || err != nil {
		t.Errorf("it is queued: %v, %v", queued, err)
	}
}

func TestLongestPromptIsQueuedAndDelivered(t *testing.T) {
	s, _ := serve(t)
	b := bustest.Connect(t, s, embedded.ResponderUser)
	want := longest("T-1")
	if err := want.Check(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.Submit(t.Context(), bus.DefaultQueue, want, 1); err != nil {
		t.Fatal(err)
	}
	got, err := bustest.Take(t, bustest.Connect(t, s, embedded.WorkerUser)).Task()
	if err != nil || got.Prompt != want.Prompt {
		t.Errorf("%d bytes are delivered, %v", len(got.Prompt), err)
	}
}
