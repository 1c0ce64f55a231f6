package rest_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/linesman/linesman/responder/httpserver"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/adcptest"
)

// enveloped is an answer in the envelope of AdCP.
type enveloped struct {
	Status     string
	Version    string          `json:"adcp_version"`
	TaskID     string          `json:"task_id"`
	ContextID  string          `json:"context_id"`
	Message    string          `json:"message"`
	Governance string          `json:"governance_context"`
	Context    json.RawMessage `json:"context"`
	Replayed   bool
	Error      *struct {
		Code       string
		Field      string
		RetryAfter int `json:"retry_after"`
		Issues     []struct{ Pointer, Keyword string }
	} `json:"adcp_error"`
}

// adcp requests an AdCP envelope, and checks the HTTP status and the task status.
func (s *stage) adcp(status int, stands, method, path, body string) enveloped {
	s.T.Helper()
	r := s.want(status, method, path, body, "Accept", "application/adcp+json")
	if media := r.header.Get("Content-Type"); media != "application/adcp+json" {
		s.T.Errorf("%s %s: as %q", method, path, media)
	}
	var e enveloped
	r.read(s.T, &e)
	if e.Status != stands {
		s.T.Errorf("%s %s: %q, want %q: %s", method, path, e.Status, stands, r.body)
	}
	return e
}

func TestALifeInAdCPOverREST(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	const token, context = "opaque-governance", `{"z": "<&>",  "a":[1.0,2]}`
	const request = `{"task":"go","idempotency_key":"0123456789abcdef","governance_context":"` + token + `","context":` +
		context + `}`
	first := s.adcp(http.StatusAccepted, "submitted", "POST", "/v1/runs", request)
	if string(first.Context) != context || first.Governance != token || first.Replayed || first.TaskID == "" {
		t.Errorf("%+v", first)
	}
	again := s.adcp(http.StatusAccepted, "submitted", "POST", "/v1/runs", request)
	if !again.Replayed || again.TaskID != first.TaskID {
		t.Errorf("%+v", again)
	}
	if e := s.adcp(http.StatusConflict, "rejected", "POST", "/v1/runs", strings.Replace(request, "go", "other",
		1)); e.Error.Code != "IDEMPOTENCY_CONFLICT" {
		t.Errorf("%+v", e)
	}
	path := "/v1/runs/" + first.TaskID
	s.Await(first.TaskID, func(v runs.Header) bool { return v.Mark().Seq != 0 })
	for _, at := range []string{path, path + "/wait?timeout=0"} {
		if e := s.adcp(http.StatusOK, "submitted", "GET", at, ""); e.TaskID != first.TaskID || e.Governance != token {
			t.Errorf("%s: %+v", at, e)
		}
	}
	s.adcp(http.StatusOK, "canceled", "POST", path+"/cancel", `{"idempotency_key":"0123456789abcdeg"}`)
	s.Await(first.TaskID, func(v runs.Header) bool { return v.State == runs.StateCancelled })
	s.adcp(http.StatusOK, "canceled", "GET", path, "")
}

// The members of plain JSON are in the AdCP envelope, and nothing else is.
func TestAdCPSaysWhatPlainJSONSays(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.play("done", "shell-ok", 0)
	s.play("bad", "failed", 1)
	s.Begin("codex", "working", runs.Start{Source: "run"}).OutIn([]byte("{}\n"), 10)
	s.Await("working", func(v runs.Header) bool { return v.State == runs.StateWorking })
	for path, stands := range map[string]string{
		"/v1/runs/done": "completed", "/v1/runs/bad": "failed", "/v1/runs/working": "working",
		"/v1/runs/done/wait?timeout=0": "completed",
		"/v1/runs":                     "completed", "/v1/workers": "completed", "/v1/runs/done/events": "completed",
	} {
		var plain, in map[string]any
		s.want(200, "GET", path, "").read(t, &plain)
		e := s.adcp(200, stands, "GET", path, "")
		s.want(200, "GET", path, "", "Accept", "application/adcp+json").read(t, &in)
		for name := range plain {
			if in[name] == nil {
				t.Errorf("%s: %s is missing", path, name)
			}
		}
		if (e.Error != nil) != (stands == "failed") {
			t.Errorf("%s: %+v", path, e.Error)
		}
		if thread, _ := plain["threadId"].(string); thread != e.ContextID {
			t.Errorf("%s: context_id %q, the thread is %q", path, e.ContextID, thread)
		}
	}
}

