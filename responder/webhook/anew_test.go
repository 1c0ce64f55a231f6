package webhook_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/responder/webhook"
)

// Pending notifications of a removed registration do not go to the receiver of
// a new registration with the same id: that one gets its own.
func TestReplacedRegistrationGetsNoOldNotifications(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	old := receive(t, func(int, http.ResponseWriter, []byte, <-chan struct{}) int { return 503 })
	n, other := s.node(nil), receive(t, nil)
	run := n.submit("key-0123456789-1", old.URL, webhook.Bearer)
	raw := s.start(run)
	s.until("it is tried", func() bool { return len(old.requests()) > 0 })
	if err := n.registry.Delete(t.Context(), run, webhook.AdCP); err != nil {
		t.Fatal(err)
	}
	if err := n.registry.Put(t.Context(), webhook.Registration{
		Run: run, ID: webhook.AdCP, URL: other.URL + path, OperationID: "op_2", Scheme: webhook.Bearer, Credentials: secret,
	}); err != nil {
		t.Fatal(err)
	}
	s.until("the other one is told", func() bool { return len(other.requests()) > 0 })
	s.until("what waits goes", func() bool { return s.waiting() == 0 })
	s.end(raw, 0)
	s.until("the other one is told of the end", func() bool {
		return len(other.taken()[run+" completed"]) == 1 &&
			s.waiting() == 0
	})
	for _, q := range other.requests() {
		if !strings.Contains(string(q.body), `"operation_id":"op_2"`) || strings.Contains(string(q.body), token) {
			t.Errorf("it was told what was meant for the old one: %s", q.body)
		}
	}
	if got := len(other.requests()); got != 2 {
		t.Errorf("told %d times, want that it works and that it has ended", got)
	}
}

// Every valid id can be notified of, whatever characters it has.
func TestRegistrationWithTheLongestIDIsNotified(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	r := receive(t, nil)
	n := s.node(func(c *webhook.Config) { c.Encoders[webhook.A2A] = c.Encoders[webhook.AdCP] })
	run := n.submit("key-0123456789-1", r.URL, webhook.Bearer)
	configs := webhook.NewRegistry(s.connect(embedded.ResponderUser).PushStore(), webhook.A2A,
		webhook.Rules{Private: true})
	for _, id := range []string{strings.Repeat("<", 256), strings.Repeat(`"`, 256)} {
		if err := configs.Put(t.Context(), webhook.Registration{Run: run, ID: id, URL: r.URL + path}); err != nil {
			t.Fatal(err)
		}
	}
	s.start(run)
	s.until("all three are told", func() bool { return len(r.taken()[run+" working"]) == 3 })
}
