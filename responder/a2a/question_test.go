package a2a_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"testing"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder/httpserver"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/servicetest"
)

// live begins a live run.
func (d *endpoint) live(id string) *servicetest.Live {
	d.t.Helper()
	return d.streams().BeginLive("codex", id, runs.Start{Source: "queue", Worker: "w1"})
}

// named returns a token with scopes.
func (d *endpoint) named(name, scopes string) string {
	d.t.Helper()
	all, err := httpserver.ParseScopes(scopes)
	if err != nil {
		d.t.Fatal(err)
	}
	bearer, err := httpserver.CreateToken(d.tokens(), name, all, time.Now())
	if err != nil {
		d.t.Fatal(err)
	}
	return bearer
}

// rpc calls a method.
func (d *endpoint) rpc(bearer, method, params string) gjson.Result {
	d.t.Helper()
	_, got := d.post("/a2a", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params), "A2A-Version",
		"1.0", "Authorization", "Bearer "+bearer)
	return got
}

// to is a message for a task.
func to(task, parts string) string {
	return fmt.Sprintf(`{"configuration":{"returnImmediately":true},"message":{"messageId":"m","role":"ROLE_USER","taskId":%q,`+
		`"parts":[%s]}}`, task, parts)
}

func answer(answer string) string { return `{"data":{"answer":` + answer + `}}` }

// What a token may see of a question, and whether it may answer it.
func TestRightsToQuestions(t *testing.T) {
	t.Parallel()
	d := newLab(t).endpoint(nil)
	l := d.live("asks")
	l.Asks(l.Permission("rm sentinel-file", servicetest.Hour()))
	tokens := map[string]string{"": token}
	for _, scopes := range []string{"read", "read,submit", "read,answer", "read,submit,answer", "read,raw"} {
		tokens[scopes] = d.named(strings.ReplaceAll(scopes, ",", "-"), scopes)
	}
	for scopes, bearer := range tokens {
		may := scopes == "" || strings.Contains(scopes, "answer")
		for method, params := range map[string]string{
			"GetTask": `{"id":"asks"}`, "SubscribeToTask": `{"id":"asks"}`, "ListTasks": `{}`,
		} {
			var got gjson.Result
			switch method {
			case "SubscribeToTask":
				got = d.first(bearer, params)
			case "ListTasks":
				got = d.rpc(bearer, method, params).Get("result.tasks.0")
			default:
				got = d.rpc(bearer, method, params).Get("result")
			}
			status := got.Get("status")
			shown := may && method != "ListTasks"
			if status.Get("state").String() != "TASK_STATE_INPUT_REQUIRED" ||
				status.Get("message.messageId").String() != "asks-q1" || status.Get("message.parts.1.data.message").String() !=
				"The task needs an answer to question q1" {
				t.Errorf("%s for %q: %s", method, scopes, got.Raw)
			}
			if q := status.Get("message.parts.2.data.question"); q.Exists() != shown || strings.Contains(got.Raw,
				"sentinel") != shown || shown && (q.Get("command").String() != "rm sentinel-file" || q.Get("id").String() != "q1") {
				t.Errorf("%s for %q: %s", method, scopes, got.Raw)
			}
			text := status.Get("message.parts.0.text").String()
			if want := "The task needs an answer to question q1"; !shown && text != want {
				t.Errorf("%s for %q: %q", method, scopes, text)
			}
			if want := "codex asks (permission q1): Run rm sentinel-file\nCommand: rm sentinel-file\nAnswer: yes (Yes), no (No)"; shown &&
				text != want {
				t.Errorf("%s for %q: %q, want %q", method, scopes, text, want)
			}
		}
		if got := d.rpc(bearer, "SendMessage", to("asks", `{"text":"yes"}`)); strings.Contains(scopes, "submit") &&
			(got.Get("error.code").Int() != -32004 || strings.Contains(got.Raw, "yes (Yes)") != may) ||
			strings.Contains(got.Raw, "sentinel") {
			t.Errorf("text by %q: %s", scopes, got.Raw)
		}
		got := d.rpc(bearer, "SendMessage", to("asks", answer(`{"question":"q1","option":"maybe"}`)))
		if want := map[bool]int64{true: -32602, false: -31403}[may]; got.Get("error.code").Int() != want {
			t.Errorf("an answer by %q: %s, want %d", scopes, got.Raw, want)
		}
		if got := d.rpc(bearer, "SendMessage", to("asks", answer(`{}`)+`,{"text":"x"}`)); may != strings.Contains(got.Raw,
			"an answer is data alone") {
			t.Errorf("an answer with a text by %q: %s", scopes, got.Raw)
		}
	}
	if v, _ := d.service.Get("asks"); len(v.Questions) != 1 {
		t.Errorf("it was answered: %+v", v)
	}
}

