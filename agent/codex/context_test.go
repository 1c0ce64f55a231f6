package codex_test

import (
	"strings"
	"testing"

	"github.com/linesman/linesman/agent/codex"
	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/backendtest"
)

// Lines set the thread and the turn. The facet of the final search contains both.
func TestContext(t *testing.T) {
	const search = `{"type":"item.completed","item":{"type":"web_search"}}`
	for _, c := range []struct {
		why          string
		lines        []string
		thread, turn string // JSON
	}{
		{"no lines", nil, `null`, `null`},
		{"thread", []string{`{"type":"thread.started","thread_id":" t "}`}, `"t"`, `null`},
		{"turn", []string{`{"type":"turn.started"}`}, `null`, `"synthetic-turn-1"`},
		{"turn that has an id", []string{`{"type":"turn.started","turn_id":" u ","id":"v"}`}, `null`, `"u"`},
		{"turn whose id is called id", []string{`{"type":"turn.started","turn_id":"","id":"v"}`}, `null`, `"v"`},
		{"turns are counted", []string{`{"type":"turn.started"}`, `{"type":"turn.completed"}`,
			`{"type":"turn.started"}`}, `null`, `"synthetic-turn-2"`},
		{"turns without an end are counted", []string{`{"type":"turn.started"}`, `{"type":"turn.started"}`}, `null`,
			`"synthetic-turn-2"`},
		{"turn ended", []string{`{"type":"turn.started"}`, `{"type":"turn.completed"}`}, `null`, `null`},
		{"turn failed", []string{`{"type":"turn.started"}`, `{"type":"turn.failed"}`}, `null`, `null`},
		{"a new thread ends the turn", []string{`{"type":"turn.started"}`,
			`{"type":"thread.started","thread_id":"t"}`}, `"t"`, `null`},
		{"a new thread keeps the count", []string{`{"type":"thread.started","thread_id":"a"}`,
			`{"type":"turn.started"}`, `{"type":"thread.started","thread_id":"b"}`, `{"type":"turn.started"}`}, `"b"`,
			`"synthetic-turn-2"`},
		{"a thread without an id changes nothing", []string{`{"type":"thread.started","thread_id":"t"}`,
			`{"type":"turn.started"}`, `{"type":"thread.started"}`}, `"t"`, `"synthetic-turn-1"`},
		{"a turn names its thread", []string{`{"type":"turn.started","thread_id":"t"}`}, `"t"`, `"synthetic-turn-1"`},
		{"a turn's end names its thread", []string{`{"type":"turn.completed","conversation_id":"t"}`}, `"t"`, `null`},
		{"a turn's failure names its thread", []string{`{"type":"turn.failed","thread_id":"t"}`}, `"t"`, `null`},
		{"the id of a turn is no thread's", []string{`{"type":"turn.started","id":"u"}`}, `null`, `"u"`},
		{"an error changes nothing", []string{`{"type":"thread.started","thread_id":"t"}`, `{"type":"turn.started"}`,
			`{"type":"error","message":""}`, `{oops`, `{"type":"x"}`}, `"t"`, `"synthetic-turn-1"`},
		{"an item that names others changes nothing", []string{`{"type":"item.completed","thread_id":"t",` +
			`"turn_id":"u","item":{"type":"todo_list"}}`}, `null`, `null`},
	} {
		t.Run(c.why, func(t *testing.T) {
			got, _ := feed(append(c.lines, search)...)
			backendtest.Expect(t, "codex", got[len(got)-1:],
				done(`"kind":"web_search","status":"completed","thread_id":`+c.thread+`,"turn_id":`+c.turn))
		})
	}
}

func TestThreadAndTurnOfTheLineTakePrecedence(t *testing.T) {
	context := []string{`{"type":"thread.started","thread_id":"t"}`, `{"type":"turn.started"}`}
	for _, c := range []struct{ line, want string }{
		{`{"type":"item.completed","thread_id":" a ","turn_id":" b ","item":{"type":"web_search"}}`,
			`"thread_id":"a","turn_id":"b"`},
		{`{"type":"item.completed","conversation_id":"a","item":{"type":"web_search"}}`,
			`"thread_id":"a","turn_id":"synthetic-turn-1"`},
		{`{"type":"item.completed","thread_id":7,"turn_id":"","item":{"type":"web_search"}}`,
			`"thread_id":"t","turn_id":"synthetic-turn-1"`},
		{`{"type":"item.completed","thread_id":"","conversation_id":"a","item":{"type":"web_search"}}`,
			`"thread_id":"a","turn_id":"synthetic-turn-1"`},
	} {
		got, _ := feed(append(context, c.line)...)
		backendtest.Expect(t, "codex", got[2:], done(`"kind":"web_search","status":"completed",`+c.want))
	}
}

