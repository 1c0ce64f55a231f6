package responder_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/idempotency"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/servicetest"
)

// operation returns an operation of a service, with its request.
func operation[Q, A any](t *testing.T, s *responder.Service, op api.Op[Q, A]) func(Q) (A, error) {
	t.Helper()
	for _, o := range s.Operations() {
		if o.Name == op.Name {
			return func(q Q) (A, error) {
				out, err := o.Do(t.Context(), &q)
				a, _ := out.(A)
				return a, err
			}
		}
	}
	t.Fatalf("there is no operation %s", op.Name)
	return nil
}

// The list of messages that wait fits into a message of every NATS server: texts for which there is no room are left
// out, with their sizes. A call in the same process returns all texts.
func TestMessagesThatWaitFitIntoAMessage(t *testing.T) {
	t.Parallel()
	s := detailed(t, nil)
	s.BeginLive("codex", "talks", runs.Start{Source: "queue", Worker: "w1", Keep: true})
	s.Await("talks", servicetest.Working)
	texts := []string{strings.Repeat(`"`, runs.MaxMessage-1)} // as JSON it has twice the size
	for i := range 3 {
		texts = append(texts, fmt.Sprint(i, strings.Repeat("x", runs.MaxMessage-1)))
	}
	for _, text := range texts {
		if _, err := s.Service.Send(t.Context(), api.SendRequest{Run: "talks", Text: text}); err != nil {
			t.Fatal(err)
		}
	}
	q := api.RunRequest{Run: "talks"}
	all, err := s.Service.Messages(t.Context(), q)
	if err != nil || len(all.Messages) != len(texts) {
		t.Fatalf("%d messages, %v", len(all.Messages), err)
	}
	for i, m := range all.Messages {
		if m.Text != texts[i] || m.Bytes != 0 {
			t.Errorf("message %d: %d bytes, %d are left out", i, len(m.Text), m.Bytes)
		}
	}
	some, err := operation(t, s.Service, api.OpMessages)(q)
	if size := len(runs.Encode(some)); err != nil || len(some.Messages) != len(texts) || size > 576<<10 {
		t.Fatalf("%d messages in %d bytes, %v", len(some.Messages), size, err)
	}
	for i, m := range some.Messages {
		shown := i == 0
		if m.Message != all.Messages[i].Message || shown != (m.Text == texts[i]) || !shown && m.Bytes != len(texts[i]) {
			t.Errorf("message %d: %d bytes, %d are left out", i, len(m.Text), m.Bytes)
		}
	}
}

