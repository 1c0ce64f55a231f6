package normalizer_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"weak"

	"github.com/linesman/linesman/agent/codex"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/backendtest"
)

// run folds entries with the sequence numbers 1, 2, 3…
type run struct {
	*normalizer.Fold
	got []normalizer.Message
	seq uint64
}

func newRun(b normalizer.Backend, maxLine int) *run {
	return &run{Fold: normalizer.NewFold(b, "T-local-test", maxLine)}
}

func (r *run) entry(e runs.Entry) {
	r.seq++
	r.Apply(r.seq, e, func(m normalizer.Message) { r.got = append(r.got, m) })
}

func (r *run) out(offset int, text string) {
	r.entry(runs.Entry{Kind: runs.Out, Time: 2_000, Offset: int64(offset), Body: []byte(text)})
}

func (r *run) exit(body string) {
	r.entry(runs.Entry{Kind: runs.Exited, Time: 3_000, Body: []byte(body)})
}

// restore replaces the fold by one that is restored from its saved state.
func (r *run) restore(t *testing.T, b normalizer.Backend, maxLine int) {
	t.Helper()
	state, err := r.State()
	if err != nil {
		t.Fatal(err)
	}
	record := new(runs.Record)
	if err := json.Unmarshal(r.Record.JSON(), record); err != nil {
		t.Fatal(err)
	}
	if r.Fold, err = normalizer.Restore(b, record, state, maxLine); err != nil {
		t.Fatal(err)
	}
}

const exited0 = `{"reason":"exited","code":0}`

func failure(message string) string {
	return fmt.Sprintf(`{"kind":"Error","channel":"error","message":%q}`, message)
}

func tooLong(n, limit int) string {
	return failure(fmt.Sprintf("codex stream line too long (redacted): line_bytes=%d max_line_bytes=%d", n, limit))
}

const (
	unknown = `{"kind":"Unknown"}`
	ended   = `{"status":{"success":true,"code":0,"signal":null}}`
)

// Lines near the limit, with all line endings, split into entries at all offsets,
// with a restored fold in between.
func TestLongLineIsOneErrorForAnyEntries(t *testing.T) {
	const limit = 8
	backend := normalizer.Opaque("codex")
	for _, c := range []struct {
		line string
		want string // "": no event
	}{
		{"1234567", unknown},
		{"12345678", unknown},
		{"123456789", tooLong(9, limit)},
		{"1234567890", tooLong(10, limit)},
		{"12345678\r", unknown},
		{"1234567\r\r", unknown}, // one is removed, the other is white space
		{"12345678\r\r", tooLong(9, limit)},
		{"123456789\r", tooLong(9, limit)},
		{"123456789\r\r", tooLong(10, limit)},
		{"12345678\r9", tooLong(10, limit)},
		{"123456789012345678901234567890", tooLong(30, limit)},
		{"        ", ""},
		{"         ", tooLong(9, limit)},
		{"        \r", ""},
		{"\xff        ", tooLong(9, limit)},
	} {
		for _, end := range []string{"\n", "\n1\n", ""} {
			out := c.line + end
			want := []string{ended}
			if c.want != "" {
				want = []string{c.want, ended}
			}
			if end == "\n1\n" {
				want = slices.Insert(want, len(want)-1, unknown)
			}
			for first := range len(out) {
				for second := first; second <= len(out); second++ {
					r := newRun(backend, limit)
					r.out(0, out[:first])
					r.restore(t, backend, limit)
					r.out(0, out[:first])
					r.out(first, out[first:second])
					r.out(second, out[second:])
					if r.Pending() > limit+1 {
						t.Fatalf("%q: %d bytes are buffered", out, r.Pending())
					}
					r.exit(exited0)
					backendtest.Expect(t, "codex", r.got, want...)
					if t.Failed() {
						t.Fatalf("%q split at %d and %d", out, first, second)
					}
				}
			}
		}
	}
}

func TestDefaultLineLimit(t *testing.T) {
	r := newRun(codex.Backend{}, 0)
	fits := `{"type":"` + strings.Repeat("x", normalizer.DefaultMaxLine-11) + `"}`
	r.out(0, fits+"\n"+fits+" \n")
	r.exit(exited0)
	backendtest.Expect(t, "codex", r.got, unknown,
		tooLong(normalizer.DefaultMaxLine+1, normalizer.DefaultMaxLine), ended)
}

