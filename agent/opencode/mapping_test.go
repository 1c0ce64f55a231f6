package opencode_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/linesman/linesman/agent/opencode"
	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/test/fixture/backendtest"
)

var backend = opencode.Backend{}

const (
	unknown = backendtest.Unknown
	start   = `{"type":"step_start","part":{"type":"step-start"}}`
	stop    = `{"type":"step_finish","part":{"reason":"stop"}}`
	calls   = `{"type":"step_finish","part":{"reason":"tool-calls"}}`
	read    = `{"type":"tool_use","part":{"tool":"read","callID":"c1","state":{"status":"completed","output":"abc"}}}`
	oops    = `{"type":"error","error":{"name":"SECRET","data":{"message":"oops","responseBody":"SECRET"}}}`
)

func say(text string) string { return part("text", `"text":"`+text+`"`) }

// part returns a line with a part that has the given members.
func part(kind, members string) string { return `{"type":"` + kind + `","part":{` + members + `}}` }

// with returns a line with more members, at its end.
func with(line, members string) string { return line[:len(line)-1] + "," + members + "}" }

func status(message string) string           { return backendtest.Status(message, "") }
func statusData(message, data string) string { return backendtest.Status(message, data) }
func failure(message string) string          { return backendtest.Failure(message, "") }
func text(channel, text string) string       { return backendtest.Text(channel, text) }
func invalid(line string) string             { return backendtest.Fault(backend, "parse", "invalid payload", line) }

func feed(t *testing.T, lines ...string) []normalizer.Message {
	t.Helper()
	return backendtest.Feed(t, backend, lines...)
}

func result(phase, status string, members ...string) string {
	return backendtest.Tool("ToolResult", append(members, `"kind":"tool_use"`, `"phase":"`+phase+`"`,
		`"status":"`+status+`"`)...)
}

func done(members ...string) string   { return result("complete", "completed", members...) }
func broken(members ...string) string { return result("fail", "failed", members...) }
func vague(members ...string) string  { return result("complete", "unknown", members...) }

// usage returns the data of a step. Cost is empty or JSON.
func usage(counters, cost string) string {
	if cost != "" {
		cost = `,"cost":` + cost
	}
	return `{"schema":"backend.opencode.usage.v1","usage":{` + counters + `}` + cost + `}`
}

func TestFaults(t *testing.T) {
	backendtest.Faults(t, backend, say("hello"), text("assistant", "hello"))
}

