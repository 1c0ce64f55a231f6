package idempotency_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder/idempotency"
)

// lifetimes notes for how long each entry was stored last.
type lifetimes struct {
	idempotency.Store
	last time.Duration
}

func (l *lifetimes) Put(ctx context.Context, key string, value []byte, ttl time.Duration, revision uint64) (uint64,
	bool, error) {
	l.last = ttl
	return l.Store.Put(ctx, key, value, ttl, revision)
}

// A request that was refused leaves nothing behind for long: or who is refused
// again and again would fill the store, and lock out everybody.
func TestARefusedRequestTakesNoRoomForLong(t *testing.T) {
	store := &lifetimes{Store: newStore(t)}
	r := &idempotency.Requests{Store: store}
	c, err := r.Begin(t.Context(), request("k"), at)
	if err != nil {
		t.Fatal(err)
	}
	if store.last != 2*24*time.Hour {
		t.Errorf("while it is carried out it is kept for %v", store.last)
	}
	if err := c.Release(t.Context(), at); err != nil {
		t.Fatal(err)
	}
	if store.last > time.Minute {
		t.Errorf("it was refused, and is kept for %v", store.last)
	}
}

// One caller cannot fill the store, whatever it sends: what it has used up comes
// back with time, and others do not notice.
func TestACallerHasAShareOfTheStore(t *testing.T) {
	r := &idempotency.Requests{Store: newStore(t), Share: 20}
	begin := func(caller string, key int, now time.Time) (*idempotency.Claim, error) {
		q := request(fmt.Sprint("k", key))
		q.Caller = caller
		return r.Begin(t.Context(), q, now)
	}
	for key := range 10 {
		c, err := begin("greedy", key, at)
		if err == nil {
			err = c.Finish(t.Context(), json.RawMessage(`{}`), at)
		}
		if err != nil {
			t.Fatalf("request %d: %v", key, err)
		}
	}
	code, after := refusal(t, second(begin("greedy", 10, at)))
	if code != api.RateLimited || after < 1 || after > 3600 {
		t.Fatalf("one too many: %s after %d s", code, after)
	}
	if c, err := begin("greedy", 3, at); err != nil || c.Outcome == nil {
		t.Errorf("what came of an earlier one is not told: %+v %v", c, err)
	}
	if c, err := begin("modest", 10, at); err != nil {
		t.Errorf("another caller is refused, too: %v", err)
	} else if err := c.Release(t.Context(), at); err != nil {
		t.Error(err)
	}
	// Over the whole time that entries are kept it gets as much again, and no more.
	stored := 10
	for now, key := at, 11; now.Before(at.Add(2 * 24 * time.Hour)); now, key = now.Add(10*time.Minute), key+1 {
		if _, err := begin("greedy", key, now); err == nil {
			stored++
		}
	}
	if stored < 19 || stored > 20 {
		t.Errorf("it has stored %d entries, its share is 20", stored)
	}
	// A long outcome counts for more.
	c, err := begin("wordy", 0, at)
	if err == nil {
		err = c.Finish(t.Context(), json.RawMessage(`"`+strings.Repeat("x", 10<<10)+`"`), at)
	}
	if err != nil {
		t.Fatal(err)
	}
	if code, _ := refusal(t, second(begin("wordy", 1, at))); code != api.RateLimited {
		t.Errorf("behind a long outcome: %s", code)
	}
	// What was refused took nothing of it.
	for key := range 50 {
		c, err := begin("unlucky", 1000+key, at)
		if err == nil {
			err = c.Release(t.Context(), at)
		}
		if err != nil {
			t.Fatalf("refused request %d: %v", key, err)
		}
	}
}