// The session handle is published once.
func TestSessionHandle(t *testing.T) {
	fits, long := strings.Repeat("é", 512), strings.Repeat("é", 512)+"x"
	for _, c := range []struct {
		why   string
		lines []string
		want  []string
	}{
		{"1024 bytes", []string{`{"type":"thread.started","thread_id":"` + fits + `"}`},
			[]string{statusData("thread started", handle(fits))}},
		{"1025 bytes", []string{`{"type":"thread.started","thread_id":"` + long + `"}`},
			[]string{status("thread started"), status("session handle id oversize: len_bytes=1025")}},
		{"1024 bytes once trimmed", []string{`{"type":"thread.started","thread_id":"  ` + fits + ` "}`},
			[]string{statusData("thread started", handle(fits))}},
		{"a long id is reported once, and is in the facets",
			[]string{`{"type":"thread.started","thread_id":"` + long + `"}`,
				`{"type":"thread.started","thread_id":"` + long + `"}`,
				`{"type":"item.completed","item":{"type":"web_search"}}`},
			[]string{status("thread started"), status("session handle id oversize: len_bytes=1025"),
				status("thread started"), done(`"kind":"web_search","status":"completed","thread_id":"` + long + `"`)}},
		{"a second thread is not published", []string{`{"type":"thread.started","thread_id":"a"}`,
			`{"type":"thread.started","thread_id":"a"}`, `{"type":"thread.started","thread_id":"b"}`},
			[]string{statusData("thread started", handle("a")), status("thread started"), status("thread started")}},
		{"nor is a thread after a long id", []string{`{"type":"thread.started","thread_id":"` + long + `"}`,
			`{"type":"thread.started","thread_id":"b"}`},
			[]string{status("thread started"), status("session handle id oversize: len_bytes=1025"),
				status("thread started")}},
		{"with a turn", []string{`{"type":"turn.started","thread_id":"t"}`},
			[]string{statusData("turn started", handle("t"))}},
		{"after a turn event with data", []string{`{"type":"turn.completed","thread_id":"t",` +
			`"usage":{"input_tokens":1}}`},
			[]string{statusData("turn completed", `{"schema":"backend.codex.usage.v1","usage":{"input_tokens":1}}`),
				`{"kind":"Status","channel":"status","data":` + handle("t") + `}`}},
	} {
		t.Run(c.why, func(t *testing.T) {
			got, _ := feed(c.lines...)
			backendtest.Expect(t, "codex", got, c.want...)
		})
	}
}

// An id is never truncated. A facet with a too long id is dropped.
func TestLongIdsInFacets(t *testing.T) {
	const dropped = `{"kind":"ToolResult","channel":"tool","data":` + bounds.Dropped + `}`
	whole := strings.Repeat("i", 60_000)
	for line, want := range map[string]string{
		`{"type":"item.completed","item":{"id":"` + whole +
			`","type":"web_search"}}`: done(`"kind":"web_search","status":"completed",` +
			`"backend_item_id":"` + whole + `"`),
		`{"type":"item.completed","item":{"id":"` + whole + whole + `","type":"web_search"}}`:        dropped,
		`{"type":"item.completed","thread_id":"` + whole + whole + `","item":{"type":"web_search"}}`: dropped,
		`{"type":"item.completed","turn_id":"` + whole + whole + `","item":{"type":"web_search"}}`:   dropped,
		`{"type":"item.completed","item":{"type":"mcp_tool_call","tool":"` +
			strings.Repeat(`\u0001`, 12_000) + `"}}`: dropped,
	} {
		got, fold := feed(line)
		backendtest.Expect(t, "codex", got, want)
		if want == dropped && fold.Record.Dropped != 1 {
			t.Errorf("the record counts %d dropped", fold.Record.Dropped)
		}
	}
	for _, context := range []string{
		`{"type":"thread.started","thread_id":"` + whole + whole + `"}`,
		`{"type":"thread.started","thread_id":"` + strings.Repeat("i", normalizer.MaxThread) + `"}`,
		`{"type":"turn.started","turn_id":"` + whole + whole + `"}`,
	} {
		got, _ := feed(context, `{"type":"item.completed","item":{"type":"web_search"}}`)
		backendtest.Expect(t, "codex", got[len(got)-1:], dropped)
	}
}