func TestLines(t *testing.T) {
	type lines = []string
	type events = []string
	faulty := func(why, line string) backendtest.Case {
		return backendtest.Case{why, lines{line}, events{invalid(line)}}
	}
	fail := func(members string) string { return `{"type":"error","error":{` + members + `}}` }
	backendtest.Map(t, backend, []backendtest.Case{
		{"a step", lines{start, `{"type":"step_start"}`, `{"type":"step_start","part":7}`, part("step_start",
			`"text":"SECRET","snapshot":"SECRET"`)}, events{status("step started"), status("step started"),
			status("step started"), status("step started")}},

		// Texts.
		{"a text", lines{say("a"), part("text", `"text":"b","time":{"start":1},"type":"SECRET","x":"SECRET"`)},
			events{text("assistant", "a"), text("assistant", "b")}},
		{"an empty text", lines{say("")}, events{text("assistant", "")}},
		{"a text is copied as it is", lines{say(` \u0000\ud83d\ude80\n\"\\ `), say(`a\ud83db`)},
			events{text("assistant", " \x00🚀\n\"\\ "), text("assistant", "a\ufffdb")}},
		{"a reasoning", lines{part("reasoning", `"text":"hm"`), part("reasoning", `"text":""`)},
			events{text("reasoning", "hm"), text("reasoning", "")}},
		{"the first part and text count", lines{`{"type":"text","part":{"text":"a","text":"SECRET"},"part":{"text":"x"}}`},
			events{text("assistant", "a")}},
		{"keys in another order, and escaped", lines{`{"p\u0061rt":{"t\u0065xt":"a"},"typ\u0065":"t\u0065xt"}`},
			events{text("assistant", "a")}},
		faulty("a text without a part", `{"type":"text"}`),
		faulty("a text elsewhere", `{"type":"text","text":"SECRET"}`),
		faulty("a text whose part is null", `{"type":"text","part":null}`),
		faulty("a text whose part is a string", `{"type":"text","part":"SECRET"}`),
		faulty("a text whose part is a list", `{"type":"text","part":[{"text":"SECRET"}]}`),
		faulty("a text without a text", `{"type":"text","part":{}}`),
		faulty("a text that is no string", `{"type":"text","part":{"text":["SECRET"]}}`),
		faulty("a text that is null", `{"type":"text","part":{"text":null}}`),
		faulty("the first text is no string", `{"type":"text","part":{"text":7,"text":"SECRET"}}`),
		faulty("the first part of a text is no object", `{"type":"text","part":7,"part":{"text":"SECRET"}}`),
		faulty("a reasoning without a part", `{"type":"reasoning"}`),
		faulty("a reasoning whose part is a list", `{"type":"reasoning","part":[]}`),
		faulty("a reasoning whose text is elsewhere", `{"type":"reasoning","part":{"reasoning":"SECRET"}}`),
		faulty("a reasoning that is no string", `{"type":"reasoning","part":{"text":{"a":"SECRET"}}}`),

		// Errors.
		{"an error", lines{oops, oops}, events{failure("oops"), failure("oops")}},
		{"its message is copied as it is", lines{fail(`"data":{"message":" a\n"}`)}, events{failure(" a\n")}},
		{"its name, without a message", lines{fail(`"name":" E "`), fail(`"name":"E","data":{}`),
			fail(`"name":"E","data":{"message":""}`), fail(`"name":"E","data":{"message":" \n"}`),
			fail(`"name":"E","data":{"message":["SECRET"]}`), fail(`"name":"E","data":"SECRET"`),
			fail(`"name":"E","message":"SECRET","data":null`), fail(`"name":"E","data":{"message":7,"message":"SECRET"}`),
			fail(`"name":"E","data":7,"data":{"message":"SECRET"}`)},
			events{failure(" E "), failure("E"), failure("E"), failure("E"), failure("E"), failure("E"), failure("E"),
				failure("E"), failure("E")}},
		{"its message, whatever its name is", lines{fail(`"name":7,"data":{"message":"e"}`),
			fail(`"data":{"message":"e"},"name":"SECRET"`)}, events{failure("e"), failure("e")}},
		{"a long one is truncated", lines{fail(`"data":{"message":"` + strings.Repeat("é", 2049) + `"}`),
			fail(`"name":"` + strings.Repeat("é", 2048) + `"`)},
			events{failure(strings.Repeat("é", 2041) + bounds.Suffix), failure(strings.Repeat("é", 2048))}},
		faulty("no error", `{"type":"error"}`),
		faulty("an error that is a string", `{"type":"error","error":"SECRET"}`),
		faulty("an error that is null", `{"type":"error","error":null}`),
		faulty("an error that is a list", `{"type":"error","error":[{"name":"SECRET"}]}`),
		faulty("the first error is no object", `{"type":"error","error":7,"error":{"name":"SECRET"}}`),
		faulty("an error whose message is at the top", `{"type":"error","message":"SECRET","part":{"message":"SECRET"}}`),
		faulty("an error whose message is beside its data", `{"type":"error","error":{"message":"SECRET"}}`),
		faulty("an error with blank texts", `{"type":"error","error":{"name":" ","data":{"message":"\t"}}}`),
		faulty("an error whose texts are no strings",
			`{"type":"error","error":{"name":["SECRET"],"data":{"message":{"a":"SECRET"}}}}`),
		faulty("the first name is empty", `{"type":"error","error":{"name":"","name":"SECRET"}}`),

		// Ends of steps.
		{"the end of a step", lines{stop, calls, `{"type":"step_finish"}`, `{"type":"step_finish","part":"SECRET"}`,
			part("step_finish", `"reason":["SECRET"]`)}, events{status("step finished"), status("step finished"),
			status("step finished"), status("step finished"), status("step finished")}},
		{"usage", lines{part("step_finish", `"cost":0.5,"tokens":{"total":9,"cache":{"write":5,"read":4,"x":9},`+
			`"reasoning":3,"output":2,"input":1,"cache_read":9,"SECRET":9}`)},
			events{statusData("step finished", usage(`"input":1,"output":2,"reasoning":3,"cache_read":4,"cache_write":5`,
				"0.5"))}},
		{"tokens that are no object", lines{part("step_finish", `"tokens":[1]`), part("step_finish", `"tokens":"SECRET"`),
			part("step_finish", `"tokens":null`), part("step_finish", `"tokens":7,"tokens":{"input":1}`),
			part("step_finish", `"tokens":{}`), part("step_finish", `"tokens":{"total":7}`)},
			events{status("step finished"), status("step finished"), status("step finished"), status("step finished"),
				status("step finished"), status("step finished")}},
		{"cache that is no object", lines{part("step_finish", `"tokens":{"input":1,"cache":7}`),
			part("step_finish", `"tokens":{"input":1,"cache":null,"cache":{"read":1}}`)},
			events{statusData("step finished", usage(`"input":1`, "")),
				statusData("step finished", usage(`"input":1`, ""))}},
		{"usage elsewhere", lines{with(stop, `"tokens":{"input":1},"cost":1`), part("step_start",
			`"tokens":{"input":1},"cost":1`), part("step_finish", `"input":1,"usage":{"input":1}`)},
			events{status("step finished"), status("step started"), status("step finished")}},
		{"the first counter counts", lines{part("step_finish", `"tokens":{"input":1,"input":2,"output":"x","output":3,`+
			`"cache":{"read":4,"read":5}}`)}, events{statusData("step finished", usage(`"input":1,"cache_read":4`, ""))}},

		// Other types.
		{"other types", lines{part("SECRET", `"text":"SECRET"`), part("Text", `"text":"SECRET"`), part("step-start", ``),
			part("tool", `"tool":"bash"`), part("tool_result", `"tool":"bash"`), `{"type":"message"}`},
			events{unknown, unknown, unknown, unknown, unknown, unknown}},
	})
}

