package adcp

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/responder/webhook"
	"github.com/linesman/linesman/runs"
)

// same returns the same result for every run.
type same struct {
	result json.RawMessage
	failed *Error
}

func (s same) Result(context.Context, *runs.Record) (json.RawMessage, *Error, error) {
	return s.result, s.failed, nil
}

func TestABodyThatWouldBeTooLongGoesWithoutTheResult(t *testing.T) {
	context := json.RawMessage(`{"x":"` + strings.Repeat("é", 32<<10-10) + `"}`)
	r := webhook.Registration{Run: "r", OperationID: "op", Token: strings.Repeat("t", 4096),
		Tool: "_codex_local_exec", Context: context}
	record := &runs.Record{ID: "r", State: runs.StateCompleted, EndedAt: 1_763_461_803_000}
	for _, tt := range []struct {
		bytes int
		there bool
	}{{10, true}, {300 << 10, true}, {webhook.MaxBody, false}, {3 << 20, false}} {
		result, err := json.Marshal(map[string]string{"output": strings.Repeat("x", tt.bytes)})
		if err != nil {
			t.Fatal(err)
		}
		e := notices{same{result, nil}.Result}
		b, err := e.Encode(t.Context(), r, record, "whk_x")
		if err != nil || len(b.Bytes) > webhook.MaxBody || !json.Valid(b.Bytes) ||
			gjson.GetBytes(b.Bytes, "result").Exists() != tt.there {
			t.Errorf("a result of %d bytes: %d bytes, %v", tt.bytes, len(b.Bytes), err)
		}
		if got := gjson.GetBytes(b.Bytes, "context").Raw; got != string(context) {
			t.Errorf("the context has %d bytes, and had %d", len(got), len(context))
		}
		again, err := e.Encode(t.Context(), r, record, "whk_x")
		if err != nil || !bytes.Equal(b.Bytes, again.Bytes) {
			t.Errorf("another time it is another body, %v", err)
		}
	}
}

// The notification of a working run contains nothing that changes.
func TestWhileItWorksTheBodyIsAlwaysTheSame(t *testing.T) {
	e, r := notices{same{}.Result}, webhook.Registration{Run: "r", OperationID: "op", Created: 7}
	early := &runs.Record{ID: "r", State: runs.StateWorking, StartedAt: 1_763_461_801_000}
	late := &runs.Record{
		ID: "r", State: runs.StateWorking, StartedAt: 1_763_461_801_000,
		Attributes: runs.Attributes{Thread: "0199a213-81c0-7800-8aa1-bbab2a035a53"},
		Activity:   "Editing a.go",
		ActiveAt:   1_763_461_900_000, Seq: 99,
	}
	a, err := e.Encode(t.Context(), r, early, "whk_x")
	if err != nil {
		t.Fatal(err)
	}
	b, err := e.Encode(t.Context(), r, late, "whk_x")
	if err != nil || !bytes.Equal(a.Bytes, b.Bytes) {
		t.Errorf("%s\n%s\n%v", a.Bytes, b.Bytes, err)
	}
	if c, err := e.Encode(t.Context(), r, &runs.Record{ID: "r", State: runs.StateWorking}, "whk_x"); err != nil ||
		gjson.GetBytes(c.Bytes, "timestamp").String() != "1970-01-01T00:00:00.007Z" {
		t.Errorf("of a log without a beginning: %s, %v", c.Bytes, err)
	}
}
