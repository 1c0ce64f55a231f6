package normalizer_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/linesman/linesman/agent/codex"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/backendtest"
)

// pieces are the parts of the generated outputs: lines, parts of lines, and other
// bytes.
var pieces = []string{
	`{"type":"thread.started","thread_id":"t"}`, `{"type":"turn.started"}`,
	`{"type":"turn.started","turn_id":"u","thread_id":"v"}`,
	`{"type":"turn.completed","usage":{"input_tokens":12}}`, `{"type":"turn.failed"}`,
	`{"type":"error","message":"m"}`, `{"type":"x"}`,
	`{"type":"item.started","item":{"id":"item_1","type":"command_execution"}}`,
	`{"type":"item.completed","item":{"id":"item_1","type":"command_execution"}}`,
	`{"type":"item.completed","item":{"id":"item_2","type":"agent_message","text":"a\u0000b"}}`,
	`{"type":"item.completed","item":{"type":"agent_message","text":"`,
	`{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"prompt":[{"type":"text","text":"p"}]}}`,
	`{"jsonrpc":"2.0","id":1,"result":{"stopReason":"end_turn"}}`,
	`{"jsonrpc":"2.0","id":1,"method":"session/request_permission","params":{"options":[]}}`,
	`{"jsonrpc":"2.0","id":1,"result":{"outcome":{"outcome":"cancelled"}}}`,
	`{"jsonrpc":"2.0","method":"session/update","params":{"update":{"sessionUpdate":"agent_message_chunk",` +
		`"content":{"type":"text","text":"c"}}}}`,
	"\n", "\n", "\n", "\r\n", "\r", " ", "\u2028", "{", "}", `"`, `\`, "0", "é", "\xff", "\x00",
	strings.Repeat("y", 300), strings.Repeat("\x01", 50),
}

var kinds = []runs.Kind{
	runs.Out, runs.Out, runs.Out, runs.Out, runs.Out, runs.Out, runs.Out, runs.Out,
	runs.Queued, runs.Started, runs.ErrOut, runs.Note, runs.Cancelled, runs.Exited, "", "pause",
	runs.Sent, runs.Sent, runs.Sent, runs.Proc, runs.Ordered,
}

// drawLog generates a raw log with duplicates, gaps, invalid bodies, and entries
// after the end.
func drawLog(t *rapid.T) []runs.Entry {
	var log []runs.Entry
	sent := map[runs.Kind][]byte{} // stdout so far, and what was sent to the agent
	for i := range rapid.IntRange(0, 30).Draw(t, "entries") {
		e := runs.Entry{Kind: rapid.SampledFrom(kinds).Draw(t, "kind"), Time: int64(i)}
		if e.Kind == runs.Exited && rapid.IntRange(0, 3).Draw(t, "not yet") > 0 {
			e.Kind = runs.Out
		}
		if e.Kind != runs.Out && e.Kind != runs.Sent {
			e.Offset = rapid.Int64().Draw(t, "offset")
			e.Body = []byte(rapid.SampledFrom([]string{``, `{}`, `{"reason":"exited","code":0}`, `{"reason":"eof"}`,
				`{"reason":"hard"}`, `{"source":"run"}`, `{"n":1,"do":"start"}`, `{"n":1,"do":"end"}`, "\xff"}).Draw(t, "body"))
			log = append(log, e)
			continue
		}
		for range rapid.IntRange(0, 4).Draw(t, "pieces") {
			e.Body = append(e.Body, rapid.SampledFrom(pieces).Draw(t, "piece")...)
		}
		out := sent[e.Kind]
		at := int64(len(out))
		switch rapid.IntRange(0, 9).Draw(t, "offset kind") {
		case 0: // duplicate bytes
			at = rapid.Int64Range(0, at).Draw(t, "from")
			e.Body = append(slices.Clone(out[at:]), e.Body...)
		case 1: // a gap
			gap := rapid.IntRange(1, 50).Draw(t, "gap")
			out = append(out, make([]byte, gap)...)
			at += int64(gap)
		case 2:
			e.Offset = rapid.Int64().Draw(t, "offset")
			if e.Offset < 0 { // a positive one would be a gap, and all later output a duplicate
				log = append(log, e)
				continue
			}
		}
		e.Offset = at
		sent[e.Kind] = append(out[:at], e.Body...)
		log = append(log, e)
	}
	return log
}

// anyLog checks the properties of every log: messages are within their limits; a
// completion is the last message; saving and restoring the fold changes neither
// the messages nor the record.
func anyLog(t *rapid.T) {
	log := drawLog(t)
	limit := rapid.SampledFrom([]int{0, 1, 64, 400}).Draw(t, "limit")
	type message struct {
		normalizer.Pos
		token, body string
	}
	var whole, resumed []normalizer.Message
	a := normalizer.NewFold(codex.Backend{}, "T-local-test", limit)
	for i, e := range log {
		a.Apply(uint64(i+1), e, func(m normalizer.Message) { whole = append(whole, m) })
		if size := len(a.Record.JSON()); size > 64<<10 {
			t.Fatalf("a record of %d bytes", size)
		}
		if limit > 0 && a.Record.Live == nil && a.Pending() > 2*(limit+1) {
			t.Fatalf("%d bytes of a line are buffered", a.Pending())
		}
	}
	backendtest.Check(t, "codex", whole)
	counts := map[string]int64{}
	for _, m := range whole {
		if m.Token != normalizer.CompletionToken {
			counts[m.Token]++
		}
	}
	if got, want := fmt.Sprint(a.Record.Events), fmt.Sprint(counts); got != want {
		t.Fatalf("the record counts %s, but %s were published", got, want)
	}
	if done := len(whole) > 0 && whole[len(whole)-1].Token == normalizer.CompletionToken; done != a.Done() ||
		done != a.Record.State.Final() {
		t.Fatalf("completion %v, done %v, state %s", done, a.Done(), a.Record.State)
	}

	b := normalizer.NewFold(codex.Backend{}, "T-local-test", limit)
	take := func(m normalizer.Message) { resumed = append(resumed, m) }
	for i, e := range log {
		b.Apply(uint64(i+1), e, take)
		switch rapid.IntRange(0, 2).Draw(t, "then") {
		case 0:
			continue
		case 1:
			b.Drop()
		case 2:
			state, err := b.State()
			if err != nil || len(state) > normalizer.MaxState {
				t.Fatalf("a state of %d bytes, %v", len(state), err)
			}
			record := new(runs.Record)
			if err := json.Unmarshal(b.Record.JSON(), record); err != nil {
				t.Fatal(err)
			}
			if b, err = normalizer.Restore(codex.Backend{}, record, state, limit); err != nil {
				t.Fatal(err)
			}
		}
		before := len(resumed)
		for j := range i + 1 { // replay the bytes that are not in the state
			b.Apply(uint64(j+1), log[j], take)
		}
		if len(resumed) != before {
			t.Fatalf("the replay resulted in %s", resumed[before].Body)
		}
	}
	one, other := make([]message, len(whole)), make([]message, len(resumed))
	for i, m := range whole {
		one[i] = message{m.Pos, m.Token, string(m.Body)}
	}
	for i, m := range resumed {
		other[i] = message{m.Pos, m.Token, string(m.Body)}
	}
	if !slices.Equal(one, other) {
		t.Fatalf("the messages differ after Restore:\n%v\n%v", one, other)
	}
	if got, want := string(b.Record.JSON()), string(a.Record.JSON()); got != want {
		t.Fatalf("the record differs after Restore:\n%s\n%s", got, want)
	}
}

func TestAnyLog(t *testing.T) { rapid.Check(t, anyLog) }

func FuzzFold(f *testing.F) {
	random := rand.NewChaCha8([32]byte{}) // rapid consumes the input, so it must be long
	for range 8 {
		seed := make([]byte, 8<<10)
		_, _ = random.Read(seed) // never fails
		f.Add(seed)
	}
	f.Fuzz(rapid.MakeFuzz(anyLog))
}

// The state is largest with a final text of control characters and with ids of
// the maximum length.
func TestStateIsBounded(t *testing.T) {
	escapes := func(n int) string { return strings.Repeat(`\u0000`, n) }
	thread := (normalizer.MaxThread - 2) / 6
	turn := (normalizer.MaxTurn - 2) / 6
	for _, c := range []struct {
		why   string
		lines string
		least int // bytes of state
	}{
		{"nothing", "", 10},
		{"ids that fit", `{"type":"turn.started","turn_id":"` + escapes(turn) + `","thread_id":"` +
			escapes(thread) + `"}`, 70 << 10},
		{"ids that do not", `{"type":"turn.started","turn_id":"` + escapes(turn+1) + `","thread_id":"` +
			escapes(thread+1) + `"}`, 10},
		{"a turn that does not, and a thread that does",
			`{"type":"turn.started","turn_id":"` + escapes(2*turn) + `","thread_id":"` +
				escapes(thread) + `"}`, 60 << 10},
		{"a session of the largest size", `{"type":"turn.started","thread_id":"` + escapes(1024) + `"}`, 6 << 10},
		{"final text", `{"type":"item.completed","item":{"type":"agent_message","text":"` +
			escapes(70_000) + `"}}`, 80 << 10},
		{"all", `{"type":"thread.started","thread_id":"` + escapes(1024) + `"}
{"type":"turn.started","turn_id":"` + escapes(turn) + `","thread_id":"` + escapes(thread) + `"}
{"type":"item.completed","item":{"type":"agent_message","text":"` + escapes(70_000) + `"}}`, 150 << 10},
	} {
		r := newRun(codex.Backend{}, 0)
		r.out(0, c.lines+"\n")
		backendtest.Check(t, "codex", r.got)
		state, err := r.State()
		if err != nil || len(state) > normalizer.MaxState || len(state) < c.least {
			t.Errorf("%s: a state of %d bytes, %v; want %d to %d", c.why, len(state), err, c.least, normalizer.MaxState)
		}
		var saved struct{ Dialect json.RawMessage }
		if err := json.Unmarshal(state, &saved); err != nil || len(saved.Dialect) > normalizer.MaxDialect {
			t.Errorf("%s: a dialect's state of %d bytes, %v", c.why, len(saved.Dialect), err)
		}
		if size := len(r.Record.JSON()); size > 64<<10 {
			t.Errorf("%s: a record of %d bytes", c.why, size)
		}

		messages := len(r.got)
		r.restore(t, codex.Backend{}, 0)
		if again, err := r.State(); err != nil || string(again) != string(state) {
			t.Errorf("%s: the state differs after Restore, %v", c.why, err)
		}
		const search = `{"type":"item.completed","item":{"type":"web_search"}}` + "\n"
		r.out(len(c.lines)+1, search)
		r.exit(exited0)
		unbroken := newRun(codex.Backend{}, 0)
		unbroken.out(0, c.lines+"\n"+search)
		unbroken.exit(exited0)
		for i, m := range r.got[messages:] {
			if want := unbroken.got[messages+i]; string(m.Body) != string(want.Body) {
				t.Errorf("%s: a message differs after Restore: %.300s", c.why, m.Body)
			}
		}
	}
}