// The right that a message needs is that to what it does, whatever else it has, and however often it names that.
func TestRightsToWhatAMessageDoes(t *testing.T) {
	t.Parallel()
	d := pushEndpoint(newLab(t))
	d.live("asks").Permission("rm sentinel-file", servicetest.Hour())
	d.talk("talks").Asks()
	submits, answers := d.named("submits", "read,submit"), d.named("answers", "read,answer")
	const yes, hook = `{"answer":{"question":"q1","option":"allow"}}`, `"url":"http://127.0.0.1:9/hook"`
	twice := func(task, first, member, second string) string {
		return to(task, fmt.Sprintf(`{"data":%s,%q:%s}`, first, member, second))
	}
	older := func(data string) string {
		return `{"configuration":{"pushNotificationConfig":{` + hook + `}},"message":{"kind":"message","messageId":"m",` +
			`"role":"user","taskId":"asks","parts":[{"kind":"data","data":` + data + `}]}}`
	}
	receiver := strings.Replace(to("asks", `{"data":`+yes+`}`), `"returnImmediately":true`,
		`"returnImmediately":true,"taskPushNotificationConfig":{`+hook+`}`, 1)
	for _, c := range []struct{ what, bearer, params string }{
		{"an answer with a receiver", submits, receiver},
		{"an answer with a receiver", answers, receiver},
		{"data twice", submits, twice("asks", yes, "data", `{"x":1}`)},
		{"DATA, too", submits, twice("asks", yes, "DATA", `{"x":1}`)},
		{"an answer after other data", answers, twice("asks", `{"x":1}`, "data", yes)},
		{"an end, and an answer", answers, twice("talks", `{"end":true}`, "data", yes)},
		{"an end, and an ANSWER", answers, twice("talks", `{"end":true}`, "DATA", yes)},
		{"an end, and no answer", answers, to("talks", `{"data":{"end":true,"answer":null}}`)},
		{"two messages", submits, strings.Replace(to("asks", `{"data":{"x":1}}`), "{", `{"message":{"parts":[{"data":`+yes+
			`}]},`, 1)},
	} {
		for _, method := range []string{"SendMessage", "SendStreamingMessage"} {
			got := d.rpc(c.bearer, method, c.params)
			if code := got.Get("error.code").Int(); code != -31403 && (c.what != "an end, and no answer" || code != -32602) {
				t.Errorf("%s of %s: %s", method, c.what, got.Raw)
			}
		}
	}
	for _, method := range []string{"message/send", "message/stream"} {
		for what, bearer := range map[string]string{"submits": submits, "answers": answers} {
			_, got := d.post("/a2a", `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+older(yes)+`}`, "Authorization",
				"Bearer "+bearer)
			if got.Get("error.code").Int() != -31403 {
				t.Errorf("%s by one who %s: %s", method, what, got.Raw)
			}
		}
	}
	if v, _ := d.service.Get("asks"); len(v.Questions) != 1 {
		t.Errorf("it was answered: %+v", v)
	}
	if got := d.rpc(token, "SendMessage", idleText("talks")); got.Get("error").Exists() {
		t.Errorf("it was ended: %s", got.Raw)
	}
	if got := d.rpc(token, "SendMessage", receiver); got.Get("result.task.id").String() != "asks" {
		t.Errorf("with both rights: %s", got.Raw)
	}
}

// events are the events of a stream.
func (d *endpoint) events(bearer, method, params string) iter.Seq[gjson.Result] {
	d.t.Helper()
	return func(yield func(gjson.Result) bool) {
		ctx, cancel := context.WithTimeout(d.t.Context(), fixture.Patience)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, "POST", d.url+"/a2a", strings.NewReader(fmt.Sprintf(
			`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params)))
		if err != nil {
			d.t.Fatal(err)
		}
		r.Close = true
		r.Header.Set("Authorization", "Bearer "+bearer)
		r.Header.Set("A2A-Version", "1.0")
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			d.t.Error(err)
			return
		}
		defer answer.Body.Close()
		for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && !yield(gjson.Get(data, "result")) {
				return
			}
		}
	}
}

