package tools_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/adcp"
	"github.com/linesman/linesman/responder/idempotency"
	"github.com/linesman/linesman/responder/webhook"
	"github.com/linesman/linesman/test/fixture/servicetest"
	standin "github.com/linesman/linesman/test/lab/cloud"
)

const hookConfig = `{"url":"https://hooks.example.com/x","operation_id":"op","authentication":{"schemes":["Bearer"],"credentials":"sentinel-0123456789-0123456789-0123"}}`

// registrations are those of a [webhook.Registry].
type registrations interface {
	Get(ctx context.Context, run string) ([]byte, uint64, error)
	Put(ctx context.Context, run string, value []byte, told int, ttl time.Duration, revision uint64) (bool, error)
	Watch(ctx context.Context, each func(run string, told int)) error
}

// watchedStore is a store of registrations that records its calls.
type watchedStore struct {
	registrations
	put func(run string) error
}

func (w watchedStore) Put(ctx context.Context, run string, value []byte, told int, ttl time.Duration,
	revision uint64) (bool, error) {
	if err := w.put(run); err != nil {
		return false, err
	}
	return w.registrations.Put(ctx, run, value, told, ttl, revision)
}

// watched is a configuration with a store that calls put before each write.
func watched(put func(run string) error) func(*responder.Config) {
	return func(c *responder.Config) {
		c.Webhooks = webhook.NewRegistry(watchedStore{streams(c).PushStore(), put}, webhook.AdCP, webhook.Rules{})
	}
}

func watchedStage(t testing.TB, put func(run string) error) *stage { return newStage(t, watched(put)) }

func TestARegistrationIsWrittenBeforeItsRun(t *testing.T) {
	t.Parallel()
	var before []string
	var s *stage
	s = watchedStage(t, func(run string) error {
		if known, err := s.Operator.Known(t.Context(), run); known || err != nil {
			t.Errorf("run %s is there, %v", run, err)
		}
		before = append(before, run)
		return nil
	})
	run := submitted(t, ask(t, s.tools, "_codex_local_exec", `{"format":"json","task":"x","pushNotificationConfig":`+
		hookConfig+`}`))
	if len(before) != 1 || before[0] != run {
		t.Errorf("registered %q, submitted %s", before, run)
	}
	list, err := s.config.Webhooks.List(t.Context(), run)
	if err != nil || len(list) != 1 || list[0].Tool != "_codex_local_exec" ||
		list[0].URL != "https://hooks.example.com/x" {
		t.Errorf("%v, %v", list, err)
	}
}

func TestATaskThatCannotBeRegisteredIsNotSubmitted(t *testing.T) {
	t.Parallel()
	s := watchedStage(t, func(string) error { return errors.New("the bucket is full") })
	a := ask(t, s.tools, "_codex_local_exec", `{"format":"json","task":"x","push_notification_config":`+hookConfig+`}`)
	if !a.IsError || a.Error.Code != "INTERNAL" || strings.Contains(string(a.Envelope), "sentinel") {
		t.Errorf("got %s", a.Envelope)
	}
	if queued := s.Service.Snapshot(0, nil).Queued; len(queued) != 0 {
		t.Errorf("%d tasks were queued", len(queued))
	}
}

// The wait for a run is over, and its webhook cannot be registered: the answer is not "queued", after
// which the caller would wait for the webhook.
func TestARunThatGoesOnWithoutItsWebhookSaysThatTheWaitIsOver(t *testing.T) {
	t.Parallel()
	s := watchedStage(t, func(string) error { return errors.New("the bucket is full") })
	a := start(hasty(t), t, s.tools, "_codex_local_run", `{"format":"json","task":"x","push_notification_config":`+
		hookConfig+`}`, nil)()
	run, _ := a.Error.Details["task_id"].(string)
	if !a.IsError || a.Error.Code != "TIMEOUT" || a.Error.Details["state"] != "queued" || run == "" {
		t.Fatalf("got %s", a.Envelope)
	}
	if known, err := s.Operator.Known(t.Context(), run); !known || err != nil {
		t.Errorf("run %s is known: %v, %v", run, known, err)
	}
}

func TestATaskThatIsRefusedLeavesNoRegistration(t *testing.T) {
	t.Parallel()
	var runs []string
	s := watchedStage(t, func(run string) error {
		runs = append(runs, run)
		return nil
	})
	a := ask(t, s.tools, "_codex_local_exec", `{"format":"json","task":"x","timeoutSec":86400,"push_notification_config":`+
		hookConfig+`}`)
	if !a.IsError || a.Error.Code != "VALIDATION" || a.Error.Details["field"] != "timeoutSec" {
		t.Fatalf("got %s", a.Envelope)
	}
	if len(runs) != 2 || runs[0] != runs[1] { // written, and removed
		t.Fatalf("writes of %q", runs)
	}
	if list, err := s.config.Webhooks.List(t.Context(), runs[0]); len(list) != 0 || err != nil {
		t.Errorf("%d registrations, %v", len(list), err)
	}
}

