package gemini_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/linesman/linesman/agent/gemini"
	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/test/fixture/backendtest"
)

var backend = gemini.Backend{}

const (
	unknown = backendtest.Unknown
	start   = `{"type":"init","session_id":"s","model":"SECRET"}`
	whole   = `{"type":"message","role":"assistant","content":"whole"}`
	prompt  = `{"type":"message","role":"user","content":"SECRET"}`
	shell   = `{"type":"tool_use","tool_name":"shell","tool_id":"t1","parameters":{"command":"SECRET"}}`
	output  = `{"type":"tool_result","tool_id":"t1","status":"success","output":"abc"}`
	success = `{"type":"result","status":"success"}`
	failed  = `{"type":"result","status":"error","error":{"type":"SECRET","message":"oops"}}`
)

func delta(text string) string {
	return `{"type":"message","role":"assistant","content":"` + text + `","delta":true}`
}

// with returns a line with more members, at its end.
func with(line, members string) string { return line[:len(line)-1] + "," + members + "}" }

func status(message string) string            { return backendtest.Status(message, "") }
func statusData(message, data string) string  { return backendtest.Status(message, data) }
func failure(message string) string           { return backendtest.Failure(message, "") }
func failureData(message, data string) string { return backendtest.Failure(message, data) }
func text(text string) string                 { return backendtest.Text("assistant", text) }
func invalid(line string) string              { return backendtest.Fault(backend, "parse", "invalid payload", line) }

func feed(t *testing.T, lines ...string) []normalizer.Message {
	t.Helper()
	return backendtest.Feed(t, backend, lines...)
}

func call(members ...string) string {
	return backendtest.Tool("ToolCall", append(members, `"kind":"tool_use","phase":"start","status":"running"`)...)
}

func result(phase, status string, members ...string) string {
	return backendtest.Tool("ToolResult", append(members, `"kind":"tool_result"`, `"phase":"`+phase+`"`,
		`"status":"`+status+`"`)...)
}

func done(members ...string) string { return result("complete", "completed", members...) }

func usage(counters string) string {
	return `{"schema":"backend.gemini_cli.usage.v1","usage":{` + counters + `}}`
}

func TestFaults(t *testing.T) { backendtest.Faults(t, backend, whole, text("whole")) }