// first returns the task that a stream begins with.
func (d *endpoint) first(bearer, params string) gjson.Result {
	d.t.Helper()
	for event := range d.events(bearer, "SubscribeToTask", params) {
		return event.Get("task")
	}
	return gjson.Result{}
}

// A2A's own client reads a question, and answers it; the send returns the task when it has ended.
func TestQuestionsAreAnsweredOverA2A(t *testing.T) {
	t.Parallel()
	d := newLab(t).endpoint(nil)
	for _, s := range surfaces {
		t.Run(s.name, func(t *testing.T) {
			run := "asks-" + strings.ReplaceAll(s.name, ".", "-")
			c, l := d.client(s, d.named(run, "read,answer")), d.live(run)
			l.Asks(l.Permission("make", 0))
			task, err := c.GetTask(t.Context(), &sdk.GetTaskRequest{ID: sdk.TaskID(run)})
			if err != nil || task.Status.State != sdk.TaskStateInputRequired || len(task.Status.Message.Parts) != 3 {
				t.Fatalf("%+v, %v", task, err)
			}
			data, _ := json.Marshal(task.Status.Message.Parts[2].Data())
			q := gjson.GetBytes(data, "question")
			if q.Get("id").String() != "q1" || q.Get("options.0.id").String() != "yes" {
				t.Fatalf("asked %s", data)
			}
			reply := func(answer map[string]any) *sdk.SendMessageRequest {
				m := sdk.NewMessageForTask(sdk.MessageRoleUser, task.TaskInfo(), sdk.NewDataPart(map[string]any{"answer": answer}))
				return &sdk.SendMessageRequest{Message: m}
			}
			for what, bad := range map[string]map[string]any{
				"no question":                            {"option": "yes"},
				"answer.option":                          {"question": "q1", "option": "sentinel"},
				"answer.content: is for forms":           {"question": "q1", "option": "yes", "content": map[string]any{}},
				"answer.digest":                          {"question": "q1", "option": "yes", "digest": "x"},
				"answer.question: the run has no":        {"question": "q2", "option": "yes"},
				`{question, option, content, digest}`:    {"question": "q1", "option": "yes", "sentinel": 1},
				`data of an answer must be {"answer": {`: {"question": "q1", "option": 1},
				"answer.question: is required":           {},
			} {
				_, err := c.SendMessage(t.Context(), reply(bad))
				if !errors.Is(err, sdk.ErrInvalidParams) || strings.Contains(err.Error(), "sentinel") ||
					what != "no question" && !strings.Contains(err.Error(), what) {
					t.Errorf("%s: %v", what, err)
				}
			}
			answered := make(chan *sdk.Task)
			go func() {
				allow := map[string]any{"question": "q1", "option": "allow"}
				got, err := c.SendMessage(context.WithoutCancel(t.Context()), reply(allow))
				if err != nil {
					t.Error(err)
				}
				task, _ := got.(*sdk.Task)
				answered <- task
			}()
			l.Asks()
			q2 := l.Form("Who?")
			if got := <-answered; got == nil || got.Status.State != sdk.TaskStateInputRequired ||
				got.Status.Message.ID != run+"-q2" {
				t.Fatalf("the task after the answer: %+v", got)
			}
			for range 2 { // the same again is no error
				r := reply(map[string]any{"question": q2, "content": map[string]any{"name": "me"}})
				r.Config = &sdk.SendMessageConfig{ReturnImmediately: true}
				got, err := c.SendMessage(t.Context(), r)
				if task, _ := got.(*sdk.Task); err != nil || task == nil || task.Status.State != sdk.TaskStateWorking {
					t.Errorf("answered: %+v, %v", got, err)
				}
			}
			_, err = c.SendMessage(t.Context(), reply(map[string]any{"question": "q1", "option": "no"}))
			if !errors.Is(err, sdk.ErrUnsupportedOperation) || !strings.Contains(err.Error(),
				"question q1 is answered: the answer was yes, by "+run) {
				t.Errorf("another answer: %v", err)
			}
			l.Turn("Made.")
			_, err = c.SendMessage(t.Context(), reply(map[string]any{"question": "q1", "option": "yes"}))
			if !errors.Is(err, sdk.ErrUnsupportedOperation) || !strings.Contains(err.Error(), "has ended") {
				t.Errorf("after the end: %v", err)
			}
		})
	}
	d.work("other")
	d.await("other", func(v runs.Header) bool { return v.State == runs.StateWorking })
	if got := d.rpc(token, "SendMessage", to("other", answer(`{"question":"q1","option":"yes"}`))); got.Get(
		"error.code").Int() != -32004 || !strings.Contains(got.Raw, "takes no message while it is working") {
		t.Errorf("to a run that is not live: %s", got.Raw)
	}
	l := d.live("profile")
	l.Asks(l.Permission("sentinel", 0))
	for bearer, shown := range map[string]bool{token: true, d.named("submits", "read,submit"): false} {
		got := d.invoke(skill("message-status-0123456789", "get_task_status", `{"task_id":"profile"}`), "Authorization",
			"Bearer "+bearer)
		data := got.Get("result.task.artifacts.0.parts.1.data")
		if data.Get("status").String() != "input-required" || data.Get("question.id").Exists() != shown ||
			strings.Contains(got.Raw, "sentinel") != shown {
			t.Errorf("by the profile, shown %v: %s", shown, got.Raw)
		}
	}
}

