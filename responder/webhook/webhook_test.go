package webhook_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/responder/webhook"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/adcptest"
)

func TestNotificationHasTheContentOfTheResults(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	n, r := s.node(nil), receive(t, nil)
	run := n.submit("key-0123456789-1", r.URL, webhook.HMAC)
	raw := s.start(run)
	s.until("it works", func() bool { return len(r.requests()) == 1 })
	s.end(raw, 0)
	s.until("it has ended", func() bool { return len(r.requests()) == 2 && s.waiting() == 0 })
	results, _ := n.call(t.Context(), "_codex_local_results", map[string]any{"task_id": run})

	for i, q := range r.requests() {
		at, err := strconv.ParseInt(q.header.Get("X-ADCP-Timestamp"), 10, 64)
		if err != nil || time.Since(time.Unix(at, 0)).Abs() > time.Minute {
			t.Errorf("sent at %q", q.header.Get("X-ADCP-Timestamp"))
		}
		want, err := webhook.Sign(secret, at, q.body)
		if got := q.header.Get("X-ADCP-Signature"); got != want || err != nil || q.header.Get("Authorization") != "" {
			t.Errorf("signature %q, want %q, %v", got, want, err)
		}
		b := gjson.ParseBytes(q.body)
		for field, want := range map[string]string{
			"operation_id": "op_1", "token": token, "task_id": run, "task_type": "_codex_local_exec",
			"status": []string{"working", "completed"}[i], "timestamp": []string{"2025-11-18T10:30:01.000Z",
				"2025-11-18T10:30:03.000Z"}[i],
		} {
			if got := b.Get(field).String(); got != want {
				t.Errorf("notification %d: %s is %q, want %q", i, field, got, want)
			}
		}
		if got := b.Get("context").Raw; got != echoed {
			t.Errorf("context %s", got)
		}
		if b.Get("result").Exists() != (i == 1) || b.Get("message").String() == "" {
			t.Errorf("notification %d: %s", i, q.body)
		}
		checkPayload(t, q.body)
	}
	var notifiedOfEnd map[string]any
	if err := json.Unmarshal([]byte(gjson.GetBytes(r.requests()[1].body, "result").Raw), &notifiedOfEnd); err != nil {
		t.Fatal(err)
	}
	if ext, ok := results["ext"].(map[string]any)["linesman"].(map[string]any); ok {
		delete(ext, "stream")
	}
	for _, envelope := range []string{"adcp_version", "status", "task_id", "context_id", "message", "timestamp"} {
		delete(results, envelope)
		delete(notifiedOfEnd, envelope)
	}
	got, _ := json.Marshal(notifiedOfEnd)
	want, _ := json.Marshal(results)
	if !bytes.Equal(got, want) {
		t.Errorf("the result says\n%s\nand the results tool\n%s", got, want)
	}
	s.until("the outbox is empty", func() bool { return s.waiting() == 0 })
	if n := len(r.requests()); n != 2 {
		t.Errorf("%d requests", n)
	}
	s.quiet()
}

// checkPayload checks a body against the AdCP schema, whose task types are
// those of advertising.
func checkPayload(t *testing.T, body []byte) {
	t.Helper()
	t.Run("contract", func(t *testing.T) {
		schema, err := payloadSchema(adcptest.Root(t))
		if err != nil {
			t.Fatal(err)
		}
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(v); err != nil {
			t.Errorf("%v\n%s", err, body)
		}
	})
}

func payloadSchema(root string) (*jsonschema.Schema, error) {
	const base, version = "https://adcp.test/schemas/", "3.1.0-beta.3"
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	for path, doc := range map[string]any{
		"core/async-response-data.json": true, "enums/task-type.json": map[string]any{"type": "string"}, // not available here
	} {
		if err := c.AddResource(base+version+"/"+path, doc); err != nil {
			return nil, err
		}
	}
	for _, path := range []string{"core/mcp-webhook-payload.json", "enums/adcp-protocol.json", "enums/task-status.json"} {
		raw, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(path)))
		if err != nil {
			return nil, err
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
		if err == nil {
			err = c.AddResource(base+version+"/"+path, doc)
		}
		if err != nil {
			return nil, err
		}
	}
	return c.Compile(base + version + "/core/mcp-webhook-payload.json")
}

