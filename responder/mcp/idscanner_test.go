package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"
)

// MCP knows no null id, and a client waits for the answer with its own.
func TestARefusedRequestGetsItsIDBack(t *testing.T) {
	large := strings.Repeat("x", maxMessage)
	deep := strings.Repeat("[", 1000) + strings.Repeat("]", 1000)
	deeper := strings.Repeat(`{"id":7,"a":[`, 10_000) + strings.Repeat("]}", 10_000)
	for _, c := range []struct{ line, id string }{
		{`{"method":"tools/call","params":{"arguments":{"task":"` + large + `"}},"jsonrpc":"2.0","id":1}`, `1`},
		{`{"jsonrpc":"2.0","id":"a-2","method":"tools/call","params":{"arguments":{"task":"` + large + `"}}}`, `"a-2"`},
		{`{"method":"tools/call","params":{"id":"inside","arguments":` + deep + `},"jsonrpc":"2.0","id":3}`, `3`},
		{`{"method":"tools/call","params":` + deeper + `,"jsonrpc":"2.0","id":4}`, `4`},
		{`{"id":5,"method":"ping"}`, `5`},
		{`{"jsonrpc":"2.0","id":6,"method":7}`, `6`},
		{`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"x":NaN}}`, `7`},
		{`{"id":1,"method":"` + large + `","\u0069d" : "\"}\\\u00e9" }`, `"\"}\\é"`},
		{`{"method":"x","id":-12345678901234567890,"` + large + `":"id"}`, `-12345678901234567890`},
		{`{"jsonrpc":"2.0","id":301,"method":"tools/call","params":{"name":"a"`, `301`},
		{`{"jsonrpc":"2.0","id":302,"method":"tools/list","params":{}}}`, `302`},
		{`{"jsonrpc":"2.0","id":"303","method":"tools/call","params":{"name":"a`, `"303"`},
		{`{"method":"tools/list","id":304} 7`, `304`},
		{`{"jsonrpc":"2.0","method":"tools/list","params":{},"id":"305" `, `"305"`},
		{`{"id":306,"jsonrpc":"2.0","method":"tools/list"`, `306`},
		{`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"` + large + `"`, `1`},
		{`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"` + large + `"}}{"id":2}`, `1`},
	} {
		in, out := serveStdio(t, t.Context(), NewServer(config(nil)))
		var refusal struct {
			ID    json.RawMessage
			Error struct{ Code int }
		}
		got := ask(t, in, bufio.NewScanner(out), c.line)
		if err := json.Unmarshal([]byte(got), &refusal); err != nil || refusal.Error.Code == 0 ||
			!sameJSON(refusal.ID, []byte(c.id)) {
			t.Errorf("%.40s: got %s, want an error with id %s", c.line, got, c.id)
		}
	}
}

func TestARefusedLineWhoseRequestIsUnknownIsAnsweredWithoutAnID(t *testing.T) {
	large := strings.Repeat("x", maxMessage)
	for _, line := range []string{
		`{"jsonrpc":"2.0","id":1,"params":{"x":"` + large + `"}}`, // no method
		`{"jsonrpc":"2.0","id":1,"result":{"x":"` + large + `"}`,
		`{"jsonrpc":"2.0","method":"ping","params":{"x":"` + large + `"},"id":1`, // perhaps the begin of 12
		`{"jsonrpc":"2.0","id":1,"method":"pi`,
		`{"jsonrpc":"2.0","method":"ping","params":{},"id":"1`,
		`{"jsonrpc":"2.0","method":"ping","params":{"id":"inside"`,
		`{"jsonrpc":"2.0","method":"ping","params":{"x":"y},"id":"1"}`, // an odd number of quotes
		`{"jsonrpc":"2.0","id":1,"params":{}}}`,
		`{"jsonrpc":"2.0","id":null,"method":"ping","params":{"x":"` + large + `"}}`,
		`{"jsonrpc":"2.0","method":"tools/call","params":{"name":"a"],"id":"inside"},"id":"outside"}`,
		`{"jsonrpc":"2.0","id":{"id":1},"method":"ping","params":{"x":"` + large + `"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"` + large + `"},"id":true}`,
		`{"jsonrpc":"2.0","id":"` + large + `","method":"ping"}`,
		`[{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"` + large + `"}}]`,
	} {
		in, out := serveStdio(t, t.Context(), NewServer(config(nil)))
		if got := ask(t, in, bufio.NewScanner(out), line); strings.Contains(got, `"id"`) ||
			!strings.Contains(got, `"error"`) {
			t.Errorf("%.60s: got %s, want an error without id", line, got)
		}
	}
}

