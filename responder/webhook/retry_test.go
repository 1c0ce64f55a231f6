package webhook_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/responder/idempotency"
	"github.com/linesman/linesman/responder/webhook"
)

// A responder is killed after a submission, before it stored the outcome, and
// restarts with settings that would refuse the task: the task exists, and so do
// its registrations.
func TestRefusedRepeatKeepsTheRegistration(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	n, r := s.node(nil), receive(t, nil)
	b := s.connect(embedded.ResponderUser)
	dying := *n
	dying.config.Streams, dying.config.Danger = b, true
	dying.config.Requests = &idempotency.Requests{Store: lossyStore{b.RequestStore()}, TTL: time.Hour}
	dying.serve()
	call := func(n *node) (map[string]any, string) {
		return n.call(t.Context(), "_codex_local_exec", map[string]any{
			"task": "do it", "mode": "danger-full-access", "confirm": true, "idempotency_key": "key-0123456789-1",
			"push_notification_config": config(r.URL, webhook.Bearer),
		})
	}
	answer, raw := call(&dying)
	run, _ := answer["task_id"].(string)
	if answer["status"] != "submitted" || run == "" {
		t.Fatalf("not submitted: %s", raw)
	}
	if answer, raw := call(n); answer["status"] == "submitted" {
		t.Fatalf("the settings let it in: %s", raw)
	}
	if all, err := n.registry.List(t.Context(), run); err != nil || len(all) != 1 {
		t.Fatalf("%d registrations, %v", len(all), err)
	}
	s.end(s.start(run), 0)
	s.until("it is told", func() bool { return len(r.taken()[run+" completed"]) == 1 })
}

// lossyStore is a store that loses every outcome, as after a kill once the
// lease of the killed process has expired.
type lossyStore struct{ idempotency.Store }

func (f lossyStore) Put(ctx context.Context, key string, value []byte, ttl time.Duration, revision uint64) (uint64,
	bool, error) {
	var entry map[string]any
	if err := json.Unmarshal(value, &entry); err != nil {
		return 0, false, err
	}
	if _, there := entry["outcome"]; there {
		delete(entry, "outcome")
		entry["until"] = 0
		value, _ = json.Marshal(entry) // it was valid JSON
	}
	return f.Store.Put(ctx, key, value, ttl, revision)
}
