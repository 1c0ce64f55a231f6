package natsagents_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/servicetest"
)

const chat = "agents.prompt.codex.ada.chat"

// newLiveStage has a profile with live runs, and one without.
func newLiveStage(t *testing.T, change ...func(*settings)) *stage {
	t.Helper()
	return newStage(t, func(c *settings) {
		for _, one := range change {
			one(c)
		}
		c.Profiles = []responder.Profile{
			{Owner: "ada", Name: "chat", Live: true, Attributes: runs.Attributes{Agent: "codex"}},
			{Owner: "ada", Name: "default", Attributes: runs.Attributes{Agent: "codex"}},
		}
	})
}

// begin is a prompt for a live run that has begun.
func (s *stage) begin(body string) (*asked, *servicetest.Live) {
	s.T.Helper()
	a := s.ask(chat, body).until("linesman.run")
	return a, s.BeginLive("codex", a.run, runs.Start{Source: "queue", Worker: "w1", Keep: strings.Contains(body, "keep")})
}

// query is what the caller is asked.
type query struct {
	ID      string
	Subject string `json:"reply_subject"`
	Prompt  string
}

// queried reads on until a query, whose text has all of some words.
func (a *asked) queried(id string, words ...string) (q query) {
	a.t.Helper()
	a.until("query")
	if err := json.Unmarshal(a.data["query"], &q); err != nil || q.ID != id {
		a.t.Fatalf("query %s: %v, want %s", a.data["query"], err, id)
	}
	token, is := strings.CutPrefix(q.Subject, "linesman.reply.")
	if !is || len(token) != 22 || strings.ContainsAny(token, ".*>") {
		a.t.Errorf("reply subject %s", q.Subject)
	}
	for _, word := range words {
		if !strings.Contains(q.Prompt, word) {
			a.t.Errorf("no %q in %s", word, q.Prompt)
		}
	}
	return q
}

// answered reads on until a query is settled.
func (a *asked) answered(id, outcome string) {
	a.t.Helper()
	a.until("linesman.answered")
	var got struct{ ID, Outcome string }
	if err := json.Unmarshal(a.data["linesman.answered"], &got); err != nil || got.ID != id || got.Outcome != outcome {
		a.t.Fatalf("settled %s: %v, want %s %s", a.data["linesman.answered"], err, id, outcome)
	}
}

// says answers a query.
func (s *stage) says(q query, body string) {
	s.T.Helper()
	if err := s.caller.Publish(q.Subject, []byte(body)); err != nil {
		s.T.Fatal(err)
	}
}

// deaf checks that the reply subject of a query has no subscriber.
func (s *stage) deaf(q query) {
	s.T.Helper()
	if _, err := s.caller.Request(q.Subject, []byte("yes"), fixture.Patience); !errors.Is(err, nats.ErrNoResponders) {
		s.T.Errorf("an answer to %s: %v", q.ID, err)
	}
}