func TestRefusalsInAdCPOverREST(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.play("done", "shell-ok", 0)
	s.Begin("codex_cloud", "T-cloud-1", runs.Start{Source: "cloud"}).Await("T-cloud-1",
		func(runs.Header) bool { return true })
	const key = `"idempotency_key":"0123456789abcdef"`
	for _, c := range []struct {
		method, path, body string
		status             int
		stands, code       string
	}{
		{"POST", "/v1/runs", `{"task":"x"}`, 400, "rejected", "VALIDATION_ERROR"}, // no key
		{"POST", "/v1/runs", `{` + key + `}`, 400, "rejected", "VALIDATION_ERROR"},
		{"POST", "/v1/runs", `{"task":"x","format":"json",` + key + `}`, 400, "rejected", "VALIDATION_ERROR"},
		{"POST", "/v1/runs", `[1]`, 400, "rejected", "INVALID_REQUEST"},
		{"POST", "/v1/runs", `{"task":"` + strings.Repeat("x", 8<<20) + `"}`, 413, "rejected", "INVALID_REQUEST"},
		{"GET", "/v1/runs?limit=0", ``, 400, "rejected", "VALIDATION_ERROR"},
		{"GET", "/v1/runs/none", ``, 404, "unknown", "REFERENCE_NOT_FOUND"},
		{"POST", "/v1/runs/none/cancel", `{` + key + `}`, 404, "unknown", "REFERENCE_NOT_FOUND"},
		{"POST", "/v1/runs/done/cancel", `{` + key + `}`, 400, "rejected", "VALIDATION_ERROR"},
		{"POST", "/v1/runs/T-cloud-1/cancel", `{` + key + `}`, 501, "rejected", "UNSUPPORTED_FEATURE"},
		{"POST", "/v1/runs/T-cloud-1/resume", `{"task":"x",` + key + `}`, 501, "rejected", "UNSUPPORTED_FEATURE"},
		{"GET", "/v1/runs/done/events?after=99999999", ``, 409, "rejected", "VALIDATION_ERROR"},
	} {
		if e := s.adcp(c.status, c.stands, c.method, c.path, c.body); e.Error == nil || e.Error.Code != c.code {
			t.Errorf("%s %s: %+v, want %s", c.method, c.path, e.Error, c.code)
		}
	}
	e := s.adcp(400, "rejected", "POST", "/v1/runs/done/resume", `{"no":1,"context":{"a": 1},`+key+`}`)
	if string(e.Context) != `{"a": 1}` {
		t.Errorf("the context of a refused request is %s", e.Context)
	}
	if e := s.adcp(404, "unknown", "POST", "/v1/runs/none/resume", `{"context":{"a": 2}}`); string(
		e.Context) != `{"a": 2}` {
		t.Errorf("the context of a request about no run is %s", e.Context)
	}
}