func TestUsage(t *testing.T) {
	for wire, name := range map[string]string{`{"input":%s}`: "input", `{"output":%s}`: "output",
		`{"reasoning":%s}`: "reasoning", `{"cache":{"read":%s}}`: "cache_read", `{"cache":{"write":%s}}`: "cache_write"} {
		backendtest.Counters(t, backend, func(n string) string {
			return part("step_finish", `"reason":"stop","tokens":`+fmt.Sprintf(wire, n))
		}, func(n string) string {
			if n == "" {
				return status("step finished")
			}
			return statusData("step finished", usage(`"`+name+`":`+n, ""))
		})
	}
	backendtest.Costs(t, backend, func(n string) string {
		return part("step_finish", `"tokens":{"input":1},"cost":`+n)
	}, func(n string) string { return statusData("step finished", usage(`"input":1`, n)) })
	got := feed(t, part("step_finish", `"cost":0.5`))
	if len(got) != 1 || !strings.Contains(string(got[0].Body), `"cost":0.5`) ||
		!strings.Contains(string(got[0].Body), `"backend.opencode.usage.v1"`) {
		t.Errorf("a cost alone: %s", got[0].Body)
	}
}

func TestSessions(t *testing.T) {
	backendtest.Sessions(t, backend, func(id string) string { return with(start, `"sessionID":`+id) }, "step started")
	type lines = []string
	type events = []string
	session, extra := `"sessionID":"s"`, backendtest.ExtraHandle("s")
	bad := `{"type":"text","sessionID":"SECRET"}`
	first := statusData("step started", backendtest.Handle("s"))
	backendtest.Map(t, backend, []backendtest.Case{
		{"behind a text", lines{with(say("a"), session), with(start, session)},
			events{text("assistant", "a"), extra, status("step started")}},
		{"behind a call", lines{with(read, session)}, events{done(`"tool_name":"read"`, `"tool_use_id":"c1"`,
			`"thread_id":"s"`, `"bytes":{"result":3}`), extra}},
		{"of an unknown line", lines{`{"type":"x","sessionID":"s"}`, with(start, session)},
			events{unknown, extra, status("step started")}},
		{"of an error", lines{with(oops, session)}, events{failure("oops"), extra}},
		{"of a step's end", lines{with(stop, session)}, events{statusData("step finished", backendtest.Handle("s"))}},
		{"of a step's end with usage", lines{with(part("step_finish", `"tokens":{"input":1}`), session)},
			events{statusData("step finished", usage(`"input":1`, "")), extra}},
		{"none of a fault", lines{bad, with(start, session)}, events{invalid(bad), first}},
		{"the first of two keys", lines{with(start, `"sessionID":7,"sessionID":"SECRET"`),
			with(start, `"sessionID":"s","sessionID":"SECRET"`)}, events{status("step started"), first}},
		{"the name and the place are exact", lines{with(start, `"session_id":"SECRET","sessionId":"SECRET"`),
			part("step_start", `"sessionID":"SECRET"`), part("tool_use", `"state":{"metadata":{"sessionId":"SECRET"}}`)},
			events{status("step started"), status("step started"), vague()}},
	})
}

