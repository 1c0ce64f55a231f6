package runs

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// A header with and without each of its fields survives a round trip, and needs no package json to be read.
func TestHeaderRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := func(name string) string {
			return rapid.StringOfN(rapid.RuneFrom([]rune("aé -%+\n\"\\<\u2028")), 0, 8, -1).Draw(t, name)
		}
		number := func(name string) int64 { return rapid.Int64Range(-3, 1<<62).Draw(t, name) }
		at := func(name string) Time { return Time(rapid.Int64Range(0, int64(lastTime)).Draw(t, name)) }
		maybe := func(name string) bool { return rapid.Bool().Draw(t, name) }
		h := Header{
			Summary: Summary{
				ID: "T-local-a", Attributes: Attributes{Agent: text("agent"), Title: text("title"), Thread: text("thread"),
					Dir: text("dir"), Model: text("model"), Labels: LabelsOf(map[string]string{"a" + text("key"): text("value"),
						"b": text("b")})}, State: StateInputRequired, Source: text("source"), Worker: text("worker"),
				Queue: text("queue"), CancelRequested: maybe("cancel"), Reason: text("reason"),
				Continues: text("continues"), QueuedAt: at("queued"), StartedAt: at("started"),
				ActiveAt: at("active"), EndedAt: at("ended"), Activity: text("activity"), Version: text("version"), Times: Captured,
				Brief: Brief{Answer: text("answer"), Cause: text("cause"), Hint: text("hint")},
				Turn:  int(number("turn")), Seq: rapid.Uint64Range(0, 1<<62).Draw(t, "seq"),
			},
			Work: rapid.Uint64Range(0, 1<<62).Draw(t, "work"), Asked: maybe("asked"),
		}
		if maybe("progress") {
			h.Progress, h.Steps = &Todo{int(number("done")), 3}, &Progress{int(number("percent")), 1, 2}
		}
		if maybe("doing") {
			h.Doing = &Doing{RunningTool, text("tool"), 1, 2, at("next"), at("since")}
		}
		if maybe("tokens") {
			h.Tokens, h.Cost = &Spend{number("input"), number("output")}, new(rapid.Float64().Draw(t, "cost"))
		}
		if maybe("changed") {
			h.Changed, h.Tested = &Changed{number("files"), ByTools, 1, number("removed")}, &TestCount{1, 2}
		}
		r := headerReader{rest: h.Text()}
		if r.header(); r.bad || r.rest != "" {
			t.Fatalf("%s is not read, from %q on", h.Text(), r.rest)
		}
		got, err := ParseHeader(h.Text(), Words{})
		if err != nil || !reflect.DeepEqual(got, h) {
			t.Fatalf("got %+v, %v; want %+v", got, err, h)
		}
	})
}

// What the reader reads, package json reads in the same way.
func FuzzHeader(f *testing.F) {
	h := Header{Summary: Summary{
		ID: "a", Attributes: Attributes{Agent: "codex", Title: "Größe <\\\">", Labels: "a=b&c=d"}, Progress: &Todo{1, 2},
		Doing:  &Doing{Phase: Thinking, Since: 1},
		Tokens: &Spend{1, 2}, Changed: &Changed{1, ByTools, 2, 3}, Brief: Brief{Tested: &TestCount{1, 2},
			Cost: new(1.5e-7)}, Seq: 9,
	}, Work: 1, Steps: &Progress{1, 2, 3}}
	for _, text := range []string{
		h.Text(), `{"run":"a","RUN":"b"}`, `{"run":"a","seq":1,"seq":2}`, `{"run":"a", "seq":1}`, `{"run":"a","seq":-0}`,
		`{"run":"a","labels":{"k":"v"},"labels":{"l":"v"}}`, `{"run":"a","title":"\ud800"}`, `{"run":"a","seq":null}`,
		`{"run":"a","tokens":{}}`, `{"run":"\u0061","asked":true}`, `{"run":"a","costUsd":01}`,
		`{"run":"a","title":"` + "\xff" + `"}`,
		`{"run":"a","progress":{"totalSteps":1},"progress":{"completedSteps":1}}`, `{"run":"a","endedAt":"x"}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r := headerReader{rest: text}
		if r.header(); r.bad || r.rest != "" {
			return
		}
		var want Header
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			t.Fatalf("%s: read as %+v, but: %v", text, r.h, err)
		}
		if !reflect.DeepEqual(r.h, want) {
			t.Fatalf("%s: read as %+v, want %+v", text, r.h, want)
		}
	})
}

// Words are shared, and not more than their bound; no header keeps the text that it was read from.
func TestWordsAreBounded(t *testing.T) {
	words := Words{}
	for i := range maxWords + 10 {
		if text := strings.Repeat("x", i); words.of(text) != text {
			t.Fatal("another text")
		}
	}
	if len(words) != maxWords {
		t.Errorf("%d words", len(words))
	}
}