func TestARefusedNotificationOrResponseIsNotAnswered(t *testing.T) {
	in, out := serveStdio(t, t.Context(), NewServer(config(nil)))
	for _, line := range []string{
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"id":1,"message":"` + strings.Repeat("x", maxMessage) +
			`"}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"x":"` + strings.Repeat("x", maxMessage) + `"}}`,
		`{"error":{"code":1,"message":"` + strings.Repeat("x", maxMessage) + `"},"id":"a","jsonrpc":"2.0"}`,
		`{"jsonrpc":"2.0","id":1,"result":` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + `}`,
		`{"jsonrpc":"2.0","method":"notifications/progress","params":` + strings.Repeat("[", 2000) + strings.Repeat("]",
			2000) + `}`,
	} {
		write(t, in, line)
	}
	if got := ask(t, in, bufio.NewScanner(out), `{"jsonrpc":"2.0","id":1,"method":"ping"}`); !strings.Contains(got,
		`"result"`) {
		t.Errorf("got %s, want the answer to the ping", got)
	}
}

func TestOfALongLineOnlyTheIDIsKept(t *testing.T) {
	line := io.MultiReader(
		strings.NewReader(`{"method":"tools/call","`), strings.NewReader(strings.Repeat("k", 4*maxID)),
		strings.NewReader(`":1,"params":{"x":"`),
		io.LimitReader(letters{}, 64<<20), strings.NewReader(`"},"id":"last"}`+"\n"),
	)
	text, long, err := readLine(bufio.NewReaderSize(line, 64<<10))
	if err != nil || text != nil || long == nil {
		t.Fatalf("got %d bytes, %v", len(text), err)
	}
	if id, _ := long.answer(); string(id) != `"last"` {
		t.Errorf("got the id %s", id)
	}
	if cap(long.token) > 2*maxID {
		t.Errorf("%d bytes are kept", cap(long.token))
	}
	var deep idScanner
	_, _ = deep.Write([]byte(`{"id":1,"method":"ping","a":` + strings.Repeat("[", 2*maxMessage)))
	if id, _ := deep.answer(); string(id) != "1" || len(deep.open) > maxMessage {
		t.Errorf("got the id %s, and %d levels are kept", id, len(deep.open))
	}
}

// A client waits for the id that it sent. The library would answer with the one
// that the number is as a float64, or as an int64.
func TestAnIDComesBackAsItIsOrIsRefused(t *testing.T) {
	in, out := serveStdio(t, t.Context(), NewServer(config(nil)))
	lines, url := bufio.NewScanner(out), serve(t, Handler(NewServer(config(nil))))
	session := open(t, url)
	for _, c := range ids {
		var got struct {
			ID     json.RawMessage
			Result json.RawMessage
			Error  struct {
				Code    int
				Message string
			}
		}
		want := []byte(c.id)
		if len(want) > maxID || c.id == "null" {
			want = nil
		}
		check := func(over, answer string) {
			t.Helper()
			got.ID, got.Result, got.Error.Code, got.Error.Message = nil, nil, 0, ""
			err := json.Unmarshal([]byte(answer), &got)
			switch {
			case err != nil, !c.taken && !bytes.Equal(got.ID, want), c.taken && !sameJSON(got.ID, []byte(c.id)):
				t.Errorf("%s: the id %.40s is answered with %s, %v", over, c.id, answer, err)
			case c.taken && got.Result == nil, !c.taken && (got.Error.Code != -32600 || !strings.HasPrefix(got.Error.Message,
				"id: must be")):
				t.Errorf("%s: the id %.40s is taken: got %s, want %t", over, c.id, answer, c.taken)
			}
		}
		ping := `{"jsonrpc":"2.0","id":` + c.id + `,"method":"ping"}`
		check("stdio", ask(t, in, lines, ping))
		status := map[bool]int{true: http.StatusOK, false: http.StatusBadRequest}[c.taken]
		check("HTTP with a session", posted(t, url, status, ping, sessionHeader, session, versionHeader, legacy))
		modern := strings.Replace(modernList, `"id":2`, `"id":`+c.id, 1)
		check("HTTP without", posted(t, url, status, modern, versionHeader, stateless, "Mcp-Method", "tools/list"))
		if !c.taken {
			posted(t, url, http.StatusBadRequest, `[`+ping+`]`, sessionHeader, session, versionHeader, "2025-03-26")
		}
	}
}

var ids = []struct {
	id    string
	taken bool
}{
	{`0`, true}, {`-1`, true}, {`1.0`, true}, {`2E2`, true}, {`"1.5"`, true}, {`"` + strings.Repeat("x", 2*maxID) + `"`,
		true},
	{`9007199254740991`, true}, {`9007199254740992`, true}, {`-9007199254740992`, true},
	{`9007199254740993`, false}, {`-9007199254740993`, false}, {`9007199254740992.1`, false},
	{`1152921504606846977`, false},
	{`9223372036854775808`, false}, {`1e30`, false}, {`1e300`, false}, {`1.5`, false}, {`-0.5`, false}, {`1e-300`, false},
	{`null`, false}, // in MCP not even an answer has it
	{`1.` + strings.Repeat("0", maxID-3) + `1`, false}, {`1` + strings.Repeat("0", 300), false},
	{`1.` + strings.Repeat("0", 2*maxID), false},
}

