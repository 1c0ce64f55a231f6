package spans_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/telemetry/spans"
)

var update = flag.Bool("update", false, "rewrite the golden file")

// recording is the events of a recorded run: a line each 100 ms.
type recording struct {
	name, run, agent string
	events           []runs.Event
	record           *runs.Record
}

// recordings returns those of all agents, by name.
func recordings(t *testing.T) (all []recording) {
	t.Helper()
	var files []string
	err := filepath.WalkDir("../../test/corpus", func(path string, _ os.DirEntry, err error) error {
		if filepath.Ext(path) == ".jsonl" {
			files = append(files, path)
		}
		return err
	})
	if err != nil || len(files) < 90 {
		t.Fatal(err, len(files))
	}
	for _, file := range files {
		name, _ := filepath.Rel("../../test/corpus", file)
		dir, _, _ := strings.Cut(name, string(filepath.Separator))
		a, ok := known.Agents.Find(strings.TrimSuffix(dir, "-sessions"))
		if !ok {
			continue
		}
		out, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, record(name, a.Backend, out))
	}
	return all
}

func record(name string, b normalizer.Backend, out []byte) recording {
	r := recording{name: name, run: "r-" + strings.NewReplacer("/", "-", ".", "-").Replace(name), agent: b.Agent()}
	fold := normalizer.NewFold(b, "r", 0)
	seq, offset := uint64(0), int64(0)
	apply := func(e runs.Entry) {
		seq++
		e.Time = int64(1_780_000_000_000 + 100*seq)
		fold.Apply(seq, e, func(m normalizer.Message) {
			r.events = append(r.events, runs.Event{
				Seq: uint64(len(r.events) + 1), Agent: r.agent, Run: r.run, Token: m.Token, Time: m.Time, Line: m.Line,
				Part: m.Part, Raw: m.Raw, Body: bytes.Clone(m.Body),
			})
		})
	}
	for line := range bytes.Lines(out) {
		apply(runs.Entry{Kind: runs.Out, Offset: offset, Body: line})
		offset += int64(len(line))
	}
	apply(runs.Entry{Kind: runs.Exited, Body: []byte(`{"reason":"exited","code":0}`)})
	r.record = fold.Record
	return r
}

// of returns what is known of an agent.
func of(kind string) agent.Agent {
	a, _ := known.Agents.Find(kind)
	return a
}

func fold(r recording) (all []spans.Span) {
	s := spans.New(r.run, r.agent, of(r.agent))
	for _, e := range r.events {
		all = append(all, s.Apply(e)...)
	}
	return all
}

// untold are logs that tell no ends of messages, or no total over all processes: turns and record each have a part.
var untold = regexp.MustCompile(`-sessions/(2\.1\.20-|0\.77-resume/)`)

// Each recording has the tree in the golden file; in it every span has a parent, which
// contains it, and an id of its own; and the tokens of its turns are those of the run's record.
func TestSpansOfEveryRecording(t *testing.T) {
	var got bytes.Buffer
	for _, r := range recordings(t) {
		all := fold(r)
		fmt.Fprintf(&got, "%s\n", r.name)
		tree(&got, all, [8]byte{}, 1)
		byID := map[[8]byte]spans.Span{}
		var used runs.Usage
		for _, s := range all {
			if _, twice := byID[s.ID]; twice {
				t.Errorf("%s: two spans have the id %x", r.name, s.ID)
			}
			byID[s.ID] = s
			used = used.Plus(s.Tokens)
		}
		var before spans.Place
		for _, s := range all {
			if s.Kind == spans.Turn {
				if s.After != before {
					t.Errorf("%s: the turn at %v follows %v, not %v", r.name, s.Begin, s.After, before)
				}
				before = s.Last
			}
			p, ok := byID[s.Parent]
			if ok == (s.Kind == spans.Whole) || ok && (s.Start < p.Start || s.End > p.End) || s.End < s.Start {
				t.Errorf("%s: %+v is not in its parent %+v", r.name, s, p)
			}
		}
		if own := r.record.Own; own != nil {
			if b := r.record.Before; b != nil && r.record.Counts == "" { // the exporter subtracts it
				used = used.Minus(b.Usage)
			}
			if untold.MatchString(r.name) && r.record.Spent().Partial {
				continue
			}
			if used != *own {
				t.Errorf("%s: turns used %+v, the run %+v", r.name, used, *own)
			}
		}
	}
	const golden = "testdata/trees.golden"
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("the trees differ from %s; -update rewrites it:\n%s", golden, got.Bytes())
	}
}

