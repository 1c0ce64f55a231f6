package webhook_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder/webhook"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/servicetest"
)

// kept begins a live run of a task that was submitted, which takes messages.
func (n *node) kept(run string) *servicetest.Live {
	n.t.Helper()
	s := &servicetest.Streams{T: n.t, Operator: n.bus, Service: n.responder}
	return s.BeginLive("codex", run, runs.Start{Source: "queue", Worker: "w", Keep: true})
}

// say sends a message, and waits until its turn has begun.
func (n *node) say(l *servicetest.Live, run, text string) {
	n.t.Helper()
	if _, err := n.responder.Send(n.t.Context(), api.SendRequest{Run: run, Text: text}); err != nil {
		n.t.Fatal(err)
	}
	l.Await(run, func(v runs.Header) bool { return v.State == runs.StateWorking })
}

// waits returns how often a receiver was told of what a run waits for: of each turn and each question.
func (r *receiver) waits(run string) string {
	counts := map[string]int{}
	for _, body := range r.taken()[run+" input-required"] {
		b := gjson.Parse(body)
		counts[b.Get("result.question.id").String()+b.Get("result.turn").String()]++
	}
	return fmt.Sprint(counts)
}

// A receiver is told of each turn after which a run waits for a message, once, beside the questions.
func TestEachTurnIsToldOnce(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	n, r := s.node(nil), receive(t, nil)
	run := n.submit("key-0123456789-1", r.URL, webhook.HMAC)
	l := n.kept(run)
	l.EndTurn("sentinel-answer", "end_turn")
	s.until("the first turn is told", func() bool { return r.waits(run) == "map[1:1]" })
	n.say(l, run, "sentinel-text")
	l.Permission("sentinel-command", 0)
	s.until("a question is told", func() bool { return r.waits(run) == "map[1:1 q1:1]" })
	n.answer(run, "q1")
	l.Asks()
	l.EndTurn("Done.", "end_turn")
	s.until("the second turn is told", func() bool { return r.waits(run) == "map[1:1 2:1 q1:1]" })
	n.say(l, run, "Again.")
	l.EndTurn("Done.", "cancelled") // what is no answer ends a turn, too
	s.until("the third turn is told", func() bool { return r.waits(run) == "map[1:1 2:1 3:1 q1:1]" && s.waiting() == 0 })
	for _, q := range r.requests() {
		if strings.Contains(strings.ReplaceAll(string(q.body), token, ""), "sentinel") {
			t.Errorf("a notification has content: %s", q.body)
		}
		checkPayload(t, q.body)
	}
	record, _, err := s.bus.Record(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	last := gjson.ParseBytes(r.requests()[len(r.requests())-1].body)
	if got := last.Get("result").Raw; got != fmt.Sprintf(`{"path":"/v1/runs/%s","turn":3}`, run) ||
		last.Get("message").String() != "Waits for a message after turn 3" ||
		last.Get("timestamp").String() != record.Doing.Since.String() {
		t.Errorf("told %s, since %s", last.Raw, record.Doing.Since)
	}
	s.quiet()
}

// After a kill between any two steps, the turn after which a run waits is told, once; one that was followed by another
// before is not told any more.
func TestTurnsAreToldOnceAfterAKill(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	r := receive(t, nil)
	died := 0
	for steps := range 6 {
		l := &life{}
		l.left.Store(int64(steps))
		dying := s.node(func(c *webhook.Config) {
			c.Registrations, c.Outbox = dyingStore{c.Registrations, l}, dyingOutbox{c.Outbox, l}
		})
		run := dying.submit(fmt.Sprintf("key-0123456789-%d", steps), r.URL, webhook.HMAC)
		live := dying.kept(run)
		live.EndTurn("One.", "end_turn")
		s.until("it has died or done all", func() bool {
			return l.over.Load() || r.waits(run) == "map[1:1]" && s.waiting() == 0
		})
		if l.over.Load() {
			died++
		}
		dying.stop()
		next := s.node(nil)
		s.until("the turn is told", func() bool { return r.waits(run) == "map[1:1]" && s.waiting() == 0 })
		next.stop()
		dying.say(live, run, "Two.")
		live.EndTurn("Two.", "end_turn")
		live.Await(run, func(v runs.Header) bool { return v.AwaitsMessage() })
		dying.say(live, run, "Three.")
		last := s.node(nil)
		live.EndTurn("Three.", "end_turn")
		s.until("the third is told", func() bool { return r.waits(run) == "map[1:1 3:1]" && s.waiting() == 0 })
		last.stop()
	}
	if died < 3 {
		t.Errorf("%d died", died)
	}
	s.quiet()
}
