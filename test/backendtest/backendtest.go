// Package backendtest tests the contract of a [normalizer.Backend]. A new backend
// needs a package, recordings of the real program, and one call of [Run].
package backendtest

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// Suite describes a backend and its recordings.
type Suite struct {
	Backend normalizer.Backend
	// Corpus is a folder of recordings: NAME.jsonl is the output of the agent,
	// NAME.exit its exit status (128+N: ended by signal N).
	Corpus string
	// Golden is a folder with the expected results; -update writes them.
	Golden string
	// Shown lists the members whose text may be in events or controls the
	// mapping, as paths of keys ("item.text"). All others are secret.
	Shown []string
	// Recorded lists the members whose text may be in the run record, but never
	// in an event.
	Recorded []string
}

// Run checks the contract with all recordings.
func Run(t *testing.T, s Suite) {
	files, err := filepath.Glob(filepath.Join(s.Corpus, "*.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings in %s", s.Corpus)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".jsonl")
		t.Run(name, func(t *testing.T) {
			out, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			log := append(Output(out), exitEntry(t, strings.TrimSuffix(file, ".jsonl")+".exit"))
			whole, fold := Fold(s.Backend, log)
			t.Run("EventsAreGolden", func(t *testing.T) { s.golden(t, name, whole, fold.Record) })
			t.Run("EventsAreInBounds", func(t *testing.T) { Check(t, s.Backend.Agent(), whole) })
			t.Run("RecordAgreesWithEvents", func(t *testing.T) { agree(t, fold.Record, whole, out) })
			t.Run("ChunksDoNotMatter", func(t *testing.T) { s.chunks(t, out, log, whole) })
			t.Run("RestoreDoesNotMatter", func(t *testing.T) { s.resume(t, out, log, whole) })
			t.Run("SecretsStay", func(t *testing.T) { s.secrets(t, out) })
		})
	}
}

// Output returns the log of a run: its start entry, and its output as one entry.
func Output(out []byte) []runs.Entry {
	log := []runs.Entry{{Kind: runs.Started, Time: 1_000, Body: runs.Encode(runs.Start{Source: "run"})}}
	if len(out) > 0 {
		log = append(log, runs.Entry{Kind: runs.Out, Time: 2_000, Body: out})
	}
	return log
}

// exitEntry returns the exit entry for a recorded exit status.
func exitEntry(tb testing.TB, file string) runs.Entry {
	tb.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	code, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		tb.Fatal(err)
	}
	exit := runs.Exit{Reason: runs.ReasonExited, Code: &code}
	if code > 128 {
		exit.Code, exit.Signal = nil, code-128
	}
	return runs.Entry{Kind: runs.Exited, Time: 3_000, Body: runs.Encode(exit)}
}

// Fold folds a log from its beginning.
func Fold(b normalizer.Backend, log []runs.Entry) ([]normalizer.Message, *normalizer.Fold) {
	f := normalizer.NewFold(b, "T-local-test", 0)
	var messages []normalizer.Message
	for i, e := range log {
		f.Apply(uint64(i+1), e, func(m normalizer.Message) { messages = append(messages, m) })
	}
	return messages, f
}

func (s Suite) golden(t *testing.T, name string, messages []normalizer.Message, record *runs.Record) {
	var got bytes.Buffer
	for _, m := range messages {
		fmt.Fprintf(&got, "%d.%d %s %s\n", m.Line, m.Part, m.Token, m.Body)
	}
	fmt.Fprintf(&got, "record %s\n", record.JSON())
	fmt.Fprintf(&got, "summary %s\n", record.Summary())
	if c := record.ErrorContext(); c != nil {
		b, err := bounds.Encode(c)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&got, "error context %s\n", b)
	}
	file := filepath.Join(s.Golden, name+".golden")
	if *update {
		if err := os.MkdirAll(s.Golden, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("events differ from %s\ngot:\n%s\nwant:\n%s", file, clip(got.Bytes()), clip(want))
	}
}