func TestATaskOfTheCloudIsRegisteredBeforeItIsHandedOver(t *testing.T) {
	t.Parallel()
	c := newCloudStage(t, func(c *responder.Config) {
		c.Requests = &idempotency.Requests{Store: streams(c).RequestStore()}
	})
	tasks := func() int {
		st, err := c.service.State()
		if err != nil {
			t.Fatal(err)
		}
		return len(st.Tasks)
	}
	var before []string
	c.serve(t, watched(func(run string) error {
		if n := tasks(); n != 0 {
			t.Errorf("%d tasks were handed over", n)
		}
		before = append(before, run)
		return nil
	}))
	run := submitted(t, ask(t, c.tools, "_codex_cloud_submit",
		`{"format":"json","task":"x","envId":"env","push_notification_config":`+hookConfig+`}`))
	if len(before) != 1 || before[0] != run {
		t.Errorf("registered %q, submitted %s", before, run)
	}
	if list, err := c.config.Webhooks.List(t.Context(), run); err != nil || len(list) != 1 ||
		list[0].Tool != "_codex_cloud_submit" {
		t.Errorf("%v, %v", list, err)
	}
	c.serve(t, watched(func(string) error { return errors.New("the bucket is full") }))
	keyed := `{"format":"json","task":"x","envId":"env","idempotency_key":"0123456789abcdef","push_notification_config":` +
		hookConfig + `}`
	a := ask(t, c.tools, "_codex_cloud_submit", keyed)
	if a.Error.Code != "INTERNAL" || tasks() != 1 {
		t.Errorf("%d tasks, got %s", tasks(), a.Envelope)
	}
	c.serve(t, watched(func(run string) error { before = append(before, run); return nil }))
	if submitted(t, ask(t, c.tools, "_codex_cloud_submit", keyed)); tasks() != 2 { // nothing was handed over before
		t.Errorf("%d tasks", tasks())
	}
	// What the service did not take leaves none.
	before = nil
	c.change(t, func(st *standin.State) { st.Behave["exec"] = standin.SignedOut })
	if a := ask(t, c.tools, "_codex_cloud_submit", `{"format":"json","task":"x","envId":"env","push_notification_config":`+
		hookConfig+`}`); a.Error.Code != "TOOL_ERROR" {
		t.Errorf("got %s", a.Envelope)
	}
	if len(before) != 2 || before[0] != before[1] { // written, and removed
		t.Fatalf("writes of %q", before)
	}
	if list, err := c.config.Webhooks.List(t.Context(), before[0]); len(list) != 0 || err != nil {
		t.Errorf("%d registrations, %v", len(list), err)
	}
	c.serve(t, func(cfg *responder.Config) { cfg.Webhooks = nil })
	known := c.logs(t)
	if a := ask(t, c.tools, "_codex_cloud_submit", `{"format":"json","task":"x","envId":"env","push_notification_config":`+
		hookConfig+`}`); a.Error.Code != "UNSUPPORTED" {
		t.Errorf("got %s", a.Envelope)
	}
	if after := c.logs(t); after != known {
		t.Errorf("%d runs, and %d before", after, known)
	}
}

func TestATaskThatIsWaitedForIsRefusedWhereNoWebhooksAreSent(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	a := ask(t, s.tools, "_codex_local_run", `{"format":"json","task":"x","push_notification_config":`+hookConfig+`}`)
	if a.Error.Code != "UNSUPPORTED" || a.Error.Details["field"] != "push_notification_config" {
		t.Errorf("got %s", a.Envelope)
	}
	if queued := s.Service.Snapshot(0, nil).Queued; len(queued) != 0 {
		t.Errorf("%d tasks were queued", len(queued))
	}
}

// Whoever may submit can name a webhook, and need not have the right to read
// what agents print.
func TestANotificationHasNothingOfTheOutput(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.play(t, "bad", "failed", 1)
	s.Await("bad", servicetest.Ended)
	record, err := s.Service.Record(t.Context(), "bad")
	if err != nil {
		t.Fatal(err)
	}
	body, err := adcp.NewNotices(s.Service).Encode(t.Context(), webhook.Registration{Run: "bad"}, record, "key")
	result := gjson.GetBytes(body.Bytes, "result")
	if err != nil || !result.Get("errors").Exists() {
		t.Fatalf("%s, %v", body.Bytes, err)
	}
	output := result.Get("output")
	if output.Get("included").Bool() || output.Get("stdout").Exists() || output.Get("stderr").Exists() ||
		strings.Contains(string(body.Bytes), "thread.started") {
		t.Errorf("the output is told: %s", body.Bytes)
	}
}
