package backendtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
)

// Case is a row of a mapping table: the lines of a new run, and the events that
// they become, as for [Expect].
type Case = struct {
	Why   string
	Lines []string
	Want  []string
}

// Map checks the rows of a mapping table. No event may contain SECRET.
func Map(t *testing.T, b normalizer.Backend, cases []Case) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.Why, func(t *testing.T) {
			Expect(t, b.Agent(), Feed(t, b, c.Lines...), c.Want...)
		})
	}
}

// Feed folds the lines of a run that has not ended. It leaves out drift notices.
// No event may contain SECRET.
func Feed(tb testing.TB, b normalizer.Backend, lines ...string) []normalizer.Message {
	tb.Helper()
	messages, _ := Fold(b, Output([]byte(strings.Join(lines, "\n")+"\n")))
	return published(tb, messages)
}

// End folds the lines of a run, and its exit entry with the given body. It returns
// the last messages: the completion, and the Error before it, if there is one.
func End(tb testing.TB, b normalizer.Backend, exit string, lines ...string) []normalizer.Message {
	tb.Helper()
	out := Output([]byte(strings.Join(lines, "\n") + "\n"))
	before, _ := Fold(b, out)
	messages, _ := Fold(b, append(out, runs.Entry{Kind: runs.Exited, Time: 3_000, Body: []byte(exit)}))
	return published(tb, messages[len(before):])
}

func published(tb testing.TB, messages []normalizer.Message) []normalizer.Message {
	tb.Helper()
	for _, m := range messages {
		if strings.Contains(string(m.Body), "SECRET") {
			tb.Errorf("line %d leaks: %s", m.Line, clip(m.Body))
		}
	}
	return slices.DeleteFunc(messages, func(m normalizer.Message) bool {
		var e struct {
			Data struct {
				Schema string `json:"schema"`
			} `json:"data"`
		}
		return json.Unmarshal(m.Body, &e) == nil && e.Data.Schema == "backend.drift.v1"
	})
}

// Unknown is the event of an unknown line.
const Unknown = `{"kind":"Unknown"}`

// Status returns a Status event. Empty data is null.
func Status(message, data string) string { return withMessage("Status", "status", message, data) }

// Failure returns an Error event. Empty data is null.
func Failure(message, data string) string { return withMessage("Error", "error", message, data) }

func withMessage(kind, channel, message, data string) string {
	if data != "" {
		data = `,"data":` + data
	}
	return fmt.Sprintf(`{"kind":%q,"channel":%q,"message":%s%s}`, kind, channel, quote(message), data)
}

// Fault returns the Error event of a faulty line: kind is parse or normalize.
func Fault(b normalizer.Backend, kind, problem, line string) string {
	return Failure(fmt.Sprintf("%s stream %s error (redacted): %s (line_bytes=%d)", b.Agent(), kind, problem,
		len(line)), "")
}

// Text returns a TextOutput event.
func Text(channel, text string) string {
	return fmt.Sprintf(`{"kind":"TextOutput","channel":%q,"text":%s}`, channel, quote(text))
}

// Handle returns the session handle facet.
func Handle(id string) string {
	return `{"schema":"agent_api.session.handle.v1","session":{"id":` + quote(id) + `}}`
}

// ExtraHandle returns the additional Status event with the session handle facet.
func ExtraHandle(id string) string {
	return `{"kind":"Status","channel":"status","data":` + Handle(id) + `}`
}

// Tool returns a tool event whose facet has the given members. The other members
// have their defaults.
func Tool(kind string, members ...string) string {
	facet := map[string]any{
		"backend_item_id": nil, "thread_id": nil, "turn_id": nil, "exit_code": nil,
		"tool_name": nil, "tool_use_id": nil,
	}
	counts := map[string]any{"stdout": 0, "stderr": 0, "diff": 0, "result": 0}
	for _, m := range members {
		var given map[string]any
		if err := json.Unmarshal([]byte("{"+m+"}"), &given); err != nil {
			panic(m)
		}
		if c, ok := given["bytes"].(map[string]any); ok {
			maps.Copy(counts, c)
		}
		maps.Copy(facet, given)
	}
	facet["bytes"] = counts
	b, _ := json.Marshal(map[string]any{"kind": kind, "channel": "tool",
		"data": map[string]any{"schema": "agent_api.tools.structured.v1", "tool": facet}})
	return string(b)
}

