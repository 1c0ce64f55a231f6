package normalizer_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/linesman/linesman/agent/codex"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/test/fixture/backendtest"
)

// Each damaged place is one error, and each record has its events.
func TestDamagedLines(t *testing.T) {
	const (
		a, b = `{"type":"error","message":"a"}`, `{"type":"error","message":"b"}`
		half = `{"type":"error","mess`
		log  = `{"timestamp":"2026-01-01T00:00:00.000Z","type":"event_msg","payload":{"type":"error","message":"a"}}`
	)
	isA, isB := failure("a"), failure("b")
	invalid := func(what string, n int) string {
		return failure(fmt.Sprintf("codex stream parse error (redacted): invalid %s (line_bytes=%d)", what, n))
	}
	many := strings.Repeat(`{"type":`, 20)
	for _, c := range []struct {
		why, output string
		want        []string
	}{
		{"a byte order mark", "\ufeff" + a + "\n" + b + "\n", []string{isA, isB}},
		{"a byte order mark alone", "\ufeff\n" + a + "\n", []string{isA}},
		{"a byte order mark later", a + "\n\ufeff" + b + "\n", []string{isA, invalid("JSON", 3+len(b))}},
		{"NULs of a crash", a + "\x00\x00\x00\n\x00\x00" + b + "\n\x00\x00\n", []string{isA, isB}},
		{"escape sequences", "\x1b[?2004h\x1b]0;t\x07" + a + "\n\x1b[0m\r" + b + "\n", []string{isA, isB}},
		{"an escape sequence alone", "\x1b[?2004h\n", []string{invalid("JSON", 8)}},
		{"an escape sequence without its end", "\x1b]0;t" + a + "\n\x1b[\n\x1b\n",
			[]string{invalid("JSON", 5+len(a)), invalid("JSON", 2), invalid("JSON", 1)}},
		{"text before a record", "x" + a + "\n", []string{invalid("JSON", 1+len(a))}},
		{"glue", a + b + a + "\n" + a + "\x00" + b + "\n", []string{isA, isB, isA, isA, isB}},
		{"glue behind an escape sequence", "\x1b[0m" + a + b + "\n", []string{isA, isB}},
		{"glue with white space", a + " " + b + "\n", []string{invalid("JSON", len(a)+1), isB}},
		{"half a record", half + a + "\n" + b + "\n", []string{invalid("JSON", len(half)), isA, isB}},
		{"half a record that is no UTF-8", half + "\xff" + a + "\n", []string{invalid("UTF-8", len(half)+1), isA}},
		{"half a record and NULs", half + "\x00\x00" + a + "\n", []string{invalid("JSON", len(half)+2), isA}},
		{"half a record of a log", log[:40] + log + "\n", []string{invalid("JSON", 40), isA}},
		{"half a record and two more", half + a + b + "\n", []string{invalid("JSON", len(half)+len(a)), isB}},
		{"half a record at the end", a + half + "\n", []string{invalid("JSON", len(a)+len(half))}},
		{"too many places", many + a + "\n" + a[:len(a)-1] + many + "\n",
			[]string{invalid("JSON", len(many)), isA, invalid("JSON", len(a)-1+len(many))}},
		{"records of which one has no payload", `{"type":"error"}` + a + "\n",
			[]string{failure("codex stream parse error (redacted): invalid payload (line_bytes=16)"), isA}},
	} {
		r := newRun(codex.Backend{}, 0)
		r.out(0, c.output)
		backendtest.Expect(t, "codex", backendtest.WithoutDrift(r.got), c.want...)
		if n := int64(strings.Count(c.output, "\n")); r.Record.Lines != n {
			t.Errorf("%s: %d lines, want %d", c.why, r.Record.Lines, n)
		}
		if t.Failed() {
			t.Fatalf("%s: %q", c.why, c.output)
		}
	}
}

// The end of a line that began in a gap is no error: the gap is one.
func TestALineAfterAGapIsNoSecondError(t *testing.T) {
	const record = `{"type":"error","message":"a"}`
	r := newRun(codex.Backend{}, 0)
	r.out(0, "{\"type\":\"turn.started\"}\n")
	r.out(100, `{"x":"`+record+"\n"+record+"\n")
	gap := failure("codex stream gap (redacted): missing_bytes=76")
	backendtest.Expect(t, "codex", r.got[1:], gap, failure("a"), failure("a"))
}

// What is salvaged is in the line, in its order, and valid.
func TestSalvagedRecordsArePartsOfTheLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOfN(rapid.SampledFrom([]string{
			`{"type":"a"}`, `{"timestamp":1,"type":"b","x":{"type":"c"}}`, `{"type":`, `}`, `{`, "\x00", "\x1b[0m", "\xff", `"`,
			`\`, "\x1b]", "\x07", " ", "[{}]",
		}), 0, 60).Draw(t, "pieces")
		line := strings.Join(pieces, "")
		records, torn := normalizer.Salvage([]byte(line))
		if len(records) > 17 || len(records) == 0 && torn > 0 {
			t.Fatalf("%d records, %d bytes are torn", len(records), torn)
		}
		rest := line[torn:]
		for _, record := range records {
			at := strings.Index(rest, string(record))
			if at < 0 || !utf8.Valid(record) || !strings.HasPrefix(string(record), "{") {
				t.Fatalf("%q is not next in %q", record, rest)
			}
			rest = rest[at+len(record):]
		}
	})
}

// The longest lines, with as many places as possible that look like records.
func BenchmarkSalvage(b *testing.B) {
	const size = normalizer.DefaultMaxLine
	fill := func(unit string) string { return strings.Repeat(unit, size/len(unit)) }
	for name, line := range map[string]string{
		"torn": `{"type":"x","text":"` + fill("a"), "starts": fill(`{"type":`), "glue": fill(`{"a":1}`),
		"glue at the end":         `{"a":"` + fill("b") + strings.Repeat(`}{`, 40),
		"starts at the beginning": strings.Repeat(`{"type":"`, 40) + fill("b"),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(line)))
			for b.Loop() {
				normalizer.Salvage([]byte(line))
			}
		})
	}
}
