package a2a_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/responder/a2a"
	"github.com/linesman/linesman/responder/httpserver"
	"github.com/linesman/linesman/responder/webhook"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/adcptest"
	"github.com/linesman/linesman/test/fixture/servicetest"
)

const secretToken = "sentinel-token-of-a-receiver"

func pushEndpoint(l *lab) *endpoint {
	return l.endpoint(func(c *a2a.Config) {
		c.Push = webhook.NewRegistry(l.bus.PushStore(), webhook.A2A, webhook.Rules{Private: true})
	})
}

// notice is what a receiver got.
type notice struct {
	header http.Header
	body   gjson.Result
}

// receiver begins to send notifications, and to receive them at an address. Next waits for one.
func (d *endpoint) receiver() (url string, next func() notice) {
	d.t.Helper()
	came := make(chan notice, 16)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			d.t.Error(err)
		}
		came <- notice{r.Header, gjson.ParseBytes(body)}
	}))
	d.t.Cleanup(receiver.Close)
	store := d.bus.PushStore()
	pusher := webhook.New(webhook.Config{
		Registrations: store, Outbox: store, Runs: d.service.Standing(), Private: true,
		Encoders: map[string]webhook.Encoder{webhook.A2A: a2a.NewNotices(d.service)},
	})
	servicetest.During(d.t, "pusher", pusher.Run)
	return receiver.URL, func() (n notice) {
		d.t.Helper()
		select {
		case n = <-came:
		case <-time.After(fixture.Patience):
			d.t.Fatal("no further notification")
		}
		return n
	}
}

