package responder_test

import (
	"context"
	"testing"
	"time"

	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/idempotency"
	"github.com/linesman/linesman/responder/webhook"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/servicetest"
)

// A submission that comes again over NATS has its first outcome, even if no worker that is there now could take it, and
// its webhook could not be registered any more.
func TestASubmissionThatComesAgainIsNotCheckedAgain(t *testing.T) {
	s := servicetest.New(t)
	c := responder.Config{
		Streams: s.Operator, Agents: known.All(), Queue: bus.DefaultQueue, LostAfter: time.Minute, Idle: time.Minute,
		Hard: time.Hour, MaxHard: time.Hour, Requests: &idempotency.Requests{Store: s.Operator.RequestStore()},
		Webhooks: webhook.NewRegistry(s.Operator.PushStore(), webhook.AdCP, webhook.Rules{}),
		Patience: fixture.Patience,
	}
	serve := func() func(key string) (api.Submitted, error) {
		s.Service = responder.New(c)
		servicetest.During(t, "responder", s.Service.Run)
		if err := s.Service.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, o := range s.Service.Operations() {
			if o.Name == api.OpSubmit.Name {
				return func(key string) (api.Submitted, error) {
					done, err := o.Do(t.Context(), &api.Submission{Task: runs.Task{
						Attributes: runs.Attributes{Dir: "/srv"}, Prompt: "x", AddDirs: []string{"a"}},
						Once: api.Once{Key: key}, Webhook: &api.Webhook{URL: "https://h.example/", OperationID: "op",
							Scheme: webhook.Bearer, Credentials: "sentinel-0123456789-0123456789-0123"}})
					out, _ := done.(api.Submitted)
					return out, err
				}
			}
		}
		t.Fatal("nothing submits")
		return nil
	}
	submit := serve()
	first, err := submit("order-4711-attempt")
	if err != nil || first.Run == "" {
		t.Fatalf("%+v, %v", first, err)
	}
	again := func(code api.Code) {
		t.Helper()
		if _, err := submit("order-4712-attempt"); !api.Is(err, code) {
			t.Errorf("another one: %v", err)
		}
		if done, err := submit("order-4711-attempt"); err != nil || done.Run != first.Run || !done.Replayed {
			t.Errorf("again: %+v, %v", done, err)
		}
	}
	stop := servicetest.During(t, "worker", func(ctx context.Context) error {
		s.Operator.SendHeartbeats(ctx, time.Minute, func() runs.Heartbeat {
			return runs.Heartbeat{ID: "old", Name: "old", Queue: bus.DefaultQueue, Slots: 1}
		})
		return nil
	})
	fixture.Eventually(t, fixture.Patience, "a worker", func() bool { return len(s.Service.Workers().Workers) == 1 })
	again(api.Unsupported)
	stop()
	c.Webhooks, c.LostAfter = nil, time.Millisecond
	submit = serve()
	again(api.Unsupported)
}
