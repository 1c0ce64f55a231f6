package webhook_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder/webhook"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/servicetest"
)

// live begins a live run of a task that was submitted.
func (n *node) live(run string) *servicetest.Live {
	n.t.Helper()
	s := &servicetest.Streams{T: n.t, Operator: n.bus, Service: n.responder}
	return s.BeginLive("codex", run, runs.Start{Source: "queue", Worker: "w"})
}

// answer answers a question.
func (n *node) answer(run, question string) {
	n.t.Helper()
	if _, err := n.responder.Decide(n.t.Context(), api.AnswerRequest{Request: run, Question: question,
		Option: "yes"}); err != nil {
		n.t.Fatal(err)
	}
}

// questions returns how often a receiver was told of each question of a run.
func (r *receiver) questions(run string) string {
	counts := map[string]int{}
	for _, body := range r.taken()[run+" input-required"] {
		counts[gjson.Get(body, "result.question.id").String()]++
	}
	return fmt.Sprint(counts)
}

// A receiver is told of each question once, and of nothing that it says.
func TestEachQuestionIsToldOnce(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	n, r := s.node(nil), receive(t, nil)
	run := n.submit("key-0123456789-1", r.URL, webhook.HMAC)
	l := n.live(run)
	s.until("it works", func() bool { return len(r.taken()[run+" working"]) == 1 })
	due := servicetest.Hour()
	l.Permission("rm sentinel-command", due)
	s.until("the first question is told", func() bool { return r.questions(run) == "map[q1:1]" })
	l.Form("sentinel-form")
	s.until("a second one is told beside it", func() bool { return r.questions(run) == "map[q1:1 q2:1]" })
	n.answer(run, "q1")
	l.Asks("q2")
	if _, err := n.responder.Decide(t.Context(), api.AnswerRequest{Request: run, Question: "q2",
		Option: runs.Decline}); err != nil {
		t.Fatal(err)
	}
	l.Asks()
	l.Permission("sentinel-again", 0)
	s.until("one after the others", func() bool { return r.questions(run) == "map[q1:1 q2:1 q3:1]" })
	n.answer(run, "q3")
	l.Turn("Done.")
	s.until("it has ended", func() bool { return len(r.taken()[run+" completed"]) == 1 && s.waiting() == 0 })
	if got := r.questions(run); got != "map[q1:1 q2:1 q3:1]" || len(r.requests()) != 5 {
		t.Errorf("%d requests, questions %s", len(r.requests()), got)
	}
	keys := map[string]bool{}
	for _, q := range r.requests() {
		b := gjson.ParseBytes(q.body)
		keys[b.Get("idempotency_key").String()] = true
		if b.Get("status").String() != "completed" && strings.Contains(strings.ReplaceAll(b.Raw, token, ""), "sentinel") {
			t.Errorf("a notification has content: %s", b.Raw)
		}
		checkPayload(t, q.body)
	}
	if len(keys) != 5 {
		t.Errorf("%d keys", len(keys))
	}
	first := gjson.Parse(r.taken()[run+" input-required"][0])
	want := fmt.Sprintf(`{"path":"/v1/questions?run=%s","question":{"run":%q,"id":"q1","kind":"permission","askedAt":%q,"dueAt":%q}}`,
		run, run, first.Get("timestamp").String(), runs.Time(due))
	got, message := first.Get("result").Raw, first.Get("message").String()
	if got != want || message != "Waits for an answer to question q1" {
		t.Errorf("told %s, want %s", first.Raw, want)
	}
	s.quiet()
}

