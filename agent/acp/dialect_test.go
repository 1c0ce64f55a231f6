package acp_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/linesman/linesman/agent/acp"
	"github.com/linesman/linesman/agent/claude"
	"github.com/linesman/linesman/agent/gemini"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/backendtest"
)

// talk returns the log of a run: lines that begin with > are to the agent, those with < from it, and
// others are entries: start, end, or a command as JSON.
func talk(lines ...string) []runs.Entry {
	log := []runs.Entry{{Kind: runs.Started, Time: 1_000, Body: runs.Encode(runs.Start{Source: "queue"})}}
	var offsets [2]int64
	process := 0
	for i, l := range lines {
		e := runs.Entry{Time: int64(2_000 + i)}
		switch direction, line, _ := strings.Cut(l, " "); direction {
		case ">", "<":
			at := &offsets[0]
			if e.Kind = runs.Out; direction == ">" {
				e.Kind, at = runs.Sent, &offsets[1]
			}
			e.Offset, e.Body = *at, []byte(line+"\n")
			*at += int64(len(e.Body))
		case "start":
			process++
			e.Kind, e.Body = runs.Proc, runs.Encode(runs.Process{N: process, Do: runs.ProcessStart, How: "new"})
		case "end":
			e.Kind, e.Body = runs.Proc, runs.Encode(runs.Process{N: process, Do: runs.ProcessEnd, Signal: 9})
		default:
			e.Kind, e.Body = runs.Ordered, []byte(l)
		}
		log = append(log, e)
	}
	return log
}

// said returns the events of a log in short: texts, messages, and tools by phase, each with its data.
func said(t *testing.T, b normalizer.Backend, log []runs.Entry) (events []string, record *runs.Record) {
	t.Helper()
	messages, fold := backendtest.Fold(b, log)
	backendtest.Check(t, b.Agent(), messages)
	for _, m := range messages {
		var e struct {
			Kind, Channel, Text, Message string
			Data                         struct {
				Tool     struct{ Phase, Kind string }
				Answer   struct{ ID, Outcome, By string }
				Question struct{ ID string }
				Asked    struct {
					ID  string
					Due int64
				}
			}
		}
		if err := json.Unmarshal(m.Body, &e); err != nil {
			t.Fatal(err)
		}
		text := e.Message
		switch {
		case e.Data.Tool.Phase != "":
			text = e.Data.Tool.Phase + " " + e.Data.Tool.Kind
		case e.Text != "":
			text = e.Channel + ": " + e.Text
		case e.Data.Answer.ID != "":
			text = strings.TrimSpace(text + " " + e.Data.Answer.ID + " " + e.Data.Answer.Outcome + " " + e.Data.Answer.By)
		case e.Data.Question.ID != "":
			text += " " + e.Data.Question.ID
		case e.Data.Asked.ID != "":
			text += fmt.Sprint(" ", e.Data.Asked.ID, " ", e.Data.Asked.Due)
		case e.Kind == "Error":
			text = "error: " + text
		case e.Kind == "Unknown":
			text = "unknown"
		}
		events = append(events, text)
	}
	return events, fold.Record
}

const (
	hello    = `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1,"agentInfo":{"version":"1.2.3"}}}`
	newOne   = `{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/w"}}`
	opened   = `{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s","modes":{"currentModeId":"default"}}}`
	prompt   = `{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"Go"}]}}`
	finished = `{"jsonrpc":"2.0","id":2,"result":{"stopReason":"end_turn"}}`
	asked    = `{"jsonrpc":"2.0","id":7,"method":"session/request_permission","params":{"sessionId":"s",` +
		`"toolCall":{"toolCallId":"c","kind":"edit","title":"Edit a"},"options":[{"optionId":"y","kind":"allow_once"},` +
		`{"optionId":"n","kind":"reject_once"}]}}`
)

func update(members string) string {
	return `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{` + members + `}}}`
}