func TestMemoryOfALineIsBounded(t *testing.T) {
	r := newRun(codex.Backend{}, 1000)
	chunk := strings.Repeat("x", 700)
	for i := range 100 {
		r.out(i*700, chunk)
		if r.Pending() > 1001 {
			t.Fatalf("%d bytes are buffered", r.Pending())
		}
	}
	r.out(70_000, "\n{\"type\":\"x\"}\n")
	backendtest.Expect(t, "codex", r.got, tooLong(70_000, 1000), unknown)
}

// The output after the last newline is a line.
func TestLastLineNeedsNoNewline(t *testing.T) {
	for out, want := range map[string][]string{
		``:                      {},
		`{"type":"x"}`:          {unknown},
		"{\"type\":\"x\"}\r":    {unknown},
		"{\"type\":\"x\"}\n ":   {unknown},
		"{\"type\":\"x\"}\n{\"": {unknown, failure("codex stream parse error (redacted): invalid JSON (line_bytes=2)")},
	} {
		r := newRun(codex.Backend{}, 0)
		r.out(0, out)
		r.exit(exited0)
		backendtest.Expect(t, "codex", r.got, append(want, ended)...)
		if bytes := int64(len(out)); r.Record.Bytes != bytes {
			t.Errorf("%q: the record has %d bytes", out, r.Record.Bytes)
		}
	}
}

// The memory of a line is released, because there can be many runs without output
// for hours.
func TestLineIsReleased(t *testing.T) {
	for _, line := range []string{
		`{"type":"item.completed","item":{"id":"i","type":"agent_message","text":"` +
			strings.Repeat("x", 50_000) + `"}}`,
		`{"type":"item.started","item":{"id":"` + strings.Repeat("x", 50_000) + `","type":"mcp_tool_call","tool":"` +
			strings.Repeat("x", 50_000) + `","result":[1]}}`,
		`{"type":"thread.started","thread_id":"` + strings.Repeat("x", 100_000) + `"}`,
		`{"type":"error","message":7}`,
		"{oops\xff",
		" ",
		strings.Repeat("x", 500_000),
	} {
		for _, whole := range []bool{true, false} {
			r := newRun(codex.Backend{}, 400_000)
			body := append(make([]byte, 0, 1_000), line+"\n"...) // a separate allocation
			held := weak.Make(&body[0])
			r.entry(runs.Entry{Kind: runs.Out, Body: body[:1]})
			if !whole {
				r.entry(runs.Entry{Kind: runs.Out, Offset: 1, Body: body[1:2]})
			}
			r.entry(runs.Entry{Kind: runs.Out, Body: body})
			body, r.got = nil, nil
			runtime.GC()
			if held.Value() != nil {
				t.Errorf("%.60q is not released", line)
			}
			runtime.KeepAlive(r)
		}
	}
}

// weakTexts is an agent whose lines result in texts, to which it keeps weak
// pointers.
type weakTexts struct {
	constant
	texts []weak.Pointer[string]
}

func (k *weakTexts) Dialect() normalizer.Dialect { return k }

func (k *weakTexts) Line(_ []byte, out *normalizer.Out) normalizer.Fault {
	for range 3 {
		e := normalizer.AssistantText(strings.Repeat("x", 1_000))
		k.texts = append(k.texts, weak.Make(e.Text))
		out.Event(e)
	}
	return normalizer.NoFault
}

func TestEventsAreReleased(t *testing.T) {
	k := new(weakTexts)
	r := newRun(k, 0)
	r.out(0, "x\n")
	runtime.GC()
	for _, text := range k.texts {
		if text.Value() != nil {
			t.Error("a text is not released")
		}
	}
	if len(k.texts) != 3 || len(r.got) != 3 {
		t.Errorf("%d texts, %d messages", len(k.texts), len(r.got))
	}
	runtime.KeepAlive(r)
}