// A stream has each question once, also a second one while the first is open, and all changes around them.
func TestStreamsHaveEachQuestionOnce(t *testing.T) {
	t.Parallel()
	d := newLab(t).endpoint(nil)
	l := d.live("asks")
	d.await("asks", func(v runs.Header) bool { return v.State == runs.StateWorking })
	told := make(chan string, 64)
	for _, scopes := range []string{"read", "read,answer"} {
		bearer := d.named(strings.ReplaceAll(scopes, ",", "-"), scopes)
		go func() {
			for e := range d.events(bearer, "SubscribeToTask", `{"id":"asks"}`) {
				status := e.Get("task.status")
				if e.Get("statusUpdate").Exists() {
					status = e.Get("statusUpdate.status")
				}
				if !status.Exists() {
					continue
				}
				id := status.Get("message.messageId").String()
				if q := status.Get("message.parts.2.data.question.id"); q.Exists() != (strings.HasPrefix(id,
					"asks-q") && scopes == "read,answer") {
					t.Errorf("by %s: %s", scopes, e.Raw)
				}
				state := strings.TrimPrefix(status.Get("state").String(), "TASK_STATE_")
				if state == "INPUT_REQUIRED" {
					state = id
				}
				told <- scopes + " " + state
			}
			told <- scopes + " end"
		}()
	}
	seen := map[string][]string{}
	until := func(state string) {
		t.Helper()
		for is := false; !is; {
			is = true
			for _, scopes := range []string{"read", "read,answer"} {
				if all := seen[scopes]; len(all) == 0 || all[len(all)-1] != state {
					is = false
				}
			}
			if is {
				return
			}
			select {
			case what := <-told:
				scopes, state, _ := strings.Cut(what, " ")
				if all := seen[scopes]; state != "WORKING" || len(all) == 0 || all[len(all)-1] != state {
					seen[scopes] = append(seen[scopes], state)
				}
			case <-time.After(fixture.Patience):
				t.Fatalf("no %s: %q", state, seen)
			}
		}
	}
	decide := func(question string) {
		t.Helper()
		if _, err := d.service.Decide(t.Context(), api.AnswerRequest{Request: "asks", Question: question,
			Option: "yes"}); err != nil {
			t.Fatal(err)
		}
	}
	until("WORKING")
	first := l.Permission("one", 0)
	until("asks-q1")
	second := l.Permission("two", 0)
	until("asks-q2")
	decide(first)
	l.Asks(second)
	decide(second)
	until("WORKING")
	l.Permission("three", 0)
	until("asks-q3")
	decide("q3")
	until("WORKING")
	l.Turn("Done.")
	until("end")
	for scopes, all := range seen {
		if got := strings.Join(all, " "); got != "WORKING asks-q1 asks-q2 WORKING asks-q3 WORKING COMPLETED end" {
			t.Errorf("told %s: %s", scopes, got)
		}
	}
}