func chunk(text string) string {
	return update(`"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"` + text + `"}`)
}

func reply(option string) string {
	return `{"jsonrpc":"2.0","id":7,"result":{"outcome":{"outcome":"selected","optionId":"` + option + `"}}}`
}

var plain = acp.Backend{Kind: "agent", Live: &acp.Agent{}}

func TestConversations(t *testing.T) {
	turn := []string{"start", "> " + newOne, "< " + opened, "> " + prompt}
	begun := []string{"agent started", "session started", "turn started"}
	call := `"toolCallId":"c","kind":"edit"`
	long := strings.Repeat("x", 700)
	for _, c := range []struct {
		why   string
		lines []string
		want  []string
	}{
		{"chunks are joined up to a newline, and up to another event",
			[]string{"< " + chunk("a"), "< " + chunk(`b\nc`), "< " + update(`"sessionUpdate":"usage_update","used":1,"size":2`),
				"< " + chunk("d"), "< " + finished}, []string{"assistant: ab\n", "assistant: cd", "turn completed"}},
		{"a line of text is not kept for ever", []string{"< " + chunk(long), "< " + chunk(long), "< " + chunk("y")},
			[]string{"assistant: " + long + long}},
		{"a thought is no answer", []string{"< " + chunk("a"),
			"< " + strings.ReplaceAll(chunk("b"), "message_chunk", "thought_chunk"), "< " + finished},
			[]string{"assistant: a", "reasoning: b", "turn completed"}},
		{"another session is that of a sub-agent", []string{"< " + strings.ReplaceAll(chunk("a"), `"s"`, `"s2"`),
			"< " + finished}, []string{"subagent: a", "turn completed"}},
		{"a call", []string{"< " + update(`"sessionUpdate":"tool_call",`+call+`,"status":"pending"`),
			"< " + update(`"sessionUpdate":"tool_call_update",`+call+`,"status":"pending"`),
			"< " + update(`"sessionUpdate":"tool_call_update",`+call+`,"status":"in_progress"`),
			"< " + update(`"sessionUpdate":"tool_call_update",`+call+`,"status":"completed"`),
			"< " + update(`"sessionUpdate":"tool_call_update",`+call+`,"status":"failed"`)},
			[]string{"start edit", "delta edit", "complete edit"}},
		{"a permission that is given by a policy", []string{"< " + asked,
			`{"id":"k","do":"answer","by":"policy","question":"q1","option":"y"}`, `{"id":"l","do":"answer","by":"ann","question":"q1","option":"y"}`,
			"> " + reply("y"), "> " + reply("n")},
			[]string{"start edit", "permission asked q1", "answered q1 allow policy"}},
		{"people are asked, and one answers", []string{"< " + asked, `{"id":"a","do":"ask","by":"policy","question":"q1","due":9}`,
			`{"id":"b","do":"ask","by":"policy","question":"q1"}`, `{"id":"c","do":"ask","by":"policy","question":"q2"}`,
			`{"id":"k","do":"answer","by":"ann","question":"q1","option":"none"}`,
			`{"id":"l","do":"answer","by":"bob","question":"q1","option":"y"}`, "> " + reply("y")},
			[]string{"start edit", "permission asked q1", "people asked q1 9", "answered q1 allow person"}},
		{"an answer after a cancel", []string{"< " + asked, `{"id":"k","do":"answer","by":"ann","question":"q1","option":"y"}`,
			`> {"jsonrpc":"2.0","id":7,"result":{"outcome":{"outcome":"cancelled"}}}`},
			[]string{"start edit", "permission asked q1", "answered q1 cancelled cancel", "fail edit"}},
		{"a permission that a person denies", []string{"< " + asked, `{"id":"k","do":"answer","by":"ann","question":"q1",` +
			`"option":"n"}`, "> " + reply("n")}, []string{"start edit", "permission asked q1", "answered q1 deny person", "fail edit"}},
		{"a tool that does not wait", []string{"< " + asked,
			"< " + update(`"sessionUpdate":"tool_call_update",`+call+`,"status":"completed"`), "> " + reply("y")},
			[]string{"start edit", "permission asked q1", "error: a tool ran without an answer to its question",
				"complete edit"}},
		{"two questions with one id", []string{"< " + asked, "< " + asked, "< " + asked}, []string{"start edit",
			"permission asked q1", "error: the agent asked two questions under one id", "permission asked q3"}},
		{"a question that is withdrawn", []string{"< " + asked,
			`< {"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":7}}`, "> " + reply("n")},
			[]string{"start edit", "permission asked q1", "question withdrawn q1 cancelled agent"}},
		{"the agent ends in a turn", []string{"< " + chunk("a"), "< " + asked, "end"}, []string{"assistant: a", "start edit",
			"permission asked q1", "question withdrawn q1 cancelled", "agent ended", "error: the agent ended before its turn",
			"turn interrupted"}},
		{"requests that nobody serves", []string{
			`< {"jsonrpc":"2.0","id":3,"method":"fs/read_text_file","params":{}}`,
			`< {"jsonrpc":"2.0","method":"x/y"}`, `< {"jsonrpc":"2.0","method":"_x/y"}`, "< " + update(`"sessionUpdate":"x"`),
			"< " + update(`"sessionUpdate":"_x","text":"SECRET"`)},
			[]string{"request refused", "drift (redacted): unknown method", "unknown", "drift (redacted): unknown method",
				"unknown", "drift (redacted): unknown type"}},
		{"answers that nobody has asked for", []string{"< " + finished, "< " + finished,
			`< {"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"SECRET"}}`},
			[]string{"turn completed", "unknown", "unknown"}},
		{"a turn that fails", []string{`< {"jsonrpc":"2.0","id":2,"error":{"code":1,"message":"Internal error",` +
			`"data":{"details":"no credit"}}}`}, []string{"error: no credit", "turn failed"}},
		{"a refusal", []string{`< {"jsonrpc":"2.0","id":2,"result":{"stopReason":"refusal"}}`},
			[]string{"error: the turn ended because the agent refused to go on", "turn failed"}},
		{"a replay", []string{"< " + finished, "end", "start",
			`> {"jsonrpc":"2.0","id":1,"method":"session/load","params":{"sessionId":"s"}}`, "< " + chunk("a"),
			"< " + update(`"sessionUpdate":"tool_call",`+call), "< " + opened, "< " + chunk("b"), "> " + prompt, "< " + chunk("c"),
			"< " + finished}, []string{"turn completed", "agent ended", "agent started", "session continued", "turn started",
			"assistant: c", "turn completed"}},
		{"no messages", []string{"< {}", "< {", "> {", "> "}, []string{
			"error: agent stream parse error (redacted): invalid payload (line_bytes=2)",
			"error: agent stream parse error (redacted): invalid JSON (line_bytes=1)"}},
	} {
		got, _ := said(t, plain, talk(append(slices.Clone(turn), c.lines...)...))
		if want := append(slices.Clone(begun), c.want...); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", c.why, got, want)
		}
	}
}

