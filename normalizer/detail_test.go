package normalizer_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/linesman/linesman/test/fixture"

	"github.com/linesman/linesman/agent/claude"
	"github.com/linesman/linesman/agent/codex"
	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/backendtest"
)

func last(argv []string) string { return argv[len(argv)-1] }

// newDetailed returns a fold with details, whose prompt is the last argument.
func newDetailed(b normalizer.Backend) *run {
	return &run{Fold: normalizer.NewDetailFold(b, "T-local-test", 0, last)}
}

// shown is what a message says in a test: its position and its detail.
func shown(t *testing.T, m normalizer.Message) string {
	t.Helper()
	detail, err := json.Marshal(m.Detail)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d.%d %s %s", m.Line, m.Part, m.Token, detail)
}

func expectDetails(t *testing.T, got []normalizer.Message, want ...string) {
	t.Helper()
	var all []string
	for _, m := range got {
		if m.Detail != nil {
			all = append(all, shown(t, m))
		}
	}
	if !slices.Equal(all, want) {
		t.Errorf("got  %q\nwant %q", all, want)
	}
}

const callLine = `{"type":"item.started","item":{"id":"i","type":"command_execution",` +
	`"command":"/bin/bash -lc 'make'"}}` + "\n"

// The start entry tells the prompt, and only the first one.
func TestThePromptOfTheFirstStartIsADetail(t *testing.T) {
	start := func(argv ...string) runs.Entry {
		return runs.Entry{Kind: runs.Started, Time: 7, Body: runs.Encode(runs.Start{Source: "queue", Argv: argv})}
	}
	r := newDetailed(codex.Backend{})
	r.entry(runs.Entry{Kind: runs.Queued, Body: []byte(`{}`)})
	r.entry(start("codex", "exec", "Fix it. password=hunter2"))
	r.entry(start("codex", "exec", "again"))
	r.out(0, callLine)
	expectDetails(t, r.got, `0.0 detail {"prompt":{"head":"Fix it. password=[redacted]"}}`,
		`1.1 tool_call {"command":{"head":"make"}}`)
	if m := r.got[0]; m.Raw != 2 || m.Time != 7 || m.Body != nil {
		t.Errorf("the prompt is at %+v", m.Pos)
	}
	for _, argv := range [][]string{nil, {"codex", ""}} {
		r := newDetailed(codex.Backend{})
		if r.entry(start(argv...)); len(r.got) != 0 {
			t.Errorf("%q: %s", argv, shown(t, r.got[0]))
		}
	}
	r = &run{Fold: normalizer.NewDetailFold(codex.Backend{}, "T-local-test", 0, nil)}
	if r.entry(start("codex", "exec", "Fix")); len(r.got) != 0 {
		t.Errorf("a prompt without a function: %s", shown(t, r.got[0]))
	}
}

// What was asked for a live run is with its prompt, redacted; rules that no worker takes are not.
func TestThePromptOfALiveRunIsWithItsTerms(t *testing.T) {
	for _, of := range []struct {
		terms *runs.Terms
		want  string
	}{
		{nil, ""},
		{&runs.Terms{}, `,"live":{}`},
		{
			&runs.Terms{Ask: true, Policy: []string{"deny fetch: password=hunter2"}},
			`,"live":{"ask":true,"policy":["deny fetch: password=[redacted]"]}`,
		},
		{&runs.Terms{Policy: []string{strings.Repeat("x", 5000)}}, ""},
	} {
		r := newDetailed(codex.Backend{})
		r.entry(runs.Entry{Kind: runs.Started, Body: runs.Encode(runs.Start{
			Source: "queue", Prompt: "Fix.", PromptBytes: 4, Live: of.terms,
		})})
		expectDetails(t, r.got, `0.0 detail {"prompt":{"head":"Fix."}`+of.want+`}`)
	}
}

