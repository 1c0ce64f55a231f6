package bus_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/test/fixture/bustest"
)

func TestOfTwoWritersOfRegistrationsTheFirstWins(t *testing.T) {
	t.Parallel()
	s, _ := serve(t)
	a, b := bustest.Connect(t, s, embedded.ResponderUser).
		PushStore(),
		bustest.Connect(t, s, embedded.ResponderUser).
			PushStore()
	if value, revision, err := a.Get(t.Context(), "r"); value != nil || revision != 0 || err != nil {
		t.Fatalf("before: %s %d %v", value, revision, err)
	}
	if ok, err := a.Put(t.Context(), "r", []byte("a"), 0, time.Hour, 0); !ok || err != nil {
		t.Fatalf("the first: %v %v", ok, err)
	}
	if ok, err := b.Put(t.Context(), "r", []byte("b"), 0, time.Hour, 0); ok || err != nil {
		t.Errorf("the second: %v %v", ok, err)
	}
	value, revision, err := b.Get(t.Context(), "r")
	if string(value) != "a" || err != nil {
		t.Errorf("it holds %s, %v", value, err)
	}
	if ok, err := b.Put(t.Context(), "r", nil, 0, time.Hour, revision); !ok || err != nil {
		t.Errorf("remove: %v %v", ok, err)
	}
	value, revision, err = a.Get(t.Context(), "r")
	if value != nil || revision == 0 || err != nil {
		t.Errorf("it was removed and holds %s at %d, %v", value, revision, err)
	}
	if ok, err := a.Put(t.Context(), "r", []byte("c"), 0, time.Hour, revision); !ok || err != nil {
		t.Errorf("again: %v %v", ok, err)
	}
}

// When the bucket is full, a run's registrations can still be marked as notified.
func TestAFullBucketTakesChangesAndNothingNew(t *testing.T) {
	t.Parallel()
	s, b := serve(t)
	p := bustest.Connect(t, s, embedded.ResponderUser).PushStore()
	stream, err := b.JetStream().Stream(t.Context(), bucket.Stream(b.Push()))
	if err != nil {
		t.Fatal(err)
	}
	config := stream.CachedInfo().Config
	config.MaxBytes = 64 << 10
	if _, err := b.JetStream().UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	value := []byte(strings.Repeat("x", 8<<10))
	n := 0
	for ; ; n++ {
		if ok, err := p.Put(t.Context(), fmt.Sprintf("run-%03d", n), value, 0, time.Hour, 0); err != nil {
			break
		} else if !ok || n > 100 {
			t.Fatalf("%d values of 8 KiB in 64 KiB", n)
		}
	}
	for i := range n {
		run := fmt.Sprintf("run-%03d", i)
		_, revision, err := p.Get(t.Context(), run)
		if err != nil {
			t.Fatal(err)
		}
		value[0]++
		if ok, err := p.Put(t.Context(), run, value, 2, time.Hour, revision); !ok || err != nil {
			t.Errorf("%s in place of the old value: %v %v", run, ok, err)
		}
	}
}