func TestTools(t *testing.T) {
	type lines = []string
	type events = []string
	tool := func(name, state string) string { return part("tool_use", `"tool":"`+name+`","state":{`+state+`}`) }
	bash := func(state string) string { return tool("bash", `"status":"completed",`+state) }
	other := func(state string) string { return tool("read", `"status":"completed",`+state) }
	name := func(name string) string { return `"tool_name":"` + name + `"` }
	faulty := func(why, line string) backendtest.Case {
		return backendtest.Case{why, lines{line}, events{invalid(line)}}
	}
	inBash, inRead := name("bash"), name("read")
	backendtest.Map(t, backend, []backendtest.Case{
		// Ids and names.
		{"all ids", lines{with(part("tool_use", `"id":" p1 ","messageID":"m1\n","callID":"\u00a0c1","tool":" read ",`+
			`"sessionID":"SECRET","state":{"status":"completed"}`), `"sessionID":" s "`)}, events{
			done(`"backend_item_id":"p1","turn_id":"m1","tool_use_id":"c1","thread_id":"s"`, inRead),
			backendtest.ExtraHandle("s")}},
		{"blank ids", lines{with(part("tool_use", `"id":"","messageID":" ","callID":"\t","tool":" "`), `"sessionID":""`)},
			events{vague()}},
		{"ids that are no strings", lines{with(part("tool_use", `"id":7,"messageID":["SECRET"],"callID":{"a":"SECRET"},`+
			`"tool":null`), `"sessionID":7`)}, events{vague()}},
		{"no ids", lines{part("tool_use", ``)}, events{vague()}},
		{"the first of two keys", lines{part("tool_use", `"id":"i","id":"x","messageID":7,"messageID":"x",`+
			`"callID":"c","callID":"x","tool":"read","tool":"x","state":{"status":"error"},"state":{"status":"x"}`)},
			events{broken(`"backend_item_id":"i","tool_use_id":"c"`, inRead)}},
		{"ids elsewhere", lines{with(part("tool_use", `"turn_id":"SECRET"`), `"id":"SECRET","messageID":"SECRET",`+
			`"callID":"SECRET","tool":"SECRET"`)}, events{vague()}},
		{"the thread is the last that a line had", lines{`{"type":"x","sessionID":"s"}`, with(say("a"), `"sessionID":"r"`),
			`{"type":"text","sessionID":"SECRET"}`, read, with(read, `"sessionID":"q"`), read}, events{unknown,
			backendtest.ExtraHandle("s"), text("assistant", "a"), invalid(`{"type":"text","sessionID":"SECRET"}`),
			done(inRead, `"tool_use_id":"c1","thread_id":"r","bytes":{"result":3}`),
			done(inRead, `"tool_use_id":"c1","thread_id":"q","bytes":{"result":3}`),
			done(inRead, `"tool_use_id":"c1","thread_id":"q","bytes":{"result":3}`)}},
		{"the turn is the line's own", lines{part("text", `"text":"a","messageID":"m"`), part("tool_use", `"tool":"read"`)},
			events{text("assistant", "a"), vague(inRead)}},
		{"the type of the part does not matter", lines{part("tool_use", `"type":"text","text":"SECRET","tool":"read"`)},
			events{vague(inRead)}},
		{"the same call twice", lines{read, read}, events{
			done(inRead, `"tool_use_id":"c1","bytes":{"result":3}`), done(inRead, `"tool_use_id":"c1","bytes":{"result":3}`)}},
		faulty("a call without a part", `{"type":"tool_use"}`),
		faulty("a call whose tool is at the top", `{"type":"tool_use","tool":"SECRET","state":{"status":"completed"}}`),
		faulty("a call whose part is null", `{"type":"tool_use","part":null}`),
		faulty("a call whose part is a string", `{"type":"tool_use","part":"SECRET"}`),
		faulty("a call whose part is a list", `{"type":"tool_use","part":[{"tool":"SECRET"}]}`),
		faulty("the first part of a call is no object", `{"type":"tool_use","part":7,"part":{"tool":"SECRET"}}`),

		// Outcomes.
		{"failed", lines{tool("read", `"status":"error","error":"SECRET"`), tool("bash", `"status":"error"`)},
			events{broken(inRead), broken(inBash)}},
		{"another status", lines{tool("read", ``), tool("read", `"status":"running"`), tool("read", `"status":"SECRET"`),
			tool("read", `"status":"Completed"`), tool("read", `"status":["error"]`), tool("read", `"status":""`),
			tool("read", `"status":null,"status":"completed"`), tool("read", `"error":"SECRET"`)},
			events{vague(inRead), vague(inRead), vague(inRead), vague(inRead), vague(inRead), vague(inRead), vague(inRead),
				vague(inRead)}},
		{"a state that is no object", lines{part("tool_use", `"tool":"read","state":"completed"`), part("tool_use",
			`"tool":"bash","state":null`), part("tool_use", `"tool":"read","state":7,"state":{"status":"error"}`),
			part("tool_use", `"tool":"read","status":"completed","output":"SECRET"`)},
			events{vague(inRead), vague(inBash), vague(inRead), vague(inRead)}},
		{"the tool invalid", lines{tool("invalid", `"status":"completed","output":"abc","input":{"tool":"SECRET"}`),
			tool("invalid", `"status":"error"`), tool("invalid", `"status":"x"`), tool("invalid", ``),
			part("tool_use", `"tool":"invalid"`)}, events{broken(name("invalid"), `"bytes":{"result":3}`),
			broken(name("invalid")), broken(name("invalid")), broken(name("invalid")), broken(name("invalid"))}},
		{"other tools that are invalid", lines{tool("Invalid", `"status":"completed"`), tool("invalid2",
			`"status":"completed"`), tool("read", `"status":"completed","input":{"tool":"invalid"}`)},
			events{done(name("Invalid")), done(name("invalid2")), done(inRead)}},
		{"the state before the tool", lines{part("tool_use", `"state":{"status":"completed","output":"ab",`+
			`"metadata":{"exit":3}},"tool":"bash"`), part("tool_use", `"state":{"status":"completed"},"tool":"invalid"`)},
			events{done(inBash, `"exit_code":3,"bytes":{"stdout":2}`), broken(name("invalid"))}},

		// Sizes.
		{"output of bash", lines{bash(`"output":"h\u00e9\ud83d\ude80\n\u0000"`), bash(`"output":""`)},
			events{done(inBash, `"bytes":{"stdout":9}`), done(inBash)}},
		{"output of others", lines{other(`"output":"h\u00e9"`), tool("Bash", `"output":"ab"`), part("tool_use",
			`"state":{"output":"abc"}`)}, events{done(inRead, `"bytes":{"result":3}`), vague(name("Bash"),
			`"bytes":{"result":2}`), vague(`"bytes":{"result":3}`)}},
		{"output that is no string", lines{bash(`"output":["SECRET"]`), other(`"output":{"a":"SECRET"}`),
			other(`"output":null`), bash(`"output":7,"output":"SECRET"`)},
			events{done(inBash), done(inRead), done(inRead), done(inBash)}},
		{"a diff", lines{tool("edit", `"status":"completed","output":"ab","metadata":{"diff":"+\u00e9\n"}`),
			bash(`"metadata":{"diff":"abc","exit":1},"output":"x"`)},
			events{done(name("edit"), `"bytes":{"result":2,"diff":4}`),
				done(inBash, `"exit_code":1,"bytes":{"stdout":1,"diff":3}`)}},
		{"a diff that is no string, or elsewhere", lines{other(`"metadata":{"diff":7}`), other(`"metadata":["SECRET"]`),
			other(`"metadata":{"diff":null,"diff":"x"}`), other(`"metadata":7,"metadata":{"diff":"x"}`),
			other(`"diff":"SECRET"`), part("tool_use", `"tool":"read","metadata":{"diff":"SECRET"}`)},
			events{done(inRead), done(inRead), done(inRead), done(inRead), done(inRead), vague(inRead)}},
		{"nothing else is counted", lines{other(`"error":"SECRET","title":"SECRET","input":{"a":"SECRET"},` +
			`"attachments":["SECRET"],"stdout":"x","stderr":"y","result":"z","metadata":{"output":"SECRET","stderr":"x"}`),
			bash(`"error":"SECRET","stderr":"SECRET"`)}, events{done(inRead), done(inBash)}},
	})
}