func TestBearerIsSentAndAFailedRunHasItsReason(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	n, r := s.node(nil), receive(t, nil)
	run := n.submit("key-0123456789-1", r.URL, webhook.Bearer)
	s.end(s.start(run), 3)
	s.until("it has ended", func() bool { return len(r.taken()[run+" failed"]) == 1 })
	for _, q := range r.requests() {
		if q.header.Get("Authorization") != "Bearer "+secret || q.header.Get("X-ADCP-Signature") != "" {
			t.Errorf("headers %v", q.header)
		}
		checkPayload(t, q.body)
	}
	b := gjson.Parse(r.taken()[run+" failed"][0])
	if b.Get("result.errors.0.code").String() != "TOOL_ERROR" || b.Get("result.errors.0.details.exit_code").Int() != 3 {
		t.Errorf("the result: %s", b.Get("result").Raw)
	}
	s.quiet()
}

// Whatever a receiver answers first, it gets the same bytes again until it
// answers 2xx, and then no more.
func TestNotificationIsRetriedUnchangedUntilAccepted(t *testing.T) {
	t.Parallel()
	s, canary := newStage(t), fixture.StartCanary(t)
	s.hurry = true
	failures := []func(w http.ResponseWriter, gone <-chan struct{}) int{
		func(http.ResponseWriter, <-chan struct{}) int { return 500 },
		func(http.ResponseWriter, <-chan struct{}) int { return -1 },
		func(w http.ResponseWriter, _ <-chan struct{}) int {
			w.Header().Set("Retry-After", "1")
			return 503
		},
		func(_ http.ResponseWriter, gone <-chan struct{}) int { <-gone; return -1 },
	}
	r := receive(t, func(n int, w http.ResponseWriter, _ []byte, gone <-chan struct{}) int {
		if n <= len(failures) {
			return failures[n-1](w, gone)
		}
		return 200
	})
	node := s.node(nil)
	run := node.submit("key-0123456789-1", r.URL, webhook.HMAC)
	s.end(s.start(run), 0)
	s.until("it is taken", func() bool { return len(r.taken()[run+" completed"]) >= 1 && s.waiting() == 0 })
	bodies := map[string]map[string]int{} // bodies by key
	for _, q := range r.requests() {
		key := gjson.GetBytes(q.body, "idempotency_key").String()
		if bodies[key] == nil {
			bodies[key] = map[string]int{}
		}
		bodies[key][string(q.body)]++
	}
	for key, of := range bodies {
		for body, n := range of {
			if len(of) != 1 || n < len(failures)+1 {
				t.Errorf("%s: %d bodies, one %d times, want %d times: %.100s", key, len(of), n, len(failures)+1, body)
			}
			if n > len(failures)+1 { // as if the answer took longer than the limit
				canary.Errorf("%s: %d times, want %d times", key, n, len(failures)+1)
			}
		}
	}
	if len(bodies) == 0 || len(bodies) > 2 {
		t.Errorf("%d keys", len(bodies))
	}
	s.quiet()
}

func TestPermanentRefusalIsNotRetried(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	var status atomic.Int32
	r := receive(t, func(int, http.ResponseWriter, []byte, <-chan struct{}) int { return int(status.Load()) })
	n := s.node(nil)
	for i, refused := range []int{400, 401, 404, 409, 410, 413, 422, 301, 307} {
		status.Store(int32(refused))
		before := len(r.requests())
		run := n.submit(fmt.Sprintf("key-0123456789-%d", i), r.URL, webhook.Bearer)
		s.end(s.start(run), 0)
		s.until(fmt.Sprint(refused), func() bool {
			return notifiedOfEnd(t, n, run) && s.waiting() == 0
		})
		for _, q := range r.requests()[before:] {
			if gjson.GetBytes(q.body, "task_id").String() != run {
				t.Errorf("%d: a request of another run", refused)
			}
		}
		if more := len(r.requests()) - before; more < 1 || more > 2 { // the notification of working is optional
			t.Errorf("%d: %d requests", refused, more)
		}
	}
	if !strings.Contains(s.log(), `"why":"status 409"`) {
		t.Error("the log does not say why it was given up")
	}
	s.quiet()
}