func TestQueriesAreAnswered(t *testing.T) {
	t.Parallel()
	s := newLiveStage(t)
	s.found(2)
	a, l := s.begin("Ask.")
	if task := s.Task(); !task.Live || task.Keep || task.Ask != nil || task.Mode != runs.ReadOnly {
		t.Errorf("task %+v", task)
	}
	first := l.Permission("make", 0)
	q := a.queried(first, "Command: make", "1. Yes (allow_once), id yes", "2. No (reject_once), id no")
	s.says(q, " YES\n")
	a.answered(first, "allow")
	s.deaf(q) // once is enough

	// Two at once, in the other order: by number, and as a request.
	second, third := l.Permission("one", 0), l.Permission("two", 0)
	q2, q3 := a.queried(second, "Command: one"), a.queried(third, "Command: two")
	s.says(q3, `{"prompt":"2","more":[1]}`)
	a.answered(third, "deny")
	s.says(q2, "Yes")
	a.answered(second, "allow")

	// What fits nothing is asked for again, a few times.
	fourth := l.Permission("three", 0)
	q = a.queried(fourth)
	for i, wrong := range []string{"3", `{"prompt":`, `{"prompt":"yes","attachments":[{"filename":"a","content":"YQ=="}]}`} {
		s.says(q, wrong)
		q = a.queried(fmt.Sprintf("%s-%d", fourth, i+2), "That is no answer: ", "Command: three")
	}
	s.says(q, "perhaps")
	s.deaf(q)
	l.Asks(fourth)
	by, err := s.Service.Decide(t.Context(), api.AnswerRequest{Request: a.run, Question: fourth, Option: "allow"})
	if err != nil || by.Outcome != "allow" {
		t.Errorf("answered elsewhere: %+v, %v", by, err)
	}

	// A form takes a text, a JSON object in both forms, and decline.
	for i, said := range []string{"Ada", `{"name":"Ada"}`, `{"prompt":"{\"name\":\"Ada\"}"}`, `{"prompt":{"name":"Ada"}}`, "Decline"} {
		id := l.Form(fmt.Sprintf("Who %d?", i))
		s.says(a.queried(id, fmt.Sprintf("Who %d?", i), "string name"), said)
		a.answered(id, map[bool]string{true: "declined", false: "submitted"}[i == 4])
	}
	l.Turn("Done.")
	a.until("end")
	if a.text.String() != "Done." || a.code != "" {
		t.Errorf("%q %q", a.text.String(), a.seen)
	}
	// The log has who decided.
	record, err := s.Service.Record(t.Context(), a.run)
	if err != nil {
		t.Fatal(err)
	}
	var deciders []string
	err = s.Bus.Entries(t.Context(), "codex", record.ID, 0, false, func(_ uint64, e runs.Entry) error {
		var c runs.Command
		if e.Kind == runs.Ordered && json.Unmarshal(e.Body, &c) == nil && c.Do == runs.DoAnswer {
			deciders = append(deciders, c.Question+" "+c.By+" "+c.Via)
		}
		return nil
	})
	if err != nil || len(deciders) != 9 || deciders[0] != "q1 prompter.codex.ada.chat agents" ||
		deciders[3] != "q4 operator nats" {
		t.Errorf("decided by %q, %v", deciders, err)
	}
}

// A waiting run does not change: a question that could not be read is read again without that.
func TestQuestionThatCannotBeReadIsAskedLater(t *testing.T) {
	t.Parallel()
	var fails atomic.Int32
	s := newLiveStage(t, func(c *settings) { c.fails = &fails })
	s.found(2)
	a, l := s.begin("Ask.")
	fails.Store(2)
	id := l.Permission("make", 0)
	s.says(a.queried(id, "Command: make"), "yes")
	a.answered(id, "allow")
	if n := fails.Load(); n > -1 {
		t.Errorf("%d more would fail", n)
	}
}

// Other servers may refuse large messages, which would end the stream.
func TestQueryIsBounded(t *testing.T) {
	t.Parallel()
	s := newLiveStage(t)
	s.found(2)
	a, l := s.begin("Ask.")
	for i, c := range []struct {
		command string
		size    int // at most, as JSON
		answer  string
		outcome string
	}{
		{strings.Repeat("<", 10<<10), 25 << 10, "yes", "allow"},
		{strings.Repeat("<", 100<<10), 70 << 10, "no", "deny"},
		{strings.Repeat("\\", 60<<10), 130 << 10, "no", "deny"},
	} {
		id := l.Permission(c.command, 0)
		q := a.queried(id)
		if n := len(a.data["query"]); n > c.size {
			t.Errorf("%d: %d bytes", i, n)
		}
		if cut := strings.Contains(q.Prompt, "This is not all of it"); cut != (c.answer == "no") {
			t.Errorf("%d: cut %v", i, cut)
		}
		s.says(q, c.answer)
		a.answered(id, c.outcome)
	}
}

func TestAnswerFromElsewhereWithdrawsAQuery(t *testing.T) {
	t.Parallel()
	s := newLiveStage(t)
	s.found(2)
	a, l := s.begin("Ask.")
	first, second := l.Permission("one", 0), l.Permission("two", 0)
	q1, q2 := a.queried(first), a.queried(second)
	elsewhere := func(question, option string) (api.Answered, error) {
		return s.Service.Decide(t.Context(), api.AnswerRequest{Request: a.run, Question: question, Option: option})
	}
	if _, err := elsewhere(first, "no"); err != nil {
		t.Fatal(err)
	}
	a.answered(first, "")
	s.deaf(q1)
	// At once: one of them decides, and the log has one answer.
	decided := make(chan api.Answered, 1)
	go func() {
		done, _ := elsewhere(second, "no")
		decided <- done
	}()
	s.says(q2, "yes")
	a.until("linesman.answered")
	var got struct{ Outcome string }
	if err := json.Unmarshal(a.data["linesman.answered"], &got); err != nil {
		t.Fatal(err)
	}
	if done := <-decided; (done.Outcome == "deny") == (got.Outcome == "allow") {
		t.Errorf("the caller is told %q, and elsewhere %q", got.Outcome, done.Outcome)
	}
	// A caller who has gone leaves the question open for others.
	third := l.Permission("three", 0)
	q3 := a.queried(third)
	if err := a.sub.Unsubscribe(); err != nil {
		t.Fatal(err)
	}
	l.Asks(third)
	if _, err := elsewhere(third, "yes"); err != nil {
		t.Errorf("answered elsewhere: %v", err)
	}
	l.Turn("Done.")
	s.deaf(q3)
}

