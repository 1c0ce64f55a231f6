package rest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/linesman/linesman/responder/rest"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
)

// FuzzRequests sends each operation whatever a caller may: the answer is one
// that the document describes, is bounded, and nothing of the request is logged.
func FuzzRequests(f *testing.F) {
	const mark = "S3NT1NEL"
	core, logs := observer.New(zap.DebugLevel)
	s := newStage(f, func(c *config) { c.rest.Log, c.service.Log = zap.New(core), zap.New(core) })
	s.play("done", "shell-ok", 0)
	s.Begin("codex", "working", runs.Start{Source: "run"}).OutIn([]byte("{}\n"), 10)
	s.Await("working", func(v runs.Header) bool { return v.State == runs.StateWorking })
	routes := s.api.Routes()
	at := func(operation string) uint8 {
		for i, r := range routes {
			if r.Pattern == operation {
				return uint8(i)
			}
		}
		f.Fatalf("there is no operation %s", operation)
		return 0
	}
	for _, seed := range []struct{ operation, id, query, accept, header, body string }{
		{"GET /v1/openapi.json", "", "", "application/json;q=0.5, */*;q=0", "", ""},
		{"GET /v1/runs", "", "state=completed&agent=codex&workingDir=%2Fhome&threadId=S3NT1NEL&limit=1", "", "", ""},
		{"GET /v1/runs", "", "cursor=MWsgMTc2MzQ2MTgwMDAwMCBkb25l&limit=100", "application/adcp+json", "", ""},
		{"GET /v1/runs", "", "limit=S3NT1NEL&limit=1", "text/*;q=2;q=1,", "", ""},
		{"GET /v1/runs/{id}", "done", "", "*/*", `W/"x", *`, ""},
		{"GET /v1/runs/{id}", "S3NT1NEL.>", "a=%zz", "application/adcp+json", "", ""},
		{"GET /v1/runs/{id}/events", "done", "after=3&limit=2", "", "", ""},
		{"GET /v1/runs/{id}/events", "done", "after=4611686018427387904", "text/event-stream", "5", ""},
		{"GET /v1/runs/{id}/events", "working", "", "text/event-stream", "S3NT1NEL", ""},
		{"GET /v1/runs/{id}/output", "done", "stream=stderr&offset=7&limit=1", "application/octet-stream", "bytes=0-1", ""},
		{"GET /v1/runs/{id}/output", "done", "offset=1152921504606846976", "", "", ""},
		{"GET /v1/runs/{id}/wait", "working", "timeout=3600", "application/adcp+json", "", ""},
		{"GET /v1/runs/{id}/wait", "done", "timeout=-0", "", "", ""},
		{"POST /v1/runs", "", "", "", "", `{"task":"S3NT1NEL","workingDir":"/S3NT1NEL","timeoutSec":5,"outputSchema":{"type":"object"},"labels":{"S3NT1NEL":"x"}}`},
		{"POST /v1/runs", "", "", "application/adcp+json", "",
			`{"task":"go","context":{"a":"S3NT1NEL"},"idempotencyKey":"0123456789S3NT1NEL"}`},
		{"POST /v1/runs", "", "", "application/adcp+json", "", `{"context":{"a":"S3NT1NEL"},"task":7}`},
		{"POST /v1/runs", "", "", "", "", `{"task":"go"` + strings.Repeat(`,"task":[]`, 20) + `}`},
		{"POST /v1/runs", "", "", "", "", foreign(40)},
		{"POST /v1/runs", "", "", "application/adcp+json", "", foreign(40)},
		{"POST /v1/runs/{id}/cancel", "working", "", "", "", foreign(3)},
		{"POST /v1/runs", "", "", "", "", strings.Repeat("[", 300)},
		{"POST /v1/runs", "", "", "", "", "{\"task\":\"\xffS3NT1NEL\"}"},
		{"POST /v1/runs/{id}/cancel", "none", "", "", "", `{"reason":"S3NT1NEL","idempotencyKey":"0123456789abcdef"}`},
		{"POST /v1/runs/{id}/cancel", "done", "", "application/adcp+json", "", `{"reason":"S3NT1NEL"}`},
		{"POST /v1/runs/{id}/resume", "done", "", "", "", `{"task":"S3NT1NEL","mode":"workspace-write","confirm":true}`},
		{"GET /v1/workers", "", "x", "", "", ""},
	} {
		f.Add(at(seed.operation), seed.id, seed.query, seed.accept, seed.header, []byte(seed.body))
	}
	f.Fuzz(func(t *testing.T, n uint8, id, query, accept, header string, body []byte) {
		if strings.ContainsAny(accept+header, "\r\n\x00") || len(query)+len(accept)+len(header) > 16<<10 {
			t.Skip("no header line")
		}
		route := routes[int(n)%len(routes)]
		patience := fixture.Patience
		if id == "working" { // whose events and end do not come
			patience = 200 * time.Millisecond
		}
		method, path, _ := strings.Cut(route.Pattern, " ")
		r, w := exchange(t, patience, method, body)
		r.URL = &url.URL{Path: path, RawQuery: query}
		r.SetPathValue("id", id)
		r.Header.Set("Accept", accept)
		for _, name := range []string{"Last-Event-ID", "If-None-Match", "Range"} {
			r.Header.Set(name, header)
		}
		sent := time.Now()
		aborted := serveHTTP(route.Handler, w, r)
		if took := time.Since(sent); took > fixture.Patience/2 {
			t.Errorf("%s took %v", route.Pattern, took)
		}
		switch stream := strings.HasPrefix(w.Header().Get("Content-Type"), "text/event-stream"); {
		case aborted && !stream:
			t.Errorf("%s: the answer broke off", route.Pattern)
		case !aborted:
			s.document.check(t, method, path, reply{w.Code, w.Header(), w.Body.Bytes()})
		}
		const most = 64 << 10 // of an answer; no other one here is larger
		if w.Body.Len() > max(most, len(rest.Document)) {
			t.Errorf("%s: %d bytes to answer %d", route.Pattern, w.Body.Len(), len(body)+len(query))
		}
		for _, e := range logs.TakeAll() {
			if text := fmt.Sprint(e.Message, e.ContextMap()); strings.Contains(text, mark) {
				t.Errorf("%s logged %s", route.Pattern, text)
			}
		}
	})
}

// All mistakes of a body are reported, up to a limit.
func TestManyMistakesHaveAShortAnswer(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	for _, accept := range []string{"application/json", "application/adcp+json"} {
		if r := s.want(400, "POST", "/v1/runs", foreign(40_000), "Accept", accept); len(r.body) > 64<<10 {
			t.Errorf("%s: %d bytes", accept, len(r.body))
		}
	}
	s.want(400, "POST", "/v1/runs", strings.Repeat("[", 1<<20))
}

// foreign is a body with unknown fields.
func foreign(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"S3NT1NEL-%d":%d`, i, i)
	}
	return "{" + b.String()[1:] + "}"
}

// exchange is a request to be answered within a time, and a place for its answer.
func exchange(t *testing.T, patience time.Duration, method string, body []byte) (*http.Request,
	*httptest.ResponseRecorder) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	r := httptest.NewRequestWithContext(ctx, method, "/", bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return r, httptest.NewRecorder()
}

// serveHTTP reports whether the handler gave the answer up, as the HTTP server
// would see it.
func serveHTTP(h http.Handler, w http.ResponseWriter, r *http.Request) (aborted bool) {
	defer func() {
		p := recover()
		if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
			aborted = true
		} else if p != nil {
			panic(p)
		}
	}()
	h.ServeHTTP(w, r)
	return false
}
