package bridge

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestParseRequestReadsTolerantly(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		body string
		want requestFile
	}{
		"as the program writes it": {
			`{"request_id":"32ecfadc-2b66-4daa-a7c0-a03c449fcea5","version":"1.0","phase":6,"phase_name":"agent_generation",` +
				`"agent_name":"writer","prompt":"Do it.",` +
				`"timeout_seconds":300,"created_at":"2025-11-24T14:22:45+00:00","context":{},"model":null}`,
			requestFile{ID: "32ecfadc-2b66-4daa-a7c0-a03c449fcea5", Prompt: "Do it.", Timeout: 300 * time.Second, Phase: "6",
				PhaseName: "agent_generation", Agent: "writer"},
		},
		"the least": {`{"request_id":"x","prompt":"y"}`,
			requestFile{ID: "x", Prompt: "y", Timeout: defaultTimeout}},
		"a byte order mark": {"\xef\xbb\xbf" + `{"request_id":"x","prompt":"y"}`,
			requestFile{ID: "x", Prompt: "y", Timeout: defaultTimeout}},
		"fields of later versions": {`{"request_id":"x","prompt":"y","retry_count":1,"a":[{}]}`,
			requestFile{ID: "x", Prompt: "y", Timeout: defaultTimeout}},
		"invalid types of descriptive fields": {`{"request_id":"x","prompt":"y","version":2,"phase":[],"phase_name":7,` +
			`"agent_name":{},"context":"","created_at":0}`,
			requestFile{ID: "x", Prompt: "y", Timeout: defaultTimeout, PhaseName: "7"}},
		"a model": {`{"request_id":"x","prompt":"y","model":"m"}`,
			requestFile{ID: "x", Prompt: "y", Model: "m", Timeout: defaultTimeout}},
		"a fraction": {`{"request_id":"x","prompt":"y","timeout_seconds":1.5}`,
			requestFile{ID: "x", Prompt: "y", Timeout: 1500 * time.Millisecond}},
		"timeout above the maximum": {`{"request_id":"x","prompt":"y","timeout_seconds":1e999}`,
			requestFile{ID: "x", Prompt: "y", Timeout: 1e6 * time.Second}},
		"names are exact": {`{"request_id":"x","prompt":"y","PROMPT":"z","Model":"m"}`,
			requestFile{ID: "x", Prompt: "y", Timeout: defaultTimeout}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseRequest([]byte(tt.body))
			if g, w := asJSON(t, got), asJSON(t, tt.want); err != nil || g != w {
				t.Errorf("got %s, %v\nwant %s", g, err, w)
			}
		})
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestParseRequestNamesEachProblem(t *testing.T) {
	for body, want := range map[string]string{
		`{"request_id":"x","prompt":" \n"}`:                       "prompt: must be text that is not blank",
		`{"request_id":"x","prompt":{"a":1}}`:                     "prompt: must be text that is not blank",
		`{"request_id":"x","prompt":"y","timeout_seconds":0}`:     "timeout_seconds: must be a number above 0",
		`{"request_id":"x","prompt":"y","timeout_seconds":-1}`:    "timeout_seconds: must be a number above 0",
		`{"request_id":"x","prompt":"y","timeout_seconds":true}`:  "timeout_seconds: must be a number above 0",
		`{"request_id":"x","prompt":"y","timeout_seconds":"120"}`: "timeout_seconds: must be a number above 0",
		`{"request_id":"x","prompt":"y","model":5}`:               "model: must be text or null",
	} {
		r, err := parseRequest([]byte(body))
		if got := strings.Join(r.Problems, "; "); err != nil || got != want || r.ID != "x" {
			t.Errorf("%s: got %q, %v; want %q", body, got, err, want)
		}
	}
	for body, want := range map[string]error{
		"": errNoObject, "[]": errNoObject, "null": errNoObject, `{"a":1} x`: errNoObject,
		`{"request_id":"x"`: errNoObject, "{\"request_id\":\"\xff\"}": errNoObject,
		`{}`: errNoID, `{"request_id":7}`: errNoID, `{"request_id":" "}`: errNoID, `{"request_id":"a\nb"}`: errNoID,
		`{"request_id":"` + strings.Repeat("x", maxID+1) + `"}`: errNoID,
		strings.Repeat(" ", maxRequest+1):                       errTooLarge,
	} {
		if _, err := parseRequest([]byte(body)); !errors.Is(err, want) {
			t.Errorf("%.50q: got %v, want %v", body, err, want)
		}
	}
}