func TestLines(t *testing.T) {
	type lines = []string
	type events = []string
	faulty := func(why, line string) backendtest.Case {
		return backendtest.Case{why, lines{line}, events{invalid(line)}}
	}
	backendtest.Map(t, backend, []backendtest.Case{
		{"init", lines{`{"type":"init","model":"SECRET","timestamp":"SECRET"}`}, events{status("init")}},

		// Messages.
		{"a message", lines{whole, delta("a"), delta("b")}, events{text("whole"), text("a"), text("b")}},
		{"an empty message", lines{delta("")}, events{text("")}},
		{"a text is copied as it is", lines{delta(` \u0000\ud83d\ude80\n\"\\ `), delta(`a\ud83db`)},
			events{text(" \x00🚀\n\"\\ "), text("a\ufffdb")}},
		{"delta of another type", lines{with(whole, `"delta":"SECRET"`), with(whole, `"delta":{"text":"SECRET"}`)},
			events{text("whole"), text("whole")}},
		faulty("a message without content", `{"type":"message","role":"assistant"}`),
		faulty("content that is null", `{"type":"message","role":"assistant","content":null}`),
		faulty("content that is no string", `{"type":"message","role":"assistant","content":["SECRET"],"delta":true}`),
		faulty("the first content is no string", `{"type":"message","role":"assistant","content":7,"content":"SECRET"}`),
		faulty("content elsewhere", `{"type":"message","role":"assistant","text":"SECRET","message":"SECRET"}`),
		{"the first role and content count", lines{
			`{"type":"message","role":"assistant","role":"user","content":"a","content":"SECRET"}`,
			`{"type":"message","role":"user","role":"assistant","content":"SECRET"}`,
			`{"type":"message","role":7,"role":"assistant","content":"SECRET"}`},
			events{text("a"), status("user message"), unknown}},
		{"keys in another order, and escaped", lines{`{"delta":true,"content":"a","role":"assistant","type":"message"}`,
			`{"\u0074ype":"m\u0065ssage","r\u006fle":"\u0061ssistant","conten\u0074":"b"}`},
			events{text("a"), text("b")}},
		{"a prompt is never copied", lines{prompt, `{"type":"message","role":"user"}`,
			`{"type":"message","role":"user","content":["SECRET"]}`},
			events{status("user message"), status("user message"), status("user message")}},
		{"other roles", lines{`{"type":"message","role":"SECRET","content":"SECRET"}`,
			`{"type":"message","role":"Assistant","content":"SECRET"}`, `{"type":"message","content":"SECRET"}`,
			`{"type":"message","role":null,"content":"SECRET"}`, `{"type":"message","role":"","content":"SECRET"}`,
			`{"type":"message","role":["user"]}`, `{"type":"message","role":"model"}`},
			events{unknown, unknown, unknown, unknown, unknown, unknown, unknown}},

		// Errors.
		{"an error", lines{`{"type":"error","severity":"SECRET","message":"Loop detected"}`},
			events{failure("Loop detected")}},
		{"its message is copied as it is", lines{`{"type":"error","message":" a\n"}`}, events{failure(" a\n")}},
		{"a long one is truncated", lines{`{"type":"error","message":"` + strings.Repeat("é", 2048) + `"}`,
			`{"type":"error","message":"` + strings.Repeat("é", 2049) + `"}`},
			events{failure(strings.Repeat("é", 2048)), failure(strings.Repeat("é", 2041) + bounds.Suffix)}},
		faulty("an error without a message", `{"type":"error","severity":"SECRET"}`),
		faulty("an error with an empty message", `{"type":"error","message":""}`),
		faulty("an error with a blank message", `{"type":"error","message":" \t\n"}`),
		faulty("an error whose message is no string", `{"type":"error","message":{"text":"SECRET"}}`),
		faulty("an error whose first message is null", `{"type":"error","message":null,"message":"SECRET"}`),
		faulty("an error whose message is elsewhere", `{"type":"error","error":{"message":"SECRET"}}`),

		// Results.
		{"a result", lines{success}, events{status("result success")}},
		{"a result with usage", lines{with(success, `"stats":{"models":{"SECRET":{"input_tokens":9}},"tool_calls":5,`+
			`"cached":4,"input":9,"duration_ms":9,"output_tokens":3,"input_tokens":2,"total_tokens":1}`)},
			events{statusData("result success", usage(`"total_tokens":1,"input_tokens":2,"output_tokens":3,"cached":4,`+
				`"tool_calls":5`))}},
		{"the error of a success", lines{with(success, `"error":{"message":"SECRET"}`)},
			events{status("result success")}},
		{"a failed result", lines{failed}, events{failure("oops")}},
		{"a failed result with usage", lines{with(failed, `"stats":{"total_tokens":1}`)},
			events{failureData("oops", usage(`"total_tokens":1`))}},
		{"its message is copied too", lines{`{"type":"result","status":"error","error":{"message":" a\n"}}`},
			events{failure(" a\n")}},
		{"any other status is a failure", lines{`{"type":"result"}`, `{"type":"result","status":"SECRET"}`,
			`{"type":"result","status":"Success"}`, `{"type":"result","status":["success"]}`,
			`{"type":"result","status":7,"status":"success"}`, `{"type":"result","status":"","error":{"message":"e"}}`},
			events{failure("result error"), failure("result error"), failure("result error"), failure("result error"),
				failure("result error"), failure("e")}},
		{"a failure without a message", lines{`{"type":"result","status":"error","error":{"type":"SECRET"}}`,
			`{"type":"result","status":"error","error":{"message":" "}}`,
			`{"type":"result","status":"error","error":{"message":["SECRET"]}}`,
			`{"type":"result","status":"error","error":{"message":7,"message":"SECRET"}}`,
			`{"type":"result","status":"error","error":"SECRET"}`, `{"type":"result","status":"error","error":null}`,
			`{"type":"result","status":"error","error":7,"error":{"message":"SECRET"}}`,
			`{"type":"result","status":"error","message":"SECRET"}`},
			events{failure("result error"), failure("result error"), failure("result error"), failure("result error"),
				failure("result error"), failure("result error"), failure("result error"), failure("result error")}},
		{"usage that is no object", lines{with(success, `"stats":[1]`), with(success, `"stats":"SECRET"`),
			with(success, `"stats":null`), with(success, `"stats":7,"stats":{"cached":1}`), with(success, `"stats":{}`)},
			events{status("result success"), status("result success"), status("result success"),
				status("result success"), status("result success")}},
		{"usage has no cost", lines{with(success, `"stats":{"cached":1,"cost":2,"total_cost_usd":3},"cost":4`)},
			events{statusData("result success", usage(`"cached":1`))}},
		{"usage elsewhere", lines{with(success, `"usage":{"input_tokens":1},"total_tokens":1`),
			with(start, `"stats":{"cached":1}`)},
			events{status("result success"), statusData("init", backendtest.Handle("s"))}},
		{"the first counter counts", lines{with(success, `"stats":{"cached":1,"cached":2,"input_tokens":1.5,`+
			`"input_tokens":2}`)}, events{statusData("result success", usage(`"cached":1`))}},

		// Other types.
		{"other types", lines{`{"type":"SECRET"}`, `{"type":"system","subtype":"init"}`, `{"type":"assistant"}`,
			`{"type":"Init","session_id":"SECRET"}`, `{"type":"thought","content":"SECRET"}`},
			events{unknown, unknown, unknown, unknown, unknown}},
	})
}