// A message with a key is sent once, however many commands were stored since, and also after the end of its run.
// Another one with the key is refused.
func TestMessageWithAKeyIsSentOnceWhateverCameSince(t *testing.T) {
	t.Parallel()
	s := detailed(t, func(c *responder.Config) {
		c.Requests = &idempotency.Requests{Store: c.Streams.(*bus.Bus).RequestStore()}
	})
	l := s.BeginLive("codex", "talks", runs.Start{Source: "queue", Worker: "w1", Keep: true})
	s.Await("talks", servicetest.Working)
	said := func(key, text string) (api.Sent, error) {
		return s.Service.Send(t.Context(), api.SendRequest{Run: "talks", Text: text, Key: key})
	}
	keys := []string{"0123456789abcdef", "short", strings.Repeat(" ", 255)}
	first := map[string]api.Sent{}
	for _, key := range keys {
		sent, err := said(key, "Go on."+key)
		if err != nil || !sent.Waits || sent.Entry == 0 {
			t.Fatalf("%q: %+v, %v", key, sent, err)
		}
		first[key] = sent
	}
	again := func(when string) {
		t.Helper()
		for _, key := range keys {
			sent, err := said(key, "Go on."+key)
			if err != nil || sent.Message != first[key].Message || sent.Entry != first[key].Entry {
				t.Errorf("%s, %q: %+v, %v, want %+v", when, key, sent, err, first[key])
			}
			if _, err := said(key, "Another."); !api.Is(err, api.KeyConflict) {
				t.Errorf("%s, another one with the key %q: %v", when, key, err)
			}
			if q := (api.SetRequest{Run: "talks", Model: "m", Key: key}); when != "" {
				if _, err := s.Service.SetOptions(t.Context(), q); !api.Is(err, api.KeyConflict) {
					t.Errorf("%s, options with the key %q: %v", when, key, err)
				}
			}
			if !s.Service.WasSent(t.Context(), api.SendRequest{Run: "talks", Text: "Go on." + key, Key: key}) {
				t.Errorf("%s, %q: it was not sent", when, key)
			}
		}
	}
	again("at once")
	s.BeginLive("codex", "other", runs.Start{Source: "queue", Worker: "w1", Keep: true})
	s.Await("other", servicetest.Working)
	for _, q := range []api.SendRequest{ // a key is for one run, unless it is unique
		{Run: "other", Text: "Go on.", Key: keys[0]},
		{Run: "talks", Text: "Go on.", Key: "unique", Unique: true},
	} {
		if _, err := s.Service.Send(t.Context(), q); err != nil {
			t.Errorf("%+v: %v", q, err)
		}
	}
	unique := api.SendRequest{Run: "other", Text: "Go on.", Key: "unique", Unique: true}
	if _, err := s.Service.Send(t.Context(), unique); !api.Is(err, api.KeyConflict) {
		t.Errorf("a unique key for another run: %v", err)
	}
	if run, err := s.Service.RunOf(t.Context(), "unique"); err != nil || run != "talks" {
		t.Errorf("it is of the run %q, %v", run, err)
	}
	for i := range 300 {
		c := runs.Command{ID: fmt.Sprint("c", i), Do: runs.DoEdit, Message: first[keys[0]].Message, Text: fmt.Sprint(i)}
		if ruling, err := l.Answer(t.Context(), c); err != nil || !ruling.Holds {
			t.Fatalf("edit %d: %+v, %v", i, ruling, err)
		}
	}
	again("later")
	all, err := s.Service.Messages(t.Context(), api.RunRequest{Run: "talks"})
	if err != nil || len(all.Messages) != len(keys)+1 {
		t.Errorf("%+v wait, %v", all, err)
	}
	if _, err := s.Service.End(t.Context(), api.RunRequest{Run: "talks"}); err != nil {
		t.Fatal(err)
	}
	l.Turn("Done.")
	again("after the end")
	if _, err := said("fedcba9876543210", "Go on."); !api.Is(err, api.Ended) {
		t.Errorf("a new one after the end: %v", err)
	}
}

// fullStore is a bucket of keys that takes no new one.
type fullStore struct{ idempotency.Store }

func (fullStore) Put(context.Context, string, []byte, time.Duration, uint64) (uint64, bool, error) {
	return 0, false, errors.New("maximum bytes exceeded")
}

// A run knows the keys of its latest commands itself: people can stop its turn whatever has become of the bucket. A key
// that is for no other run either needs the bucket.
func TestCommandsWithKeysAreTakenWhileTheirBucketIsFull(t *testing.T) {
	t.Parallel()
	s := detailed(t, func(c *responder.Config) {
		c.Requests = &idempotency.Requests{Store: fullStore{c.Streams.(*bus.Bus).RequestStore()}}
	})
	s.BeginLive("codex", "talks", runs.Start{Source: "queue", Worker: "w1", Keep: true})
	s.Await("talks", servicetest.Working)
	var first api.Sent
	for i := range 2 {
		sent, err := s.Service.Send(t.Context(), api.SendRequest{Run: "talks", Text: "Go on.", Key: "0123456789abcdef"})
		if i == 0 {
			first = sent
		}
		if err != nil || !sent.Waits || sent.Message != first.Message {
			t.Errorf("%+v, %v", sent, err)
		}
	}
	if _, err := s.Service.StopTurn(t.Context(), api.TurnRequest{Run: "talks", Key: "of the stop"}); err != nil {
		t.Error(err)
	}
	unique := api.SendRequest{Run: "talks", Text: "Go on.", Key: "unique", Unique: true}
	if _, err := s.Service.Send(t.Context(), unique); err == nil {
		t.Error("a key that counts in all runs was not stored")
	}
}