func TestExitCodeIsAnInt32OfBash(t *testing.T) {
	for raw, want := range map[string]string{
		"0": "0", "3": "3", "-1": "-1", "2147483647": "2147483647", "-2147483648": "-2147483648",
		"2147483648": "null", "-2147483649": "null", "9223372036854775808": "null", "1.0": "null", "1e2": "null",
		`"1"`: "null", "true": "null", "null": "null", "[1]": "null", `{"a":1}`: "null", `null,"exit":3`: "null",
		`3,"exit":4`: "3",
	} {
		line := func(tool, status string) string {
			return part("tool_use", `"tool":"`+tool+`","state":{"status":"`+status+`","metadata":{"exit":`+raw+`}}`)
		}
		backendtest.Expect(t, "opencode", feed(t, line("bash", "completed"), line("bash", "error"), line("bash", "x"),
			line("read", "completed"), line("Bash", "completed"), line("invalid", "completed")),
			done(`"tool_name":"bash","exit_code":`+want), broken(`"tool_name":"bash","exit_code":`+want),
			vague(`"tool_name":"bash","exit_code":`+want), done(`"tool_name":"read"`), done(`"tool_name":"Bash"`),
			broken(`"tool_name":"invalid"`))
	}
	backendtest.Expect(t, "opencode", feed(t,
		part("tool_use", `"tool":"bash","exit":3,"state":{"status":"completed","exit":3,"exit_code":3}`),
		part("tool_use", `"tool":"bash","state":{"status":"completed","metadata":"3"}`)),
		done(`"tool_name":"bash"`), done(`"tool_name":"bash"`))
}

