package a2a_test

import (
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/a2a"
	"github.com/linesman/linesman/responder/idempotency"
	"github.com/linesman/linesman/responder/webhook"
	"github.com/linesman/linesman/test/fixture/adcptest"
)

// invokeWith is invoke with a configuration for the run that the call creates.
func (d *endpoint) invokeWith(message, push string) gjson.Result {
	d.t.Helper()
	_, got := d.post("/a2a", `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":`+message+
		`,"configuration":{"taskPushNotificationConfig":`+push+`}}}`, "A2A-Version", "1.0", "A2A-Extensions", a2a.ProfileURI)
	return got
}

const hmacSecret = "sentinel-0123456789-0123456789-0123"

func TestTheCallOfASkillRegistersForItsRun(t *testing.T) {
	t.Parallel()
	d := pushEndpoint(newLab(t))
	url, next := d.receiver()
	push := `{"url":"` + url + `/hook","token":"` + secretToken + `","authentication":{"scheme":"HMAC-SHA256","credentials":"` +
		hmacSecret + `"}}`
	said := checkCall(t, d.invokeWith(skill("m-1", "codex-run", `{"task":"go"}`), push), "TASK_STATE_COMPLETED")
	want := `{"url":"` + url + `/hook","authentication":{"schemes":["HMAC-SHA256"],"credentials":"` + strings.Repeat("*",
		32) + `"}}`
	if got := said.Get("push_notification_config"); got.Get("url").String() != gjson.Get(want, "url").String() ||
		got.Get("authentication.schemes.0").String() != "HMAC-SHA256" || strings.Contains(got.Raw, "sentinel") ||
		got.Get("authentication.credentials").String() != strings.Repeat("*", 32) || got.Get("token").Exists() {
		t.Errorf("confirmed %s, want %s", got.Raw, want)
	}
	run := said.Get("task_id").String()
	d.finish(run)
	for {
		n := next()
		if n.header.Get("X-ADCP-Signature") == "" || n.header.Get("X-A2A-Notification-Token") != secretToken {
			t.Errorf("header %v", n.header)
		}
		task := n.body.Get("task")
		if strings.Contains(task.Raw, "sentinel") || task.Get("id").String() != run {
			t.Errorf("task %s", n.body.Raw)
		}
		if task.Get("status.state").String() == "TASK_STATE_COMPLETED" {
			data := task.Get("artifacts.0.parts.@reverse.0.data")
			if data.Get("status").String() != "completed" || data.Get("task_id").String() != run {
				t.Errorf("data %s", data.Raw)
			}
			adcptest.Envelope(t, []byte(data.Raw))
			return
		}
	}
}

func TestWhatASkillRegistersIsCheckedBeforeAnyEffect(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	d := pushEndpoint(l)
	for what, push := range map[string]string{
		"an address":   `{"url":"nowhere"}`,
		"a scheme":     `{"url":"https://h.example/","authentication":{"scheme":"Basic","credentials":"` + hmacSecret + `"}}`,
		"no scheme":    `{"url":"https://h.example/","authentication":{"scheme":"","credentials":""}}`,
		"short secret": `{"url":"https://h.example/","authentication":{"scheme":"HMAC-SHA256","credentials":"x"}}`,
	} {
		got := d.invokeWith(skill("b-1", "codex-run", `{"task":"go"}`), push)
		if got.Get("error.code").Int() != -32602 || strings.Contains(got.Raw, "sentinel") {
			t.Errorf("%s: %s", what, got.Raw)
		}
		// The release comes first.
		said := checkCall(t, d.invokeWith(skill("v-1", "codex-run", `{"task":"go","adcp_version":"2.5"}`), push), "TASK_STATE_FAILED")
		if said.Get("adcp_error.code").String() != "VERSION_UNSUPPORTED" {
			t.Errorf("%s of another release: %s", what, said.Raw)
		}
		// What creates no run registers nothing, and looks at nothing.
		checkCall(t, d.invokeWith(skill("s-1", "codex-status", `{}`), push), "TASK_STATE_COMPLETED")
	}
	got := checkCall(t, d.invokeWith(skill("b-2", "codex-run", `{"task":"go"}`), `{"url":"https://h.example/"}`), "TASK_STATE_FAILED")
	if e := got.Get("adcp_error"); e.Get("code").String() != "UNSUPPORTED_FEATURE" ||
		e.Get("field").String() != "push_notification_config.authentication" {
		t.Errorf("without a key: %s", got.Raw)
	}
	if n := len(d.service.Snapshot(0, nil).Queued); n != 0 {
		t.Errorf("%d runs were begun", n)
	}
	key, err := webhook.CreateKey(filepath.Join(t.TempDir(), "key"))
	if err != nil {
		t.Fatal(err)
	}
	d = l.endpoint(func(c *a2a.Config) {
		c.Push = webhook.NewRegistry(l.bus.PushStore(), webhook.A2A, webhook.Rules{Private: true, Key: key})
	})
	got = checkCall(t, d.invokeWith(skill("g-1", "codex-run", `{"task":"go"}`), `{"url":"https://h.example/"}`), "TASK_STATE_COMPLETED")
	all := webhook.NewRegistry(l.bus.PushStore(), webhook.A2A, webhook.Rules{})
	list, err := all.List(t.Context(), got.Get("task_id").String())
	if err != nil || len(list) != 1 || list[0].Version != "1.0" || list[0].Tool != "codex-run" {
		t.Errorf("registered %+v, %v", list, err)
	}
}