func quote(s string) string { return string(bounds.AppendString(nil, s)) }

// Faults checks lines that no dialect can read, around a line that becomes one
// event.
func Faults(t *testing.T, b normalizer.Backend, line, event string) {
	t.Helper()
	parse := func(problem, line string) []string { return []string{Fault(b, "parse", problem, line)} }
	untyped := func(why, line string) Case {
		return Case{why, []string{line}, []string{Fault(b, "normalize", "missing type", line)}}
	}
	for _, c := range []Case{
		{"no JSON", []string{`{oops`}, parse("invalid JSON", `{oops`)},
		{"half a line", []string{line[:len(line)-1]}, parse("invalid JSON", line[1:])},
		{"two values", []string{line + " {}"}, parse("invalid JSON", line+" {}")},
		{"a number out of range", []string{`{"type":"x","n":1e999}`}, parse("invalid JSON", `{"type":"x","n":1e999}`)},
		{"no UTF-8", []string{"{\"type\":\"x\xff\"}"}, parse("invalid UTF-8", "{\"type\":\"x?\"}")},
		{"neither UTF-8 nor JSON", []string{"{oops\xff"}, parse("invalid UTF-8", "{oops?")},
		{"neither JSON nor a type", []string{`{"type":7`}, parse("invalid JSON", `{"type":7`)},
		{"white space with a byte that is no UTF-8", []string{" \xff "}, parse("invalid UTF-8", "   ")},
		untyped("a list", `["type"]`), untyped("a string", `"type"`), untyped("a number", `7`), untyped("null", `null`),
		untyped("an empty object", `{}`), untyped("a type that is a number", `{"type":7}`),
		untyped("a type that is null", `{"type":null}`), untyped("a type that is a list", `{"type":["text"]}`),
		untyped("a key in another case", `{"Type":"text"}`), untyped("the first type is a number", `{"type":7,`+line[1:]),
		{"a carriage return is not counted", []string{"{oops\r"}, parse("invalid JSON", `{oops`)},
		{"only one is removed", []string{"{oops\r\r"}, parse("invalid JSON", "{oops\r")},
		{"CRLF", []string{line + "\r", line}, []string{event, event}},
		{"blanks give nothing", []string{"", " \t\v\f\r", "\u0085\u00a0\u2028\u3000", "\r"}, nil},
		{"a byte order mark is no white space", []string{"\ufeff"}, parse("invalid JSON", "\ufeff")},
		{"white space around", []string{" \t" + line + "\t "}, []string{event}},
		{"a fault does not stop the stream", []string{line, "{oops", line},
			[]string{event, Fault(b, "parse", "invalid JSON", "{oops"), event}},
		{"unknown type", []string{`{"type":"x","message":"SECRET"}`}, []string{Unknown}},
		{"empty type", []string{`{"type":""}`}, []string{Unknown}},
		{"type with blanks", []string{`{"type":" error","message":"SECRET"}`}, []string{Unknown}},
		{"type in another case", []string{`{"type":"ERROR","message":"SECRET"}`}, []string{Unknown}},
		{"the first type counts", []string{`{"type":"x",` + line[1:]}, []string{Unknown}},
		{"unknown members are no event", []string{line[:len(line)-1] + `,"SECRET":{"type":"SECRET"},"x":[1]}`},
			[]string{event}},
	} {
		t.Run(c.Why, func(t *testing.T) { Expect(t, b.Agent(), Feed(t, b, c.Lines...), c.Want...) })
	}
	t.Run("a line that is too long", func(t *testing.T) {
		f := normalizer.NewFold(b, "T-local-test", len(line))
		var got []normalizer.Message
		for i, e := range Output([]byte(line + "\n" + line + "\xff\n" + line + "\r\n")) {
			f.Apply(uint64(i+1), e, func(m normalizer.Message) { got = append(got, m) })
		}
		Expect(t, b.Agent(), got, event,
			Failure(fmt.Sprintf("%s stream line too long (redacted): line_bytes=%d max_line_bytes=%d", b.Agent(),
				len(line)+1, len(line)), ""), event)
	})
}