func tree(w *bytes.Buffer, all []spans.Span, parent [8]byte, depth int) {
	var of []spans.Span
	for _, s := range all {
		if s.Parent == parent {
			of = append(of, s)
		}
	}
	slices.SortStableFunc(of, func(a, b spans.Span) int { return int(a.Start - b.Start) })
	for _, s := range of {
		fmt.Fprintf(w, "%*s%s %s", 2*depth, "", []string{"run", "turn", "tool", "agent", "question"}[s.Kind],
			cmpOr(s.Tool, s.ToolKind+s.Asked))
		fmt.Fprintf(w, " %d+%d", (s.Start-1_780_000_000_000)/100, (s.End-s.Start)/100)
		if s.Error != "" {
			fmt.Fprintf(w, " %s", s.Error)
		}
		if s.Code != nil {
			fmt.Fprintf(w, " code=%d", *s.Code)
		}
		if s.Outcome != "" {
			fmt.Fprintf(w, " %s by %s", s.Outcome, s.By)
		}
		if s.Incomplete {
			fmt.Fprint(w, " incomplete")
		}
		if s.Tokens != nil {
			fmt.Fprintf(w, " %d/%d", s.Tokens.Input, s.Tokens.Output)
		}
		fmt.Fprintln(w)
		tree(w, all, s.ID, depth+1)
	}
}

func cmpOr(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

// A run that is folded again from any event on ends the same spans.
func TestRestartAtAnyEventEndsTheSameSpans(t *testing.T) {
	for _, r := range recordings(t) {
		want := fold(r)
		for at := 0; at < len(r.events); at += 1 + len(r.events)/8 {
			var got []spans.Span
			first, second := spans.New(r.run, r.agent, of(r.agent)), spans.New(r.run, r.agent, of(r.agent))
			for _, e := range r.events[:at] {
				got = append(got, first.Apply(e)...)
				second.Apply(e)
			}
			for _, e := range r.events[at:] {
				got = append(got, second.Apply(e)...)
			}
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("%s, restarted at %d: %+v, want %+v", r.name, at, got, want)
			}
		}
	}
}

// Of a run whose beginning has expired the rest has spans, and each has a parent.
func TestRunWhoseBeginningExpiredHasSpans(t *testing.T) {
	for _, r := range recordings(t) {
		r.events = r.events[len(r.events)/2:]
		ids := map[[8]byte]bool{{}: true}
		all := fold(r)
		for _, s := range all {
			ids[s.ID] = true
		}
		for _, s := range all {
			if !ids[s.Parent] {
				t.Errorf("%s: %+v has no parent", r.name, s)
			}
		}
		if len(all) == 0 || all[len(all)-1].Kind != spans.Whole {
			t.Errorf("%s: %+v does not end with the run", r.name, all)
		}
	}
}

// However many calls and turns a run has, it takes little memory.
func TestSizeOfARunIsBounded(t *testing.T) {
	r := spans.New("r", "claude_code", of("claude_code"))
	most := 0
	for i := range 2000 {
		body := fmt.Sprintf(`{"data":{"schema":"agent_api.tools.structured.v1","tool":{"kind":"tool_use","phase":"start",`+
			`"status":"running","tool_name":%q,"tool_use_id":"call-%d"}}}`, strings.Repeat("n", 5000), i)
		r.Apply(runs.Event{Seq: uint64(i + 1), Line: uint64(i + 1), Part: 1, Token: "tool_call", Body: []byte(body)})
		most = max(most, r.Size())
	}
	if most > 256<<10 {
		t.Errorf("it takes %d bytes", most)
	}
	all := r.Apply(runs.Event{Seq: 3000, Line: 0, Part: 1, Raw: 7, Token: "completion", Body: []byte(`{}`)})
	if n := len(all); n != 256+2 {
		t.Errorf("%d spans, want those of 256 calls, of the turn and of the run", n)
	}
}

func FuzzEvents(f *testing.F) {
	f.Add("status", `{"message":"turn started"}`)
	f.Add("tool_call", `{"data":{"schema":"agent_api.tools.structured.v1","tool":{"tool_name":"Agent","tool_use_id":"1"}}}`)
	f.Add("completion", `{"status":{"success":false,"code":1,"signal":null}}`)
	f.Fuzz(func(t *testing.T, token, body string) {
		r := spans.New("r", "claude_code", of("claude_code"))
		for i := range 4 {
			for _, s := range r.Apply(runs.Event{Seq: uint64(i + 1), Line: uint64(i + 1), Part: 1, Token: token,
				Body: []byte(body), Time: int64(10 - i)}) {
				if s.End < s.Start {
					t.Errorf("it ends before it begins: %+v", s)
				}
			}
		}
	})
}

