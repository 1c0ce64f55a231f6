package bus_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/bustest"
)

func TestOfTwoWritersOfARequestTheFirstWins(t *testing.T) {
	t.Parallel()
	s, _ := serve(t)
	a, b := bustest.Connect(t, s, embedded.ResponderUser).
		RequestStore(),
		bustest.Connect(t, s, embedded.ResponderUser).
			RequestStore()
	if value, revision, err := a.Get(t.Context(), "key"); value != nil || revision != 0 || err != nil {
		t.Fatalf("before: %s %d %v", value, revision, err)
	}
	first, ok, err := a.Put(t.Context(), "key", []byte("a"), time.Hour, 0)
	if !ok || err != nil {
		t.Fatalf("the first: %v %v", ok, err)
	}
	if _, ok, err := b.Put(t.Context(), "key", []byte("b"), time.Hour, 0); ok || err != nil {
		t.Errorf("the second: %v %v", ok, err)
	}
	if value, revision, err := b.Get(t.Context(), "key"); string(value) != "a" || revision != first || err != nil {
		t.Errorf("it holds %s at %d, %v", value, revision, err)
	}
	if _, ok, err := b.Put(t.Context(), "key", []byte("c"), time.Hour, first); !ok || err != nil {
		t.Errorf("in place of the first: %v %v", ok, err)
	}
	if _, ok, err := a.Put(t.Context(), "key", []byte("d"), time.Hour, first); ok || err != nil {
		t.Errorf("in place of one that is gone: %v %v", ok, err)
	}
}

func TestARequestGoesWhenItsTimeIsOver(t *testing.T) {
	t.Parallel()
	s, _ := serve(t)
	r := bustest.Connect(t, s, embedded.ResponderUser).RequestStore()
	if _, ok, err := r.Put(t.Context(), "key", []byte("a"), time.Second, 0); !ok || err != nil {
		t.Fatalf("%v %v", ok, err)
	}
	bustest.Until(t, "it is still there", func() bool {
		_, revision, err := r.Get(t.Context(), "key")
		if err != nil {
			t.Fatal(err)
		}
		return revision == 0
	})
	if _, ok, err := r.Put(t.Context(), "key", []byte("b"), time.Hour, 0); !ok || err != nil {
		t.Errorf("the key is not free: %v %v", ok, err)
	}
}

func TestTheBucketOfRequestsIsBounded(t *testing.T) {
	t.Parallel()
	_, b := serve(t)
	stream, err := b.JetStream().Stream(t.Context(), bucket.Stream(b.Requests()))
	if err != nil {
		t.Fatal(err)
	}
	c := stream.CachedInfo().Config
	if c.MaxBytes != bus.MaxRequestBytes || c.Discard != jetstream.DiscardNew || c.MaxMsgsPerSubject != 1 ||
		!c.AllowMsgTTL {
		t.Errorf("%+v", c)
	}
}

func TestWorkersCannotSeeRequests(t *testing.T) {
	t.Parallel()
	s, _ := serve(t)
	worker := bustest.Connect(t, s, embedded.WorkerUser)
	soon, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, _, err := worker.RequestStore().Get(soon, "key"); err == nil {
		t.Error("a worker reads them")
	}
}

