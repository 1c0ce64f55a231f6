package a2a_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/a2a"
	"github.com/linesman/linesman/responder/tools"
	"github.com/linesman/linesman/test/fixture"
)

// Whatever comes as a body, in whatever version, is answered with JSON or a
// stream, and nothing breaks.
func FuzzBodiesAreAnswered(f *testing.F) {
	for _, body := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"x","historyLength":1}}`,
		`{"jsonrpc":"2.0","id":"a","method":"ListTasks","params":{"pageSize":2,"pageToken":"eA","statusTimestampAfter":"2026-01-01T00:00:00Z"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m","role":"ROLE_USER","contextId":"x","parts":[{"text":"go"},{"data":{"mode":"x"}}]}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"SendStreamingMessage","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"data":{"skill":"get_task_status","input":{"task_id":"x"}}}]}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"kind":"message","messageId":"m","role":"user","parts":[{"kind":"data","data":{"task":"  "}}]}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tasks/pushNotificationConfig/delete","params":{"id":"x","pushNotificationConfigId":"y"}}`,
		`{"message":{"messageId":"m","role":"ROLE_USER","taskId":"x","parts":[{"text":"go"}]}}`,
		`[]`, `null`, `{"method":7}`, `{"params":{"message":{"parts":{"0":{"data":1}}}}}`, "\xff\x00",
	} {
		f.Add([]byte(body), "1.0", "")
		f.Add([]byte(body), "0.3", a2a.ProfileURI)
		f.Add([]byte(body), "", a2a.ProfileURI)
	}
	d := newLab(f).endpointOf(responder.Config{}, nil) // it remembers no requests, and so begins nothing
	if err := d.service.Ready(f.Context()); err != nil {
		f.Fatal(err)
	}
	h := a2a.New(a2a.Config{Service: d.service, Tools: tools.New(d.service)})
	mux := http.NewServeMux()
	for _, r := range h.Routes() {
		mux.Handle(r.Pattern, r.Handler)
	}
	f.Fuzz(func(t *testing.T, body []byte, version, extension string) {
		if strings.ContainsAny(version+extension, "\r\n\x00") {
			t.Skip("no header")
		}
		for _, path := range []string{"/a2a", "/a2a/v1/message:send", "/a2a/v1/message:stream", "/a2a/v1/tasks/x:subscribe",
			"/a2a/v1/tasks/x/pushNotificationConfigs"} {
			ctx, cancel := context.WithTimeout(t.Context(), fixture.Patience)
			r := httptest.NewRequestWithContext(ctx, "POST", path, bytes.NewReader(body))
			r.Header.Set("A2A-Version", version)
			r.Header.Set("A2A-Extensions", extension)
			w := httptest.NewRecorder()
			begun := time.Now()
			mux.ServeHTTP(w, r)
			cancel()
			if took := time.Since(begun); took > fixture.Patience/2 {
				t.Errorf("%s: took %v", path, took)
			}
			got := w.Body.Bytes()
			if strings.HasPrefix(w.Header().Get("Content-Type"), "text/event-stream") {
				_, got, _ = bytes.Cut(got, []byte("data: "))
				got, _, _ = bytes.Cut(got, []byte("\n"))
			}
			if !json.Valid(got) || w.Code < 200 || w.Code > 599 {
				t.Errorf("%s: %d %q", path, w.Code, w.Body.Bytes())
			}
		}
	})
}