// Otherwise 1.5 would cancel 1, and the progress of 2^60+1 be that of another.
func TestANumberThatNamesAnotherRequestIsNotTaken(t *testing.T) {
	c, begun, ended := waiting()
	in, out := serveStdio(t, t.Context(), NewServer(c))
	lines, url := bufio.NewScanner(out), serve(t, Handler(NewServer(c)))
	ask(t, in, lines, initialize)
	const (
		cancel = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2.5}}`
		token  = `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"wait","_meta":{"progressToken":1152921504606846977}}}`
	)
	again := []string{ // of two members with one name the last counts
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7,"requestId":2.5}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7},"params":{"\u0072equestId":2.5}}`,
		strings.Replace(token, `"progressToken":`, `"progressToken":1,"progressToken":`, 1),
		strings.Replace(token, `"_meta":`, `"_meta":{"progressToken":1},"_meta":`, 1),
	}
	write(t, in, callWait) // its id is 2
	<-begun
	for _, line := range append(again[:2:2], cancel) {
		write(t, in, line)
	}
	for _, line := range again[2:] {
		if got := ask(t, in, lines, line); !strings.Contains(got, "progressToken: must be") {
			t.Errorf("%s: got %s", line, got)
		}
	}
	if got := ask(t, in, lines, token); !strings.Contains(got, `"id":3`) ||
		!strings.Contains(got, "progressToken: must be") {
		t.Errorf("got %s", got)
	}
	select {
	case <-ended:
		t.Error("the call 2 was cancelled")
	default:
	}
	write(t, in, strings.Replace(cancel, "2.5", "2.0", 1))
	<-ended

	session := open(t, url)
	for _, body := range append(again, cancel, token) {
		posted(t, url, http.StatusBadRequest, body, sessionHeader, session, versionHeader, legacy)
	}
}

// posted is what a POST is answered with: JSON, or the one event of a stream.
func posted(t *testing.T, url string, status int, body string, header ...string) string {
	t.Helper()
	res := post(t.Context(), t, url, body, header...)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != status {
		t.Errorf("%.80s: %d %s, %v; want %d", body, res.StatusCode, b, err, status)
	}
	if _, data, ok := bytes.Cut(b, []byte("data: {")); ok {
		b, _, _ = bytes.Cut(append([]byte("{"), data...), []byte("\n"))
	}
	return string(b)
}

// letters has no end.
type letters struct{}

func (letters) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// FuzzRequestID reads a line in two pieces: the id is the one that
// encoding/json finds at the top level of an object, and one that is answered
// is a string or a number, in UTF-8.
func FuzzRequestID(f *testing.F) {
	for _, line := range bodies {
		f.Add([]byte(line), 3)
	}
	for _, line := range []string{
		`{"method":"x","id":1,"id":"\u00e9\ud800"}`,
		` { "params" : {"id":1,"a":["}",{"id":2}]} , "method" : "x" , "id" : -1.5e3 } `,
		`{"\u006dethod":[],"i\u0064":"\"\\"}`, `{"method":1,"id":tru}`, `{"method":1 2,"id":1 2}`, `{"method":1,"id":1:2}`,
		`{"id":1,"method":1}}`, `{"a":{]},"id":1}`, `{,}`, `{}{}`,
		`{"method":1,"id":"` + strings.Repeat("x", maxID) + `"}`, "{\"method\":1,\"id\":\"\xff\"}",
	} {
		f.Add([]byte(line), 10)
	}
	f.Fuzz(func(t *testing.T, line []byte, cut int) {
		var s idScanner
		cut = min(max(cut, 0), len(line))
		_, _ = s.Write(line[:cut])
		_, _ = s.Write(line[cut:])
		id, wanted := s.answer()
		if id != nil && (!json.Valid(id) || !utf8.Valid(id) || len(id) > maxID || !strings.ContainsRune(`"-0123456789`,
			rune(id[0]))) {
			t.Errorf("%q: the id is %q", line, id)
		}
		if id != nil && !wanted {
			t.Errorf("%q: the id is %q, and it is not wanted", line, id)
		}
		if !json.Valid(line) {
			return
		}
		var want []byte
		var object map[string]json.RawMessage
		if json.Unmarshal(line, &object) != nil || object == nil || object["method"] == nil {
			response := object["id"] != nil && (object["result"] != nil || object["error"] != nil)
			if id != nil || wanted == response {
				t.Errorf("%q: got %q, %t for what is no request", line, id, wanted)
			}
			return
		}
		raw, there := object["id"]
		if there && strings.ContainsRune(`"-0123456789`, rune(raw[0])) && len(raw) <= maxID && utf8.Valid(raw) {
			want = raw
		}
		if !bytes.Equal(id, want) || wanted != there {
			t.Errorf("%q: got %q, %t, want %q, %t", line, id, wanted, want, there)
		}
	})
}

func BenchmarkRequestID(b *testing.B) {
	line := []byte(`{"method":"tools/call","params":{"arguments":{"task":"` + strings.Repeat("x", 1<<20) +
		`"}},"jsonrpc":"2.0","id":1}`)
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	for b.Loop() {
		var s idScanner
		_, _ = s.Write(line)
	}
}

func sameJSON(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && x == y
}