// A responder changes codes and the key, and reads the tokens, which the operator alone changes. Values
// without a time stay, and the first of several writes wins.
func TestRespondersDoNotMakeTokens(t *testing.T) {
	t.Parallel()
	s, operator := serve(t)
	stream, err := operator.JetStream().Stream(t.Context(), bucket.Stream(operator.Access()))
	if err != nil {
		t.Fatal(err)
	}
	c := stream.CachedInfo().Config
	if c.MaxBytes != 8<<20 || c.Discard != jetstream.DiscardNew || c.MaxMsgsPerSubject != 1 || c.AllowRollup {
		t.Errorf("%+v", c)
	}
	all := operator.AccessStore()
	if _, ok, err := all.Put(t.Context(), "tokens", []byte("a"), 0, 0); !ok || err != nil {
		t.Fatal(ok, err)
	}
	store := bustest.Connect(t, s, embedded.ResponderUser).AccessStore()
	value, revision, err := store.Get(t.Context(), "tokens")
	if string(value) != "a" || err != nil {
		t.Errorf("a responder reads %q, %v", value, err)
	}
	soon, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, ok, err := store.Put(soon, "tokens", []byte("b"), 0, revision); ok || err == nil {
		t.Error("a responder changes the tokens")
	}
	for _, key := range []string{"codes", "key"} {
		if _, ok, err := store.Put(t.Context(), key, []byte("c"), time.Minute, 0); !ok || err != nil {
			t.Errorf("%s: %v %v", key, ok, err)
		}
		if _, ok, err := store.Put(t.Context(), key, []byte("d"), 0, 0); ok || err != nil {
			t.Errorf("%s, a second time: %v %v", key, ok, err)
		}
	}
	if value, _, err := all.Get(t.Context(), "tokens"); string(value) != "a" || err != nil {
		t.Errorf("the tokens are %q, %v", value, err)
	}
	if _, _, err := bustest.Connect(t, s, embedded.WorkerUser).AccessStore().Get(soon, "key"); err == nil {
		t.Error("a worker reads the key")
	}
}

// TestASubmissionThatWasKilledHalfwayIsCompleted kills a responder between its two
// writes, and submits the same task again. Each attempt of a caller is a span of its own.
func TestASubmissionThatWasKilledHalfwayIsCompleted(t *testing.T) {
	t.Parallel()
	s, _ := serve(t)
	b := bustest.Connect(t, s, embedded.ResponderUser)
	body, err := json.Marshal(bustest.Task("T-1"))
	if err != nil {
		t.Fatal(err)
	}
	ack, err := b.JetStream().Publish(t.Context(), b.WorkSubject(bus.DefaultQueue, "T-1"), body)
	if err != nil {
		t.Fatal(err)
	}
	other := bustest.Task("T-1")
	other.Prompt = "Break it."
	if _, _, err := b.Submit(t.Context(), bus.DefaultQueue, other, 1); !errors.Is(err, runs.ErrKnownRun) {
		t.Errorf("another task under its id: %v", err)
	}
	again := bustest.Task("T-1")
	again.Labels = runs.WithTraceparent("", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	work, raw, err := b.Submit(t.Context(), bus.DefaultQueue, again, 2)
	if err != nil || work != ack.Sequence || raw == 0 {
		t.Fatalf("the same task: %d %d %v, want place %d", work, raw, err, ack.Sequence)
	}
	if _, _, err := b.Submit(t.Context(), bus.DefaultQueue, bustest.Task("T-1"), 3); !errors.Is(err, runs.ErrKnownRun) {
		t.Errorf("again: %v", err)
	}
	d := bustest.Take(t, bustest.Connect(t, s, embedded.WorkerUser))
	if got, err := d.Task(); err != nil || got.Run != "T-1" || got.Prompt != "Fix it." || d.Work() != work {
		t.Errorf("a worker gets %+v, %v", got, err)
	}
}

func TestTheTokenAndTheTypeAreKeptWithTheRun(t *testing.T) {
	t.Parallel()
	s, b := serve(t)
	token := `e30.e30.c2ln "\<&>`
	one := bustest.Task("T-1")
	one.Governance, one.Type = token, "codex-resume"
	if _, _, err := bustest.Connect(t, s, embedded.ResponderUser).
		Submit(t.Context(), bus.DefaultQueue, one, 1); err != nil {
		t.Fatal(err)
	}
	if row, err := b.Peek(t.Context(), "T-1"); err != nil || row.Governance != token || row.Type != one.Type {
		t.Errorf("before it has a record: %q %q %v", row.Governance, row.Type, err)
	}
	normalize(t, b)
	if record, ok, err := b.Record(t.Context(), "T-1"); err != nil || !ok || record.Governance != token ||
		record.Type != one.Type {
		t.Errorf("%+v %v %v", record, ok, err)
	}
}