// notifiedOfEnd reports whether all notifications of a run's end were put into
// the outbox.
func notifiedOfEnd(t *testing.T, n *node, run string) bool {
	t.Helper()
	value, _, err := n.bus.PushStore().Get(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	return gjson.GetBytes(value, "registrations.0.told").Int() == 3
}

func TestAReceiverThatIsAwayForTooLongIsGivenUp(t *testing.T) {
	t.Parallel()
	s, canary := newStage(t), fixture.StartCanary(t)
	r := receive(t, func(int, http.ResponseWriter, []byte, <-chan struct{}) int { return 500 })
	n := s.node(func(c *webhook.Config) { c.GiveUp = 5 * time.Second })
	run := n.submit("key-0123456789-1", r.URL, webhook.Bearer)
	s.end(s.start(run), 0)
	s.until("it is given up", func() bool { return notifiedOfEnd(t, n, run) && s.waiting() == 0 })
	if n := len(r.requests()); n < 2 {
		canary.Errorf("%d requests", n)
	}
	if !strings.Contains(s.log(), "a notification is given up") || !strings.Contains(s.log(), "it is too old") {
		t.Error("the log does not say so")
	}
	s.quiet()
}

func TestOneThatHangsHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	s, canary := newStage(t), fixture.StartCanary(t)
	s.hurry = true
	hangs := receive(t, func(_ int, _ http.ResponseWriter, _ []byte, gone <-chan struct{}) int { <-gone; return -1 })
	quick := receive(t, nil)
	n := s.node(nil)
	for i := range 40 {
		s.start(n.submit(fmt.Sprintf("key-0123456789-%d", i), hangs.URL, webhook.Bearer))
	}
	s.until("it hangs", func() bool { return len(hangs.requests()) > 0 })
	run := n.submit("key-0123456789-quick", quick.URL, webhook.Bearer)
	began := time.Now()
	s.start(run)
	s.until("the other one is told", func() bool { return len(quick.taken()[run+" working"]) >= 1 })
	took := time.Since(began)
	s.until("the others wait for the one that hangs", func() bool { return s.waiting() == 40 })
	canary.Within("the other one was told", took, 10*time.Second)
}

// A private receiver that was accepted while the setting allowed it is not
// called after the setting has changed.
func TestCurrentSettingsApplyToDelivery(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	r := receive(t, nil)
	n := s.node(func(c *webhook.Config) { c.Private = false })
	run := n.submit("key-0123456789-1", r.URL, webhook.Bearer)
	s.end(s.start(run), 0)
	s.until("it is given up", func() bool { return notifiedOfEnd(t, n, run) && s.waiting() == 0 })
	if got := len(r.requests()); got != 0 || !strings.Contains(s.log(), "the current settings do not allow its URL") {
		t.Errorf("%d requests", got)
	}
	s.quiet()
}

func TestTwoRespondersTellOnce(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	a, b, r := s.node(nil), s.node(nil), receive(t, nil)
	var all []string
	for i := range 10 {
		n := []*node{a, b}[i%2]
		run := n.submit(fmt.Sprintf("key-0123456789-%d", i), r.URL, webhook.HMAC)
		all = append(all, run)
		raw := s.start(run)
		s.until("it works", func() bool { return len(r.taken()[run+" working"]) > 0 })
		s.end(raw, 0)
	}
	s.until("all are told", func() bool { return len(r.taken()) == 2*len(all) && s.waiting() == 0 })
	if n := len(r.requests()); n != 2*len(all) {
		t.Errorf("%d requests for %d notifications\n%s", n, 2*len(all), s.log())
	}
}