// A receiver is told of nothing that a message says, nor of its key, nor of an id that a client made up.
func TestNothingOfMessagesIsTold(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	n, r := s.node(nil), receive(t, nil)
	run := n.submit("key-0123456789-1", r.URL, webhook.HMAC)
	l := n.kept(run)
	s.until("it works", func() bool { return len(r.taken()[run+" working"]) == 1 })
	sent, err := n.responder.Send(t.Context(), api.SendRequest{Run: run, Text: "sentinel-text", Key: "sentinel-key"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = n.responder.Send(t.Context(), api.SendRequest{
		Run: run, Text: "sentinel-change", Message: sent.Message,
	}); err != nil {
		t.Fatal(err)
	}
	if _, err = n.responder.Unsend(t.Context(), api.MessageRequest{Run: run, Message: "sentinel-id"}); err == nil {
		t.Error("a message was taken back that there is not")
	}
	l.Permission("ls", 0)
	s.until("a question is told", func() bool { return r.questions(run) == "map[q1:1]" })
	for _, q := range r.requests() {
		body := strings.ReplaceAll(string(q.body), token, "")
		if strings.Contains(body, "sentinel") || strings.Contains(body, sent.Message) {
			t.Errorf("a notification has content: %s", q.body)
		}
	}
}

// After a kill between any two steps, each question that is still open is told, once; one that was answered before is
// not told any more.
func TestQuestionsAreToldOnceAfterAKill(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	r := receive(t, nil)
	died := 0
	for steps := range 8 {
		l := &life{}
		l.left.Store(int64(steps))
		dying := s.node(func(c *webhook.Config) {
			c.Registrations, c.Outbox = dyingStore{c.Registrations, l}, dyingOutbox{c.Outbox, l}
		})
		run := dying.submit(fmt.Sprintf("key-0123456789-%d", steps), r.URL, webhook.HMAC)
		live := dying.live(run)
		live.Permission("one", 0)
		live.Permission("two", 0)
		live.Asks("q1", "q2")
		s.until("it has died or done all", func() bool {
			return l.over.Load() || r.questions(run) == "map[q1:1 q2:1]" && s.waiting() == 0
		})
		if l.over.Load() {
			died++
		}
		dying.stop()
		next := s.node(nil)
		s.until("both are told", func() bool { return r.questions(run) == "map[q1:1 q2:1]" && s.waiting() == 0 })
		next.stop() // what is asked and answered while nobody looks is not told
		live.Permission("three", 0)
		live.Asks("q1", "q2", "q3")
		dying.answer(run, "q3")
		live.Asks("q1", "q2")
		last := s.node(nil)
		live.Permission("four", 0)
		s.until("the fourth is told", func() bool { return r.questions(run) == "map[q1:1 q2:1 q4:1]" && s.waiting() == 0 })
		last.stop()
	}
	if died < 3 {
		t.Errorf("%d died", died)
	}
	for what, bodies := range r.taken() {
		if strings.HasSuffix(what, "input-required") && len(bodies) != 3 {
			t.Errorf("%s: told %d times", what, len(bodies))
		}
	}
	s.quiet()
}

// A process that is killed while a receiver has a question leaves it to the next one, which tells of the next question,
// too.
func TestAProcessKilledWithAQuestionLosesNone(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	var open atomic.Bool
	held := make(chan struct{}, 100)
	r := receive(t, func(_ int, _ http.ResponseWriter, _ []byte, gone <-chan struct{}) int {
		if open.Load() {
			return 200
		}
		held <- struct{}{}
		<-gone
		return -1
	})
	caller := s.node(nil)
	caller.stop() // it takes tasks, and tells nobody
	run := caller.submit("key-0123456789-1", r.URL, webhook.HMAC)
	l := caller.live(run)
	l.Permission("one", 0)
	l.Asks("q1")
	s.kill(held)
	caller.answer(run, "q1") // what is in the outbox is told all the same
	l.Asks()
	open.Store(true)
	s.node(nil)
	s.hasten()
	l.Permission("two", 0)
	s.until("both are told", func() bool {
		return strings.HasPrefix(r.questions(run), "map[q1:") && strings.Contains(r.questions(run), "q2:") && s.waiting() == 0
	})
	bodies := map[string]string{}
	for _, q := range r.requests() {
		key := gjson.GetBytes(q.body, "idempotency_key").String()
		if before, known := bodies[key]; known && before != string(q.body) {
			t.Errorf("one key, two bodies: %s\n%s", before, q.body)
		}
		bodies[key] = string(q.body)
	}
	if len(bodies) != 2 {
		t.Errorf("%d keys for two questions", len(bodies))
	}
	s.quiet()
}