// The position of a message is the entry in which its line ends, the line, and the
// number of the message within the line.
func TestPositions(t *testing.T) {
	r := newRun(codex.Backend{}, 0)
	at := func(seq uint64, kind runs.Kind, time int64, offset int, body string) {
		r.Apply(seq, runs.Entry{Kind: kind, Time: time, Offset: int64(offset), Body: []byte(body)},
			func(m normalizer.Message) { r.got = append(r.got, m) })
	}
	first := "\n" + `{"type":"x"}` + "\n" +
		`{"type":"turn.completed","thread_id":"t","usage":{"input_tokens":1}}` + "\n" + `{"ty`
	at(10, runs.Started, 1, 0, `{}`)
	at(12, runs.Out, 2, 0, first)
	at(13, runs.Out, 3, len(first), `pe":"x"}`)
	at(17, runs.Out, 4, len(first)+8, "\n")
	at(18, runs.Kind("x"), 5, 0, "")
	at(19, runs.Out, 6, len(first)+109, "torn\n"+`{"type":"item.completed","item":{"type":"agent_message",`+
		`"text":"`+strings.Repeat("x", 70_000)+`"}}`+"\n"+`{"type":"x"}`)
	at(20, runs.Exited, 7, 0, `{"reason":"exited","code":1}`)
	want := []normalizer.Pos{
		{Raw: 12, Line: 2, Part: 1, Time: 2},
		{Raw: 12, Line: 2, Part: 2, Time: 2}, // the notice of drift
		{Raw: 12, Line: 3, Part: 1, Time: 2},
		{Raw: 12, Line: 3, Part: 2, Time: 2}, // the session handle
		{Raw: 17, Line: 4, Part: 1, Time: 4},
		{Raw: 18, Line: 0, Part: 1, Time: 5}, // an unknown kind of entry
		{Raw: 19, Line: 0, Part: 1, Time: 6}, // a gap
		{Raw: 19, Line: 6, Part: 1, Time: 6}, // a long text
		{Raw: 19, Line: 6, Part: 2, Time: 6},
		{Raw: 20, Line: 7, Part: 1, Time: 7}, // the last line
		{Raw: 20, Line: 0, Part: 1, Time: 7}, // the exit status
		{Raw: 20, Line: 0, Part: 2, Time: 7}, // the completion
	}
	var got []normalizer.Pos
	for _, m := range r.got {
		got = append(got, m.Pos)
	}
	if !slices.Equal(got, want) {
		t.Errorf("positions\n%v\nwant\n%v", got, want)
	}
}

// One line for each token, in the order of Tokens.
func TestTokensAreTheKinds(t *testing.T) {
	r := newRun(codex.Backend{}, 0)
	r.out(0, `{"type":"x"}
{"type":"item.completed","item":{"type":"reasoning","text":""}}
{"type":"item.started","item":{"type":"web_search"}}
{"type":"item.completed","item":{"type":"web_search"}}
{"type":"turn.started"}
{oops
`)
	r.exit(exited0)
	var got []string
	for _, m := range backendtest.WithoutDrift(r.got) {
		got = append(got, m.Token)
	}
	if want := normalizer.Tokens(); !slices.Equal(got, want) {
		t.Errorf("tokens %v, want %v", got, want)
	}
}

// Lines of an unknown agent are counted, and not published.
func TestOpaqueAgentPublishesNoContent(t *testing.T) {
	out := "{\"type\":\"error\",\"message\":\"SECRET\"}\n[\"SECRET\"]\n \nSECRET\n\"SECRET\xff\"\n7"
	r := newRun(normalizer.Opaque("other_1"), 0)
	r.out(0, out)
	r.restore(t, normalizer.Opaque("other_1"), 0)
	r.out(0, out)
	r.exit(`{"reason":"exited","code":3}`)
	backendtest.Expect(t, "other_1", r.got, unknown, unknown,
		failure("other_1 stream parse error (redacted): invalid JSON (line_bytes=6)"),
		failure("other_1 stream parse error (redacted): invalid UTF-8 (line_bytes=9)"),
		unknown,
		failure("other_1 exited non-zero: exit_code=3 (stderr redacted)"),
		`{"status":{"success":false,"code":3,"signal":null}}`)
	if n := r.Record; n.Lines != 6 || n.Blank != 1 || n.Unknown != 3 || n.Malformed != 2 || n.Agent != "other_1" {
		t.Errorf("record %s", n.JSON())
	}
	for _, m := range r.got {
		if strings.Contains(string(m.Body), "SECRET") {
			t.Errorf("leaks: %s", m.Body)
		}
	}
}