func clip(b []byte) []byte {
	if len(b) > 4000 {
		return append(slices.Clone(b[:4000]), "..."...)
	}
	return b
}

// Check reports every message that violates a rule of the envelope.
func Check(tb interface{ Errorf(string, ...any) }, agent string, messages []normalizer.Message) {
	for i, m := range messages {
		if err := checkBody(agent, m.Token, m.Body); err != nil {
			tb.Errorf("message %d (line %d, part %d): %v: %s", i, m.Line, m.Part, err, clip(m.Body))
		}
		if last := i == len(messages)-1; m.Token == normalizer.CompletionToken && !last {
			tb.Errorf("message %d is a completion, but not the last", i)
		}
	}
}

// checkBody returns an error if a message violates a rule of the envelope.
func checkBody(agent, token string, body []byte) error {
	if !utf8.Valid(body) {
		return fmt.Errorf("not UTF-8")
	}
	if len(body) > 512<<10 {
		return fmt.Errorf("%d bytes", len(body))
	}
	var e map[string]json.RawMessage
	if err := json.Unmarshal(body, &e); err != nil {
		return err
	}
	text := func(key string) (string, bool) {
		var s *string
		if json.Unmarshal(e[key], &s) != nil || s == nil {
			return "", false
		}
		return *s, true
	}
	if kind, _ := text("agent_kind"); kind != agent {
		return fmt.Errorf("agent_kind %q", kind)
	}
	if n := len(e["data"]); n > bounds.MaxData {
		return fmt.Errorf("data has %d bytes", n)
	}
	if token == normalizer.CompletionToken {
		if len(e) != 5 {
			return fmt.Errorf("a completion with %d keys", len(e))
		}
		if s, _ := text("final_text"); len(s) > bounds.MaxFinalText {
			return fmt.Errorf("final_text has %d bytes", len(s))
		}
		return nil
	}
	if len(e) != 6 {
		return fmt.Errorf("%d keys", len(e))
	}
	kind, _ := text("kind")
	channel, _ := text("channel")
	words, isText := text("text")
	message, hasMessage := text("message")
	switch {
	case len(channel) > bounds.MaxChannel:
		return fmt.Errorf("channel has %d bytes", len(channel))
	case len(words) > bounds.MaxText:
		return fmt.Errorf("text has %d bytes", len(words))
	case len(message) > bounds.MaxMessage:
		return fmt.Errorf("message has %d bytes", len(message))
	case isText != (kind == "TextOutput"):
		return fmt.Errorf("%s with text: %v", kind, isText)
	case kind == "Error" && !hasMessage:
		return fmt.Errorf("an Error without a message")
	case hasMessage && kind != "Error" && kind != "Status":
		return fmt.Errorf("%s with a message", kind)
	}
	if kind == "ToolCall" || kind == "ToolResult" {
		return checkFacet(e["data"])
	}
	return nil
}

func checkFacet(data []byte) error {
	if string(data) == bounds.Dropped {
		return nil
	}
	var facet struct {
		Schema string                     `json:"schema"`
		Tool   map[string]json.RawMessage `json:"tool"`
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&facet); err != nil || facet.Schema != "agent_api.tools.structured.v1" {
		return fmt.Errorf("no tools facet")
	}
	keys := []string{"backend_item_id", "bytes", "exit_code", "kind", "phase", "status", "thread_id", "tool_name",
		"tool_use_id", "turn_id"}
	got := slices.Sorted(maps.Keys(facet.Tool))
	if !slices.Equal(keys, got) {
		return fmt.Errorf("facet with keys %v", got)
	}
	return nil
}

func agree(t *testing.T, r *runs.Record, messages []normalizer.Message, out []byte) {
	counts := map[string]int64{}
	for _, m := range messages {
		if m.Token != normalizer.CompletionToken {
			counts[m.Token]++
		}
	}
	if !reflect.DeepEqual(counts, r.Events) {
		t.Errorf("record counts %v, published %v", r.Events, counts)
	}
	if lines := int64(bytes.Count(out, []byte{'\n'})); r.Bytes != int64(len(out)) ||
		r.Lines < lines || r.Lines > lines+1 {
		t.Errorf("record has %d lines, %d bytes; the output %d, %d", r.Lines, r.Bytes, lines, len(out))
	}
	if size := len(r.JSON()); size > runs.MaxRecord {
		t.Errorf("record of %d bytes", size)
	}
	if !r.State.Final() {
		t.Errorf("state %s after the end", r.State)
	}
}