// A reader of AdCP would take the integer status of problem details for the state of a task.
func TestErrorsOfTheServerAreAdCPToo(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	reader, err := httpserver.CreateToken(filepath.Join(s.Dir, "tokens.json"), "reader", httpserver.Read, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	const adcp, plain = "application/adcp+json", "application/problem+json"
	for _, c := range []struct {
		accept, method, path, media, auth string
		status                            int
		stands, code, recovery            string
	}{
		{adcp, "GET", "/v1/runs", adcp, "Bearer wrong", 401, "auth-required", "AUTH_REQUIRED", "correctable"},
		{adcp, "POST", "/v1/runs", adcp, "Bearer " + reader, 403, "rejected", "PERMISSION_DENIED", "correctable"},
		{adcp, "GET", "/v1/none", adcp, "Bearer " + token, 404, "rejected", "INVALID_REQUEST", "correctable"},
		{adcp, "DELETE", "/v1/runs", adcp, "Bearer " + token, 405, "rejected", "INVALID_REQUEST", "correctable"},
		{adcp, "POST", "/v1/runs", adcp, "Bearer " + token, 415, "rejected", "INVALID_REQUEST", "correctable"},
		{adcp, "GET", "/v1/openapi.json", adcp, "Bearer " + token, 406, "rejected", "INVALID_REQUEST", "correctable"},
		{adcp, "GET", "/v1/runs/none/output", adcp, "Bearer " + token, 406, "rejected", "INVALID_REQUEST", "correctable"},
		{adcp + ";q=0.9, */*;q=0.1", "GET", "/v1/none", adcp, "Bearer " + token, 404, "rejected", "INVALID_REQUEST",
			"correctable"},
		{"application/json, " + adcp, "GET", "/v1/none", plain, "Bearer " + token, 404, "", "", ""},
		{"application/json", "GET", "/v1/none", plain, "", 401, "", "", ""},
		{"", "GET", "/v1/none", plain, "Bearer " + token, 404, "", "", ""},
	} {
		r := s.open(t.Context(), c.method, c.path, "{}", "Accept", c.accept, "Authorization", c.auth, "Content-Type",
			"text/plain")
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprintf("%s %s as %q", c.method, c.path, c.accept)
		if media := r.Header.Get("Content-Type"); r.StatusCode != c.status || media != c.media {
			t.Errorf("%s: %d as %q, want %d as %q: %s", name, r.StatusCode, media, c.status, c.media, body)
			continue
		}
		if (r.Header.Get("WWW-Authenticate") != "") != (c.status == 401 || c.status == 403) ||
			(r.Header.Get("Allow") != "") != (c.status == 405) {
			t.Errorf("%s: headers %v", name, r.Header)
		}
		if c.media == plain {
			continue
		}
		adcptest.Envelope(t, body)
		var e struct {
			Status string
			Error  struct{ Code, Recovery string } `json:"adcp_error"`
		}
		if err := json.Unmarshal(body, &e); err != nil || e.Status != c.stands || e.Error.Code != c.code ||
			e.Error.Recovery != c.recovery {
			t.Errorf("%s: %v, %s", name, err, body)
		}
	}
}

// A wait that timed out is not an error; the answer has a warning.
func TestAWaitThatRanOutSaysSoInAdCP(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.Begin("codex", "working", runs.Start{Source: "run"})
	s.Await("working", func(v runs.Header) bool { return v.State == runs.StateWorking })
	for seconds, want := range map[string]string{"0": "", "1": "TASK_TIMEOUT"} {
		r := s.want(http.StatusOK, "GET", "/v1/runs/working/wait?timeout="+seconds, "", "Accept", "application/adcp+json")
		var e struct {
			Status string
			Fatal  json.RawMessage `json:"adcp_error"`
			Errors []struct{ Code, Severity string }
		}
		r.read(t, &e)
		got := ""
		for _, one := range e.Errors {
			if got += one.Code; one.Severity != "warning" {
				t.Errorf("its severity is %s", one.Severity)
			}
		}
		if e.Status != "working" || e.Fatal != nil || got != want {
			t.Errorf("after %s s: %s", seconds, r.body)
		}
	}
}

// A request in AdCP form has the fields of AdCP: in its query, or in its body.
func TestFieldsOfAdCPOverREST(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	const task = `{"task":"go","idempotency_key":"0123456789abcdef","context_id":"campaign 7","ext":{"a":1},` +
		`"adcp_version":"3.0"}`
	run := s.adcp(http.StatusAccepted, "submitted", "POST", "/v1/runs", task)
	if run.ContextID != "campaign 7" || run.Version != "3.0" {
		t.Errorf("%+v", run)
	}
	const query = "adcp_version=3.0&adcp_major_version=3&context=%7B%22x%22%3A1%7D&ext=%7B%7D&context_id=campaign+7"
	for _, path := range []string{"/v1/runs/" + run.TaskID, "/v1/runs", "/v1/runs/" + run.TaskID + "/wait"} {
		more := ""
		if strings.HasSuffix(path, "wait") {
			more = "&timeout=0"
		}
		stands := map[bool]string{true: "submitted", false: "completed"}[path != "/v1/runs"]
		got := s.adcp(http.StatusOK, stands, "GET", path+"?"+query+more, "")
		if got.Version != "3.0" || string(got.Context) != `{"x":1}` || path != "/v1/runs" && got.ContextID != "campaign 7" {
			t.Errorf("%s: %+v", path, got)
		}
	}
	var page struct{ Runs []struct{ Run string } }
	s.want(http.StatusOK, "GET", "/v1/runs?"+query, "", "Accept", "application/adcp+json").read(t, &page)
	if len(page.Runs) != 1 || page.Runs[0].Run != run.TaskID {
		t.Errorf("in its context: %+v", page)
	}
	page.Runs = nil
	s.want(http.StatusOK, "GET", "/v1/runs?context_id=other", "", "Accept", "application/adcp+json").read(t, &page)
	if len(page.Runs) != 0 {
		t.Errorf("in another one: %+v", page)
	}
	s.adcp(http.StatusBadRequest, "rejected", "GET", "/v1/runs/"+run.TaskID+"?context_id=other", "")
	for _, c := range []struct{ method, path, body string }{
		{"GET", "/v1/runs?adcp_major_version=4&unknown=1", ""}, {"GET", "/v1/runs/nothing?adcp_version=2.5", ""},
		{"POST", "/v1/runs", `{"adcp_version":"4.0"}`}, {"POST", "/v1/runs/nothing/cancel", `{"adcp_major_version":2}`},
	} {
		got := s.adcp(http.StatusBadRequest, "rejected", c.method, c.path, c.body)
		if got.Error == nil || got.Error.Code != "VERSION_UNSUPPORTED" || got.Version != "3.1" {
			t.Errorf("%s %s: %+v", c.method, c.path, got)
		}
	}
	if got := s.adcp(http.StatusBadRequest, "rejected", "GET", "/v1/runs?ext=1", ""); got.Error.Field != "ext" {
		t.Errorf("%+v", got.Error)
	}
	if got := s.adcp(http.StatusBadRequest, "rejected", "GET", "/v1/runs?unknown=1&adcp_version=3.0", ""); got.Version !=
		"3.0" {
		t.Errorf("an error: %+v", got)
	}
	s.want(http.StatusBadRequest, "GET", "/v1/runs?adcp_version=3.1", "") // in plain JSON there are no such parameters
}