// What an open run keeps is bounded, whatever an agent prints.
func TestLongIDsAndNegativeTokens(t *testing.T) {
	t.Parallel()
	r := spans.New("r", "claude_code", of("claude_code"))
	id := strings.Repeat("x", 1<<20)
	event := func(token, body string) []spans.Span {
		return r.Apply(runs.Event{Token: token, Line: 1, Part: 1, Body: []byte(body)})
	}
	event("tool_call", `{"data":{"tool":{"tool_name":"Bash","tool_use_id":"`+id+`"}}}`)
	event("status", `{"data":{"schema":"x.usage.v1","usage":{"output_tokens":-5}}}`)
	ended := event("completion", `{"status":{"success":true}}`)
	if len(ended) != 3 || len(ended[0].Call) > 256 || ended[1].Tokens.Output != 0 {
		t.Errorf("%d spans", len(ended))
	}
}

// A turn of the Agent Client Protocol tells its own tokens, also of an agent whose own lines tell those of the
// thread. It can be cancelled or interrupted.
func TestTurnsOfTheAgentClientProtocol(t *testing.T) {
	t.Parallel()
	r := spans.New("r", "codex", of("codex"))
	at := 0
	status := func(message string) []spans.Span {
		at++
		return r.Apply(runs.Event{Token: "status", Raw: uint64(at), Part: 1, Body: []byte(`{"message":"` + message + `",` +
			`"data":{"schema":"backend.acp.usage.v1","usage":{"input_tokens":100,"output_tokens":1}}}`)})
	}
	for _, end := range []string{"turn completed", "turn cancelled", "turn interrupted"} {
		r.Apply(runs.Event{Token: "status", Raw: uint64(at), Part: 1, Body: []byte(`{"message":"turn started"}`)})
		if ended := status(end); len(ended) != 1 || ended[0].Tokens == nil || ended[0].Tokens.Input != 100 {
			t.Errorf("%s: %+v", end, ended)
		}
	}
}

// A question lasts from its request to its answer. One that no event settles ends with its call, its turn or the run.
func TestQuestionsAreSpans(t *testing.T) {
	asks := func(id, call string) string {
		return `{"message":"permission asked","data":{"schema":"backend.question.v1","question":{"id":"` + id +
			`","kind":"permission","call":"` + call + `"}}}`
	}
	r := recording{run: "r", agent: "codex"}
	for i, e := range []struct{ token, body string }{
		{"status", asks("q1", "")}, // outside of a turn
		{"status", `{"message":"turn started"}`},
		{"status", asks("q2", "c")},
		{"status", `{"message":"people asked","data":{"asked":{"id":"q2","kind":"permission"}}}`},
		{"status", asks("q3", "d")},
		{"status", asks("q4", "")},
		{"status", `{"message":"answered","data":{"answer":{"id":"q2","outcome":"allow","by":"person"}}}`},
		{"status", `{"message":"answered","data":{"answer":{"id":"q2","outcome":"deny","by":"policy"}}}`},
		{"tool_result", `{"data":{"tool":{"tool_use_id":"d","kind":"execute","phase":"complete"}}}`},
		{"status", `{"message":"turn completed"}`},
		{"completion", `{"status":{"success":true}}`},
	} {
		r.events = append(r.events, runs.Event{Seq: uint64(i + 1), Agent: r.agent, Run: r.run, Token: e.token,
			Time: int64(1_780_000_000_000 + 100*i), Line: uint64(i + 1), Body: []byte(e.body)})
	}
	for range runs.MaxQuestions + 2 { // the last ones are not open
		r.events = slices.Insert(r.events, 1, r.events[0])
		r.events[1].Line++
	}
	var got bytes.Buffer
	tree(&got, fold(r), [8]byte{}, 0)
	if n := strings.Count(got.String(), "question permission"); n != runs.MaxQuestions {
		t.Errorf("%d questions are open", n)
	}
	r.events = slices.Delete(r.events, 1, runs.MaxQuestions+3)
	got.Reset()
	tree(&got, fold(r), [8]byte{}, 0)
	const want = `run  0+10
  question permission 0+10 incomplete
  turn  1+8
    question permission 2+4 allow by person
    question permission 4+4 incomplete
    question permission 5+4 incomplete
    tool execute 8+0
`
	if got.String() != want {
		t.Errorf("got\n%s\nwant\n%s", got.String(), want)
	}
}
