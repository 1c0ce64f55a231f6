package live

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/linesman/linesman/agent/acp"
	"github.com/linesman/linesman/runs"
)

// forum is a world in which several people answer, and a judge of its own, which knows the rules as they are written:
// the first valid command in the log decides a question, unless it is over before.
type forum struct {
	*world
	policy  Policy
	ids     map[string]bool          // of commands in the log
	decided map[string]*runs.Command // by question; nil: closed without a command
	waits   map[string]string        // questions whose answer the agent does not have, by the id of the request
	replies int
}

func newForum(t *testing.T, rt *rapid.T) *forum {
	f := &forum{
		world: &world{T: rt, s: newStage(t, config()), asked: map[string]int{}}, ids: map[string]bool{},
		decided: map[string]*runs.Command{}, waits: map[string]string{},
		policy: Policy{Mode: runs.WorkspaceWrite, Ask: rapid.Bool().Draw(rt, "ask"), Answer: 50},
	}
	f.around, f.answer = f.watch, f.judge
	return f
}

// fits reports whether a command answers a question.
func fits(q *question, cmd *runs.Command) bool {
	form, ids := q.Kind == acp.Form, []string{""}
	for _, o := range q.Options {
		ids = append(ids, o.ID)
	}
	if form {
		ids = []string{"", runs.Decline}
	}
	accepts := form && cmd.Option == runs.Accept && bytes.HasPrefix(cmd.Content, []byte("{")) &&
		len(cmd.Content) <= runs.MaxContent
	return len(cmd.By) <= 64 && len(cmd.Via) <= 64 && (accepts || cmd.Content == nil && slices.Contains(ids, cmd.Option))
}

// watch judges what an entry does to the questions that are open, and what the conversation says of commands then.
func (f *forum) watch(e runs.Entry, apply func()) {
	var cmd runs.Command
	before := slices.Clone(f.s.c.s.Open)
	valid := e.Kind == runs.Ordered && json.Unmarshal(e.Body, &cmd) == nil && cmd.ID != "" && len(cmd.ID) <= 64 &&
		!f.ids[cmd.ID]
	if len(cmd.ID) <= 64 {
		f.ids[cmd.ID] = true
	}
	apply()
	for _, q := range before {
		decides := valid && cmd.Do == runs.DoAnswer && cmd.Question == q.ID && fits(&q, &cmd)
		if open := f.s.c.s.opened(q.ID) >= 0; open && !decides {
			continue
		} else if open {
			f.Fatalf("%+v leaves %s open", cmd, q.ID)
		}
		f.decided[q.ID] = nil
		if decides {
			f.decided[q.ID] = &cmd
		}
	}
	for _, q := range f.s.c.s.Open {
		if _, was := f.decided[q.ID]; was {
			f.Fatalf("%s is open again", q.ID)
		}
		f.waits[q.Request] = q.ID
	}
	if saved := f.s.c.State(); saved != nil && rapid.IntRange(0, 3).Draw(f.T, "restart") == 0 {
		c := f.again(saved, 1<<20)
		if !same(c, f.s.c) {
			f.Fatalf("restored\n%s\nwas\n%s", c.State(), saved)
		}
		f.s.c = c
	}
	f.rule()
}

// rule tries a command at the end of the log: what is said of it before is what it does.
func (f *forum) rule() {
	cmd := f.draw()
	saved := f.s.c.State()
	if saved == nil {
		return
	}
	ruling := f.s.c.Rule(&cmd)
	c := f.again(saved, 1<<20)
	_, again := c.Obeyed(cmd.ID)
	put := c.s.opened(cmd.Question) >= 0 && c.s.Open[c.s.opened(cmd.Question)].People
	c.Apply(c.Seen()+1, runs.Entry{Kind: runs.Ordered, Body: runs.Encode(cmd)})
	effect, _ := c.Obeyed(cmd.ID)
	if effect = effect && !again && (cmd.Do == runs.DoAnswer && put || cmd.Do == runs.DoStop); effect != ruling.Open {
		f.Fatalf("%+v has an effect: %v; before: %+v", cmd, effect, ruling)
	}
	if cmd.Do == runs.DoStop {
		return
	}
	d, over := f.decided[cmd.Question]
	switch {
	case ruling.Open && (ruling.Holds || ruling.Why != ""):
		f.Fatalf("%+v is open and more: %+v", cmd, ruling)
	case ruling.Holds || ruling.Why == runs.WhyDecided:
		same := d != nil && (d.ID == cmd.ID || d.Option == cmd.Option && string(d.Content) == string(cmd.Content))
		if d == nil || same != ruling.Holds || ruling.By != d.By || ruling.Via != d.Via || ruling.Option != d.Option {
			f.Fatalf("%+v: %+v, but the log says %+v", cmd, ruling, d)
		}
	case ruling.Why == runs.WhyWithdrawn:
		if f.s.c.s.opened(cmd.Question) >= 0 || d != nil && over {
			f.Fatalf("%+v: %+v, but the log says %+v", cmd, ruling, d)
		}
	case ruling.Why == runs.WhyUnknown && over:
		f.Fatalf("%s was a question", cmd.Question)
	}
}