func FuzzParseRequest(f *testing.F) {
	f.Add([]byte(`{"request_id":"x","prompt":"y","timeout_seconds":1e400,"model":null,"phase":1}`))
	f.Add([]byte(`{"request_id":"\ud800","prompt":"\u0000"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := parseRequest(b)
		if err != nil {
			return
		}
		if r.ID == "" || len(r.ID) > maxID || r.Timeout <= 0 || len(r.Problems) == 0 && r.Prompt == "" ||
			!utf8.ValidString(r.Prompt) || len(r.Agent) > maxDescription {
			t.Errorf("%q became %+v", b, r)
		}
	})
}

func TestResponseNameKeepsThePhase(t *testing.T) {
	for request, want := range map[string]string{
		".agent-request.json":                                 ".agent-response.json",
		".agent-request-phase1.json":                          ".agent-response-phase1.json",
		".agent-request-a.b_C.json":                           ".agent-response-a.b_C.json",
		".agent-request.json.taken":                           "",
		".agent-request.json.bad-1":                           "",
		".agent-response.json":                                "",
		"agent-request.json":                                  "",
		".agent-request-\n.json":                              "",
		".agent-request/../x.json":                            "",
		".agent-requestjson":                                  "",
		".agent-request-" + strings.Repeat("x", 64) + ".json": "",
	} {
		if got, ok := responseName(request); got != want || ok != (want != "") {
			t.Errorf("%q: got %q, %v; want %q", request, got, ok, want)
		}
	}
}

// For any output of an agent, the response follows the contract and contains
// the output.
func TestEveryResponseFollowsTheContract(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		o := outcome{
			Status: rapid.SampledFrom([]string{statusSuccess, statusError, statusTimeout}).Draw(t, "status"),
			Text:   rapid.String().Draw(t, "text"), Message: rapid.String().Draw(t, "message"),
			Took: time.Duration(rapid.Int64().Draw(t, "took")),
			Meta: rapid.MapOfN(rapid.String(), rapid.String(), 0, 3).Draw(t, "meta"),
		}
		b, err := newResponse("id", o, time.UnixMilli(rapid.Int64Range(0, 4e12).Draw(t, "at"))).encode()
		if err != nil {
			t.Fatal(err)
		}
		if mistakes := Check(b); mistakes != nil {
			t.Fatalf("%q\n%s", mistakes, b)
		}
		var r responseFile
		if err := json.Unmarshal(b, &struct {
			*responseFile
			Duration any `json:"duration_seconds"`
		}{responseFile: &r}); err != nil {
			t.Fatal(err)
		}
		if o.Status == statusSuccess && *r.Response != o.Text || o.Status != statusSuccess && *r.ErrorMessage != o.Message {
			t.Fatalf("%+v became %s", o, b)
		}
	})
}

func TestCheckNamesEachMistake(t *testing.T) {
	const good = `{"request_id":"x","version":"1.0","status":"success","response":"{}","error_message":null,` +
		`"error_type":null,"created_at":"2025-11-24T14:22:45.123456+00:00","duration_seconds":1.0,"metadata":{}}`
	swap := func(from, to string) string {
		if !strings.Contains(good, from) {
			t.Fatalf("no %s", from)
		}
		return strings.Replace(good, from, to, 1)
	}
	for body, want := range map[string]string{
		good:                         "",
		swap(`.123456+00:00"`, `Z"`): "",
		swap(`"response"`, `"result"`): `response: is missing; it must be called "response", not "result"|` +
			`"result": is not a field of a response|response: must not be null or missing where the status is success`,
		swap(`"{}"`, `{"sections":[]}`): "response: must be string or null, is object: " +
			"encode what the agent said as a JSON string",
		`{"status":"success","response":"x"}`: "request_id: is missing|version: is missing|" +
			"error_message: is missing|error_type: is missing|created_at: is missing|duration_seconds: is missing|" +
			"metadata: is missing",
		swap(`1.0,`, `"1.0",`):                 "duration_seconds: must be number, is string",
		swap(`1.0,`, `-1,`):                    "duration_seconds: must not be negative",
		swap(`+00:00`, ``):                     "created_at: must be an ISO 8601 time with its zone",
		swap(`"metadata":{}`, `"metadata":[]`): "metadata: must be object, is array",
		swap(`"success"`, `"done"`):            "status: must be success, error or timeout",
		swap(`"success"`, `"error"`): "error_message: must say what went wrong " +
			"where the status is error",
		swap(`"error_type":null`, `"error_type":"t"`):        "error_type: must be null where the status is success",
		swap(`"version":"1.0"`, `"version":"2"`):             `version: must be "1.0"`,
		swap(`"request_id":"x"`, `"request_id":""`):          "request_id: must not be blank",
		swap(`"metadata":{}`, `"metadata":{},"metadata":{}`): `"metadata": is there more than once`,
		swap(`"metadata":{}`, `"metadata":{},"extra":1`):     `"extra": is not a field of a response`,
		"[]":   "the file is not a JSON object",
		"\xff": "the file is not UTF-8",
	} {
		if got := strings.Join(Check([]byte(body)), "|"); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", body, got, want)
		}
	}
}