// An invalid state is an error, which does not quote the state.
func TestRestoreRejectsInvalidState(t *testing.T) {
	for _, state := range []string{`SECRET`, `{"offset":"SECRET"}`, `{"offset":1,"dialect":"SECRET"}`,
		`{"offset":1,"dialect":[1]}`, `[]`} {
		_, err := normalizer.Restore(codex.Backend{}, runs.NewRecord("T-local-test", "codex"), []byte(state), 0)
		if err == nil || strings.Contains(err.Error(), "SECRET") || !strings.Contains(err.Error(), "T-local-test") {
			t.Errorf("%s: %v", state, err)
		}
	}
	if _, err := normalizer.Restore(codex.Backend{}, runs.NewRecord("T-local-test", "claude_code"),
		[]byte(`{}`), 0); err == nil {
		t.Error("the record of another agent kind is accepted")
	}
}

// A restored fold knows which changed files it has counted, and an older state without them is read.
func TestUnlistedFilesOfARestoredFold(t *testing.T) {
	r := newRun(codex.Backend{}, 0)
	at := 0
	edits := func() {
		var changes []string
		for i := range 60 {
			changes = append(changes, fmt.Sprintf(`{"path":"f%d","kind":"update"}`, i))
		}
		line := `{"type":"item.completed","item":{"id":"i","type":"file_change","changes":[` + strings.Join(changes, ",") +
			`],"status":"completed"}}` + "\n"
		r.out(at, line)
		at += len(line)
	}
	edits()
	r.restore(t, codex.Backend{}, 0)
	if edits(); r.Record.Changed().Files != 60 {
		t.Errorf("%d files", r.Record.Changed().Files)
	}
	r.Record.Files.Hashes = nil // as of an older version
	r.restore(t, codex.Backend{}, 0)
	if edits(); r.Record.Changed().Files != 70 {
		t.Errorf("%d files after an older state", r.Record.Changed().Files)
	}
}
