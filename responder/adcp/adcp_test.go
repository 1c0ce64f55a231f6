package adcp_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder/adcp"
	"github.com/linesman/linesman/responder/idempotency"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/adcptest"
)

var at = api.TimeOf(time.Date(2026, 11, 21, 12, 0, 0, 5e6, time.FixedZone("", 3600)))

func TestContextComesBackByteForByte(t *testing.T) {
	for _, context := range []string{
		`{}`, `{ "a" : "<&>\u003c" , "b":[1.0, 1e2,  -0] }`, "{\n\t\"é\": \"\\u00e9\"\r\n}", `{"a":1,"a":2}`,
		`{"n":12345678901234567890.000}`,
	} {
		b := adcp.Response{Status: "completed", At: at, Context: json.RawMessage(context),
			Body: json.RawMessage(`{"x":1}`)}.Encode()
		if !bytes.Contains(b, []byte(`,"context":`+context+`,`)) {
			t.Errorf("%s is not in %s", context, b)
		}
		adcptest.Envelope(t, b)
	}
}

func TestBodyStandsBesideTheEnvelope(t *testing.T) {
	b := adcp.Response{
		Status: "working", TaskID: "T-1", At: at, Governance: `a"\<&>`, Message: "<b>",
		Body: json.RawMessage(`{"summary": "<&>", "task_id":"x","status":"x","payload":{},"task_status":"x","response_status":"x","context":1,"list":[ 1 ],"list":2}`),
	}.Encode()
	want := `{"status":"working","adcp_version":"3.1","task_id":"T-1","message":"<b>","timestamp":"2026-11-21T11:00:00.005Z","governance_context":"a\"\\<&>",` +
		`"summary":"<&>","list":[1]}`
	if string(b) != want {
		t.Errorf("\n got %s\nwant %s", b, want)
	}
	adcptest.Envelope(t, b)
}

func TestErrorsHaveTwoLayers(t *testing.T) {
	e := &adcp.Error{
		Code: "VALIDATION_ERROR", Message: "no", Recovery: "correctable", RetryAfter: 3, Field: "f",
		Issues: []adcp.Issue{{Pointer: "/f", Message: "no", Keyword: "type"}}, Details: json.RawMessage(`{"a":1}`),
	}
	fatal := adcp.Response{Status: adcp.Rejected, At: at, Error: e}.Encode()
	warned := adcp.Response{Status: "working", At: at, Warnings: []adcp.Error{*e}}.Encode()
	for _, c := range []struct {
		b        []byte
		envelope bool
		severity string
	}{{fatal, true, "error"}, {warned, false, "warning"}} {
		var v struct {
			Error  *adcp.Error `json:"adcp_error"`
			Errors []adcp.Error
		}
		if err := json.Unmarshal(c.b, &v); err != nil {
			t.Fatal(err)
		}
		if (v.Error != nil) != c.envelope || len(v.Errors) != 1 || v.Errors[0].Severity != c.severity ||
			v.Errors[0].Code != "VALIDATION_ERROR" {
			t.Errorf("%s", c.b)
		}
		if v.Error != nil && v.Error.Severity != "" {
			t.Errorf("a severity where the contract has none: %s", c.b)
		}
		adcptest.Envelope(t, c.b)
	}
}

func TestEveryStateAndEveryErrorHasItsWord(t *testing.T) {
	for state, want := range map[runs.State]adcp.Status{
		runs.StateQueued: "submitted", runs.StateWorking: "working", runs.StateCompleted: "completed",
		runs.StateFailed:  "failed",
		runs.StateTimeout: "failed", runs.StateCancelled: "canceled", "": "unknown", "other": "unknown",
	} {
		if got := adcp.StatusOf(state); got != want {
			t.Errorf("%q is %s, want %s", state, got, want)
		}
		adcptest.Envelope(t, adcp.Response{Status: adcp.StatusOf(state), At: at}.Encode())
	}
	for _, c := range []struct {
		code             api.Code
		retryable, whole bool
		want             adcp.Code
		recovery         adcp.Recovery
	}{
		{api.Validation, false, false, "VALIDATION_ERROR", "correctable"}, {api.Validation, false, true, "INVALID_REQUEST",
			"correctable"},
		{api.NotFound, false, false, "REFERENCE_NOT_FOUND", "correctable"}, {api.Unsupported, false, false,
			"UNSUPPORTED_FEATURE", "correctable"},
		{api.Timeout, true, false, "TASK_TIMEOUT", "transient"}, {api.Timeout, false, false, "TASK_TIMEOUT", "terminal"},
		{api.ProgramFailed, true, false, "TOOL_ERROR", "transient"}, {api.ProgramFailed, false, false, "TOOL_ERROR",
			"terminal"},
		{api.Internal, true, false, "SERVICE_UNAVAILABLE", "transient"},
	} {
		e := adcp.ErrorOf(&api.Error{Code: c.code, Retryable: c.retryable}, c.whole)
		if e.Code != c.want || e.Recovery != c.recovery {
			t.Errorf("%s: %s, %s", c.code, e.Code, e.Recovery)
		}
	}
}

func TestKeysAreChecked(t *testing.T) {
	for key, ok := range map[string]bool{
		strings.Repeat("a", 16): true, strings.Repeat("Z9_.:-", 42) + "abc": true, strings.Repeat("a", 15): false,
		strings.Repeat("a", 256):      false,
		strings.Repeat("a", 16) + " ": false, strings.Repeat("é", 10): false, "": false,
	} {
		if idempotency.KeyForm().MatchString(key) != ok {
			t.Errorf("%d bytes: want %v", len(key), ok)
		}
	}
}
