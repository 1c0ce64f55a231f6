package webhook_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/linesman/linesman/responder/webhook"
)

// narrowOutbox has a capacity of four, and is crowded with three.
type narrowOutbox struct {
	webhook.Outbox
	s *stage
}

func (o narrowOutbox) Add(ctx context.Context, n webhook.Notice) (bool, error) {
	if n, err := o.s.bus.PushStore().Waiting(ctx); err != nil || n >= 4 {
		return false, err
	}
	return o.Outbox.Add(ctx, n)
}

func (o narrowOutbox) Crowded(ctx context.Context) (bool, error) {
	n, err := o.s.bus.PushStore().Waiting(ctx)
	return n >= 3, err
}

// A receiver that takes nothing has no more than three quarters of the outbox; others are notified. After an hour its
// notifications are given up until there is space.
func TestReceiverThatTakesNothingLeavesSpaceToOthers(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	answer := func(status int) *receiver {
		return receive(t, func(int, http.ResponseWriter, []byte, <-chan struct{}) int { return status })
	}
	away, there := answer(503), answer(200)
	n := s.node(func(c *webhook.Config) { c.Outbox = narrowOutbox{c.Outbox, s} })
	notify := func(i int, r *receiver) string {
		run := n.submit(fmt.Sprintf("key-0123456789-%d", i), r.URL, webhook.HMAC)
		s.end(s.start(run), 0)
		return run
	}
	notify(0, away)
	s.until("it refuses one", func() bool { return strings.Contains(s.log(), "a notification was not accepted") })
	for i := range 5 {
		notify(1+i, away)
	}
	s.until("it has its share", func() bool { return strings.Contains(s.log(), "does not take its notifications") })
	for i := range 3 {
		run := notify(10+i, there)
		s.until("another is notified", func() bool { return len(there.taken()[run+" completed"]) > 0 })
	}
	if strings.Contains(s.log(), "no space to keep it") {
		t.Error("a notification was given up at once")
	}
	n.stop()
	s.impatient = true
	s.node(func(c *webhook.Config) { c.Outbox = narrowOutbox{c.Outbox, s} })
	s.until("one is given up", func() bool { return strings.Contains(s.log(), "no space to keep it") })
}

// While the outbox is full it is asked once at a time, however many runs wait.
func TestFullOutboxIsAskedSeldom(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	r := receive(t, func(int, http.ResponseWriter, []byte, <-chan struct{}) int { return 200 })
	full := &fullOutbox{asked: make(chan time.Time, 1000)}
	n := s.node(func(c *webhook.Config) { full.Outbox, c.Outbox = c.Outbox, full })
	for i := range 5 {
		run := n.submit(fmt.Sprintf("key-0123456789-%d", i), r.URL, webhook.HMAC)
		s.end(s.start(run), 0)
	}
	const asks, pause = 12, 150 * time.Millisecond // three times the pace of a stage
	first := <-full.asked
	for range asks - 2 {
		<-full.asked
	}
	if took := (<-full.asked).Sub(first); took < (asks-3)*pause { // the first tick may have come before
		t.Errorf("asked %d times in %v", asks, took)
	}
}

// fullOutbox takes nothing.
type fullOutbox struct {
	webhook.Outbox
	asked chan time.Time
}

func (o *fullOutbox) Add(context.Context, webhook.Notice) (bool, error) {
	o.asked <- time.Now()
	return false, nil
}