// After a kill between any two steps, the next process resumes: all
// notifications are sent, with the same bytes.
func TestKilledBetweenAnyTwoStepsNothingIsLost(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	r := receive(t, nil)
	died := 0
	for steps := range 8 {
		l := &life{}
		l.left.Store(int64(steps))
		dying := s.node(func(c *webhook.Config) {
			c.Registrations, c.Outbox = dyingStore{c.Registrations, l}, dyingOutbox{c.Outbox, l}
		})
		run := dying.submit(fmt.Sprintf("key-0123456789-%d", steps), r.URL, webhook.HMAC)
		raw := s.start(run)
		s.end(raw, 0)
		s.until("it died, or has nothing left to do", func() bool {
			return l.over.Load() || notifiedOfEnd(t, dying, run) &&
				s.waiting() == 0
		})
		if l.over.Load() {
			died++
		}
		dying.stop()
		heir := s.node(nil)
		s.until("it is told", func() bool { return len(r.taken()[run+" completed"]) > 0 && notifiedOfEnd(t, heir, run) })
		heir.stop()
		for _, state := range []string{" working", " completed"} {
			for _, body := range r.taken()[run+state] {
				if body != r.taken()[run+state][0] {
					t.Errorf("after %d steps there are two bodies of one notification:\n%s\n%s", steps, body, r.taken()[run+state][0])
				}
			}
		}
	}
	if died < 5 {
		t.Errorf("it died %d times", died)
	}
}

var errDead = errors.New("killed")

// life is the number of steps that a process has left.
type life struct {
	left atomic.Int64
	over atomic.Bool
}

// step reports whether the process is still alive; last means that it dies
// after this step.
func (l *life) step() (alive, last bool) {
	n := l.left.Add(-1)
	l.over.Store(n <= 0)
	return n >= 0, n == 0
}

type dyingStore struct {
	webhook.Registrations
	*life
}

func (d dyingStore) Get(ctx context.Context, run string) ([]byte, uint64, error) {
	alive, last := d.step()
	if !alive || last {
		return nil, 0, errDead
	}
	return d.Registrations.Get(ctx, run)
}

func (d dyingStore) Put(ctx context.Context, run string, value []byte, told int, ttl time.Duration,
	revision uint64) (bool, error) {
	alive, last := d.step()
	if !alive {
		return false, errDead
	}
	ok, err := d.Registrations.Put(ctx, run, value, told, ttl, revision)
	if last { // stored, but the acknowledgement is lost
		return false, errDead
	}
	return ok, err
}

type dyingOutbox struct {
	webhook.Outbox
	*life
}

func (d dyingOutbox) Add(ctx context.Context, n webhook.Notice) (bool, error) {
	alive, last := d.step()
	if !alive {
		return false, errDead
	}
	ok, err := d.Outbox.Add(ctx, n)
	if last {
		return false, errDead
	}
	return ok, err
}

func TestAFullOutboxLosesNothing(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	var open atomic.Bool
	r := receive(t, func(int, http.ResponseWriter, []byte, <-chan struct{}) int {
		if open.Load() {
			return 200
		}
		return 503
	})
	n := s.node(func(c *webhook.Config) { c.Outbox = smallOutbox{c.Outbox, s} })
	var all []string
	for i := range 6 {
		run := n.submit(fmt.Sprintf("key-0123456789-%d", i), r.URL, webhook.HMAC)
		all = append(all, run)
		s.end(s.start(run), 0)
	}
	s.until("it is full", func() bool { return strings.Contains(s.log(), "the outbox is full") })
	open.Store(true)
	s.until("all are told", func() bool {
		for _, run := range all {
			if len(r.taken()[run+" completed"]) == 0 {
				return false
			}
		}
		return s.waiting() == 0
	})
}

// smallOutbox has a capacity of two.
type smallOutbox struct {
	webhook.Outbox
	s *stage
}

func (o smallOutbox) Add(ctx context.Context, n webhook.Notice) (bool, error) {
	if o.s.waiting() >= 2 {
		return false, nil
	}
	return o.Outbox.Add(ctx, n)
}

func TestRemovedRegistrationGetsNoNotification(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	r := receive(t, func(int, http.ResponseWriter, []byte, <-chan struct{}) int { return 503 })
	n := s.node(nil)
	run := n.submit("key-0123456789-1", r.URL, webhook.Bearer)
	raw := s.start(run)
	s.until("it is tried", func() bool { return len(r.requests()) > 0 })
	if err := n.registry.Delete(t.Context(), run, webhook.AdCP); err != nil {
		t.Fatal(err)
	}
	s.until("what waits goes", func() bool { return s.waiting() == 0 })
	tried := len(r.requests())
	s.end(raw, 0)
	if _, err := n.responder.Wait(t.Context(), run, nil); err != nil {
		t.Fatal(err)
	}
	if err := n.registry.Delete(t.Context(), run, webhook.AdCP); !errors.Is(err, webhook.ErrUnknown) {
		t.Errorf("removed again: %v", err)
	}
	if got := len(r.requests()); got != tried || s.waiting() != 0 {
		t.Errorf("%d requests, %d before it was removed", got, tried)
	}
}

