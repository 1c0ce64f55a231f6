package webhook_test

import (
	"testing"

	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/responder/webhook"
	"github.com/linesman/linesman/runs"
)

// A task whose first run awaited resumption, and that was continued, ends with
// another run: its subscribers are notified then.
func TestTheEndOfATaskThatWasGoneOnWithIsTold(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	n, r := s.node(nil), receive(t, nil)
	const run = "T-local-task"
	begin := func(id string, labels map[string]string) *bus.RawLog {
		raw, err := s.bus.OpenLog(t.Context(), "codex", id, runs.Mark{})
		if err != nil {
			t.Fatal(err)
		}
		s.append(raw, runs.Entry{Kind: runs.Started, Time: 1_763_461_801_000,
			Body: runs.Encode(runs.Start{Source: "run", Worker: "w",
				Attributes: runs.Attributes{Labels: runs.LabelsOf(labels)}})})
		return raw
	}
	first := begin(run, nil)
	if err := n.registry.Put(t.Context(), webhook.Registration{
		Run: run, ID: "x", URL: r.URL + path, OperationID: "op_1", Scheme: webhook.HMAC, Credentials: secret,
	}); err != nil {
		t.Fatal(err)
	}
	s.end(first, runs.ExitNeedsAgent)
	s.until("it waits", func() bool { return len(r.taken()[run+" input-required"]) == 1 })

	link := begin(run+"-2", map[string]string{runs.LabelContinues: run})
	s.end(link, 0)
	s.until("it has ended", func() bool { return len(r.taken()[run+" completed"]) == 1 })

	last := gjson.ParseBytes(r.requests()[len(r.requests())-1].body)
	if last.Get("operation_id").String() != "op_1" || last.Get("status").String() != "completed" ||
		!last.Get("result").Exists() {
		t.Errorf("the end is told as %s", last.Raw)
	}
	for _, of := range r.taken() {
		if len(of) != 1 {
			t.Errorf("told %d times: %s", len(of), of)
		}
	}
	s.quiet()
}