func TestFinalText(t *testing.T) {
	type lines = []string
	long := strings.Repeat("x", bounds.MaxFinalText/2)
	reasoning := part("reasoning", `"text":"hm"`)
	backendtest.Finals(t, backend, []backendtest.Final{
		// Confirmed or not.
		{"no lines", lines{""}, `null`},
		{"no text", lines{start, stop}, `null`},
		{"not confirmed", lines{start, say("a")}, `null`},
		{"confirmed", lines{start, say("a"), stop}, `"a"`},
		{"confirmed twice", lines{start, say("a"), stop, stop}, `"a"`},
		{"another reason", lines{start, say("a"), calls}, `null`},
		{"a reason in another case", lines{start, say("a"), part("step_finish", `"reason":"Stop"`)}, `null`},
		{"a reason that is unknown", lines{start, say("a"), part("step_finish", `"reason":"unknown"`)}, `null`},
		{"no reason", lines{start, say("a"), part("step_finish", ``)}, `null`},
		{"no part", lines{start, say("a"), `{"type":"step_finish"}`}, `null`},
		{"a reason that is no string", lines{start, say("a"), part("step_finish", `"reason":["stop"]`)}, `null`},
		{"the first reason counts", lines{start, say("a"), part("step_finish", `"reason":7,"reason":"stop"`)}, `null`},
		{"a reason elsewhere", lines{start, say("a"), `{"type":"step_finish","reason":"stop"}`}, `null`},
		{"another reason forgets", lines{start, say("a"), calls, stop}, `null`},
		{"another reason forgets even what is confirmed", lines{start, say("a"), stop, calls}, `null`},
		{"an error forgets", lines{start, say("a"), oops, stop}, `null`},
		{"an error forgets even what is confirmed", lines{start, say("a"), stop, oops}, `null`},
		{"a text behind an error", lines{start, say("a"), oops, say("b"), stop}, `"b"`},
		{"a step forgets", lines{start, say("a"), start, stop}, `null`},
		{"a step forgets even what is confirmed", lines{start, say("a"), stop, start}, `null`},
		{"the last of two steps", lines{start, say("a"), calls, start, say("b"), stop}, `"b"`},
		{"two steps that stop", lines{start, say("a"), stop, start, say("b"), stop}, `"b"`},
		{"the first of two steps", lines{start, say("a"), stop, start, say("b"), calls}, `null`},
		{"a step that is not closed", lines{start, say("a"), start, say("b"), stop}, `"b"`},
		{"a text behind the end is not confirmed", lines{start, say("a"), stop, say("b")}, `null`},
		{"a text behind the end is added", lines{start, say("a"), stop, say("b"), stop}, `"a\nb"`},
		{"other lines behind the end", lines{start, say("a"), stop, reasoning, read, `{"type":"x"}`, "{oops",
			`{"type":"text"}`, `{"type":"error"}`}, `"a"`},

		// Parts.
		{"parts are joined", lines{start, say("a"), say(" b "), say("c"), stop}, `"a\n b \nc"`},
		{"empty parts are joined, too", lines{start, say("a"), say(""), say("b"), say(""), stop}, `"a\n\nb\n"`},
		{"the first part is empty", lines{start, say(""), say("a"), stop}, `"\na"`},
		{"only an empty part", lines{start, say(""), stop}, `""`},
		{"reasoning is no part", lines{start, reasoning, say("a"), reasoning, stop}, `"a"`},
		{"only reasoning", lines{start, reasoning, stop}, `null`},
		{"other lines between the parts", lines{start, say("a"), read, reasoning, `{"type":"x"}`, "{oops", "",
			`{"type":"text","part":{"text":7}}`, `{"type":"error"}`, say("b"), stop}, `"a\nb"`},
		{"a part at the limit", lines{start, say(long), say(long[1:]), stop}, `"` + long + `\n` + long[1:] + `"`},
		{"a part beyond the limit", lines{start, say(long), say(long), say("y"), stop},
			`"` + long + `\n` + long[:len(long)-1-len(bounds.Suffix)] + bounds.Suffix + `"`},
	})
}