func TestLiveIsWhatTheProfilePermits(t *testing.T) {
	t.Parallel()
	s := newLiveStage(t)
	s.found(2)
	for body, subject := range map[string]string{
		`{"prompt":"x","linesman":{"live":true}}`:                                                    codex,
		`{"prompt":"x","linesman":{"keep":true}}`:                                                    codex,
		`{"prompt":"x","linesman":{"keep":true,"live":false}}`:                                       chat,
		`{"prompt":"x","attachments":[{"filename":"a"}]}`:                                            chat,
		`{"prompt":"x","linesman":{"live":false},"attachments":[{"filename":"a","content":"YQ=="}]}`: chat,
		`{"prompt":"x","linesman":{"policy":["allow execute"]}}`:                                     chat,
	} {
		if code, what := s.ask(subject, body).refused(); code != "400" || what != "validation" {
			t.Errorf("%s: %s %s", body, code, what)
		}
	}
	s.ask(chat, `{"prompt":"x","linesman":{"live":false}}`).until("linesman.run")
	if task := s.Task(); task.Live {
		t.Errorf("task %+v", task)
	}
}

func TestTextsOfAttachmentsAreInThePrompt(t *testing.T) {
	t.Parallel()
	s := newLiveStage(t)
	for _, one := range s.found(2) {
		for _, e := range one.Endpoints {
			want, got := fmt.Sprint(strings.HasSuffix(e.Subject, ".chat")), e.Metadata["attachments_ok"]
			if e.Name == "prompt" && got != want {
				t.Errorf("%s: attachments_ok %s", e.Subject, got)
			}
		}
	}
	body := func(prompt, name string, content []byte) string {
		return string(runs.Encode(map[string]any{"prompt": prompt, "attachments": []map[string]any{
			{"filename": name, "content": content}, {"filename": "b", "content": []byte("```\n")}}}))
	}
	s.ask(chat, body("Read it.", "../../etc/a\n`b.txt", []byte("One.\n"))).until("linesman.run")
	const want = "Read it.\n\nAttached file ab.txt:\n```\nOne.\n```\n\nAttached file b:\n````\n```\n````"
	if task := s.Task(); task.Prompt != want || task.Title != "" {
		t.Errorf("task %+v", task)
	}
	ticks := strings.Repeat("`", 1000)
	s.ask(chat, body("x", "a", []byte(ticks))).until("linesman.run")
	if task := s.Task(); !strings.Contains(task.Prompt, "\n`"+ticks+"\n"+ticks+"\n`"+ticks+"\n") {
		t.Errorf("fenced by fewer: %s", task.Prompt)
	}
	many := strings.Repeat(`{"filename":"a","content":"YQ=="},`, 17)
	for _, body := range []string{
		body("", "a", []byte("x")), body("x", "", []byte("x")), body("x", "a/..", []byte("x")), body("x", "a", []byte{0xff}),
		body("x", "a", []byte{0}), body("x", "a", make([]byte, 64<<10)),
		body("x", "a", bytes.Repeat([]byte("`"), 1001)), body("x", "a", bytes.Repeat([]byte("`"), 45_000)),
		`{"prompt":"x","attachments":[{"filename":"a","content":"YQ"}]}`,
		`{"prompt":"x","attachments":[{"filename":"a","content":"Y Q="}]}`,
		`{"prompt":"x","attachments":[{"filename":"a","content":"_-=="}]}`,
		`{"prompt":"x","attachments":[{"filename":"a","content":"YR=="}]}`,
		`{"prompt":"x","attachments":[{"filename":"a","content":"YWFh\r\nYQ=="}]}`,
		`{"prompt":"x","attachments":["a"]}`, `{"prompt":"x","attachments":{}}`,
		`{"prompt":"x","attachments":[` + strings.TrimSuffix(many, ",") + `]}`,
	} {
		if code, what := s.ask(chat, body).refused(); code != "400" || what != "validation" {
			t.Errorf("%.90s: %s %s", body, code, what)
		}
	}
}

