package idempotency_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/responder/idempotency"
	"github.com/linesman/linesman/test/fixture/bustest"
)

var at = time.UnixMilli(1_760_000_000_000)

// newStore is a bucket of a server of its own, as the responder's user sees it.
func newStore(t *testing.T) idempotency.Store {
	t.Helper()
	server, _ := bustest.Serve(t, embedded.StartServer)
	return bustest.Connect(t, server, embedded.ResponderUser).RequestStore()
}

func request(key string) idempotency.Request {
	return idempotency.Request{Caller: "local", Key: key, Hash: "h1", Run: "T-1", Lease: 30 * time.Second}
}

// refusal is the code of a refusal, and when to try again.
func refusal(t *testing.T, err error) (api.Code, int) {
	t.Helper()
	var e *api.Error
	if !errors.As(err, &e) {
		t.Fatalf("want a refusal, got %v", err)
	}
	return e.Code, int(e.RetryAfter / time.Second)
}

func TestOutcomeOfARequestIsReturnedAgain(t *testing.T) {
	store := newStore(t)
	r := &idempotency.Requests{Store: store}
	c, err := r.Begin(t.Context(), request("k"), at)
	if err != nil || c.Outcome != nil || c.Again || c.Run != "T-1" {
		t.Fatalf("%+v %v", c, err)
	}
	if code, after := refusal(t, second(r.Begin(t.Context(), request("k"),
		at.Add(time.Second)))); code != api.KeyInFlight || after < 1 || after > 5 {
		t.Errorf("while it is being done: %s after %d", code, after)
	}
	if err := c.Finish(t.Context(), json.RawMessage(`{"a":1}`), at); err != nil {
		t.Fatal(err)
	}
	// Of another process, which has only the store.
	other := &idempotency.Requests{Store: store}
	again := request("k")
	again.Run = "T-2"
	if c, err := other.Begin(t.Context(), again, at.Add(23*time.Hour)); err != nil || string(c.Outcome) != `{"a":1}` ||
		c.Run != "T-1" {
		t.Errorf("%+v %v", c, err)
	}
	again.Hash = "h2"
	if code, _ := refusal(t, second(other.Begin(t.Context(), again, at))); code != api.KeyConflict {
		t.Errorf("another request: %s", code)
	}
	if code, _ := refusal(t, second(other.Begin(t.Context(), request("k"),
		at.Add(24*time.Hour)))); code != api.KeyExpired {
		t.Errorf("too late: %s", code)
	}
	mine := request("k")
	mine.Caller = "somebody"
	if c, err := other.Begin(t.Context(), mine, at); err != nil || c.Outcome != nil {
		t.Errorf("the key of another caller: %+v %v", c, err)
	}
}

func second(_ *idempotency.Claim, err error) error { return err }

// TestInterruptedRequestIsTakenOverWithItsRun is a responder that is killed
// between its entry and the end.
func TestInterruptedRequestIsTakenOverWithItsRun(t *testing.T) {
	r := &idempotency.Requests{Store: newStore(t)}
	killed, err := r.Begin(t.Context(), request("k"), at)
	if err != nil {
		t.Fatal(err)
	}
	next := request("k")
	next.Run = "T-2"
	if code, _ := refusal(t, second(r.Begin(t.Context(), next, at.Add(29*time.Second)))); code != api.KeyInFlight {
		t.Errorf("within its lease: %s", code)
	}
	c, err := r.Begin(t.Context(), next, at.Add(30*time.Second))
	if err != nil || !c.Again || c.Run != "T-1" || c.Outcome != nil {
		t.Fatalf("%+v %v", c, err)
	}
	if err := killed.Finish(t.Context(), json.RawMessage(`1`), at); err == nil {
		t.Error("it was only asleep, and overwrote who took over")
	}
	if err := c.Leave(t.Context(), at.Add(31*time.Second)); err != nil {
		t.Fatal(err)
	}
	if c, err := r.Begin(t.Context(), next, at.Add(32*time.Second)); err != nil || !c.Again || c.Run != "T-1" {
		t.Errorf("after it was left: %+v %v", c, err)
	}
}

func TestAFailedRequestFreesItsKey(t *testing.T) {
	r := &idempotency.Requests{Store: newStore(t)}
	c, err := r.Begin(t.Context(), request("k"), at)
	if err == nil {
		err = c.Release(t.Context(), at)
	}
	if err != nil {
		t.Fatal(err)
	}
	other := request("k")
	other.Hash, other.Run = "h2", "T-2"
	if c, err := r.Begin(t.Context(), other, at); err != nil || c.Again || c.Run != "T-2" || c.Outcome != nil {
		t.Errorf("%+v %v", c, err)
	}
}

func TestOneOfManyConcurrentRequestsIsCarriedOut(t *testing.T) {
	store := newStore(t)
	var begun, told, flying atomic.Int64
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			r := &idempotency.Requests{Store: store}
			q := request("k")
			q.Run = fmt.Sprint("T-", i)
			c, err := r.Begin(t.Context(), q, at)
			var e *api.Error
			switch {
			case errors.As(err, &e) && e.Code == api.KeyInFlight:
				flying.Add(1)
			case err != nil:
				t.Error(err)
			case c.Outcome != nil:
				told.Add(1)
			default:
				begun.Add(1)
				if err := c.Finish(t.Context(), json.RawMessage(`{}`), at); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if begun.Load() != 1 || told.Load()+flying.Load() != 99 {
		t.Errorf("%d begun, %d told, %d in flight", begun.Load(), told.Load(), flying.Load())
	}
}

func TestOutcomeIsBounded(t *testing.T) {
	r := &idempotency.Requests{Store: newStore(t)}
	c, err := r.Begin(t.Context(), request("k"), at)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Finish(t.Context(), make([]byte, 64<<10+1), at); err == nil {
		t.Error("too large, and kept")
	}
}
