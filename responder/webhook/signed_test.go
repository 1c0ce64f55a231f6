package webhook_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/responder/webhook"
	"github.com/linesman/linesman/test/fixture/adcptest"
)

func newKey(t *testing.T) *webhook.Key {
	t.Helper()
	key, err := webhook.CreateKey(filepath.Join(t.TempDir(), "key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// unsigned is a configuration with neither an authentication nor an operation.
func unsigned(url string) map[string]any { return map[string]any{"url": url + path} }

func TestWithoutAnAuthenticationNotificationsAreSignedByTheKey(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.key = newKey(t)
	var tries atomic.Int64
	r := receive(t, func(int, http.ResponseWriter, []byte, <-chan struct{}) int {
		if tries.Add(1) == 1 {
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	})
	n := s.node(nil)
	answer, raw := n.call(t.Context(), "_codex_local_exec", map[string]any{
		"task": "do it", "idempotency_key": "key-0123456789-1", "push_notification_config": unsigned(r.URL),
	})
	run, _ := answer["task_id"].(string)
	if got := gjson.Get(raw, "push_notification_config").Raw; got != `{"url":"`+r.URL+path+`"}` {
		t.Errorf("the answer confirms %s", got)
	}
	s.end(s.start(run), 0)
	s.until("it is told", func() bool { return len(r.taken()[run+" completed"]) == 1 && s.waiting() == 0 })
	signatures := map[string]bool{}
	for _, q := range r.requests() {
		input := q.header.Get("Signature-Input")
		if !strings.HasPrefix(input, `sig1=("@method" "@target-uri" "@authority" "content-type" "content-digest");created=`) ||
			!strings.Contains(input, `;keyid="`+s.key.ID()+`";`) || signatures[q.header.Get("Signature")] {
			t.Errorf("%q", q.header)
		}
		signatures[q.header.Get("Signature")] = true
		for _, name := range []string{"X-ADCP-Signature", "X-ADCP-Timestamp", "Authorization"} {
			if q.header.Get(name) != "" {
				t.Errorf("two authentications: %q", q.header)
			}
		}
		if body := gjson.ParseBytes(q.body); body.Get("operation_id").Exists() || body.Get("token").Exists() {
			t.Errorf("what was not registered: %s", q.body)
		}
	}
	if all := r.requests(); len(all) < 2 || !bytes.Equal(all[0].body, all[1].body) && len(all) < 3 {
		t.Errorf("%d attempts", len(all))
	}
}

func TestAReceiverThatRefusesASignatureIsGivenUp(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.key = newKey(t)
	r := receive(t, func(_ int, w http.ResponseWriter, _ []byte, _ <-chan struct{}) int {
		w.Header().Set("WWW-Authenticate", `Signature error="webhook_signature_key_unknown"`)
		return http.StatusUnauthorized
	})
	n := s.node(nil)
	answer, _ := n.call(t.Context(), "_codex_local_exec", map[string]any{
		"task": "do it", "idempotency_key": "key-0123456789-1", "push_notification_config": unsigned(r.URL),
	})
	run, _ := answer["task_id"].(string)
	s.end(s.start(run), 0)
	s.until("it is given up", func() bool {
		return strings.Contains(s.log(), "it refuses the signature: webhook_signature_key_unknown") && s.waiting() == 0
	})
	seen := map[string]bool{}
	for _, q := range r.requests() {
		if seen[string(q.body)] {
			t.Errorf("tried again: %s", q.body)
		}
		seen[string(q.body)] = true
	}
}

func TestWithoutAKeyNothingIsSentUnsigned(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	n, r := s.node(nil), receive(t, nil)
	for _, tool := range []string{"_codex_local_exec", "_codex_local_run"} {
		answer, raw := n.call(t.Context(), tool, map[string]any{"task": "do it", "idempotency_key": "key-0123456789-1",
			"push_notification_config": unsigned(r.URL)})
		e, _ := answer["adcp_error"].(map[string]any)
		if answer["status"] != "rejected" || e["code"] != "UNSUPPORTED_FEATURE" ||
			e["field"] != "push_notification_config.authentication" || e["recovery"] != "correctable" {
			t.Errorf("%s: %s", tool, raw)
		}
	}
	if list := n.responder.Snapshot(0, nil).Queued; len(list) != 0 {
		t.Errorf("%d tasks were queued", len(list))
	}
	run := n.submit("key-0123456789-2", r.URL, webhook.HMAC) // what needs no key is not affected
	n.stop()
	// One that was accepted while there was a key waits for it.
	keyed := webhook.NewRegistry(s.bus.PushStore(), webhook.AdCP, webhook.Rules{Private: true, Key: newKey(t)})
	if err := keyed.Put(t.Context(), webhook.Registration{ID: webhook.AdCP, Run: run, URL: r.URL + path}); err != nil {
		t.Fatal(err)
	}
	s.node(nil)
	s.end(s.start(run), 0)
	s.until("it waits", func() bool { return strings.Contains(s.log(), "waits for a key") })
	if len(r.requests()) != 0 || s.waiting() == 0 {
		t.Errorf("%d were sent, %d wait", len(r.requests()), s.waiting())
	}
}

func TestAnAnswerConfirmsWhatItRegistered(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	n, r := s.node(nil), receive(t, nil)
	for i, scheme := range []string{webhook.Bearer, webhook.HMAC} {
		arguments := map[string]any{"task": "do it", "idempotency_key": "key-0123456789-" + scheme[:4],
			"push_notification_config": config(r.URL, scheme)}
		tool := "_codex_local_exec"
		if i == 1 {
			tool, arguments["async"] = "_codex_local_run", true
		}
		want := `{"url":"` + r.URL + path + `","operation_id":"op_1","authentication":{"schemes":["` + scheme +
			`"],"credentials":"` + strings.Repeat("*", 32) + `"}}`
		for _, again := range []bool{false, true} {
			answer, raw := n.call(t.Context(), tool, arguments)
			if got := gjson.Get(raw, "push_notification_config").Raw; got != want || answer["status"] != "submitted" ||
				gjson.Get(raw, "replayed").Bool() != again {
				t.Errorf("%s: %s", tool, raw)
			}
			adcptest.Envelope(t, []byte(raw))
		}
		run := gjson.Get(s.told(n, tool, arguments), "task_id").String()
		for _, tool := range []string{"_codex_local_status", "_codex_local_cancel"} { // they register nothing
			_, raw := n.call(t.Context(), tool, map[string]any{"task_id": run, "idempotency_key": "key-0123456789-c" + run})
			if strings.Contains(raw, "push_notification_config") {
				t.Errorf("%s: %s", tool, raw)
			}
		}
	}
	_, raw := n.call(t.Context(), "_codex_local_exec", map[string]any{"task": "x", "idempotency_key": "key-0123456789-x"})
	if strings.Contains(raw, "push_notification_config") {
		t.Errorf("without a webhook: %s", raw)
	}
}

// told is the text of an answer.
func (s *stage) told(n *node, tool string, arguments map[string]any) string {
	s.t.Helper()
	_, raw := n.call(s.t.Context(), tool, arguments)
	return raw
}

// The SDK sends this secret if its user has configured none.
func TestThePublishedSecretOfTheSDKIsAcceptedWithAWarning(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	n, r := s.node(nil), receive(t, nil)
	c := config(r.URL, webhook.HMAC)
	c["authentication"] = map[string]any{"schemes": []string{"HMAC-SHA256"},
		"credentials": "placeholder_secret_min_32_characters_required"}
	answer, raw := n.call(t.Context(), "_codex_local_exec", map[string]any{
		"task": "do it", "idempotency_key": "key-0123456789-1", "push_notification_config": c,
	})
	if answer["status"] != "submitted" || strings.Count(s.log(), "published placeholder") != 1 {
		t.Errorf("%s\n%s", raw, s.log())
	}
	n.submit("key-0123456789-2", r.URL, webhook.HMAC)
	if strings.Count(s.log(), "published placeholder") != 1 {
		t.Errorf("of another secret, too: %s", s.log())
	}
	s.quiet()
}

// What an earlier release has stored: without a version and without the newest question.
func TestRegistrationsOfEarlierReleasesAreRead(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	n, r := s.node(nil), receive(t, nil)
	run := n.submit("key-0123456789-1", r.URL, webhook.Bearer)
	store := s.bus.PushStore()
	_, revision, err := store.Get(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	old := `{"registrations":[{"id":"adcp","protocol":"adcp","operation_id":"op_0","scheme":"HMAC-SHA256","tool":"t","created":1,` +
		`"url":"` + r.URL + path + `","credentials":"` + secret + `","seed":"s","told":0},` +
		`{"id":"default","protocol":"a2a","created":1,"url":"` + r.URL + path + `/a2a","seed":"s","told":0}]}`
	if ok, err := store.Put(t.Context(), run, []byte(old), 0, time.Hour, revision); !ok || err != nil {
		t.Fatal(ok, err)
	}
	plain := webhook.NewRegistry(store, webhook.A2A, webhook.Rules{Private: true})
	if got, err := plain.Get(t.Context(), run, "default"); err != nil || got.Version != "" || plain.CanSign(got) != nil {
		t.Errorf("%v, %v", got, err)
	}
	got, err := n.registry.Get(t.Context(), run, "adcp")
	if err != nil || got.Scheme != webhook.HMAC || got.Credentials != secret || got.OperationID != "op_0" {
		t.Errorf("%v, %v", got, err)
	}
}

func TestThePartsOfAnEchoAreThoseOfTheContract(t *testing.T) {
	all := webhook.Registration{URL: "https://h.example/", OperationID: "op", Token: "sentinel", Scheme: webhook.HMAC,
		Credentials: "sentinel"}
	var got map[string]any
	if err := json.Unmarshal(all.Echo(), &got); err != nil || len(got) != 3 ||
		bytes.Contains(all.Echo(), []byte("sentinel")) {
		t.Errorf("%s, %v", all.Echo(), err)
	}
}