// A message that an agent prints in lines is one message.
func TestLinesOfALiveRunAreJoined(t *testing.T) {
	t.Parallel()
	s := newLiveStage(t)
	s.found(2)
	a, l := s.begin("Go.")
	l.EndTurn("One.\n\n- two\n- three\n", "end_turn")
	l.Quit()
	a.until("end")
	if got := a.text.String(); got != "One.\n\n- two\n- three\n" {
		t.Errorf("the text is %q", got)
	}
}

// session is an instance for the next prompts of a run.
func (s *stage) session(run string) (prompt, cancel string) {
	s.T.Helper()
	token := strings.ToLower(run)
	for _, one := range s.found(3) {
		if one.Metadata["session"] == token {
			return "agents.prompt.codex.ada." + token, "agents.cancel.codex.ada." + token
		}
	}
	s.T.Fatal("no session is announced")
	return "", ""
}

func (s *stage) cancel(subject, body, code string) {
	s.T.Helper()
	m, err := s.caller.Request(subject, []byte(body), fixture.Patience)
	if err != nil || m.Header.Get("Nats-Service-Error-Code") != code {
		s.T.Errorf("%s %s: %s %v, %v; want %q", subject, body, m.Data, m.Header, err, code)
	}
}

func TestSessionIsAnInstance(t *testing.T) {
	t.Parallel()
	s := newLiveStage(t)
	s.found(2)
	beats, err := s.caller.SubscribeSync("agents.hb.*.*.*")
	if err != nil {
		t.Fatal(err)
	}
	a, l := s.begin(`{"prompt":"One.","linesman":{"keep":true,"events":true}}`)
	l.EndTurn("First.", "end_turn")
	a.until("end")
	prompt, cancel := s.session(a.run)
	var result struct{ Run, State, Session, Prompt string }
	if err := json.Unmarshal(a.data["linesman.result"], &result); err != nil || result.Prompt != prompt ||
		result.State != "completed" || result.Run != a.run || a.text.String() != "First." {
		t.Errorf("result %s: %v, %q", a.data["linesman.result"], err, a.text.String())
	}
	fixture.Eventually(t, fixture.Patience, "a heartbeat of the session", func() bool {
		m, err := beats.NextMsg(fixture.Patience)
		return err == nil && strings.Contains(string(m.Data), `"session":"`+strings.ToLower(a.run)+`"`)
	})

	// The next turn; another prompt meanwhile is refused, and options are.
	b := s.ask(prompt, "Two.").until("status working")
	if code, what := s.ask(prompt, "Three.").refused(); code != "409" || what != "conflict" {
		t.Errorf("while a turn runs: %s %s", code, what)
	}
	if code, _ := s.ask(prompt, `{"prompt":"Three.","linesman":{"model":"m"}}`).refused(); code != "400" {
		t.Errorf("options: %s", code)
	}
	id := l.Permission("make", 0)
	s.says(b.queried(id), "yes")
	b.answered(id, "allow")
	l.EndTurn("Second.", "end_turn")
	b.until("end")
	if b.text.String() != "Second." || b.run != a.run || b.code != "" {
		t.Errorf("%q %q", b.text.String(), b.seen)
	}

	// Its turn is cancelled, and the session goes on.
	s.cancel(cancel, "", "409")
	c := s.ask(prompt, "Three.").until("status working")
	s.cancel(cancel, `{"run":"T-local-other"}`, "404")
	s.cancel(cancel, `{"all":true}`, "400")
	s.cancel("agents.cancel.codex.ada.chat", `{"run":"`+a.run+`","end":true}`, "400")
	s.cancel(cancel, `{}`, "")
	l.EndTurn("Oh.", "cancelled")
	if code, what := c.refused(); code != "500" || what != "cancelled" || c.body["run"] != a.run {
		t.Errorf("cancelled: %s %s %v", code, what, c.body)
	}
	d := s.ask(prompt, "Four.").until("status working")
	l.EndTurn("Bad.", "refusal")
	if code, what := d.refused(); code != "500" || what != "tool_error" {
		t.Errorf("failed: %s %v", code, d.body)
	}

	// It ends.
	s.cancel(cancel, `{"end":true}`, "")
	l.Quit()
	s.found(2)
	fixture.Eventually(t, fixture.Patience, "nobody listens for the session", func() bool {
		_, err := s.caller.Request(prompt, []byte("x"), time.Second)
		return errors.Is(err, nats.ErrNoResponders)
	})
}