// hook is a configuration of a webhook with some members more.
func hook(more string) string {
	return `{"url":"https://h.example/","authentication":{"scheme":"HMAC-SHA256","credentials":"` + hmacSecret + `"}` + more + `}`
}

// The webhook of a call is part of its request, but for the secret. A repeated call leaves alone what the run has.
func TestTheWebhookOfASkillIsPartOfTheRequest(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	d := pushEndpoint(l)
	message := skill("m-hook", "codex-run", `{"task":"go"}`)
	run := checkCall(t, d.invokeWith(message, hook("")), "TASK_STATE_COMPLETED").Get("task_id").String()
	for _, other := range []string{"null", strings.Replace(hook(""), "h.example", "other.example", 1), hook(`,"id":"x"`),
		hook(`,"token":"` + secretToken + `"`), strings.Replace(hook(""), "HMAC-SHA256", "Bearer", 1)} {
		said := checkCall(t, d.invokeWith(message, other), "TASK_STATE_FAILED")
		if said.Get("adcp_error.code").String() != "IDEMPOTENCY_CONFLICT" {
			t.Errorf("%s: %s", other, said.Raw)
		}
	}
	c := d.client(surfaces[0], token)
	moved := &sdk.PushConfig{TaskID: sdk.TaskID(run), URL: "https://moved.example/"}
	if _, err := c.CreateTaskPushConfig(t.Context(), moved); err != nil {
		t.Fatal(err)
	}
	for _, same := range []string{hook(""), strings.Replace(hook(""), hmacSecret, strings.ToUpper(hmacSecret), 1)} {
		said := checkCall(t, d.invokeWith(message, same), "TASK_STATE_COMPLETED")
		if said.Get("task_id").String() != run || !said.Get("replayed").Bool() {
			t.Errorf("again: %s", said.Raw)
		}
	}
	list, err := c.ListTaskPushConfigs(t.Context(), &sdk.ListTaskPushConfigRequest{TaskID: sdk.TaskID(run)})
	if err != nil || len(list) != 1 || list[0].URL != moved.URL {
		t.Errorf("registered %+v, %v", list, err)
	}
}

// A replay has the first answer: it registers nothing that its sender has deleted, and needs no key for it.
func TestAReplayRegistersNoWebhookOfASkillAnew(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	key, err := webhook.CreateKey(filepath.Join(t.TempDir(), "key"))
	if err != nil {
		t.Fatal(err)
	}
	registry := webhook.NewRegistry(l.bus.PushStore(), webhook.A2A, webhook.Rules{Private: true, Key: key})
	first := l.endpoint(func(c *a2a.Config) { c.Push = registry })
	message, push := skill("m-gone", "codex-run", `{"task":"go"}`), `{"url":"https://h.example/"}`
	run := checkCall(t, first.invokeWith(message, push), "TASK_STATE_COMPLETED").Get("task_id").String()
	if err := registry.Delete(t.Context(), run, "default"); err != nil {
		t.Fatal(err)
	}
	for _, d := range []*endpoint{first, pushEndpoint(l)} {
		said := checkCall(t, d.invokeWith(message, push), "TASK_STATE_COMPLETED")
		if said.Get("task_id").String() != run || !said.Get("replayed").Bool() || said.Get("errors").Exists() {
			t.Errorf("again: %s", said.Raw)
		}
		if list, err := registry.List(t.Context(), run); err != nil || len(list) != 0 {
			t.Errorf("registered %+v, %v", list, err)
		}
	}
}

// A poll tells of a webhook, whichever protocol has registered it.
func TestAPollTellsOfTheWebhookOfASkill(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	store := l.bus.PushStore()
	d := l.endpointOf(responder.Config{
		Requests: &idempotency.Requests{Store: l.bus.RequestStore()},
		Webhooks: webhook.NewRegistry(store, webhook.AdCP, webhook.Rules{}),
	}, func(c *a2a.Config) { c.Push = webhook.NewRegistry(store, webhook.A2A, webhook.Rules{}) })
	for push, want := range map[string]string{
		"null": "false", hook(""): "true",
	} {
		said := checkCall(t, d.invokeWith(skill("hook-"+want, "codex-run", `{"task":"go"}`), push), "TASK_STATE_COMPLETED")
		got := checkCall(t, d.invoke(skill("poll-"+want, "get_task_status", `{"task_id":"`+said.Get("task_id").String()+`"}`)),
			"TASK_STATE_COMPLETED")
		if got.Get("has_webhook").Raw != want {
			t.Errorf("want %s: %s", want, got.Raw)
		}
	}
}