// draw returns a command of a person.
func (f *forum) draw() runs.Command {
	f.seq++
	cmd := runs.Command{
		ID:  fmt.Sprint("c", rapid.IntRange(max(f.seq-4, 0), f.seq).Draw(f.T, "id")),
		Do:  rapid.SampledFrom(strings.Fields(strings.Repeat("answer ", 18)+"ask ask ask stop")).Draw(f.T, "do"),
		By:  rapid.SampledFrom([]string{"ann", "bob", "eve", "", strings.Repeat("n", 65)}).Draw(f.T, "by"),
		Via: "rest", Turn: 1, Due: 1, Question: fmt.Sprint("q", rapid.IntRange(0, 12).Draw(f.T, "question")),
	}
	if open := f.s.c.Open(); len(open) > 0 && rapid.Bool().Draw(f.T, "is open") {
		cmd.Question = rapid.SampledFrom(open).Draw(f.T, "question").ID
	}
	options := []string{"yes", "yes", "no", "", "else", "accept", "accept", "decline"}
	cmd.Option = rapid.SampledFrom(options).Draw(f.T, "option")
	if cmd.Option == "accept" || rapid.IntRange(0, 5).Draw(f.T, "with content") == 0 {
		cmd.Content = json.RawMessage(rapid.SampledFrom([]string{
			`{"a":1}`, `{"a":2}`, `{"a":"` + strings.Repeat("x", runs.MaxContent-8) + `"}`,
			`{"a":"` + strings.Repeat("x", runs.MaxContent) + `"}`, `[]`, "{\"a\":\n[\"\\n\u2028\"]}",
		}).Draw(f.T, "content"))
	}
	if rapid.IntRange(0, 9).Draw(f.T, "odd id") == 0 {
		cmd.ID = rapid.SampledFrom([]string{"", strings.Repeat("i", 65), "policy-q1", "ask-q2", "timeout-q1"}).Draw(f.T, "id")
	}
	return cmd
}

// judge compares an answer that the agent gets with the log.
func (f *forum) judge(line []byte, m sent) {
	id := string(m.ID)
	question := f.waits[id]
	if question == "" { // was never open
		return
	}
	f.replies++
	delete(f.waits, id)
	d, over := f.decided[question]
	if !over {
		f.Fatalf("%s is open, and has the answer %s", question, line)
	}
	var r struct {
		Outcome struct{ Outcome, OptionID string }
		Action  string
		Content json.RawMessage
	}
	if err := json.Unmarshal(m.Result, &r); err != nil {
		f.Fatal(err)
	}
	got := r.Outcome.OptionID + r.Action + string(r.Content)
	want, form := "", r.Action != ""
	if form {
		want = "cancel"
	}
	switch {
	case d == nil, d.Option == "":
	case form:
		want = d.Option + string(runs.Encode(d.Content))
		if d.Content == nil {
			want = d.Option
		}
	default:
		want = d.Option
	}
	twice := f.asked[id] > 1 && strings.HasPrefix("cancelled", r.Outcome.Outcome+r.Action)
	if got != want && !twice {
		f.Fatalf("%s of the request %s got %s, want %s", question, id, line, want)
	}
}

// decide stores what the policy decides, as the worker does.
func (f *forum) decide(now int64) {
	for _, q := range f.s.c.Open() {
		cmd, due := f.policy.Decide(q, now)
		if _, known := f.s.c.Obeyed(cmd.ID); due && !known {
			f.apply(runs.Entry{Kind: runs.Ordered, Body: runs.Encode(cmd)})
		}
	}
}