func TestPushConfigsAreKeptAndTellNoSecret(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	d := pushEndpoint(l)
	if _, card := d.ask("GET", "/.well-known/agent-card.json", ""); !card.Get("capabilities.pushNotifications").Bool() {
		t.Error("the card does not tell of push notifications")
	}
	d.play("ended", "shell-ok", "", 0)
	for _, s := range surfaces {
		t.Run(s.name, func(t *testing.T) {
			c := d.client(s, token)
			id := "of-" + strings.ReplaceAll(s.name, ".", "-")
			made, err := c.CreateTaskPushConfig(t.Context(), &sdk.PushConfig{
				TaskID: "ended", ID: id, URL: "http://127.0.0.1:9/hook", Token: secretToken,
				Auth: &sdk.PushAuthInfo{Scheme: "Bearer", Credentials: secretToken},
			})
			if err != nil || made.ID != id {
				t.Fatalf("created: %+v, %v", made, err)
			}
			got, err := c.GetTaskPushConfig(t.Context(), &sdk.GetTaskPushConfigRequest{TaskID: "ended", ID: id})
			if err != nil || got.URL != "http://127.0.0.1:9/hook" || got.Auth == nil || got.Auth.Scheme != "Bearer" ||
				got.Auth.Credentials != "" || got.Token != "" {
				t.Errorf("got %+v, %v", got, err)
			}
			list, err := c.ListTaskPushConfigs(t.Context(), &sdk.ListTaskPushConfigRequest{TaskID: "ended"})
			if err != nil || len(list) != 1 {
				t.Errorf("listed %+v, %v", list, err)
			}
			for range 2 { // what is not there is as good as deleted
				if err := c.DeleteTaskPushConfig(t.Context(), &sdk.DeleteTaskPushConfigRequest{TaskID: "ended",
					ID: id}); err != nil {
					t.Errorf("deleted: %v", err)
				}
			}
			if got, err := c.GetTaskPushConfig(t.Context(), &sdk.GetTaskPushConfigRequest{TaskID: "ended", ID: id}); !errors.Is(
				err, sdk.ErrTaskNotFound) {
				t.Errorf("got a deleted one: %+v, %v", got, err)
			}
			for what, bad := range map[string]*sdk.PushConfig{
				"no url": {TaskID: "ended", ID: "x"},
				"a scheme": {TaskID: "ended", ID: "x", URL: "http://127.0.0.1:9/hook", Auth: &sdk.PushAuthInfo{Scheme: "Basic",
					Credentials: "x"}},
				"a file":    {TaskID: "ended", ID: "x", URL: "file:///etc/passwd"},
				"a long id": {TaskID: "ended", ID: strings.Repeat("x", 300), URL: "http://127.0.0.1:9/hook"},
			} {
				if _, err := c.CreateTaskPushConfig(t.Context(), bad); !errors.Is(err, sdk.ErrInvalidParams) {
					t.Errorf("%s: %v", what, err)
				}
			}
			if _, err := c.CreateTaskPushConfig(t.Context(), &sdk.PushConfig{TaskID: "nothing",
				URL: "http://127.0.0.1:9/hook"}); !errors.Is(err, sdk.ErrTaskNotFound) {
				t.Errorf("of an unknown task: %v", err)
			}
		})
	}
	for method, want := range map[string]string{"DeleteTaskPushNotificationConfig": "{}",
		"tasks/pushNotificationConfig/delete": "null"} {
		params := `{"taskId":"ended","id":"x","pushNotificationConfigId":"x"}`
		if want == "null" {
			params = `{"id":"ended","pushNotificationConfigId":"x"}`
		}
		if _, got := d.post("/a2a", `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`); got.Get(
			"result").Raw != want {
			t.Errorf("%s: %s, want a result", method, got.Raw)
		}
	}
	reads, err := httpserver.CreateToken(l.tokens(), "reader", httpserver.Read, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.client(surfaces[0], reads).ListTaskPushConfigs(t.Context(), &sdk.ListTaskPushConfigRequest{
		TaskID: "ended"}); !errors.Is(err, sdk.ErrUnauthorized) {
		t.Errorf("a reader lists addresses: %v", err)
	}
	m := user("go")
	bad := &sdk.SendMessageRequest{Message: m, Config: &sdk.SendMessageConfig{ReturnImmediately: true,
		PushConfig: &sdk.PushConfig{URL: "nowhere"}}}
	if _, err := d.client(surfaces[0], token).SendMessage(t.Context(), bad); !errors.Is(err, sdk.ErrInvalidParams) {
		t.Errorf("a message with a bad address: %v", err)
	}
	if n := len(d.service.Snapshot(0, nil).Queued); n != 0 {
		t.Errorf("%d runs were begun", n)
	}
}

// The path of an address is often a secret: who registered it reads it, and the owner. Others read its host.
func TestPathOfAReceiverIsForWhoRegisteredIt(t *testing.T) {
	t.Parallel()
	d := pushEndpoint(newLab(t))
	d.play("ended", "shell-ok", "", 0)
	first, second := d.named("first", "read,submit"), d.named("second", "read,submit")
	const whole, host = "https://example.com:8443/sentinel?key=sentinel", "https://example.com:8443/"
	if err := webhook.NewRegistry(d.bus.PushStore(), webhook.A2A, webhook.Rules{}).Put(t.Context(), webhook.Registration{
		Run: "ended", ID: "old", URL: whole}); err != nil { // as stored by older versions
		t.Fatal(err)
	}
	for name, bearer := range map[string]string{"of-first": first, "of-owner": token} {
		made, err := d.client(surfaces[0], bearer).CreateTaskPushConfig(t.Context(), &sdk.PushConfig{
			TaskID: "ended", ID: name, URL: whole})
		if err != nil || made.URL != whole {
			t.Fatalf("%s: %+v, %v", name, made, err)
		}
	}
	for bearer, own := range map[string][]string{first: {"of-first"}, second: {}, token: {"of-first", "of-owner", "old"}} {
		for _, s := range surfaces {
			c := d.client(s, bearer)
			list, err := c.ListTaskPushConfigs(t.Context(), &sdk.ListTaskPushConfigRequest{TaskID: "ended"})
			if err != nil || len(list) != 3 {
				t.Fatalf("%s: %+v, %v", s.name, list, err)
			}
			for _, listed := range list {
				want := host
				if slices.Contains(own, listed.ID) {
					want = whole
				}
				got, err := c.GetTaskPushConfig(t.Context(), &sdk.GetTaskPushConfigRequest{TaskID: "ended", ID: listed.ID})
				if err != nil || got.URL != want || listed.URL != want {
					t.Errorf("%s: %s is %q, and listed %q, %v; want %q", s.name, listed.ID, got.URL, listed.URL, err, want)
				}
			}
		}
	}
}

// A receiver is told of the task that was sent with its address: that it works,
// and the whole of it at the end.
func TestReceiverIsToldOfTheTask(t *testing.T) {
	t.Parallel()
	d := pushEndpoint(newLab(t))
	url, next := d.receiver()
	c := d.client(surfaces[0], token)
	task := sent(t, c, &sdk.SendMessageRequest{Message: user("go"), Config: &sdk.SendMessageConfig{ReturnImmediately: true,
		PushConfig: &sdk.PushConfig{
			URL: url + "/hook", Token: secretToken, Auth: &sdk.PushAuthInfo{Scheme: "Bearer",
				Credentials: "letmein-letmein"},
		}}})
	d.work(string(task.ID)).out(begins, turns, says, secret, answers, ends).exit(runs.ReasonExited, 0)
	var states []string
	for !slices.Contains(states, "TASK_STATE_COMPLETED") {
		n := next()
		if n.header.Get("X-A2A-Notification-Token") != secretToken ||
			n.header.Get("Authorization") != "Bearer letmein-letmein" {
			t.Errorf("header %v", n.header)
		}
		if strings.Contains(n.body.Raw, "sentinel") {
			t.Errorf("the body tells too much: %s", n.body.Raw)
		}
		if u := n.body.Get("statusUpdate"); u.Exists() {
			states = append(states, u.Get("status.state").String())
			continue
		}
		got := n.body.Get("task")
		states = append(states, got.Get("status.state").String())
		if got.Get("id").String() != string(task.ID) || got.Get("contextId").String() != thread ||
			got.Get("artifacts.0.parts.0.text").String() != "Two files." {
			t.Errorf("the task: %s", n.body.Raw)
		}
		adcptest.Envelope(t, []byte(`{"status":"completed",`+got.Get("artifacts.0.parts.1.data").Raw[1:]))
	}
}

// Clients of A2A 0.3 get what they can read: the task itself, at each state. Credentials have the rules of A2A.
func TestReceiverOf03IsToldOfTheTask(t *testing.T) {
	t.Parallel()
	d := pushEndpoint(newLab(t))
	url, next := d.receiver()
	hook := func(path string) string {
		return `"pushNotificationConfig":{"url":"` + url + path + `","token":"` + secretToken +
			`","authentication":{"schemes":["Bearer"],"credentials":"short"}}`
	}
	call := func(method, params string) gjson.Result {
		t.Helper()
		_, got := d.post("/a2a", `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`)
		if got.Get("error").Exists() {
			t.Fatalf("%s: %s", method, got.Raw)
		}
		return got.Get("result")
	}
	task := call("message/send", `{"message":{"kind":"message","messageId":"m","role":"user","parts":[{"kind":"text",`+
		`"text":"go"}]},"configuration":{"blocking":false,`+hook("/sent")+`}}`).Get("id").String()
	set := strings.Replace(hook("/set"), `{"url"`, `{"id":"set","url"`, 1)
	call("tasks/pushNotificationConfig/set", `{"taskId":"`+task+`",`+set+`}`)
	d.finish(task)
	for completed := 0; completed < 2; {
		n := next()
		if n.header.Get("X-A2A-Notification-Token") != secretToken || n.header.Get("Authorization") != "Bearer short" {
			t.Errorf("header %v", n.header)
		}
		state := n.body.Get("status.state").String()
		if n.body.Get("kind").String() != "task" || n.body.Get("id").String() != task ||
			state != "working" && state != "completed" || n.body.Get("status.message.parts.1").Exists() ||
			strings.Contains(n.body.Raw, "sentinel") {
			t.Errorf("the task: %s", n.body.Raw)
		}
		if state == "completed" {
			completed++
			if n.body.Get("artifacts.0.parts.0.text").String() != "Two files." ||
				n.body.Get("artifacts.0.parts.1.data.task_id").Exists() {
				t.Errorf("the result: %s", n.body.Raw)
			}
		}
	}
}

// Made again after a kill, a notification is the same byte for byte. For the call of a skill it is a whole task at each
// state, in the version of the call.
func TestNoticeIsTheSameWheneverItIsMade(t *testing.T) {
	t.Parallel()
	d := newLab(t).endpoint(nil)
	encoder := a2a.NewNotices(d.service)
	l := d.work("x").out(begins, turns, says)
	for _, final := range []bool{false, true} {
		if final {
			l.out(answers, ends).exit(runs.ReasonExited, 0)
		}
		d.await("x", func(v runs.Header) bool { return v.Thread != "" && v.State.Final() == final })
		record, err := d.service.Record(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		for version, kind := range map[string]string{"": "", "1.0": "", "0.3": "task"} {
			var bodies []string
			tool := map[bool]string{true: "codex-run"}[version != ""]
			for tick := range time.Tick(2 * time.Millisecond) { // what depends on the clock shows
				b, err := encoder.Encode(t.Context(), webhook.Registration{Tool: tool, Version: version}, record, "")
				if err != nil {
					t.Fatal(err)
				}
				if bodies = append(bodies, string(b.Bytes)); len(bodies) == 3 || tick.IsZero() {
					break
				}
			}
			task := gjson.Get(bodies[0], "task")
			if len(slices.Compact(bodies)) != 1 || version == "" && task.Exists() != final {
				t.Errorf("%q, final %v: %q", version, final, bodies)
			}
			if version == "" {
				continue
			}
			parts, word := "status.message.parts", "working"
			if final {
				parts, word = "artifacts.0.parts", "completed"
			}
			state := "TASK_STATE_" + strings.ToUpper(word)
			if version == "0.3" {
				task, state = gjson.Parse(bodies[0]), word
			}
			data := task.Get(parts + ".@reverse.0.data")
			if task.Get("kind").String() != kind || task.Get("id").String() != "x" ||
				task.Get("status.state").String() != state || data.Get("status").String() != word ||
				data.Get("task_id").String() != "x" {
				t.Errorf("%s, final %v: %q", version, final, bodies)
			}
			adcptest.Envelope(t, []byte(data.Raw))
		}
	}
}