func TestUsage(t *testing.T) {
	for _, counter := range []string{"total_tokens", "input_tokens", "output_tokens", "cached", "tool_calls"} {
		backendtest.Counters(t, backend, func(n string) string {
			return with(success, `"stats":{"`+counter+`":`+n+`}`)
		}, func(n string) string {
			if n == "" {
				return status("result success")
			}
			return statusData("result success", usage(`"`+counter+`":`+n))
		})
	}
}

// Only init names the session.
func TestSessions(t *testing.T) {
	backendtest.Sessions(t, backend, func(id string) string { return `{"type":"init","session_id":` + id + `}` }, "init")
	type lines = []string
	type events = []string
	session := `"session_id":"SECRET"`
	first := statusData("init", backendtest.Handle("s"))
	backendtest.Map(t, backend, []backendtest.Case{
		{"other lines name none", lines{with(prompt, session), with(whole, session), with(shell, session),
			with(output, session), with(success, session), with(failed, session),
			`{"type":"error","message":"e","session_id":"SECRET"}`, `{"type":"x","session_id":"SECRET"}`, start},
			events{status("user message"), text("whole"), call(`"tool_name":"shell","tool_use_id":"t1"`),
				done(`"tool_name":"shell","tool_use_id":"t1","bytes":{"result":3}`), status("result success"),
				failure("oops"), failure("e"), unknown, first}},
		{"a result before init", lines{success, start}, events{status("result success"), first}},
		{"the first of two keys", lines{`{"type":"init","session_id":7,"session_id":"SECRET"}`,
			`{"type":"init","session_id":"s","session_id":"SECRET"}`}, events{status("init"), first}},
		{"the name is exact", lines{`{"type":"init","sessionId":"SECRET","sessionID":"SECRET","id":"SECRET"}`},
			events{status("init")}},
	})
}

