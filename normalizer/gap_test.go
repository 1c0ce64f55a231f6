package normalizer_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/linesman/linesman/agent/codex"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/backendtest"
)

func gap(n int64) string {
	return failure(fmt.Sprintf("codex stream gap (redacted): missing_bytes=%d", n))
}

// A gap results in one Error event, at any offset in a line. Complete lines after
// it are read.
func TestHoleIsOneError(t *testing.T) {
	const a, b = `{"type":"error","message":"a"}` + "\n", `{"type":"error","message":"b"}` + "\n"
	for _, c := range []struct {
		why             string
		before, after   string
		want            []string
		lines, badLines int64
	}{
		{"between lines", a, b, []string{failure("a"), gap(7), failure("b")}, 2, 0},
		{"at the beginning", "", b, []string{gap(7), failure("b")}, 1, 0},
		{"in the middle of a line, up to its end", a + `{"type":`, b,
			[]string{failure("a"), gap(7), failure("b")}, 2, 0},
		{"from between lines to the middle of one", a, `or","message":"x"}` + "\n" + b,
			[]string{failure("a"), gap(7), failure("b")}, 3, 0},
		{"from the middle of a line to the middle of one", a + `{"type`, `essage":"x"}` + "\n" + b,
			[]string{failure("a"), gap(7), failure("b")}, 3, 0},
		{"to the newline", a, "\n" + b, []string{failure("a"), gap(7), failure("b")}, 3, 0},
		{"to the middle of a character", a, "\xa9\"}\n" + b, []string{failure("a"), gap(7), failure("b")}, 3, 0},
		{"to a remainder that is valid JSON", a, "12\n" + b, []string{failure("a"), gap(7), failure("b")}, 3, 0},
		{"only the first line after it is incomplete", a, "x\nx\n" + b,
			[]string{failure("a"), gap(7), failure("codex stream parse error (redacted): invalid JSON (line_bytes=1)"),
				failure("b")}, 4, 1},
		{"a complete line with an invalid payload is an error", a, `{"type":"error"}` + "\n",
			[]string{failure("a"), gap(7), failure("codex stream parse error (redacted): invalid payload " +
				"(line_bytes=16)")}, 2, 1},
		{"in a line that is too long", a + `"` + string(make([]byte, 100)), b,
			[]string{failure("a"), gap(7), failure("b")}, 2, 0},
	} {
		for _, saved := range []bool{false, true} {
			r := newRun(codex.Backend{}, 64)
			save := func() {
				if !saved {
					return
				}
				r.restore(t, codex.Backend{}, 64)
				r.out(0, c.before)
			}
			r.out(0, c.before)
			save()
			at := len(c.before) + 7
			r.out(at, c.after[:1])
			save()
			r.out(at, c.after[:1])
			r.out(at+1, c.after[1:])
			save()
			backendtest.Expect(t, "codex", r.got, c.want...)
			if r.Record.Gaps != 1 || r.Record.Lines != c.lines || r.Record.Malformed != c.badLines ||
				r.Record.Bytes != int64(at+len(c.after)) {
				t.Errorf("record %s", r.Record.JSON())
			}
			if t.Failed() {
				t.Fatalf("%s (saved: %v)", c.why, saved)
			}
		}
	}
}

// Of overlapping or duplicate entries only new bytes count.
func TestDuplicateBytesAreIgnored(t *testing.T) {
	out := messageLine + completeLine + messageLine + `{"type":"error","message":"`
	want := []string{messageEvent, completeEvent, messageEvent}
	cut := len(messageLine) + 10
	for _, c := range []struct {
		why    string
		pieces [][2]int
	}{
		{"once", [][2]int{{0, len(out)}}},
		{"twice", [][2]int{{0, len(out)}, {0, len(out)}}},
		{"half, then all", [][2]int{{0, cut}, {0, len(out)}}},
		{"all, then half", [][2]int{{0, len(out)}, {0, cut}, {cut, len(out)}}},
		{"overlapping", [][2]int{{0, cut}, {cut - 30, cut + 20}, {cut + 19, len(out)}}},
		{"within", [][2]int{{0, cut}, {5, 10}, {cut - 1, cut}, {cut, cut}, {cut, len(out)}}},
	} {
		r := newRun(codex.Backend{}, 0)
		for _, p := range c.pieces {
			r.out(p[0], out[p[0]:p[1]])
		}
		backendtest.Expect(t, "codex", r.got, want...)
		if r.Record.Lines != 3 || r.Record.Gaps != 0 || r.Record.Bytes != int64(len(out)) {
			t.Errorf("%s: record %s", c.why, r.Record.JSON())
		}
	}
}

// An entry with a negative offset, or one that overflows, is an unreadable record.
func TestInvalidOffset(t *testing.T) {
	for _, offset := range []int64{-1, math.MinInt64, math.MaxInt64, math.MaxInt64 - int64(len(messageLine)) + 1} {
		r := newRun(codex.Backend{}, 0)
		r.out(0, messageLine)
		r.entry(runs.Entry{Kind: runs.Out, Offset: offset, Body: []byte(messageLine)})
		r.out(len(messageLine), messageLine)
		backendtest.Expect(t, "codex", r.got, messageEvent,
			failure("codex raw record error (redacted): bad offset"), messageEvent)
		if r.Record.Bad != 1 || r.Record.Gaps != 0 || r.Record.Bytes != int64(2*len(messageLine)) {
			t.Errorf("offset %d: record %s", offset, r.Record.JSON())
		}
	}
}