// Both are cut between two code points.
func TestLongTextsAreSplitAndLongMessagesTruncated(t *testing.T) {
	long := strings.Repeat("x", bounds.MaxText-2)
	got, _ := feed(
		`{"type":"item.completed","item":{"type":"agent_message","text":"`+long+`🚀end"}}`,
		`{"type":"item.completed","item":{"type":"reasoning","text":"`+long+`yy"}}`,
		`{"type":"item.completed","item":{"type":"agent_message","text":"`+strings.Repeat(`\u0000`,
			2*bounds.MaxText+1)+`"}}`,
		`{"type":"error","message":"`+strings.Repeat("w", 4080)+`中`+strings.Repeat("w", 100)+`"}`,
		`{"type":"item.completed","item":{"type":"error","message":"`+strings.Repeat(`\u00e9`, 2048)+`"}}`,
	)
	backendtest.Expect(t, "codex", got,
		text("assistant", long), text("assistant", "🚀end"),
		text("reasoning", long+"yy"),
		text("assistant", strings.Repeat("\x00", bounds.MaxText)),
		text("assistant", strings.Repeat("\x00", bounds.MaxText)), text("assistant", "\x00"),
		failure(strings.Repeat("w", 4080)+bounds.Suffix),
		failure(strings.Repeat("é", 2048)),
	)
}

func TestFinalTextIsTheLastCompletedMessage(t *testing.T) {
	exit := runs.Entry{Kind: runs.Exited, Body: []byte(`{"reason":"exited","code":0}`)}
	for _, c := range []struct{ lines, want string }{
		{`{"type":"item.completed","item":{"type":"agent_message","text":"a"}}
{"type":"item.completed","item":{"type":"agent_message","text":"b"}}
{"type":"item.updated","item":{"type":"agent_message","text":"c"}}
{"type":"item.completed","item":{"type":"reasoning","text":"d"}}`, `"b"`},
		{`{"type":"item.completed","item":{"type":"agent_message","text":"a"}}
{"type":"item.completed","item":{"type":"agent_message","text":" "}}`, `"a"`},
		{`{"type":"item.started","item":{"type":"agent_message","text":"a"}}`, `null`},
		{`{"type":"item.completed","item":{"type":"agent_message","text":7}}`, `null`},
		{`{"type":"item.completed","item":{"type":"agent_message","text":"` +
			strings.Repeat("x", bounds.MaxFinalText+1) + `"}}`,
			`"` + strings.Repeat("x", bounds.MaxFinalText-len(bounds.Suffix)) + bounds.Suffix + `"`},
	} {
		got, _ := backendtest.Fold(codex.Backend{}, append(backendtest.Output([]byte(c.lines+"\n")), exit))
		backendtest.Expect(t, "codex", got[len(got)-1:],
			`{"status":{"success":true,"code":0,"signal":null},"final_text":`+c.want+`}`)
	}
}

// The example transcript in the documentation of the Codex JSONL format.
func TestExampleTranscript(t *testing.T) {
	const id = "67e55044-10b1-426f-9247-bb680e5fe0c8"
	out := `{"type":"thread.started","thread_id":"` + id + `"}
{"type":"turn.started"}
{"type":"item.started","item":{"id":"item_0","type":"command_execution","command":"echo hello",` +
		`"aggregated_output":"","status":"in_progress"}}
{"type":"item.completed","item":{"id":"item_0","type":"command_execution","command":"echo hello",` +
		`"aggregated_output":"hello\n","exit_code":0,"status":"completed"}}
{"type":"item.completed","item":{"id":"item_1","type":"agent_message","text":"Done."}}
{"type":"turn.completed","usage":{"input_tokens":123,"cached_input_tokens":0,"output_tokens":45}}
`
	log := append(backendtest.Output([]byte(out)), runs.Entry{Kind: runs.Exited,
		Body: []byte(`{"reason":"exited","code":0}`)})
	got, _ := backendtest.Fold(codex.Backend{}, log)
	context := `"backend_item_id":"item_0","kind":"command_execution","thread_id":"` + id +
		`","turn_id":"synthetic-turn-1",`
	backendtest.Expect(t, "codex", got,
		statusData("thread started", handle(id)),
		status("turn started"),
		started(context+`"status":"running"`),
		done(context+`"status":"completed","exit_code":0,"bytes":{"stdout":6}`),
		text("assistant", "Done."),
		statusData("turn completed", `{"schema":"backend.codex.usage.v1","usage":{"input_tokens":123,`+
			`"cached_input_tokens":0,"output_tokens":45}}`),
		`{"status":{"success":true,"code":0,"signal":null},"final_text":"Done.","data":`+handle(id)+`}`)
}