// Of stderr the last 4 KiB are at the completion, without duplicates, from the beginning of a
// line, whatever its entries are.
func TestTheEndOfStderrIsADetailOfTheCompletion(t *testing.T) {
	var text strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&text, "warning %d\n", i)
	}
	stderr := text.String()
	tail := stderr[len(stderr)-4<<10:]
	tail = tail[strings.IndexByte(tail, '\n')+1:]
	long := fmt.Sprintf(`{"stderr":{"head":"","tail":%q,"omittedBytes":%d}}`, tail, len(stderr)-len(tail))
	for _, c := range []struct {
		why    string
		pieces [][2]int
		text   string
		want   string
	}{
		{"short", [][2]int{{0, 6}}, "error\n", `{"stderr":{"head":"error\n"}}`},
		{"twice", [][2]int{{0, 6}, {0, 6}, {3, 6}}, "error\n", `{"stderr":{"head":"error\n"}}`},
		{"overlapping", [][2]int{{0, 3}, {1, 6}}, "error\n", `{"stderr":{"head":"error\n"}}`},
		{"after a gap", [][2]int{{0, 2}, {3, 6}}, "error\n", `{"stderr":{"head":"","tail":"or\n","omittedBytes":3}}`},
		{"none", nil, "", ""},
		{"no UTF-8", [][2]int{{0, 3}}, "a\xffb", `{"stderr":{"head":"a` + "\ufffd" + `b"}}`},
		{"long", [][2]int{{0, len(stderr)}}, stderr, long},
		{"long, in parts", [][2]int{{0, 70_000}, {60_000, 100_001}, {100_001, len(stderr)}}, stderr, long},
	} {
		r := newDetailed(codex.Backend{})
		for _, p := range c.pieces {
			r.entry(runs.Entry{Kind: runs.ErrOut, Offset: int64(p[0]), Body: []byte(c.text[p[0]:p[1]])})
		}
		r.exit(`{"reason":"exited","code":1}`)
		want := []string{"0.2 completion " + c.want}
		if c.want == "" {
			want = nil
		}
		t.Run(c.why, func(t *testing.T) { expectDetails(t, r.got, want...) })
	}
}

// The owner of a run sees why linesman ended it, or could not start its agent; the event has
// only the kind of the failure.
func TestTheReasonOfAFailureIsADetailOfTheCompletion(t *testing.T) {
	for exit, want := range map[string]string{
		`{"reason":"spawn","spawn":"refused","why":"/etc is outside of work.roots"}`: "/etc is outside of work.roots",
		`{"reason":"idle"}`: "the agent was silent for longer than the idle limit",
		`{"reason":"hard"}`: "the run took longer than the hard limit",
		`{"reason":"lost"}`: "it is not known how the agent ended",
	} {
		r := newDetailed(codex.Backend{})
		r.exit(exit)
		expectDetails(t, r.got, fmt.Sprintf(`0.2 completion {"text":{"head":%q}}`, want))
	}
}

// A fold that is restored reads again what was written to stderr before.
func TestStderrIsReadAgainAfterRestore(t *testing.T) {
	r := newDetailed(codex.Backend{})
	first := runs.Entry{Kind: runs.ErrOut, Body: []byte("one\n")}
	r.entry(first)
	state, err := r.State()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(state), "one") {
		t.Errorf("the state has text of stderr: %s", state)
	}
	if r.Fold, err = normalizer.RestoreDetailFold(codex.Backend{}, r.Record, state, 0, last); err != nil {
		t.Fatal(err)
	}
	r.seq = 0
	r.entry(first)
	r.entry(runs.Entry{Kind: runs.ErrOut, Offset: 4, Body: []byte("two\n")})
	r.exit(exited0)
	expectDetails(t, r.got, `0.1 completion {"stderr":{"head":"one\ntwo\n"}}`)
}

// After a cancel there are neither events nor details of lines.
func TestNoDetailsAfterACancel(t *testing.T) {
	r := newDetailed(codex.Backend{})
	r.entry(runs.Entry{Kind: runs.Started, Body: runs.Encode(runs.Start{Source: "run"})})
	r.out(0, callLine)
	r.entry(runs.Entry{Kind: runs.Cancelled})
	r.out(len(callLine), callLine)
	r.out(2*len(callLine), `{"type":"event_msg","payload":{"type":"user_message","message":"hello"}}`+"\n")
	r.entry(runs.Entry{Kind: runs.ErrOut, Body: []byte("x")})
	r.exit(exited0)
	expectDetails(t, r.got, `1.1 tool_call {"command":{"head":"make"}}`, `0.1 completion {"stderr":{"head":"x"}}`)
}

// The detail of a long text is at its first part, and further details come after all parts.
func TestDetailsOfLongEventsAndOfNone(t *testing.T) {
	text := strings.Repeat("x", 150_000)
	r := newDetailed(claude.Backend{})
	r.out(0, `{"type":"assistant","message":{"content":[{"type":"text","text":"`+text+`"},`+
		`{"type":"tool_use","id":"c1","name":"Bash","input":{"command":"make"}}]}}`+"\n"+
		`{"type":"user","sessionId":"s","parentUuid":null,"promptSource":"typed","message":{"content":"hello"}}`+"\n")
	expectDetails(t, r.got, `1.4 tool_call {"command":{"head":"make"}}`, `2.2 detail {"prompt":{"head":"hello"}}`)

	r = &run{Fold: normalizer.NewDetailFold(toldTwice{}, "T-local-test", 0, nil)}
	r.out(0, "{}\n")
	expectDetails(t, r.got, `1.1 text_output {"tool":"first"}`, `1.4 detail {"tool":"more"}`)
	if len(r.got) != 4 {
		t.Errorf("%d messages", len(r.got))
	}
}

// toldTwice is a backend whose lines have a text of three parts, and a detail beside it.
type toldTwice struct{ normalizer.Stateless }

