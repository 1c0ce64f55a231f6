package tools_test

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/idempotency"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/adcptest"
)

// No token can have a name by which it would be who has none: whoever uses
// NATS, or the token of the token file.
func TestNoTokenSharesTheKeysOfWhoHasNone(t *testing.T) {
	t.Parallel()
	d := remembering(t).tools
	request := json.RawMessage(args("task", "go", "format", "adcp", "idempotency_key", "order-4711-attempt"))
	first, err := d.Call(t.Context(), "_codex_local_exec", request, nil)
	if err != nil || first.IsError {
		t.Fatalf("%v %s", err, first.Envelope)
	}
	for _, name := range []string{"local", "LOCAL", "token", "a"} {
		got, err := d.Call(responder.WithCaller(t.Context(), name), "_codex_local_exec", request, nil)
		if err != nil || got.IsError || gjson.GetBytes(got.Envelope, "replayed").Bool() {
			t.Errorf("the token %s: %v %s", name, err, got.Envelope)
		}
	}
	again, err := d.Call(responder.WithCaller(t.Context(), ""), "_codex_local_exec", request, nil)
	if err != nil || gjson.GetBytes(again.Envelope, "task_id").String() != gjson.GetBytes(first.Envelope,
		"task_id").String() {
		t.Errorf("the same caller: %v %s", err, again.Envelope)
	}
	if name := responder.Caller(responder.WithCaller(t.Context(),
		responder.Caller(t.Context()))); name != responder.Caller(t.Context()) {
		t.Errorf("the name does not stay: %s", name)
	}
}

// A request that comes again has its first answer, whatever has changed since: its context is now a run without a
// thread, its agent is gone.
func TestARequestThatComesAgainIsNotCheckedAgain(t *testing.T) {
	t.Parallel()
	s := remembering(t)
	request := json.RawMessage(args("task", "go", "format", "adcp", "idempotency_key", "order-4711-attempt",
		"context_id", "campaign-7"))
	call := func() gjson.Result {
		t.Helper()
		got, err := s.tools.Call(t.Context(), "_codex_local_exec", request, nil)
		said := gjson.ParseBytes(got.Envelope)
		if err != nil || said.Get("status").String() != "submitted" || said.Get("context_id").String() != "campaign-7" {
			t.Errorf("%v: %s", err, got.Envelope)
		}
		return said
	}
	run := call().Get("task_id").String()
	again := func() {
		t.Helper()
		if said := call(); said.Get("task_id").String() != run || !said.Get("replayed").Bool() {
			t.Errorf("again: %s", said.Raw)
		}
	}
	l := s.Begin("codex", "campaign-7", runs.Start{Source: "queue", Worker: "w1"})
	s.Await("campaign-7", func(runs.Header) bool { return true })
	again()
	l.Out([]byte(`{"type":"thread.started","thread_id":"` + thread + `"}` + "\n"))
	s.Await("campaign-7", func(v runs.Header) bool { return v.Thread != "" })
	again()
	s.serve(t, func(c *responder.Config) {
		c.Agents = slices.DeleteFunc(known.All(), func(a agent.Agent) bool { return a.Kind() == "codex" })
	})
	again()
}

// Who has used up its share of keys may try again later, in both envelopes.
func TestACallerWithoutAShareMayTryAgain(t *testing.T) {
	t.Parallel()
	d := newStage(t, func(c *responder.Config) {
		c.Requests = &idempotency.Requests{Store: streams(c).RequestStore(), Share: 2}
	}).tools
	submitted(t, ask(t, d, "_codex_local_exec", args("task", "go", "format", "json", "idempotency_key",
		"order-4711-attempt")))
	a := ask(t, d, "_codex_local_exec", args("task", "go", "format", "json", "idempotency_key", "order-4712-attempt"))
	if a.Error.Code != "INTERNAL" || !a.Error.Retryable || a.Error.Details["reason"] != "rate_limited" {
		t.Errorf("%s", a.Envelope)
	}
	got, err := d.Call(t.Context(), "_codex_local_exec",
		json.RawMessage(args("task", "go", "format", "adcp", "idempotency_key", "order-4712-attempt")), nil)
	if err != nil {
		t.Fatal(err)
	}
	adcptest.Envelope(t, got.Envelope)
	e := gjson.GetBytes(got.Envelope, "adcp_error")
	if e.Get("code").String() != "RATE_LIMITED" || e.Get("recovery").String() != "transient" ||
		e.Get("retry_after").Int() < 1 {
		t.Errorf("%s", got.Envelope)
	}
	submitted(t, ask(t, d, "_codex_local_exec", args("task", "go", "format", "json")))
}

// What an older release has stored of a submission has no context: it is that of the request.
func TestAnOutcomeOfAnOlderReleaseHasTheContextOfTheRequest(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(c *responder.Config) {
		c.Requests = &idempotency.Requests{Store: olderStore{streams(c).RequestStore()}}
	})
	for range 2 {
		got, err := s.tools.Call(t.Context(), "_codex_local_exec", json.RawMessage(args("task", "go", "format", "adcp",
			"idempotency_key", "order-4711-attempt", "context_id", "campaign-7")), nil)
		if err != nil || gjson.GetBytes(got.Envelope, "context_id").String() != "campaign-7" {
			t.Errorf("%v: %s", err, got.Envelope)
		}
	}
}

// olderStore stores outcomes without their context.
type olderStore struct{ idempotency.Store }

func (o olderStore) Put(ctx context.Context, key string, value []byte, ttl time.Duration, revision uint64) (uint64,
	bool, error) {
	if there := gjson.GetBytes(value, "outcome.context_id"); there.Exists() {
		value = bytes.Replace(value, []byte(`,"context_id":`+there.Raw), nil, 1)
	}
	return o.Store.Put(ctx, key, value, ttl, revision)
}