func TestCallsAndResults(t *testing.T) {
	type lines = []string
	type events = []string
	id := `"tool_use_id":"t1"`
	size := func(n int) string { return fmt.Sprintf(`"bytes":{"result":%d}`, n) }
	called := call(id, `"tool_name":"shell"`)
	end := func(members string) string { return `{"type":"tool_result","tool_id":"t1"` + members + `}` }
	backendtest.Map(t, backend, []backendtest.Case{
		// Ids and names.
		{"all ids", lines{start, shell, output}, events{statusData("init", backendtest.Handle("s")),
			call(id, `"tool_name":"shell","thread_id":"s"`), done(id, `"tool_name":"shell","thread_id":"s"`, size(3))}},
		{"a later init changes the thread", lines{start, `{"type":"init","session_id":" r "}`, shell, `{"type":"init"}`,
			shell}, events{statusData("init", backendtest.Handle("s")), status("init"),
			call(id, `"tool_name":"shell","thread_id":"r"`), status("init"),
			call(id, `"tool_name":"shell","thread_id":"r"`)}},
		{"no turn and no item", lines{with(shell, `"turn_id":"SECRET","id":"SECRET","uuid":"SECRET"`)}, events{called}},
		{"ids are trimmed", lines{`{"type":"tool_use","tool_name":" shell ","tool_id":"\u00a0t1\n"}`,
			`{"type":"tool_result","tool_id":" t1 ","status":"success"}`}, events{called, done(id, `"tool_name":"shell"`)}},
		{"blank ids", lines{`{"type":"tool_use","tool_name":"\t","tool_id":" "}`,
			`{"type":"tool_result","tool_id":"","status":"success"}`}, events{call(), done()}},
		{"ids that are no strings", lines{`{"type":"tool_use","tool_name":["SECRET"],"tool_id":7}`,
			`{"type":"tool_result","tool_id":{"a":"SECRET"},"status":"success"}`}, events{call(), done()}},
		{"no ids", lines{`{"type":"tool_use"}`, `{"type":"tool_result","status":"success"}`}, events{call(), done()}},
		{"the first of two keys", lines{
			`{"type":"tool_use","tool_name":"shell","tool_name":"x","tool_id":"t1","tool_id":"x"}`,
			`{"type":"tool_result","tool_id":7,"tool_id":"t1","status":"success","status":"error"}`,
			`{"type":"tool_result","tool_id":"t1","tool_id":"x","status":7,"status":"success"}`},
			events{called, done(), result("complete", "unknown", id, `"tool_name":"shell"`)}},

		// Names of results.
		{"a result's own name does not count", lines{with(output, `"tool_name":"SECRET"`)}, events{done(id, size(3))}},
		{"the first result takes the name", lines{shell, output, output},
			events{called, done(id, `"tool_name":"shell"`, size(3)), done(id, size(3))}},
		{"a failed result takes it, too", lines{shell, end(`,"status":"error"`), output},
			events{called, result("fail", "failed", id, `"tool_name":"shell"`), done(id, size(3))}},
		{"a result without a call, and a call behind it", lines{output, shell, output},
			events{done(id, size(3)), called, done(id, `"tool_name":"shell"`, size(3))}},
		{"the newest call with an id counts", lines{shell, `{"type":"tool_use","tool_name":"read","tool_id":"t1"}`,
			output, output}, events{called, call(id, `"tool_name":"read"`), done(id, `"tool_name":"read"`, size(3)),
			done(id, size(3))}},
		{"init, result and messages forget no names", lines{shell, `{"type":"init"}`, success, whole, output},
			events{called, status("init"), status("result success"), text("whole"),
				done(id, `"tool_name":"shell"`, size(3))}},

		// Outcomes.
		{"a failed result", lines{end(`,"status":"error","error":{"type":"SECRET","message":"SECRET"}`)},
			events{result("fail", "failed", id)}},
		{"another status", lines{end(``), end(`,"status":"SECRET"`), end(`,"status":"Success"`), end(`,"status":null`),
			end(`,"status":""`), end(`,"status":["error"]`), end(`,"error":{"message":"SECRET"}`)},
			events{result("complete", "unknown", id), result("complete", "unknown", id),
				result("complete", "unknown", id), result("complete", "unknown", id), result("complete", "unknown", id),
				result("complete", "unknown", id), result("complete", "unknown", id)}},
		{"no exit code", lines{end(`,"status":"success","exit_code":3,"exit":3`)}, events{done(id)}},

		// Sizes.
		{"output is counted decoded", lines{end(`,"status":"success","output":"h\u00e9\ud83d\ude80\n\u0000"`),
			end(`,"status":"success","output":""`), end(`,"output":"ab"`), end(`,"status":"error","output":"abc"`)},
			events{done(id, size(9)), done(id), result("complete", "unknown", id, size(2)),
				result("fail", "failed", id, size(3))}},
		{"anything else counts 0", lines{end(`,"status":"success","output":["SECRET"]`),
			end(`,"status":"success","output":{"a":"SECRET"}`), end(`,"status":"success","output":null`),
			end(`,"status":"success","output":7,"output":"abc"`), end(`,"status":"success","stdout":"a","content":"b"`)},
			events{done(id), done(id), done(id), done(id), done(id)}},
		{"a call has no sizes", lines{with(shell, `"output":"abc"`)}, events{called}},
	})
}