func TestWatchTellsWhatThereIsAndWhatChanges(t *testing.T) {
	t.Parallel()
	s, _ := serve(t)
	p := bustest.Connect(t, s, embedded.ResponderUser).PushStore()
	if ok, err := p.Put(t.Context(), "early", []byte("secret"), 1, time.Hour, 0); !ok || err != nil {
		t.Fatalf("%v %v", ok, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var mu sync.Mutex
	told := map[string]int{}
	ended := make(chan error, 1)
	go func() {
		ended <- p.Watch(ctx, func(run string, n int) {
			mu.Lock()
			defer mu.Unlock()
			told[run] = n
		})
	}()
	knows := func(run string, n int) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			got, there := told[run]
			return there && got == n
		}
	}
	bustest.Until(t, "what there is", knows("early", 1))
	if ok, err := p.Put(t.Context(), "late", []byte("x"), 0, time.Hour, 0); !ok || err != nil {
		t.Fatalf("%v %v", ok, err)
	}
	bustest.Until(t, "what comes", knows("late", 0))
	_, revision, err := p.Get(t.Context(), "late")
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := p.Put(t.Context(), "late", nil, 0, time.Hour, revision); !ok || err != nil {
		t.Fatalf("%v %v", ok, err)
	}
	bustest.Until(t, "what goes", knows("late", -1))
	if ok, err := p.Put(t.Context(), "short", []byte("x"), 0, time.Second, 0); !ok || err != nil {
		t.Fatalf("%v %v", ok, err)
	}
	bustest.Until(t, "its time is not over", func() bool {
		value, revision, err := p.Get(t.Context(), "short")
		return value == nil && revision == 0 && err == nil
	})
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// outbox counts deliveries.
func outbox(t *testing.T, b *bus.Bus) *jetstream.StreamInfo {
	t.Helper()
	s, err := b.JetStream().Stream(t.Context(), b.Outbox())
	if err != nil {
		t.Fatal(err)
	}
	return s.CachedInfo()
}

func TestANoticeIsStoredOnceAndGoesWhenItIsDone(t *testing.T) {
	t.Parallel()
	s, b := serve(t)
	p := bustest.Connect(t, s, embedded.ResponderUser).PushStore()
	for range 2 {
		if ok, err := p.Add(
			t.Context(),
			bus.Notice{Run: "r", Key: "k1", About: `{"id":"x"}`, Body: []byte("body")},
		); !ok ||
			err != nil {
			t.Fatalf("%v %v", ok, err)
		}
	}
	if n := outbox(t, b).State.Msgs; n != 1 {
		t.Fatalf("%d of one notification", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var got atomic.Pointer[bus.Notice]
	ended := make(chan error, 1)
	go func() {
		ended <- p.Deliver(ctx, 2, func(_ context.Context, n bus.Notice) time.Duration {
			got.Store(&n)
			return 0
		})
	}()
	bustest.Until(t, "it goes", func() bool { return got.Load() != nil && outbox(t, b).State.Msgs == 0 })
	if n := got.Load(); n.Run != "r" || n.Key != "k1" || n.About != `{"id":"x"}` || string(n.Body) != "body" ||
		n.Times != 1 ||
		time.Since(n.At) > time.Minute {
		t.Errorf("got %+v", *n)
	}
	if ok, err := p.Add(t.Context(), bus.Notice{Run: "r", Key: "k1", Body: []byte("body")}); !ok || err != nil {
		t.Errorf("again: %v %v", ok, err)
	}
	if n := outbox(t, b).State.Msgs; n != 0 {
		t.Error("what was just done with is there again")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A notification that is still in the outbox is not stored again, however long ago it
// was added.
func TestANoticeThatWaitsIsNotStoredAgain(t *testing.T) {
	t.Parallel()
	s, b := serve(t)
	p := bustest.Connect(t, s, embedded.ResponderUser).PushStore()
	if _, err := b.JetStream().
		Publish(t.Context(), b.PushSubject("r", "k1"), []byte("body")); err != nil { // without a message id
		t.Fatal(err)
	}
	if ok, err := p.Add(t.Context(), bus.Notice{Run: "r", Key: "k1", Body: []byte("body")}); !ok || err != nil {
		t.Errorf("%v %v", ok, err)
	}
	if n := outbox(t, b).State.Msgs; n != 1 {
		t.Errorf("%d of one notification", n)
	}
}

func TestAFullOutboxSaysSo(t *testing.T) {
	t.Parallel()
	s, b := serve(t)
	p := bustest.Connect(t, s, embedded.ResponderUser).PushStore()
	config := outbox(t, b).Config
	config.MaxMsgs = 3
	if _, err := b.JetStream().UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		ok, err := p.Add(t.Context(), bus.Notice{Run: "r", Key: fmt.Sprint("k", i), Body: []byte("x")})
		if err != nil || ok != (i < 3) {
			t.Errorf("notification %d: %v %v", i, ok, err)
		}
	}
}

// Undelivered notifications are redelivered, and do not block others; a process that
// ends returns those that it holds.
func TestWhatIsNotTakenComesAgainAndHoldsUpNothing(t *testing.T) {
	t.Parallel()
	s, b := serve(t)
	p := bustest.Connect(t, s, embedded.ResponderUser).PushStore()
	const n = 20
	for i := range n {
		if ok, err := p.Add(
			t.Context(),
			bus.Notice{Run: "r", Key: fmt.Sprintf("k%02d", i), Body: []byte("x")},
		); !ok ||
			err != nil {
			t.Fatalf("%v %v", ok, err)
		}
	}
	var mu sync.Mutex
	times := map[string]int{}
	held := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- p.Deliver(ctx, 4, func(ctx context.Context, n bus.Notice) time.Duration {
			mu.Lock()
			times[n.Key] = n.Times
			mu.Unlock()
			switch {
			case n.Key == "k00" && n.Times == 1: // slow until the end
				close(held)
				<-ctx.Done()
				return time.Millisecond
			case n.Key == "k01" && n.Times < 3:
				return 50 * time.Millisecond
			}
			return 0
		})
	}()
	<-held
	bustest.Until(t, "the others are done", func() bool { return outbox(t, b).State.Msgs == 1 })
	mu.Lock()
	if times["k01"] != 3 || len(times) != n {
		t.Errorf("given out: %v", times)
	}
	mu.Unlock()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}

	again, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { ended <- p.Deliver(again, 4, func(context.Context, bus.Notice) time.Duration { return 0 }) }()
	bustest.Until(t, "another one takes it", func() bool { return outbox(t, b).State.Msgs == 0 })
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Only responders can read credentials and notifications, or add notifications.
func TestNobodyElseSeesRegistrationsOrNotices(t *testing.T) {
	t.Parallel()
	s, b := serve(t)
	p := bustest.Connect(t, s, embedded.ResponderUser).PushStore()
	if ok, err := p.Put(t.Context(), "r", []byte("secret"), 0, time.Hour, 0); !ok || err != nil {
		t.Fatalf("%v %v", ok, err)
	}
	if ok, err := p.Add(t.Context(), bus.Notice{Run: "r", Key: "k", Body: []byte("secret")}); !ok || err != nil {
		t.Fatalf("%v %v", ok, err)
	}
	for _, user := range []string{embedded.WorkerUser, embedded.NormalizerUser, embedded.SubscriberUser} {
		account := bustest.Connect(t, s, user)
		for _, subject := range []string{
			"$JS.API.STREAM.MSG.GET." + bucket.Stream(b.Push()), "$JS.API.DIRECT.GET." + bucket.Stream(b.Push()),
			"$JS.API.STREAM.MSG.GET." + b.Outbox(), "$JS.API.CONSUMER.MSG.NEXT." + b.Outbox() + "." + bus.Deliverer,
			"$JS.API.CONSUMER.CREATE." + bucket.Stream(b.Push()) + ".x", bucket.Subject(b.Push(), "r"),
			b.PushSubject("r", "other"),
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
			m, err := account.Inside().RequestWithContext(ctx, subject, []byte(`{"seq":1}`))
			cancel()
			if err == nil {
				t.Errorf("%s on %s: %.100s", user, subject, m.Data)
			} else if !errors.Is(err, context.DeadlineExceeded) && !strings.Contains(err.Error(), "no responders") {
				t.Errorf("%s on %s: %v", user, subject, err)
			}
		}
	}
	if value, _, err := p.Get(t.Context(), "r"); string(value) != "secret" || err != nil {
		t.Errorf("the value is %q, %v", value, err)
	}
	if n := outbox(t, b).State.Msgs; n != 1 {
		t.Errorf("%d notifications", n)
	}
}