// Only a call whose answer leaves the outcome of the task open is followed by
// notifications.
func TestAForegroundCallIsFollowedOnlyWhereItWasCutOff(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	n, r := s.node(nil), receive(t, nil)
	call := func(ctx context.Context, key string) (run string, done chan map[string]any) {
		done = make(chan map[string]any, 1)
		before := map[string]bool{}
		for _, v := range n.responder.Snapshot(0, nil).Queued {
			before[v.ID] = true
		}
		go func() {
			answer, _ := n.call(ctx, "_codex_local_run", map[string]any{
				"task": "do it", "idempotency_key": key, "push_notification_config": config(r.URL, webhook.Bearer),
			})
			done <- answer
		}()
		s.until("it is queued", func() bool {
			for _, v := range n.responder.Snapshot(0, nil).Queued {
				if !before[v.ID] {
					run = v.ID
				}
			}
			return run != ""
		})
		return run, done
	}
	whole, done := call(t.Context(), "key-0123456789-1")
	s.end(s.start(whole), 0)
	if a := <-done; a["status"] != "completed" {
		t.Fatalf("the answer: %v", a)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cut, done := call(ctx, "key-0123456789-2")
	raw := s.start(cut)
	cancel()
	if a := <-done; a["status"] != "working" && a["status"] != "submitted" {
		t.Fatalf("the answer: %v", a)
	}
	s.end(raw, 0)
	s.until("the end is told", func() bool { return len(r.taken()[cut+" completed"]) == 1 })
	for _, q := range r.requests() {
		if gjson.GetBytes(q.body, "task_id").String() != cut {
			t.Errorf("told of a call that was answered: %.200s", q.body)
		}
	}
}

func TestAReplayRegistersNothingMore(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	n, r := s.node(nil), receive(t, nil)
	run := n.submit("key-0123456789-1", r.URL, webhook.Bearer)
	first, err := n.registry.List(t.Context(), run)
	if err != nil || len(first) != 1 {
		t.Fatalf("%d registrations, %v", len(first), err)
	}
	again := config(r.URL, webhook.Bearer)
	again["authentication"].(map[string]any)["credentials"] = "sentinel-other-credentials-77c1e0aa42"
	answer, raw := n.call(t.Context(), "_codex_local_exec", map[string]any{
		"task": "do it", "idempotency_key": "key-0123456789-1", "push_notification_config": again,
	})
	if answer["task_id"] != run || answer["replayed"] != true {
		t.Errorf("with other credentials the request is another one: %s", raw)
	}
	all, err := n.registry.List(t.Context(), run)
	if err != nil || len(all) != 1 || all[0].Credentials != secret || all[0].Created != first[0].Created {
		t.Errorf("%d registrations, %v", len(all), err)
	}
	again["url"] = r.URL + "/other"
	if answer, raw := n.call(t.Context(), "_codex_local_exec", map[string]any{
		"task": "do it", "idempotency_key": "key-0123456789-1", "push_notification_config": again,
	}); answer["status"] != "rejected" {
		t.Errorf("with another URL: %s", raw)
	}
	s.end(s.start(run), 0)
	s.until("it is told", func() bool { return len(r.taken()[run+" completed"]) == 1 && s.waiting() == 0 })
}

func TestErrorsOfAConfigurationQuoteNothing(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	n := s.node(nil)
	auth := map[string]any{"schemes": []string{"Bearer"}, "credentials": secret}
	long := strings.Repeat("sentinel-", 500)
	for _, tt := range []struct {
		config any
		field  string
		says   string
	}{
		{map[string]any{"operation_id": "op", "authentication": auth}, ".url", "is required"},
		{map[string]any{"url": "gopher://sentinel/", "operation_id": "op", "authentication": auth}, ".url",
			"must begin with https://"},
		{map[string]any{"url": "https://sentinel:pw@h.example/", "operation_id": "op", "authentication": auth}, ".url",
			"no user"},
		{map[string]any{"url": 1, "operation_id": "op", "authentication": auth}, ".url", "must be a string"},
		{map[string]any{"url": "https://h.example/", "operation_id": "", "authentication": auth}, ".operation_id",
			"must be 1 to 255"},
		{map[string]any{"url": "https://h.example/", "token": "", "authentication": auth}, ".token", "16 to 4096"},
		{map[string]any{"url": "https://h.example/", "authentication": nil}, ".authentication", "must be an object"},
		{map[string]any{"url": "https://h.example/", "authentication": map[string]any{}}, ".authentication.schemes",
			"must be one scheme"},
		{map[string]any{"url": "https://h.example/", "operation_id": "sentinel op", "authentication": auth}, ".operation_id",
			"must be 1 to 255"},
		{map[string]any{"url": "https://h.example/", "operation_id": "op"}, ".authentication", "RFC 9421"},
		{map[string]any{"url": "https://h.example/", "operation_id": "op", "authentication": "sentinel"}, ".authentication",
			"must be an object"},
		{map[string]any{"url": "https://h.example/", "operation_id": "op", "authentication": map[string]any{
			"schemes": []string{"Bearer", "HMAC-SHA256"}, "credentials": secret}},
			".authentication.schemes", "must be one scheme"},
		{map[string]any{"url": "https://h.example/", "operation_id": "op", "authentication": map[string]any{
			"schemes": []string{"sentinel"}, "credentials": secret}},
			".authentication.schemes", "must be one scheme"},
		{map[string]any{"url": "https://h.example/", "operation_id": "op", "authentication": map[string]any{
			"schemes": []string{"Bearer"}, "credentials": "sentinel-short"}},
			".authentication.credentials", "at least 32"},
		{map[string]any{"url": "https://h.example/", "operation_id": "op", "authentication": map[string]any{
			"schemes": []string{"Bearer"}, "credentials": secret + " \n"}},
			".authentication.credentials", "visible ASCII"},
		{map[string]any{"url": "https://h.example/", "operation_id": "op", "authentication": map[string]any{
			"schemes": []string{"HMAC-SHA256"}, "credentials": strings.Repeat("s", 40)}},
			".authentication.credentials", "one repeated character"},
		{map[string]any{"url": "https://h.example/", "operation_id": "op", "authentication": map[string]any{
			"schemes": []string{"Bearer"}, "credentials": secret, "sentinel": 1}},
			".authentication", "nothing else"},
		{map[string]any{"url": "https://h.example/", "operation_id": "op", "token": "sentinel", "authentication": auth},
			".token", "16 to 4096"},
		{map[string]any{"url": "https://h.example/", "operation_id": "op", "token": long, "authentication": auth}, ".token",
			"16 to 4096"},
		{json.RawMessage(`{"url":"https://a.example/","url":"https://sentinel.example/"}`), "", "a name twice"},
		{"sentinel", "", "must be an object"},
	} {
		answer, raw := n.call(t.Context(), "_codex_local_exec", map[string]any{
			"task": "do it", "idempotency_key": "key-0123456789-1", "push_notification_config": tt.config,
		})
		e, _ := answer["adcp_error"].(map[string]any)
		if answer["status"] != "rejected" || e["field"] != "push_notification_config"+tt.field ||
			!strings.Contains(fmt.Sprint(e["message"]), tt.says) {
			t.Errorf("%v: %s", tt, raw)
		}
	}
	answer, raw := n.call(t.Context(), "_codex_local_exec", map[string]any{
		"task": "do it", "idempotency_key": "key-0123456789-1", "context": json.RawMessage(`{"a":{"b":1,"b":2}}`),
		"push_notification_config": config("https://h.example", webhook.HMAC),
	})
	if e, _ := answer["adcp_error"].(map[string]any); e["field"] != "context" {
		t.Errorf("a context with a name twice: %s", raw)
	}
	if list := n.responder.Snapshot(0, nil).Queued; len(list) != 0 {
		t.Errorf("%d tasks were queued", len(list))
	}
	s.quiet()
}

func TestRegistrationsOfARunAreBounded(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	store := s.bus.PushStore()
	rules := webhook.Rules{Private: true}
	a2a, other := webhook.NewRegistry(store, webhook.A2A, rules), webhook.NewRegistry(store, webhook.AdCP, rules)
	errs := make(chan error)
	const writers = 20
	for i := range writers {
		go func() {
			errs <- a2a.Put(t.Context(), webhook.Registration{ID: fmt.Sprint("id", i), Run: "r", URL: "http://127.0.0.1/" +
				strconv.Itoa(i)})
		}()
	}
	kept := 0
	for range writers {
		switch err := <-errs; {
		case err == nil:
			kept++
		case !errors.Is(err, webhook.ErrTooMany):
			t.Error(err)
		}
	}
	all, err := a2a.List(t.Context(), "r")
	if err != nil || kept != webhook.MaxRegistrations || len(all) != kept {
		t.Fatalf("%d kept, %d listed, %v", kept, len(all), err)
	}
	one := all[3]
	one.URL, one.Scheme, one.Credentials = "http://127.0.0.1/new", webhook.Bearer, secret
	if err := a2a.Put(t.Context(), one); err != nil {
		t.Errorf("one in place of itself: %v", err)
	}
	if got, err := a2a.Get(t.Context(), "r", one.ID); err != nil || got.URL != one.URL || got.Credentials != secret ||
		got.Protocol != webhook.A2A {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := other.Get(t.Context(), "r", one.ID); !errors.Is(err, webhook.ErrUnknown) {
		t.Errorf("another protocol sees it: %v", err)
	}
	if list, err := other.List(t.Context(), "r"); len(list) != 0 || err != nil {
		t.Errorf("another protocol sees %d, %v", len(list), err)
	}
	if err := other.Delete(t.Context(), "r", one.ID); !errors.Is(err, webhook.ErrUnknown) {
		t.Errorf("another protocol removes it: %v", err)
	}
	for _, r := range all {
		if err := a2a.Delete(t.Context(), "r", r.ID); err != nil {
			t.Error(err)
		}
	}
	if list, err := a2a.List(t.Context(), "r"); len(list) != 0 || err != nil {
		t.Errorf("%d are left, %v", len(list), err)
	}
	for _, r := range []webhook.Registration{
		{ID: "x", Run: "no.run", URL: "http://127.0.0.1/"}, {ID: "", Run: "r", URL: "http://127.0.0.1/"},
		{ID: "a b", Run: "r", URL: "http://127.0.0.1/"},
		{ID: "x", Run: "r", URL: "http://127.0.0.1/", Scheme: webhook.HMAC, Credentials: secret},
		{ID: "x", Run: "r", URL: "http://127.0.0.1/", Scheme: webhook.Bearer}, {ID: "x", Run: "r", URL: "http://127.0.0.1/",
			Token: "a\r\nb"},
	} {
		var field *runs.FieldError
		if err := a2a.Put(t.Context(), r); !errors.As(err, &field) {
			t.Errorf("%#v: %v", r, err)
		}
	}
	if text := fmt.Sprintf("%v %+v %s %#v", one, one, one, one); strings.Contains(text, "sentinel") ||
		strings.Contains(text, "http") {
		t.Errorf("a registration shows what is secret: %s", text)
	}
	if b, err := json.Marshal(one); err != nil || bytes.Contains(b, []byte("sentinel")) ||
		bytes.Contains(b, []byte("http")) {
		t.Errorf("a registration shows what is secret: %s, %v", b, err)
	}
}

func TestWithoutARegistryACallThatAsksForNotificationsIsRefused(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	n := s.node(nil)
	n.config.Webhooks = nil
	n.serve()
	answer, raw := n.call(t.Context(), "_codex_local_exec", map[string]any{
		"task": "do it", "idempotency_key": "key-0123456789-1", "push_notification_config": config("https://h.example",
			webhook.HMAC),
	})
	if e, _ := answer["adcp_error"].(map[string]any); e["code"] != "UNSUPPORTED_FEATURE" ||
		answer["status"] != "rejected" {
		t.Errorf("got %s", raw)
	}
	if list := n.responder.Snapshot(0, nil).Queued; len(list) != 0 {
		t.Errorf("%d tasks were queued", len(list))
	}
}