// The names of the 64 newest calls are remembered.
func TestRememberedNames(t *testing.T) {
	use := func(id, name string) string {
		return `{"type":"tool_use","tool_id":"` + id + `","tool_name":"` + name + `"}`
	}
	end := func(id string) string { return `{"type":"tool_result","tool_id":"` + id + `"}` }
	many := func(n int) (calls []string) {
		for i := range n {
			calls = append(calls, use("c"+strconv.Itoa(i), "n"+strconv.Itoa(i)))
		}
		return calls
	}
	fits, long := strings.Repeat("é", 128), strings.Repeat("é", 128)+"x"
	for _, c := range []struct {
		why   string
		lines []string
		want  string
	}{
		{"the oldest of 64", append(many(64), end("c0")), `"n0"`},
		{"the oldest of 65", append(many(65), end("c0")), `null`},
		{"the second of 65", append(many(65), end("c1")), `"n1"`},
		{"the newest of 65", append(many(65), end("c64")), `"n64"`},
		{"a place is free again", append(many(64), end("c9"), use("x", "y"), end("c0")), `"n0"`},
		{"a call again is the newest", append(many(64), use("c0", "z"), use("x", "y"), end("c0")), `"z"`},
		{"and the next one is the oldest", append(many(64), use("c0", "z"), use("x", "y"), end("c1")), `null`},
		{"a call again needs no second place", append(many(64), use("c9", "z"), end("c0")), `"n0"`},
		{"256 bytes", []string{use(fits, fits), end(fits)}, `"` + fits + `"`},
		{"256 bytes, trimmed", []string{use("  "+fits, " "+fits), end(fits + " ")}, `"` + fits + `"`},
		{"an id of 257 bytes", []string{use(long, "n"), end(long)}, `null`},
		{"a name of 257 bytes", []string{use("c", long), end("c")}, `null`},
		{"bytes are decoded", []string{use(strings.Repeat(`\u0001`, 256), "n"), end(strings.Repeat(`\u0001`, 256))},
			`"n"`},
		{"an id that is escaped in another way", []string{use("c", "n"), end(`\u0063`)}, `"n"`},
	} {
		got := feed(t, c.lines...)
		_, rest, _ := strings.Cut(string(got[len(got)-1].Body), `"tool_name":`)
		if name, _, _ := strings.Cut(rest, ","); name != c.want {
			t.Errorf("%s: the name is %s, want %s", c.why, name, c.want)
		}
	}
}