// Any interleaving of requests, commands of several people, a policy, time-outs and restarts: each question has at most
// one answer, that of the first valid command, and what is said of a command is what it does.
func TestAnyInterleavingAnswersAsTheLogDecides(t *testing.T) {
	replies, decisions := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		f := newForum(t, rt)
		for range 3 { // initialize, new, prompt
			f.send(1 << 20)
			f.print(1 << 20)
		}
		now := int64(1000)
		order := func(*rapid.T) {
			f.apply(runs.Entry{Kind: runs.Ordered, Body: runs.Encode(f.draw())})
		}
		sizes := rapid.OneOf(rapid.IntRange(1, 50), rapid.Just(1<<20))
		rt.Repeat(map[string]func(*rapid.T){
			"send":     func(t *rapid.T) { f.send(sizes.Draw(t, "n")) },
			"send on":  func(*rapid.T) { f.send(1 << 20) },
			"print":    func(t *rapid.T) { f.print(sizes.Draw(t, "n")) },
			"print on": func(*rapid.T) { f.print(1 << 20) },
			"ask": func(t *rapid.T) {
				for range rapid.IntRange(1, 4).Draw(t, "n") {
					f.printed = append(f.printed, f.request(t)+"\n"...)
				}
				f.print(1 << 20)
			},
			"noise":   func(*rapid.T) { f.noise(1) },
			"command": order, "command on": order, "command too": order, "command still": order,
			"policy": func(t *rapid.T) { f.decide(now) },
			"later":  func(t *rapid.T) { now += int64(rapid.IntRange(-100, 100).Draw(t, "ms")); f.decide(now) },
		})
		f.settle()
		replies += f.replies
		for _, d := range f.decided {
			if d != nil {
				decisions++
			}
		}
	})
	if replies < 20 || decisions < 20 {
		t.Errorf("only %d answers, %d of them by commands", replies, decisions)
	}
}

// request returns a question.
func (f *forum) request(t *rapid.T) string {
	id := fmt.Sprint(rapid.IntRange(10, 40).Draw(t, "id"))
	return rapid.SampledFrom([]string{
		permission(id, "execute", ""), permission(id, "read", ""), permission(id, "edit", ""),
		`{"jsonrpc":"2.0","id":` + id + `,"method":"elicitation/create","params":{"mode":"form"}}`,
	}).Draw(t, "line")
}

// A state has room for all open questions, the last decisions and the longest names; not for all forms that the agent
// does not have yet.
func TestStateFitsWithAllQuestionsAndDecisions(t *testing.T) {
	s := inTurn(t)
	s.quick = true
	long := func(c string, n int) string { return strings.Repeat(c, n) }
	ask := func(n int) {
		s.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":"%s%04d","method":"session/request_permission","params":{"toolCall":{`+
			`"toolCallId":"%s","kind":"execute"},"options":[{"optionId":"%[3]s","kind":"allow_once"}]}}`,
			long("<", acp.MaxID-6), n, long(`\u0001`, acp.MaxOption)))
		q := s.c.Open()[len(s.c.Open())-1]
		if len(q.Options) != 1 || len(q.Options[0].ID) != acp.MaxOption {
			t.Fatalf("%+v", q)
		}
	}
	fits := func() {
		t.Helper()
		if saved := s.c.State(); saved == nil || len(saved) > maxState {
			t.Fatalf("a state of %d bytes", len(saved))
		}
		s.restart()
	}
	for n := range maxDecided + 1 {
		ask(n)
		cmd := answerOf(fmt.Sprint("c", n), s.c.Open()[0].ID, long("\x01", acp.MaxOption))
		cmd.By, cmd.Via = long("\x01", runs.MaxBy), long("\x01", runs.MaxBy)
		s.order(cmd)
		if n == 0 && len(s.c.s.Decided) != 1 {
			t.Fatal("the longest answer is none")
		}
		s.drain()
		fits()
	}
	if n := len(s.c.s.Decided); n < 16 || n > maxDecided {
		t.Errorf("%d decisions are kept", n)
	}
	for n := range maxCommands + maxCalls {
		s.order(runs.Command{ID: fmt.Sprint("void", n)})
		s.order(runs.Command{ID: fmt.Sprint("policy", n), By: runs.ByPolicy})
		s.say(update("tool_call", fmt.Sprintf(`"toolCallId":"c%d"`, n)))
	}
	for n := range runs.MaxQuestions {
		ask(1000 + n)
		fits()
	}
	for _, q := range s.c.Open() {
		s.answer("x"+q.ID, q.ID, "")
	}
	s.drain()

	for n := range runs.MaxQuestions {
		s.say(`{"jsonrpc":"2.0","id":` + fmt.Sprint(n) + `,"method":"elicitation/create","params":{"mode":"form"}}`)
	}
	for _, q := range s.c.Open() {
		cmd := answerOf("f"+q.ID, q.ID, runs.Accept)
		cmd.Content = json.RawMessage(`{"a":"` + long("x", runs.MaxContent-8) + `"}`)
		s.order(cmd)
	}
	if len(s.c.Open()) != 0 || s.c.State() != nil {
		t.Error("12 forms of 16 KiB fit")
	}
	if lines := s.drain(); len(lines) != runs.MaxQuestions {
		t.Errorf("%d answers", len(lines))
	}
	fits()
}
