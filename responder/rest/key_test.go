package rest_test

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder/httpserver"
	"github.com/linesman/linesman/responder/request"
	"github.com/linesman/linesman/responder/rest"
	"github.com/linesman/linesman/responder/tools"
	"github.com/linesman/linesman/runs"
)

const keyHeader = "Idempotency-Key"

func TestKeyInTheHeaderMakesOfTwoRequestsOne(t *testing.T) {
	s := newStage(t, nil)
	s.play("done", "shell-ok", 0)
	const key, body = "0123456789abcdef", `{"task":"go"}`
	for i, path := range []string{"/v1/runs", "/v1/runs/done/resume"} {
		key := key + string(rune('a'+i))
		first := s.want(202, "POST", path, body, keyHeader, key).header.Get("Location")
		for _, same := range []reply{
			s.want(202, "POST", path, body, keyHeader, key),
			s.want(202, "POST", path, body, keyHeader, `"`+key+`"`), // as the draft of the header writes it
			s.want(202, "POST", path, `{"task":"go","idempotencyKey":"`+key+`"}`),
			s.want(202, "POST", path, `{"task":"go","idempotency_key":"`+key+`"}`, keyHeader, key),
		} {
			if got := same.header.Get("Location"); got != first {
				t.Errorf("%s: one request is the runs %s and %s", path, first, got)
			}
		}
		var conflict rest.Problem
		s.want(409, "POST", path, `{"task":"other"}`, keyHeader, key).read(t, &conflict)
		if conflict.Code != "CONFLICT" || conflict.Field != keyHeader || !strings.HasPrefix(conflict.Detail, keyHeader+": ") {
			t.Errorf("%s: another body under the key: %+v", path, conflict)
		}
		reader, err := httpserver.CreateToken(filepath.Join(s.Dir, "tokens.json"), "other"+string(rune('a'+i)),
			httpserver.Read|httpserver.Submit, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if got := s.want(202, "POST", path, body, keyHeader, key, "Authorization",
			"Bearer "+reader).header.Get("Location"); got == first {
			t.Errorf("%s: another caller gets the same run for its key", path)
		}
	}
	e := s.adcp(http.StatusAccepted, "submitted", "POST", "/v1/runs", `{"task":"go","idempotency_key":"`+key+`a"}`)
	r := s.want(202, "POST", "/v1/runs", body, keyHeader, key+"a", "Accept", "application/adcp+json")
	var again enveloped
	if r.read(t, &again); !again.Replayed || again.TaskID != e.TaskID {
		t.Errorf("in the envelope of AdCP: %s", r.body)
	}
}

func TestCancelWithAKeyInTheHeaderOutlivesItsRun(t *testing.T) {
	s := newStage(t, nil)
	path := s.want(202, "POST", "/v1/runs", `{"task":"go","workingDir":"/srv"}`).header.Get("Location")
	s.want(200, "POST", path+"/cancel", "", keyHeader, "0123456789abcdef")
	s.Await(path[len("/v1/runs/"):], func(v runs.Header) bool { return v.State.Final() })
	if _, err := s.Service.Cleanup(t.Context(), api.Cleanup{Stuck: time.Hour, Old: 1}); err != nil {
		t.Fatal(err)
	}
	s.want(200, "POST", path+"/cancel", "", keyHeader, "0123456789abcdef")
	s.want(404, "POST", path+"/cancel", "")
}

// A resumption that comes again has its outcome, also if the run that it is of is not there any more. The tool, which
// names the thread, makes the same request, as this one was in earlier versions.
func TestResumptionWithAKeyOutlivesTheRunBefore(t *testing.T) {
	s := newStage(t, nil)
	s.play("done", "shell-ok", 0)
	const resume, body, key = "/v1/runs/done/resume", `{"task":"go"}`, "0123456789abcdef"
	first := s.want(202, "POST", resume, body, keyHeader, key).header.Get("Location")
	v, _ := s.Service.Get("done")
	call := `{"task":"go","threadId":"` + v.Thread + `","idempotency_key":"` + key + `-tool","format":"adcp"}`
	answer, err := tools.New(s.Service).Call(t.Context(), request.ToolResume, []byte(call), nil)
	if err != nil {
		t.Fatal(err)
	}
	by := s.want(202, "POST", resume, body, keyHeader, key+"-tool").header.Get("Location")
	if by == "" || by == first || !strings.Contains(string(answer.Envelope), strings.TrimPrefix(by, "/v1/runs/")) {
		t.Errorf("%s after %s", by, answer.Envelope)
	}
	s.want(409, "POST", resume, `{"task":"other"}`, keyHeader, key+"-tool")
	if _, err := s.Service.Cleanup(t.Context(), api.Cleanup{Stuck: time.Hour, Old: 1}); err != nil {
		t.Fatal(err)
	}
	s.want(404, "GET", "/v1/runs/done", "")
	for range 2 {
		if again := s.want(202, "POST", resume, body, keyHeader, key).header.Get("Location"); again != first {
			t.Errorf("again it is %s, not %s", again, first)
		}
	}
	s.want(404, "POST", resume, body)
	s.want(404, "POST", resume, body, keyHeader, key+"-new")
	s.want(404, "POST", resume, `{"task":"other"}`, keyHeader, key)
	s.want(404, "POST", "/v1/runs/other/resume", body, keyHeader, key)
}

// Requests that arrive together are one run, however many they are.
func TestRequestsWithOneKeyAtOnceAreOneRun(t *testing.T) {
	s := newStage(t, nil)
	var group errgroup.Group
	for range 16 {
		group.Go(func() error {
			r := s.open(t.Context(), "POST", "/v1/runs", `{"task":"go"}`, keyHeader, "0123456789abcdef")
			if r.StatusCode != 202 && r.StatusCode != 409 {
				t.Errorf("status %d", r.StatusCode)
			}
			return r.Body.Close()
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	last := s.want(202, "POST", "/v1/runs", `{"task":"go"}`, keyHeader, "0123456789abcdef").header.Get("Location")
	s.Await(strings.TrimPrefix(last, "/v1/runs/"), func(runs.Header) bool { return true })
	if n := len(s.list("", nil)); n != 1 {
		t.Errorf("%d runs", n)
	}
}

func TestMistakesOfTheKeyInTheHeaderAreNamed(t *testing.T) {
	s := newStage(t, nil)
	for _, key := range []string{"short", strings.Repeat("k", 256), "0123456789 abcdef", `"0123456789abcdef`,
		"0123456789abcdeé"} {
		var p rest.Problem
		s.want(400, "POST", "/v1/runs", `{"task":"go"}`, keyHeader, key).read(t, &p)
		if p.Code != "VALIDATION" || p.Field != keyHeader || !strings.Contains(p.Detail, "16 to 255") {
			t.Errorf("%q: %+v", key, p)
		}
	}
	for _, name := range []string{"idempotencyKey", "idempotency_key"} {
		var p rest.Problem
		s.want(400, "POST", "/v1/runs", `{"task":"go","`+name+`":"0123456789abcdef"}`, keyHeader, "0123456789abcdeX").read(t,
			&p)
		if len(p.Issues) != 2 || p.Issues[0].Field != keyHeader || p.Issues[1].Field != name ||
			!strings.Contains(p.Detail, name) {
			t.Errorf("two keys: %+v", p)
		}
	}
	// A header that is given twice is ambiguous.
	for _, route := range s.api.Routes() {
		if route.Pattern == "POST /v1/runs" {
			r := httptest.NewRequest("POST", "/v1/runs", strings.NewReader(`{"task":"go"}`))
			r.Header = http.Header{keyHeader: {"0123456789abcdef", "0123456789abcdeX"}, "Content-Type": {"application/json"}}
			w := httptest.NewRecorder()
			if route.Handler.ServeHTTP(w, r); w.Code != 400 || !strings.Contains(w.Body.String(), keyHeader) {
				t.Errorf("given twice: %d %s", w.Code, w.Body)
			}
		}
	}
	if n := len(s.list("", nil)); n != 0 {
		t.Errorf("%d runs of refused requests", n)
	}
	s.want(200, "GET", "/v1/runs", "", keyHeader, "short") // a read has no use for it
}
