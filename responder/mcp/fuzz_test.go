package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/linesman/linesman/test/fixture"
)

// seen is the part of the seeds that must not be logged.
const seen = "S3NT1NEL"

var bodies = []string{
	initialize, modernList, callWait,
	`{"jsonrpc":"2.0","id":"S3NT1NEL","method":"tools/call","params":{"name":"echo","arguments":{"format":"json","x":"S3NT1NEL"},"_meta":{"progressToken":"S3NT1NEL"}}}`,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"S3NT1NEL","arguments":[]}}`,
	`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"linesman://S3NT1NEL\u0000"}}`,
	`{"jsonrpc":"2.0","id":1,"method":"S3NT1NEL","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`,
	`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
	`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, `{"jsonrpc":"2.0","id":{},"method":7}`, `{"id":1,"result":{}}`,
	"\xff\x00", "", "null",
}

// FuzzBodiesAreAnswered posts arbitrary bodies, in both revisions: the answer
// is JSON or a stream of it with a valid HTTP status, it is bounded, and
// nothing of the body is logged.
func FuzzBodiesAreAnswered(f *testing.F) {
	for _, body := range bodies {
		f.Add([]byte(body), legacy, "", "")
		f.Add([]byte(body), stateless, "", "tools/call")
	}
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}`), "", "S3NT1NEL", "")
	core, logs := observer.New(zap.DebugLevel)
	c := config(tools{"echo": echo})
	c.Log = zap.New(core)
	e := Handler(NewServer(c))
	defer e.Close()
	f.Fuzz(func(t *testing.T, body []byte, version, session, method string) {
		if strings.ContainsAny(version+session+method, "\r\n\x00") {
			t.Skip("no header")
		}
		ctx, cancel := context.WithTimeout(t.Context(), fixture.Patience)
		defer cancel()
		r := httptest.NewRequestWithContext(ctx, "POST", "/mcp", bytes.NewReader(body))
		for name, value := range map[string]string{
			"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
			versionHeader: version, sessionHeader: session, "Mcp-Method": method, "Mcp-Name": "echo",
		} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		w := httptest.NewRecorder()
		sent := time.Now()
		e.ServeHTTP(w, r)
		if took := time.Since(sent); took > fixture.Patience/2 {
			t.Errorf("it took %v", took)
		}
		got := w.Body.Bytes()
		switch media := w.Header().Get("Content-Type"); {
		case !slices.Contains([]int{200, 202, 400, 404, 503}, w.Code):
			t.Errorf("%d: %q", w.Code, got)
		case strings.HasPrefix(media, "application/json"):
			if !json.Valid(got) {
				t.Errorf("%d: no JSON: %q", w.Code, got)
			}
		case strings.HasPrefix(media, "text/event-stream"):
			for line := range bytes.SplitSeq(got, []byte("\n")) {
				if data, is := bytes.CutPrefix(line, []byte("data: ")); is && len(data) > 0 && !json.Valid(data) {
					t.Errorf("%d: no JSON: %q", w.Code, data)
				}
			}
		}
		if len(got) > 16<<10+20*len(body) { // every byte as an escape within an escape, twice
			t.Errorf("%d bytes to answer %d", len(got), len(body))
		}
		logsNothing(t, logs)
	})
}

// FuzzLinesAreAnswered is the same over stdio: each line gets a JSON answer or
// none, and the server ends with its input.
func FuzzLinesAreAnswered(f *testing.F) {
	for i, body := range bodies {
		f.Add([]byte(initialize + "\n" + body + "\n" + bodies[(i+1)%len(bodies)]))
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		core, logs := observer.New(zap.DebugLevel)
		c := config(tools{"echo": echo})
		c.Log = zap.New(core)
		ctx, cancel := context.WithTimeout(t.Context(), fixture.Patience)
		defer cancel()
		var out bytes.Buffer
		if err := ServeStdio(ctx, NewServer(c), bytes.NewReader(input), &out); err != nil || ctx.Err() != nil {
			t.Errorf("%q: %v, %v", input, err, ctx.Err())
		}
		answers := bytes.SplitAfter(out.Bytes(), []byte("\n"))
		if end := answers[len(answers)-1]; len(end) > 0 {
			t.Errorf("%q ends with half a line: %q", input, end)
		}
		for _, line := range answers[:len(answers)-1] {
			if !json.Valid(line) || line[0] != '{' {
				t.Errorf("%q is answered with %q", input, line)
			}
		}
		if asked := 1 + bytes.Count(input, []byte("\n")); len(answers)-1 > 2*asked { // a call may report progress
			t.Errorf("%d answers to %d lines", len(answers)-1, asked)
		}
		logsNothing(t, logs)
	})
}

func logsNothing(t *testing.T, logs *observer.ObservedLogs) {
	t.Helper()
	for _, e := range logs.TakeAll() {
		if text := fmt.Sprint(e.Message, e.ContextMap()); strings.Contains(text, seen) {
			t.Errorf("logged: %s", text)
		}
	}
}
