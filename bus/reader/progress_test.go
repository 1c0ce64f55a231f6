package reader

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// A consumer that has delivered nothing for longer than a new one needs has stalled, if
// the leader has more.
func TestAConsumerThatBringsNothingHasStalled(t *testing.T) {
	t.Parallel()
	l := startLeaders(t, 7, 7)
	p, b := progress{}, Background{JS: l.js, Stream: testStream, Subject: "events.>"}
	check := func(seen uint64) (uint64, error) {
		return p.check(t.Context(), b, &l.info, time.Now(), seen)
	}
	if end, err := check(3); end != 3 || err != nil {
		t.Errorf("there is more, just now: %d, %v", end, err)
	}
	p.since = time.Now().Add(-5*heartbeat - time.Second)
	if _, err := check(4); err != nil {
		t.Errorf("a consumer that brought one more has not stalled: %v", err)
	}
	p.since = time.Now().Add(-5*heartbeat - time.Second)
	if _, err := check(4); !errors.Is(err, ErrStalled) {
		t.Errorf("nothing came for %v: %v", 5*heartbeat+time.Second, err)
	}
	if end, err := check(7); end != 7 || err != nil {
		t.Errorf("all came: %d, %v", end, err)
	}
	if _, err := check(4); err != nil {
		t.Errorf("it caught up meanwhile: %v", err)
	}
}

// An end that was removed before it was read is skipped at once if no other server can
// be the leader, and at the second answer otherwise.
func TestAnEndThatIsGoneIsBehindTheReader(t *testing.T) {
	t.Parallel()
	l := startLeaders(t, 0, 10)
	p, b := progress{}, Background{JS: l.js, Stream: testStream, Subject: "events.>"}
	if end, err := p.check(t.Context(), b, &l.info, time.Now(), 4); end != 10 || err != nil {
		t.Errorf("all copies follow: %d, %v; want 10", end, err)
	}
	synctest.Test(t, func(t *testing.T) {
		info := jetstream.StreamInfo{Cluster: &jetstream.ClusterInfo{Replicas: []*jetstream.PeerInfo{heard, stopped}}}
		var e end
		for _, c := range []struct {
			after time.Duration
			from  uint64
			last  uint64
			want  uint64
		}{
			{0, 5, 10, 0},
			{time.Second, 5, 12, 0},            // not long enough ago
			{time.Second, 5, 12, 10},           // two answers, two seconds apart, agree up to 10
			{time.Second, 11, 12, 0},           // another start
			{3 * time.Second, 11, 11, 11},      // never beyond what is asked for
			{3 * time.Second, 11, 1 << 40, 12}, // or beyond the first answer
		} {
			time.Sleep(c.after) // of the test's own clock
			if got := e.believe(&info, time.Now(), c.from, c.last); got != c.want {
				t.Errorf("from %d to %d after %v: %d, want %d", c.from, c.last, c.after, got, c.want)
			}
		}
	})
}