// A replay of entries of any kind results in no messages.
func TestReplayedEntriesResultInNoMessages(t *testing.T) {
	log := []runs.Entry{
		{Kind: runs.Queued, Time: 1, Body: []byte(`{"source":"queue"}`)},
		{Kind: runs.Started, Time: 2, Body: []byte(`{"source":"queue"}`)},
		{Kind: runs.Out, Time: 3, Body: []byte(messageLine + `{"type`)},
		{Kind: runs.Out, Time: 4, Offset: -7, Body: []byte("x")},
		{Kind: "x", Time: 5},
		{Kind: runs.ErrOut, Time: 6, Body: []byte("x")},
		{Kind: runs.Note, Time: 7},
		{Kind: runs.Out, Time: 8, Offset: 5_000, Body: []byte(`x`)}, // a gap
		{Kind: runs.Out, Time: 9, Offset: 5_001, Body: []byte("\n" + messageLine)},
	}
	r := newRun(codex.Backend{}, 0)
	for i, e := range log {
		r.entry(e)
		r.restore(t, codex.Backend{}, 0)
		messages := len(r.got)
		for j := range i + 1 {
			r.Apply(uint64(j+1), log[j], func(m normalizer.Message) { r.got = append(r.got, m) })
		}
		if len(r.got) != messages {
			t.Fatalf("the replay of entries up to %d resulted in %s", i+1, r.got[messages].Body)
		}
	}
	backendtest.Expect(t, "codex", r.got, messageEvent,
		failure("codex raw record error (redacted): bad offset"),
		failure("codex raw record error (redacted): unknown kind"),
		gap(5_000-int64(len(messageLine))-6), messageEvent)
	if n := r.Record; n.Bad != 2 || n.Gaps != 1 || n.Lines != 3 || n.ErrBytes != 1 || n.Seq != 9 || r.Seen() != 9 {
		t.Errorf("record %s", n.JSON())
	}
}

// A recreated raw log has new sequence numbers. Its output is continued by offset.
func TestForgetAcceptsNewSequenceNumbers(t *testing.T) {
	r := newRun(codex.Backend{}, 0)
	r.seq = 100
	r.out(0, messageLine)
	r.seq = 0
	r.out(len(messageLine), completeLine)
	r.entry(runs.Entry{Kind: runs.Cancelled})
	if len(r.got) != 2 || r.Record.Cancel {
		t.Fatalf("more than the bytes of a replayed entry were used: %s", r.Record.JSON())
	}
	r.Forget()
	r.seq = 0
	r.out(len(messageLine), completeLine)
	r.entry(runs.Entry{Kind: runs.Cancelled})
	if len(r.got) != 2 || !r.Record.Cancel {
		t.Errorf("%d messages, record %s", len(r.got), r.Record.JSON())
	}
}

// A lost raw log is filled again while a tool runs: it still runs.
func TestRefilledLogKeepsWhatTheRunDoes(t *testing.T) {
	line := `{"type":"item.started","item":{"id":"item_0","type":"command_execution","command":"x","aggregated_output":"",` +
		`"exit_code":null,"status":"in_progress"}}` + "\n"
	log := []runs.Entry{
		{Kind: runs.Started, Time: 2, Body: []byte(`{"source":"run"}`)}, {Kind: runs.Out, Time: 3, Body: []byte(line)},
	}
	r := newRun(codex.Backend{}, 0)
	for _, forget := range []bool{false, true} {
		if forget {
			r.Forget()
			r.seq = 0
		}
		for _, e := range log {
			r.entry(e)
		}
		if d := r.Record.Doing; d.Phase != runs.RunningTool || d.Since != 3 {
			t.Errorf("forgotten %t: %+v", forget, d)
		}
	}
}

func TestUnreadableEntryIsOneError(t *testing.T) {
	r := newRun(codex.Backend{}, 0)
	emit := func(m normalizer.Message) { r.got = append(r.got, m) }
	r.Unreadable(5, 1, emit)
	r.Unreadable(5, 1, emit)
	r.Apply(6, runs.Entry{Kind: "pause", Body: []byte("SECRET")}, emit)
	backendtest.Expect(t, "codex", r.got, failure("codex raw record error (redacted): unknown kind"),
		failure("codex raw record error (redacted): unknown kind"))
	if r.Record.Bad != 2 || r.Record.State != runs.StateQueued {
		t.Errorf("record %s", r.Record.JSON())
	}
}

// If a replay finds a gap, its event belongs to the first new entry.
func TestGapInAReplay(t *testing.T) {
	for _, saved := range []bool{false, true} {
		r := newRun(codex.Backend{}, 0)
		r.entry(runs.Entry{Kind: runs.Out, Body: []byte(messageLine[:4])})
		r.entry(runs.Entry{Kind: runs.Out, Offset: 4, Body: []byte(messageLine[4:9])})
		r.restore(t, codex.Backend{}, 0)
		keep := func(m normalizer.Message) { r.got = append(r.got, m) }
		r.Apply(2, runs.Entry{Kind: runs.Out, Offset: 4, Body: []byte(messageLine[4:9])}, keep) // entry 1 is lost
		if len(r.got) != 0 {
			t.Fatalf("the replay resulted in %s", r.got[0].Body)
		}
		if saved {
			r.restore(t, codex.Backend{}, 0)
			r.Apply(2, runs.Entry{Kind: runs.Out, Offset: 4, Body: []byte(messageLine[4:9])}, keep)
		}
		r.entry(runs.Entry{Kind: runs.Out, Offset: 9, Body: []byte(messageLine[9:] + messageLine)})
		backendtest.Expect(t, "codex", r.got, gap(4), messageEvent)
		if r.got[0].Raw != 3 || r.Record.Gaps != 1 {
			t.Errorf("event at %d, %d gaps", r.got[0].Raw, r.Record.Gaps)
		}
	}
}
