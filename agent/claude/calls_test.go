package claude_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/backendtest"
)

// folded returns the record of a run with some lines that exits with a code.
func folded(code int, lines ...string) *runs.Record {
	exit := runs.Entry{Kind: runs.Exited, Time: 3_000,
		Body: runs.EncodeExit(runs.Exit{Reason: runs.ReasonExited, Code: &code})}
	_, fold := backendtest.Fold(backend, append(backendtest.Output([]byte(strings.Join(lines, "\n")+"\n")), exit))
	return fold.Record
}

// Every tool of the provider has a result, of the types that the program of 2.1.330 lists.
func TestResultsOfToolsOfTheProvider(t *testing.T) {
	call := assistant(`{"type":"server_tool_use","id":"srv1","name":"x","input":{"a":"SECRET"}}`)
	for _, tool := range []string{"web_search", "web_fetch", "advisor", "code_execution", "bash_code_execution",
		"text_editor_code_execution", "tool_search", "mcp"} {
		kind := tool + "_tool_result"
		if tool == "mcp" {
			kind = "mcp_tool_result"
		}
		for content, status := range map[string]string{
			`{"type":"` + tool + `_result","text":"SECRET"}`:                  `"phase":"complete","status":"completed"`,
			`{"type":"` + kind + `_error","error_code":"SECRET_unavailable"}`: `"phase":"fail","status":"failed"`,
		} {
			result := assistant(`{"type":"` + kind + `","tool_use_id":"srv1","content":` + content + `}`)
			backendtest.Expect(t, "claude_code", feed(t, call, result)[1:],
				backendtest.Tool("ToolResult", `"kind":"`+kind+`","tool_use_id":"srv1","tool_name":"x"`, status))
			r := folded(0, start, call, result, success)
			if len(r.OpenCalls) != 0 || r.ToolCalls != 1 || r.Drift != nil || !r.Rests() {
				t.Errorf("%s: open calls %v of %d, drift %v", kind, r.OpenCalls, r.ToolCalls, r.Drift)
			}
		}
	}
}

// A line can have several calls, and several results.
func TestEachCallOfALineIsCounted(t *testing.T) {
	use := func(id string) string { return `{"type":"tool_use","id":"` + id + `","name":"n\u0061me"}` }
	end := func(id string) string { return `{"type":"tool_result","tool_use_id":"` + id + `","content":"x"}` }
	var many, ends []string
	for i := range 100 {
		many, ends = append(many, use(fmt.Sprint(i))), append(ends, end(fmt.Sprint(i)))
	}
	log := func(line string) string {
		return with(line, `"sessionId":"s","parentUuid":"p","uuid":"u"`)
	}
	for _, c := range []struct {
		why         string
		lines       []string
		calls, open int64
	}{
		{"results in one line", []string{assistant(use("a")), assistant(use("b")), user(end("a"), end("b"))}, 2, 0},
		{"calls in one line", []string{assistant(use("a"), use("b")), user(end("b"))}, 2, 1},
		{"both", []string{assistant(use("a"), use("b")), user(end("a"), end("b"))}, 2, 0},
		{"one without an id", []string{assistant(use("a"), use(""), use("b")), user(end("a"), end(""), end("b"))}, 2, 0},
		{"in a session log", []string{log(assistant(use("a"), use("b"))), log(user(end("a"), end("b")))}, 2, 0},
		{"more than the record lists", []string{assistant(many...), user(ends...)}, 100, 0},
		{"and half of them end", []string{assistant(many...), user(ends[:50]...)}, 100, 50},
	} {
		r := folded(0, append([]string{start}, c.lines...)...)
		if open := int64(len(r.OpenCalls)) + r.MoreCalls; r.ToolCalls != c.calls || open != c.open {
			t.Errorf("%s: %d calls, %d open; want %d, %d", c.why, r.ToolCalls, open, c.calls, c.open)
		}
		if c.open == 1 && (len(r.OpenCalls) != 1 || r.OpenCalls[0].Name != "name") {
			t.Errorf("%s: open are %+v", c.why, r.OpenCalls)
		}
	}
}

// A result without words does not hide the error before it.
func TestAResultWithoutWordsLeavesTheErrorBeforeIt(t *testing.T) {
	refused := with(assistant(`{"type":"text","text":"Overloaded"}`), `"is_api_error_message":true`)
	for _, members := range []string{`"errors":[]`, `"errors":[" "]`, `"result":""`} {
		result := `{"type":"result","subtype":"error_during_execution","is_error":true,` + members + `}`
		for want, lines := range map[string][]string{
			"Overloaded": {start, refused, result}, "result error": {start, result}, "why": {start, refused, with(result, `"result":"why"`)},
		} {
			if strings.Contains(members, "result") && want == "why" {
				continue
			}
			if c := folded(1, lines...).ErrorContext(); c == nil || c.Message != want {
				t.Errorf("%s: %+v, want %q", members, c, want)
			}
			backendtest.Expect(t, "claude_code", feed(t, result), failure("result error"))
		}
	}
}

// A notebook that was edited is a modified file.
func TestEditsOfNotebooks(t *testing.T) {
	use := assistant(`{"type":"tool_use","id":"n","name":"NotebookEdit","input":{"notebook_path":"/w/a.ipynb","new_source":"x"}}`)
	told := `{"new_source":"x","cell_type":"code","edit_mode":"replace","error":"","notebook_path":"/w/a.ipynb"}`
	done := user(`{"type":"tool_result","tool_use_id":"n","content":"Updated cell"}`)
	refused := user(`{"type":"tool_result","tool_use_id":"n","content":"no such cell","is_error":true}`)
	for _, key := range []string{"tool_use_result", "toolUseResult"} {
		if f := folded(0, start, use, with(done, `"`+key+`":`+told)).Files; f == nil || strings.Join(f.Modified, " ") != "/w/a.ipynb" {
			t.Errorf("%s: files %+v", key, f)
		}
		if f := folded(0, start, use, with(refused, `"`+key+`":`+told)).Files; f != nil {
			t.Errorf("%s of a failed edit: files %+v", key, f)
		}
	}
}