func TestFinalText(t *testing.T) {
	type lines = []string
	long := strings.Repeat("x", bounds.MaxFinalText/2)
	bad := `{"type":"message","role":"assistant","content":7}`
	backendtest.Finals(t, backend, []backendtest.Final{
		// Confirmed or not.
		{"no lines", lines{""}, `null`},
		{"no message", lines{success}, `null`},
		{"no result", lines{whole}, `null`},
		{"confirmed", lines{start, prompt, whole, success}, `"whole"`},
		{"confirmed twice", lines{whole, success, success}, `"whole"`},
		{"a call behind the text", lines{whole, shell, output, success}, `"whole"`},
		{"a message behind the result", lines{whole, success, delta("a")}, `null`},
		{"a message behind it, confirmed", lines{whole, success, delta("a"), delta("b"), success}, `"ab"`},
		{"a failed result", lines{whole, failed}, `null`},
		{"a result without a status", lines{whole, `{"type":"result"}`}, `null`},
		{"a failed result behind a success", lines{whole, success, failed}, `null`},
		{"a success behind a failed result", lines{whole, failed, success}, `null`},
		{"a message behind a failed result", lines{whole, failed, delta("a"), success}, `"a"`},
		{"init forgets it", lines{whole, start, success}, `null`},
		{"init forgets it even when confirmed", lines{whole, success, start}, `null`},
		{"a message behind init", lines{delta("a"), start, delta("b"), success}, `"b"`},
		{"a prompt is none", lines{prompt, success}, `null`},
		{"errors, faults and unknown lines behind it", lines{whole, success, `{"type":"error","message":"e"}`, bad,
			"{oops", `{"type":"x"}`, shell, output, prompt}, `"whole"`},

		// Deltas.
		{"deltas are joined", lines{delta("a"), delta(""), delta(` \n`), delta("b"), success}, `"a \nb"`},
		{"deltas around an error", lines{delta("a"), `{"type":"error","message":"e"}`, delta("b"), success}, `"ab"`},
		{"deltas around unknown lines and faults", lines{delta("a"), `{"type":"x"}`, "{oops", bad, "", delta("b"),
			success}, `"ab"`},
		{"deltas around a call", lines{delta("a"), shell, delta("b"), success}, `"b"`},
		{"deltas around the result of a call", lines{delta("a"), output, delta("b"), success}, `"b"`},
		{"deltas around a prompt", lines{delta("a"), prompt, delta("b"), success}, `"b"`},
		{"deltas around another role", lines{delta("a"), `{"type":"message","role":"system"}`, delta("b"), success},
			`"b"`},
		{"deltas around a result", lines{delta("a"), success, delta("b"), success}, `"b"`},
		{"a whole message behind deltas", lines{delta("a"), whole, success}, `"whole"`},
		{"deltas behind a whole message", lines{whole, delta("a"), delta("b"), success}, `"ab"`},
		{"two whole messages", lines{delta("a"), whole, whole, success}, `"whole"`},
		{"delta that is not true", lines{delta("a"), with(whole, `"delta":false`), with(whole, `"delta":"true"`), success},
			`"whole"`},
		{"the first delta counts", lines{delta("a"), with(delta("b"), `"delta":false`), with(whole,
			`"delta":1,"delta":true`), success}, `"whole"`},
		{"an empty message is one, too", lines{delta("a"), shell, delta(""), success}, `""`},
		{"a long one", lines{delta(long), delta(long), success}, `"` + long + long + `"`},
		{"a longer one", lines{delta(long), delta(long), delta("y"), delta("z"), success},
			`"` + (long + long)[:bounds.MaxFinalText-len(bounds.Suffix)] + bounds.Suffix + `"`},
	})
}

func TestLongTextsAreSplit(t *testing.T) {
	long := strings.Repeat("x", bounds.MaxText-2)
	backendtest.Expect(t, "gemini_cli", feed(t, delta(long+`🚀end`), delta(long+"yy")),
		text(long), text("🚀end"), text(long+"yy"))
}