// Without the lines to the agent, the form of a response tells what it answers.
func TestOutputAlone(t *testing.T) {
	failure := `< {"jsonrpc":"2.0","id":3,"error":{"code":1,"message":"no"}}`
	got, record := said(t, claude.Backend{}, talk("< "+hello, "< "+opened, "< "+chunk("a"), "< "+asked, "< "+finished,
		"< "+chunk("b"), failure, failure))
	if want := []string{"initialized", "session started", "turn started", "assistant: a", "start edit",
		"permission asked q1", "turn completed", "turn started", "assistant: b", "error: no", "turn failed",
		"error: no"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if record.Thread != "s" || record.Version != "1.2.3" || record.TurnsDone != 1 || record.TurnsBad != 1 ||
		record.State != runs.StateWorking || record.Live.WaitsFor != "" {
		t.Errorf("record %s", record.JSON())
	}
}

// The rest of a text is published at the end of a run.
func TestTheEndOfATextIsNotLost(t *testing.T) {
	log := append(talk("< "+opened, "< "+chunk("a")), runs.Entry{Kind: runs.Exited, Body: []byte(`{"reason":"eof"}`)})
	if got, _ := said(t, plain, log); !slices.Contains(got, "assistant: a") {
		t.Errorf("%q", got)
	}
}

// An agent that has printed lines of its own does not begin to speak the protocol, and the other way round.
func TestARunHasOneFormOfLines(t *testing.T) {
	own := `{"type":"init","session_id":"s","model":"m"}`
	missing := fmt.Sprintf("error: gemini_cli stream normalize error (redacted): missing type (line_bytes=%d)", len(hello))
	if got, _ := said(t, gemini.Backend{}, talk("< "+own, "< "+hello)); !slices.Equal(got, []string{"init", missing}) {
		t.Errorf("%q", got)
	}
	invalid := "error: gemini_cli stream parse error (redacted): invalid payload (line_bytes=" + fmt.Sprint(len(own)) + ")"
	got, _ := said(t, gemini.Backend{}, talk("< "+hello, "< "+own))
	if !slices.Equal(got, []string{"initialized", invalid}) {
		t.Errorf("%q", got)
	}
}

func TestWhatARunWaitsFor(t *testing.T) {
	form := `{"jsonrpc":"2.0","id":8,"method":"elicitation/create","params":{"mode":"form","message":"Which?"}}`
	lines := []string{"start", "> " + newOne, "< " + opened, "> " + prompt, "< " + form, "< " + asked,
		`{"id":"a","do":"ask","question":"q1"}`, `{"id":"b","do":"ask","question":"q2","due":9}`, `> {"jsonrpc":"2.0","id":8,"result":{"action":"decline"}}`, "> " + reply("y"), "end", "start"}
	var got []string
	f := normalizer.NewFold(plain, "T-local-test", 0)
	for i, e := range talk(lines...) {
		f.Apply(uint64(i+1), e, func(normalizer.Message) {})
		if l := f.Record.Live; l != nil {
			got = append(got, fmt.Sprintf("%s %s %d %v %s", f.Record.State, l.WaitsFor, len(l.Questions), l.Awake,
				f.Record.Doing.Phase))
		}
	}
	want := []string{"working  0 true starting", "working  0 true starting", "working  0 true starting",
		"working  0 true thinking", "working  1 true thinking", "working  2 true running",
		"input-required question 2 true waiting-for-answer", "input-required question 2 true waiting-for-answer",
		"input-required permission 1 true waiting-for-answer",
		"working  0 true running", "working  0 false ", "working  0 true starting"}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	_, record := said(t, plain, talk(lines[:8]...))
	want = []string{
		`{"id":"q1","kind":"form","asked":2004,"raw_seq":6,"people":true,"offset":88,"length":98}`,
		`{"id":"q2","kind":"permission","tool":"edit","options":[{"id":"y","kind":"allow_once"},` +
			`{"id":"n","kind":"reject_once"}],"asked":2005,"raw_seq":7,"people":true,"due":9,"offset":187,"length":237}`,
	}
	for i, q := range record.Live.Questions {
		if b := runs.Encode(q); string(b) != want[i] {
			t.Errorf("%s, want %s", b, want[i])
		}
	}
	if record.Unowned() {
		t.Error("a cancel entry alone ends a live run")
	}
}

// A log that was lost is filled again: the run does what it did, and the texts of its messages are where they are now.
func TestRefilledLogChangesOnlyPlaces(t *testing.T) {
	log := talk("start", "> "+newOne, "< "+opened, "> "+prompt,
		`{"id":"a","do":"send","text":"one"}`, `{"id":"b","do":"send","text":"two"}`,
		`{"id":"c","do":"edit","message":"a","text":"three"}`, `{"id":"b","do":"send","text":"another text"}`)
	f := normalizer.NewFold(plain, "T-local-test", 0)
	messages := 0
	fold := func(before int) (places string) {
		for i, e := range log {
			f.Apply(uint64(before+i+1), e, func(normalizer.Message) { messages++ })
		}
		for _, m := range f.Record.Live.Queue.Messages {
			places += fmt.Sprint(m.ID, m.Seq, " ")
		}
		return places
	}
	if got := fold(20); got != "a28 b27 " {
		t.Fatalf("places %s", got)
	}
	doing, had := f.Record.Doing, messages
	f.Forget()
	if got := fold(3); got != "a11 b10 " || messages != had || f.Record.Doing != doing || doing.Phase != runs.Thinking {
		t.Errorf("places %s, %d messages more, %+v after %+v", got, messages-had, f.Record.Doing, doing)
	}
}

// The state of a dialect that an agent fills as far as it can.
func TestTheLargestState(t *testing.T) {
	id := func(n int) string { return fmt.Sprintf(`%02d%s`, n, strings.Repeat(`\u0001`, 30)) }
	wide := strings.Repeat(`\u0001`, 254)
	lines := []string{"start", `< {"jsonrpc":"2.0","id":1,"result":{"sessionId":"` + wide + `"}}`}
	for i := range 40 {
		lines = append(lines, `> {"jsonrpc":"2.0","id":`+fmt.Sprint(1000+i)+
			`,"method":"session/set_mode","params":{"modeId":"`+wide+`"}}`,
			"< "+update(`"sessionUpdate":"tool_call","toolCallId":"`+fmt.Sprint(i+10)+strings.Repeat(`\u0001`, 126)+
				`","kind":"switch_mode","name":"`+strings.Repeat("n", 64)+`","content":[{"type":"diff","path":"`+wide+`"}]`))
		var options []string
		for j := range 32 {
			options = append(options, fmt.Sprintf(`{"optionId":"%d","kind":"allow_once"}`, j))
		}
		lines = append(lines, fmt.Sprintf(`< {"jsonrpc":"2.0","id":"%s","method":"session/request_permission","params":{`+
			`"options":[%s],"toolCall":{"toolCallId":"%d%s"}}}`, id(i)[:60], strings.Join(options, ","), i+10,
			strings.Repeat(`\u0001`, 126)))
	}
	lines = append(lines, "< "+chunk(strings.Repeat(`\u0001`, 1023)))
	for i := range 300 {
		lines = append(lines, fmt.Sprintf(`{"id":"%064d","do":"send","text":"%d"}`, i, i))
	}
	d := claude.Backend{}.Dialect()
	f := normalizer.NewFold(claude.Backend{}, "T-local-test", 0)
	var out normalizer.Out
	for i, e := range talk(lines...) {
		f.Apply(uint64(i+1), e, func(normalizer.Message) {})
		if line := []byte(strings.TrimSuffix(string(e.Body), "\n")); e.Kind == runs.Out {
			d.Line(line, &out)
		} else if e.Kind == runs.Sent {
			d.(normalizer.Conversation).Sent(line, &out)
		} else if c := (runs.Command{}); e.Kind == runs.Ordered && json.Unmarshal(line, &c) == nil {
			d.(normalizer.Conversation).Command(&c, &out)
		}
	}
	state, err := d.State()
	if err != nil || len(state) > normalizer.MaxDialect || len(state) < normalizer.MaxDialect/2 {
		t.Errorf("a state of %d bytes, %v", len(state), err)
	}
	if n := len(f.Record.JSON()); n > 64<<10 {
		t.Errorf("a record of %d bytes", n)
	}
}

// A raw log that was lost, and has got its entries again, changes nothing that waits. Commands have fields that they do
// not use.
func TestCommandsThatAreThereAgainHaveNoEffect(t *testing.T) {
	log := talk("start", `> {"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"prompt":[{"type":"text","text":"Go."}]}}`,
		`{"id":"a","do":"send","text":"one","message":"x"}`, `{"id":"b","do":"send","text":"two"}`,
		`{"id":"c","do":"send","text":"three"}`, `{"id":"d","do":"unsend","message":"b","text":"x"}`,
		`{"id":"e","do":"edit","message":"c","text":"drei"}`,
		`< {"jsonrpc":"2.0","id":1,"result":{"stopReason":"refusal"}}`, `{"id":"f","do":"release","text":"x"}`,
		`> {"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"prompt":[{"type":"text","text":"one"}]}}`)
	f := normalizer.NewFold(plain, "r", 0)
	seq, events := uint64(0), 0
	for range 2 {
		events = 0
		for _, e := range log {
			seq++
			f.Apply(seq, e, func(normalizer.Message) { events++ })
		}
		if q := f.Record.Live.Queue; len(q.Messages) != 1 || q.Messages[0].ID != "c" || q.Messages[0].Bytes != 4 || q.Held {
			t.Errorf("waiting: %+v", q)
		}
	}
	if events > 0 {
		t.Errorf("%d events twice", events)
	}
}

// So are commands that the dialect does not know any more. New ones count, behind one that it knows.
func TestOldCommandsThatAreThereAgainHaveNoEffect(t *testing.T) {
	for _, taken := range []int{100, 200} { // two commands each
		lines := []string{"start", `{"id":"first","do":"send","text":"one"}`}
		for i := range taken {
			lines = append(lines, fmt.Sprintf(`{"id":"m%d","do":"send","text":"two"}`, i),
				fmt.Sprintf(`{"id":"u%d","do":"unsend","message":"m%[1]d"}`, i))
		}
		log := talk(lines...)
		f := normalizer.NewFold(plain, "r", 0)
		events := 0
		fold := func(seq int) {
			for i, e := range log {
				f.Apply(uint64(seq+i+1), e, func(normalizer.Message) { events++ })
			}
		}
		fold(1000)
		had := events
		f.Forget()
		middle := len(log) / 2
		log = slices.Insert(log, middle, talk(`{"id":"new","do":"send","text":"three"}`)[1])
		fold(0)
		waiting := ""
		for _, m := range f.Record.Live.Queue.Messages {
			waiting += fmt.Sprint(m.ID, " in ", m.Seq, " ")
		}
		if want := fmt.Sprintf("first in 3 new in %d ", middle+1); waiting != want || events != had+1 {
			t.Errorf("%d taken back: %swait, want %s; %d events more, want 1", taken, waiting, want, events-had)
		}
	}
}

// FuzzConversation checks the limits of the events, the details, the state and the record of any
// conversation. A line of the input begins as in [talk].
func FuzzConversation(f *testing.F) {
	for _, r := range recordings(f) {
		var seed []byte
		for _, e := range r.log {
			mark := map[runs.Kind]string{runs.Out: "< ", runs.Sent: "> "}[e.Kind]
			if mark != "" && len(e.Body) < 1_000 {
				seed = append(append(seed, mark...), e.Body...)
			}
		}
		f.Add(seed)
	}
	f.Add([]byte("start\n< " + asked + "\n< " + asked + "\nend\nstart\n> " + reply("y") + "\n< " + finished))
	f.Fuzz(func(t *testing.T, input []byte) {
		var lines []string
		for line := range bytes.SplitSeq(input, []byte("\n")) {
			lines = append(lines, string(line))
		}
		if len(lines) > 300 {
			return
		}
		log := append(talk(lines...), runs.Entry{Kind: runs.Exited, Time: 9_000, Body: []byte(`{"reason":"eof"}`)})
		backendtest.CheckLive(t, plain, log)
		backendtest.CheckLive(t, backends["codex"], log)
		backendtest.CheckLive(t, backends["qwen"], log)
	})
}