// Sessions checks where the session handle is published. Build returns a line that
// becomes a Status event, with the given JSON as its session id.
func Sessions(t *testing.T, b normalizer.Backend, build func(id string) string, message string) {
	t.Helper()
	const fits = 512
	long := strings.Repeat("é", fits) + "x"
	bare := Status(message, "")
	for id, want := range map[string]string{
		`"s"`: "s", `" \u00a0s\n"`: "s", `"\u0073"`: "s", `"a b"`: "a b", `"\u0000"`: "\x00", `"\"\\"`: `"\`,
		`"` + long[:2*fits] + `"`: long[:2*fits], `"  ` + long[:2*fits] + ` "`: long[:2*fits],
	} {
		Expect(t, b.Agent(), Feed(t, b, build(id), build(id), build(`"other"`)),
			Status(message, Handle(want)), bare, bare)
	}
	for _, id := range []string{`""`, `" \t\u2028"`, `7`, `null`, `true`, `["x"]`, `{"id":"x"}`} {
		Expect(t, b.Agent(), Feed(t, b, build(id), build(`"s"`)), bare, Status(message, Handle("s")))
	}
	Expect(t, b.Agent(), Feed(t, b, build(`"`+long+`"`), build(`"`+long+`"`), build(`"other"`)),
		bare, Status("session handle id oversize: len_bytes=1025", ""), bare, bare)
	Expect(t, b.Agent(), End(t, b, `{"reason":"exited","code":0}`, build(`"s"`), build(`"other"`)),
		`{"status":{"success":true,"code":0,"signal":null},"data":`+Handle("s")+`}`)
	Expect(t, b.Agent(), End(t, b, `{"reason":"exited","code":0}`, build(`"`+long+`"`), build(`"other"`)),
		`{"status":{"success":true,"code":0,"signal":null}}`)
}

// Counters checks which values of a usage counter are published. Build returns a
// line with the given JSON as its only counter, and want the event with that
// counter or, for an empty string, without one.
func Counters(t *testing.T, b normalizer.Backend, build, want func(n string) string) {
	t.Helper()
	for _, n := range []string{"0", "7", "-7", "9223372036854775807", "-9223372036854775808"} {
		got := Feed(t, b, build(n))
		Expect(t, b.Agent(), got, want(n))
		if len(got) == 1 && !strings.Contains(string(got[0].Body), ":"+n+"}") {
			t.Errorf("%s became %s", n, got[0].Body)
		}
	}
	for _, n := range []string{"9223372036854775808", "-9223372036854775809", "1.0", "1.5", "1e2", `"SECRET"`, `"1"`,
		"true", "null", "[1]", `{"SECRET":1}`} {
		Expect(t, b.Agent(), Feed(t, b, build(n)), want(""))
	}
}

// Costs checks which values of a cost are published. Build returns a line with the
// given JSON as its cost, and want the event with that cost or, for an empty
// string, without one.
func Costs(t *testing.T, b normalizer.Backend, build, want func(n string) string) {
	t.Helper()
	for _, n := range []string{"0", "3", "0.25", "1e-7", "1.5E+3", "999999999.5", "1e9", "1000000000"} {
		Expect(t, b.Agent(), Feed(t, b, build(n)), want(n))
	}
	for _, n := range []string{"-1", "-0.01", "1000000001", "1000000000.5", "1e10", `"SECRET"`, `"1"`, "true", "null",
		"[1]", `{"SECRET":1}`} {
		Expect(t, b.Agent(), Feed(t, b, build(n)), want(""))
	}
}

// Final is a row of a table of final texts. Want is JSON.
type Final = struct {
	Why   string
	Lines []string
	Want  string
}

// Finals checks the final texts of runs that exit with 0, and that they are null if
// the same runs exit in another way.
func Finals(t *testing.T, b normalizer.Backend, cases []Final) {
	t.Helper()
	exits := []struct{ exit, failure, status string }{
		{`{"reason":"exited","code":0}`, "", `{"success":true,"code":0,"signal":null}`},
		{`{"reason":"exited","code":3}`, " exited non-zero: exit_code=3 (stderr redacted)",
			`{"success":false,"code":3,"signal":null}`},
		{`{"reason":"exited","signal":15}`, " ended by signal: signal=15 (stderr redacted)",
			`{"success":false,"code":null,"signal":15}`},
	}
	for _, c := range cases {
		t.Run(c.Why, func(t *testing.T) {
			for _, x := range exits {
				var failures []string
				final := c.Want
				if x.failure != "" {
					failures, final = []string{Failure(b.Agent()+x.failure, "")}, "null"
				}
				got := End(t, b, x.exit, c.Lines...)
				last := len(got) - 1
				Expect(t, b.Agent(), got[:last], failures...)
				var completion map[string]json.RawMessage
				if err := json.Unmarshal(got[last].Body, &completion); err != nil {
					t.Fatal(err)
				}
				if s := completion["status"]; string(s) != x.status {
					t.Errorf("status %s, want %s", s, x.status)
				}
				if text := completion["final_text"]; string(text) != final {
					t.Errorf("exit %s: final text %s, want %s", x.exit, clip(text), clip([]byte(final)))
				}
			}
		})
	}
}

// Saved checks that a run that is saved and restored between every two lines has
// the same messages and the same record as one that is not. It returns the messages.
func Saved(t *testing.T, b normalizer.Backend, lines ...string) []normalizer.Message {
	t.Helper()
	log := Output(nil)
	offset := int64(0)
	for _, line := range lines {
		log = append(log, runs.Entry{Kind: runs.Out, Time: 2_000, Offset: offset, Body: []byte(line + "\n")})
		offset += int64(len(line)) + 1
	}
	log = append(log, runs.Entry{Kind: runs.Exited, Time: 3_000, Body: []byte(`{"reason":"exited","code":0}`)})
	want, unbroken := Fold(b, log)

	f := normalizer.NewFold(b, "T-local-test", 0)
	var got []normalizer.Message
	for i, e := range log {
		state, err := f.State()
		if err != nil || len(state) > normalizer.MaxState {
			t.Fatalf("before entry %d: a state of %d bytes, %v", i+1, len(state), err)
		}
		record := new(runs.Record)
		if err := json.Unmarshal(f.Record.JSON(), record); err != nil {
			t.Fatal(err)
		}
		if f, err = normalizer.Restore(b, record, state, 0); err != nil {
			t.Fatal(err)
		}
		f.Apply(uint64(i+1), e, func(m normalizer.Message) { got = append(got, m) })
	}
	a, z := contents(got), contents(want)
	for i := range max(len(a), len(z)) {
		if i >= len(a) || i >= len(z) {
			t.Errorf("%d messages, not %d, after Restore", len(a), len(z))
		} else if a[i] != z[i] {
			t.Errorf("message %d after Restore:\n got %s\nwant %s", i+1, clip(got[i].Body), clip(want[i].Body))
			break
		}
	}
	if a, z := f.Record.JSON(), unbroken.Record.JSON(); string(a) != string(z) {
		t.Errorf("the record after Restore:\n got %s\nwant %s", clip(a), clip(z))
	}
	Check(t, b.Agent(), want)
	return published(t, want)
}

// StateFits checks that the state of a dialect is within its limit after every
// line.
func StateFits(t *testing.T, b normalizer.Backend, lines ...string) {
	t.Helper()
	d, largest := b.Dialect(), 0
	for i, line := range lines {
		var out normalizer.Out
		if fault := d.Line([]byte(line), &out); fault != normalizer.NoFault {
			t.Fatalf("line %d has fault %d", i+1, fault)
		}
		state, err := d.State()
		if err != nil {
			t.Fatal(err)
		}
		largest = max(largest, len(state))
	}
	if largest > normalizer.MaxDialect {
		t.Errorf("a state of %d bytes; the limit is %d", largest, normalizer.MaxDialect)
	}
}