// sameContent compares messages without the fields that depend on entry boundaries.
func sameContent(a, b []normalizer.Message) bool {
	return slices.EqualFunc(a, b, func(a, b normalizer.Message) bool {
		return a.Line == b.Line && a.Part == b.Part && a.Token == b.Token && bytes.Equal(a.Body, b.Body)
	})
}

// chunks splits the output at any offsets, with duplicate and overlapping entries.
func (s Suite) chunks(t *testing.T, out []byte, log []runs.Entry, want []normalizer.Message) {
	_, whole := Fold(s.Backend, log)
	rapid.Check(t, func(t *rapid.T) {
		got, fold := Fold(s.Backend, cutUp(t, out, log))
		if !sameContent(got, want) {
			t.Errorf("the events depend on entry boundaries")
		}
		fold.Record.Seq = whole.Record.Seq // depends on the number of entries
		if got, want := fold.Record.JSON(), whole.Record.JSON(); !bytes.Equal(got, want) {
			t.Errorf("the record depends on entry boundaries:\n%s\n%s", got, want)
		}
	})
}

func cutUp(t *rapid.T, out []byte, log []runs.Entry) []runs.Entry {
	entries := []runs.Entry{log[0]}
	for at := 0; at < len(out); {
		n := rapid.IntRange(1, max(len(out)/4, 2)).Draw(t, "bytes")
		back := rapid.SampledFrom([]int{0, 0, 0, 1, 7, at}).Draw(t, "back")
		from := max(at-back, 0)
		to := min(at+n, len(out))
		entries = append(entries, runs.Entry{Kind: runs.Out, Time: 2_000, Offset: int64(from), Body: out[from:to]})
		at = to
	}
	return append(entries, log[len(log)-1])
}

// resume saves and restores the state after any entries.
func (s Suite) resume(t *testing.T, out []byte, log []runs.Entry, want []normalizer.Message) {
	_, unbroken := Fold(s.Backend, log)
	rapid.Check(t, func(t *rapid.T) {
		entries := cutUp(t, out, log)
		f := normalizer.NewFold(s.Backend, "T-local-test", 0)
		var got []normalizer.Message
		var from int // the entry in which the unfinished line begins
		take := func(m normalizer.Message) { got = append(got, m) }
		for i, e := range entries {
			lines := f.Record.Lines
			f.Apply(uint64(i+1), e, take)
			if f.Pending() == 0 {
				from = i + 1
			} else if f.Record.Lines != lines {
				from = i
			}
			if !rapid.Bool().Draw(t, "stop here") {
				continue
			}
			state, err := f.State()
			if err != nil {
				t.Fatal(err)
			}
			if len(state) > normalizer.MaxState {
				t.Fatalf("state of %d bytes", len(state))
			}
			record := new(runs.Record)
			if err := json.Unmarshal(f.Record.JSON(), record); err != nil {
				t.Fatal(err)
			}
			if f, err = normalizer.Restore(s.Backend, record, state, 0); err != nil {
				t.Fatal(err)
			}
			before := len(got)
			for j := from; j <= i; j++ { // replay the bytes that are not in the state
				f.Apply(uint64(j+1), entries[j], take)
			}
			if len(got) != before {
				t.Fatal("the replay resulted in events")
			}
		}
		if !sameContent(got, want) {
			t.Errorf("the events differ after Restore")
		}
		record := *f.Record
		record.Seq = unbroken.Record.Seq // depends on the number of entries
		if got, want := record.JSON(), unbroken.Record.JSON(); !bytes.Equal(got, want) {
			t.Errorf("the record differs after Restore:\n%s\n%s", got, want)
		}
	})
}