// A facet with an id that is too long is dropped.
func TestLongIdsInFacets(t *testing.T) {
	const dropped = `{"kind":"ToolCall","channel":"tool","data":` + bounds.Dropped + `}`
	whole := strings.Repeat("i", 60_000)
	for _, c := range []struct{ lines, want []string }{
		{[]string{`{"type":"tool_use","tool_id":"` + whole + `"}`}, []string{call(`"tool_use_id":"` + whole + `"`)}},
		{[]string{`{"type":"tool_use","tool_id":"` + whole + whole + `"}`}, []string{dropped}},
		{[]string{`{"type":"tool_use","tool_name":"` + whole + whole + `"}`}, []string{dropped}},
		{[]string{`{"type":"init","session_id":"` + whole + `"}`, `{"type":"tool_use"}`}, []string{status("init"),
			status("session handle id oversize: len_bytes=60000"), call(`"thread_id":"` + whole + `"`)}},
		{[]string{`{"type":"init","session_id":"` + whole + whole + `"}`, `{"type":"tool_use"}`}, []string{
			status("init"), status("session handle id oversize: len_bytes=120000"), dropped}},
	} {
		backendtest.Expect(t, "gemini_cli", feed(t, c.lines...), c.want...)
	}
}

// hostile returns a run with calls whose ids and names have the given lengths, and
// are full of control characters.
func hostile(session string, calls, id, name int) (begin, end []string) {
	begin = []string{`{"type":"init","session_id":"` + session + `"}`}
	for i := range calls {
		id := fmt.Sprintf("%03d", i) + strings.Repeat(`\u0001`, id-3)
		name := fmt.Sprintf("%03d", i) + strings.Repeat(`\u001f`, name-3)
		begin = append(begin, `{"type":"tool_use","tool_id":"`+id+`","tool_name":"`+name+`"}`)
		end = append(end, `{"type":"tool_result","tool_id":"`+id+`"}`)
	}
	return begin, end
}

func TestSavedAndRestored(t *testing.T) {
	for _, c := range []struct{ calls, id, name, named int }{{100, 300, 20, 0}, {100, 20, 20, 64}, {100, 256, 256, 64}} {
		begin, end := hostile(strings.Repeat(`\u0003`, 300), c.calls, c.id, c.name)
		lines := append([]string{delta("a"), delta("b")}, begin...)
		lines = append(append(lines, success), end...)
		lines = append(lines, delta("c"), whole, delta("d"), delta("e"), `{"type":"x"}`, delta("f"), success)
		got := backendtest.Saved(t, backend, lines...)
		named := 0
		for _, m := range got {
			if m.Token == "tool_result" && !strings.Contains(string(m.Body), `"tool_name":null`) {
				named++
			}
		}
		if named != c.named {
			t.Errorf("ids of %d bytes, names of %d: %d results have a name, want %d", c.id, c.name, named, c.named)
		}
		if last := string(got[len(got)-1].Body); !strings.Contains(last, `"final_text":"def"`) {
			t.Errorf("completion %s", last)
		}
	}
	t.Run("long session", func(t *testing.T) {
		for _, session := range []string{strings.Repeat("s", 60_000), strings.Repeat(`\u0001`, 10_000),
			strings.Repeat("s", 70_000), strings.Repeat(`\u0001`, 11_000)} {
			begin, end := hostile(session, 3, 300, 300)
			backendtest.Saved(t, backend, append(begin, end...)...)
		}
	})
}

func TestStateIsSmall(t *testing.T) {
	for _, size := range []int{0, 300, 1024, 8000, 10_000, 20_000, 60_000, 200_000} {
		for _, fill := range []string{"s", `\u0001`, `\"`, `\u2028`, `\ud800`} {
			begin, _ := hostile(strings.Repeat(fill, size), 64, 256, 256)
			backendtest.StateFits(t, backend, append(begin, delta(strings.Repeat("x", 200_000)))...)
		}
	}
}
