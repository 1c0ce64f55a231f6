package opencode_test

import (
	"strings"
	"testing"

	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/backendtest"
)

// tool2 returns the line of a tool call of version 2: the id of the call is that of the part, and
// what the tool tells is one level deeper.
func tool2(tool, state, metadata string) string {
	return `{"type":"tool_use","timestamp":1,"sessionID":"s","part":{"partID":"prt_1","sessionID":"s","messageID":"m",` +
		`"type":"tool","id":"c1","tool":"` + tool + `","state":{` + state + `,"title":"SECRET","metadata":{"metadata":` + metadata +
		`,"content":[{"type":"text","text":"SECRET"}],"providerCall":{"executed":false},"rawInput":"SECRET"},` +
		`"time":{"start":1,"end":2}}}}`
}

// The lines of version 2 say the same as those of 1.x, in other places.
func TestLinesOfVersion2(t *testing.T) {
	ids := `"thread_id":"s","turn_id":"m","backend_item_id":"prt_1","tool_use_id":"c1",`
	for _, c := range []struct {
		why, line, want string
	}{
		{"a command", tool2("shell", `"status":"completed","input":{"command":"SECRET"},"output":"abc"`,
			`{"exit":3,"truncated":false}`),
			done(ids + `"tool_name":"shell","exit_code":3,"bytes":{"stdout":3}`)},
		{"a change", tool2("edit", `"status":"completed","input":{"path":"SECRET","oldString":"SECRET"},"output":"done"`,
			`{"files":[{"file":"a.go","patch":"12345","status":"modified","additions":1,"deletions":0}]}`),
			done(ids + `"tool_name":"edit","bytes":{"diff":5,"result":4}`)},
		{"a failed call", tool2("read", `"status":"error","input":{"path":"SECRET"},"error":"SECRET"`, `{}`),
			broken(ids + `"tool_name":"read"`)},
		{"an error", `{"type":"error","timestamp":1,"sessionID":"s","error":{"type":"provider.rate-limit","message":"oops"}}`,
			failure("oops")},
		{"an error without a message", `{"type":"error","timestamp":1,"sessionID":"s","error":{"type":"aborted"}}`,
			failure("aborted")},
	} {
		messages := feed(t, c.line)
		for _, m := range messages {
			if strings.Contains(string(m.Body), "SECRET") || strings.Contains(string(m.Body), "drift") {
				t.Errorf("%s: %s", c.why, m.Body)
			}
		}
		if n := len(messages); n == 0 {
			t.Errorf("%s: no event", c.why)
			continue
		}
		backendtest.Expect(t, "opencode", messages[:1], c.want)
	}

	line := tool2("patch", `"status":"completed","input":{"patchText":"SECRET"},"output":"done"`,
		`{"files":[{"file":"new.go","patch":"+a","status":"added"},{"file":"old.go","patch":"-a","status":"deleted"},`+
			`{"file":"b.go","patch":"@@","status":"modified"}]}`)
	_, fold := backendtest.Fold(backend, backendtest.Output([]byte(line+"\n")))
	if f := fold.Record.Files; f == nil || strings.Join(f.Added, " ") != "new.go" ||
		strings.Join(f.Deleted, " ") != "old.go" || strings.Join(f.Modified, " ") != "b.go" {
		t.Errorf("files %+v", f)
	}
	failed := `{"type":"error","sessionID":"s","error":{"type":"x","message":"the reason"}}` + "\n"
	_, fold = backendtest.Fold(backend, append(backendtest.Output([]byte(failed)),
		runs.Entry{Kind: runs.Exited, Body: runs.EncodeExit(runs.Exit{Reason: runs.ReasonExited, Code: new(1)})}))
	if c := fold.Record.ErrorContext(); c == nil || c.Message != "the reason" {
		t.Errorf("%+v", c)
	}
}