func (toldTwice) Agent() string               { return "codex" }
func (toldTwice) Dialect() normalizer.Dialect { return toldTwice{} }
func (toldTwice) Line(_ []byte, out *normalizer.Out) normalizer.Fault {
	out.Event(normalizer.AssistantText(strings.Repeat("x", 150_000)))
	return normalizer.NoFault
}
func (toldTwice) Detail(_ []byte, d *normalizer.Details) {
	d.Extra().Tool = "more"
	d.Extra()
	d.At(0).Tool = "first"
}

// The scrub rules apply to all details.
func TestDetailsAreScrubbed(t *testing.T) {
	scrub := func(from, to string) func(string) string {
		return func(s string) string { return strings.ReplaceAll(s, from, to) }
	}
	b := normalizer.Scrubbed(normalizer.Scrubbed(codex.Backend{}, scrub("INNER", "OUTER")), scrub("OUTER", "[gone]"))
	r := newDetailed(b)
	start := runs.Start{Source: "run", Argv: []string{"codex", "INNER"}}
	r.entry(runs.Entry{Kind: runs.Started, Body: runs.Encode(start)})
	r.out(0, strings.ReplaceAll(callLine, "make", "echo INNER OUTER")+
		`{"type":"item.completed","item":{"type":"todo_list","items":[{"text":"INNER"}]}}`+"\n")
	r.entry(runs.Entry{Kind: runs.ErrOut, Body: []byte("INNER")})
	r.exit(exited0)
	expectDetails(t, r.got, `0.0 detail {"prompt":{"head":"[gone]"}}`,
		`1.1 tool_call {"command":{"head":"echo [gone] [gone]"}}`,
		`2.1 status {"plan":[{"text":"[gone]","state":"pending"}]}`, `0.1 completion {"stderr":{"head":"[gone]"}}`)
}

// A fault has no detail, and none of an earlier line.
func TestFaultsHaveNoDetails(t *testing.T) {
	r := newDetailed(codex.Backend{})
	r.out(0, callLine+callLine[:60]+"\n{oops\n"+callLine)
	expectDetails(t, r.got, `1.1 tool_call {"command":{"head":"make"}}`, `4.1 tool_call {"command":{"head":"make"}}`)
}

// For all recordings, the events of a fold with details are those of one without.
func TestDetailsChangeNoEvent(t *testing.T) {
	files, err := filepath.Glob("../test/corpus/*/*.jsonl")
	if err != nil || len(files) < 50 {
		t.Fatalf("%d recordings, %v", len(files), err)
	}
	deeper, _ := filepath.Glob("../test/corpus/*/*/*.jsonl")
	for _, file := range append(files, deeper...) {
		out, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		log := append(backendtest.Output(out), runs.Entry{Kind: runs.ErrOut, Body: []byte("x")},
			runs.Entry{Kind: runs.Exited, Body: []byte(exited0)})
		for _, b := range known.Agents.Backends() {
			events, fold := backendtest.Fold(b, log)
			backendtest.CheckDetails(t, backendtest.DetailFold(b, log), events)
			detailed := normalizer.NewDetailFold(b, "T-local-test", 0, nil)
			for i, e := range log {
				detailed.Apply(uint64(i+1), e, func(normalizer.Message) {})
			}
			if !bytes.Equal(detailed.Record.JSON(), fold.Record.JSON()) {
				t.Errorf("%s: another record with details", file)
			}
		}
	}
}

// The detail of a line with 60 MB of output takes no more than a few times its scan.
func TestDetailOfALongLineIsFast(t *testing.T) {
	output := strings.Repeat(`line \u001b[0m of \"output\"\n`, 60<<20/29)
	line := `{"type":"item.completed","item":{"id":"i","type":"command_execution","command":"make",` +
		`"aggregated_output":"` + output + `","exit_code":0,"status":"completed"}}` + "\n"
	fold := func(f *normalizer.Fold) (took time.Duration, got []normalizer.Message) {
		from := time.Now()
		f.Apply(1, runs.Entry{Kind: runs.Out, Body: []byte(line)}, func(m normalizer.Message) { got = append(got, m) })
		return time.Since(from), got
	}
	canary := fixture.StartCanary(t)
	plain, events := fold(normalizer.NewFold(codex.Backend{}, "T-local-test", 1<<30))
	detailed, got := fold(normalizer.NewDetailFold(codex.Backend{}, "T-local-test", 1<<30, nil))
	backendtest.CheckDetails(t, got, events)
	if d := got[0].Detail; d == nil || len(d.Output.Head) != 2<<10 || d.Output.Omitted < 20<<20 {
		t.Errorf("detail %+v", d)
	}
	canary.Within("the line with its detail", detailed, 20*plain+time.Second/2)
	t.Logf("%v with the detail, %v without", detailed, plain)
}