func TestLongTextsAreSplit(t *testing.T) {
	long := strings.Repeat("x", bounds.MaxText-2)
	backendtest.Expect(t, "opencode", feed(t, say(long+`🚀end`), part("reasoning", `"text":"`+long+`yy"`)),
		text("assistant", long), text("assistant", "🚀end"), text("reasoning", long+"yy"))
}

// A facet with an id that is too long is dropped.
func TestLongIdsInFacets(t *testing.T) {
	const dropped = `{"kind":"ToolResult","channel":"tool","data":` + bounds.Dropped + `}`
	const bare = `{"type":"tool_use","part":{}}`
	whole := strings.Repeat("i", 60_000)
	oversize := status("session handle id oversize: len_bytes=60000")
	for _, c := range []struct{ lines, want []string }{
		{[]string{part("tool_use", `"id":"`+whole+`"`)}, []string{vague(`"backend_item_id":"` + whole + `"`)}},
		{[]string{part("tool_use", `"messageID":"`+whole+`"`)}, []string{vague(`"turn_id":"` + whole + `"`)}},
		{[]string{part("tool_use", `"callID":"`+whole+whole+`"`)}, []string{dropped}},
		{[]string{part("tool_use", `"tool":"`+whole+whole+`"`)}, []string{dropped}},
		{[]string{with(bare, `"sessionID":"`+whole+`"`)}, []string{vague(`"thread_id":"` + whole + `"`), oversize}},
		{[]string{with(start, `"sessionID":"`+whole+`"`), bare}, []string{status("step started"), oversize,
			vague(`"thread_id":"` + whole + `"`)}},
		{[]string{with(start, `"sessionID":"`+whole+whole+`"`), bare}, []string{status("step started"),
			status("session handle id oversize: len_bytes=120000"), dropped}},
	} {
		backendtest.Expect(t, "opencode", feed(t, c.lines...), c.want...)
	}
}