// A receiver is told of each question, and of each turn after which the task waits for a message, once, with its number
// and no content.
func TestReceiverIsToldOfEachQuestionAndTurn(t *testing.T) {
	t.Parallel()
	d := pushEndpoint(newLab(t))
	url, next := d.receiver()
	run := d.talk("asks")
	if _, err := d.client(surfaces[0], token).CreateTaskPushConfig(t.Context(), &sdk.PushConfig{TaskID: "asks",
		URL: url + "/hook"}); err != nil {
		t.Fatal(err)
	}
	var told []string
	until := func(want string) {
		t.Helper()
		for len(told) == 0 || told[len(told)-1] != want {
			n := next().body
			status := n.Get("statusUpdate.status")
			what := status.Get("state").String() + status.Get("message.messageId").String()
			if n.Get("task").Exists() {
				what = n.Get("task.status.state").String()
			}
			told = append(told, strings.TrimPrefix(what, "TASK_STATE_"))
			data := status.Get("message.parts.1.data")
			q, path := data.Get("question"), "/v1/questions?run=asks"
			if data.Get("turn").Exists() {
				path = "/v1/runs/asks"
			}
			if strings.Contains(n.Raw, "sentinel") || data.Get("path").String() != path && data.Exists() || q.Exists() &&
				(q.Get("kind").String() != "permission" || !status.Get("timestamp").Time().Equal(q.Get("askedAt").Time())) {
				t.Errorf("told %s", n.Raw)
			}
		}
	}
	until("WORKING")
	for _, id := range []string{"q1", "q2"} {
		run.Permission("sentinel", servicetest.Hour())
		until("INPUT_REQUIREDasks-" + id)
		if got := d.rpc(token, "SendMessage", to("asks", answer(`{"question":"`+id+`","option":"yes"}`))); got.Get(
			"error").Exists() {
			t.Errorf("answered: %s", got.Raw)
		}
	}
	for turn := range 2 {
		run.EndTurn("sentinel", "end_turn")
		until(fmt.Sprint("INPUT_REQUIREDasks-turn-", turn+1))
		d.idle("asks")
		message := strings.Replace(to("asks", `{"text":"sentinel"}`), `"m"`, fmt.Sprintf(`"m%d"`, turn), 1)
		if got := d.rpc(token, "SendMessage", message); got.Get("error").Exists() {
			t.Errorf("sent: %s", got.Raw)
		}
		d.turn("asks", turn+2)
	}
	run.Turn("Done.")
	until("COMPLETED")
	if got := strings.Join(told, " "); got != "WORKING INPUT_REQUIREDasks-q1 INPUT_REQUIREDasks-q2 "+
		"INPUT_REQUIREDasks-turn-1 INPUT_REQUIREDasks-turn-2 COMPLETED" {
		t.Errorf("told %s", got)
	}
}