// hostile returns a run with tools whose ids are full of control characters.
func hostile(session string, tools int) []string {
	lines := []string{with(start, `"sessionID":"`+session+`"`), say("a"), stop, say("b"), calls, start, say("c")}
	for i := range tools {
		id := fmt.Sprintf("%03d", i) + strings.Repeat(`\u0001`, 297)
		lines = append(lines, part("tool_use", `"id":"`+id+`","messageID":"`+id+`","callID":"`+id+`","tool":"`+id+`",`+
			`"state":{"status":"completed","output":"abc"}`))
	}
	return append(lines, part("reasoning", `"text":"hm"`), say("d"), stop, `{"type":"x"}`, say("e"), stop)
}

func TestSavedAndRestored(t *testing.T) {
	for _, session := range []string{"", strings.Repeat(`\u0003`, 300), strings.Repeat("s", 60_000),
		strings.Repeat(`\u0001`, 10_000), strings.Repeat("s", 70_000), strings.Repeat(`\u0001`, 11_000)} {
		got := backendtest.Saved(t, backend, hostile(session, 100)...)
		if last := string(got[len(got)-1].Body); !strings.Contains(last, `"final_text":"c\nd\ne"`) {
			t.Errorf("completion %s", last)
		}
	}
}

func TestStateIsSmall(t *testing.T) {
	for _, size := range []int{0, 300, 1024, 8000, 10_000, 20_000, 60_000, 200_000} {
		for _, fill := range []string{"s", `\u0001`, `\"`, `\u2028`, `\ud800`} {
			lines := append(hostile(strings.Repeat(fill, size), 64), say(strings.Repeat("x", 200_000)), stop)
			backendtest.StateFits(t, backend, lines...)
		}
	}
}
