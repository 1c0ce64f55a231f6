package a2a_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/idempotency"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/servicetest"
)

// talksThread is the thread of [servicetest.Live].
const talksThread = "01a1fd7c-3234-7431-a730-2b1ea25bc866"

// talk begins a live run that is kept, in its first turn.
func (d *endpoint) talk(id string) *servicetest.Live {
	d.t.Helper()
	return d.streams().BeginLive("codex", id, runs.Start{Source: "queue", Worker: "w1", Keep: true})
}

// idle waits until a run waits for a message.
func (d *endpoint) idle(id string) {
	d.t.Helper()
	d.await(id, func(v runs.Header) bool { return v.State == runs.StateInputRequired && len(v.Questions) == 0 })
}

// turn waits until a turn of a run has begun.
func (d *endpoint) turn(id string, n int) {
	d.t.Helper()
	fixture.Eventually(d.t, fixture.Patience, fmt.Sprintf("no turn %d of %s", n, id), func() bool {
		record, err := d.service.Record(d.t.Context(), id)
		return err == nil && record.Live != nil && record.Live.Turn == n
	})
}

// said is what the artifact of a task says.
func said(t *sdk.Task) (all string) {
	for _, a := range t.Artifacts {
		for _, p := range a.Parts {
			all += p.Text()
		}
	}
	return all
}

// A2A's own client talks to a run that is kept: each message is a turn, which the send waits for. Questions are
// answered in between, and the end is a message, too.
func TestTaskOfAKeptRunTakesMessages(t *testing.T) {
	t.Parallel()
	d := newLab(t).endpoint(nil)
	for _, s := range surfaces {
		t.Run(s.name, func(t *testing.T) {
			run := "talks-" + strings.ReplaceAll(s.name, ".", "-")
			c, l := d.client(s, token), d.talk(run)
			info := (&sdk.Task{ID: sdk.TaskID(run), ContextID: run}).TaskInfo()
			to := func(parts ...*sdk.Part) *sdk.SendMessageRequest {
				return &sdk.SendMessageRequest{Message: sdk.NewMessageForTask(sdk.MessageRoleUser, info, parts...)}
			}
			send := func(q *sdk.SendMessageRequest) func() *sdk.Task {
				done := make(chan *sdk.Task, 1)
				go func() {
					got, err := c.SendMessage(context.WithoutCancel(t.Context()), q)
					if err != nil {
						t.Error(err)
					}
					task, _ := got.(*sdk.Task)
					done <- task
				}()
				return func() *sdk.Task { return <-done }
			}
			want := func(what string, task *sdk.Task, state sdk.TaskState, text string) {
				t.Helper()
				if task == nil || task.Status.State != state || said(task) != text {
					t.Fatalf("%s: %+v, want %s with %q", what, task, state, text)
				}
			}
			l.EndTurn("One.", "end_turn")
			d.idle(run)
			task, err := c.GetTask(t.Context(), &sdk.GetTaskRequest{ID: sdk.TaskID(run)})
			if err != nil {
				t.Fatal(err)
			}
			want("between two turns", task, sdk.TaskStateInputRequired, "One.")

			second := to(sdk.NewTextPart("And"), sdk.NewTextPart("two?"))
			task2 := send(second)
			d.turn(run, 2)
			l.EndTurn("Two.", "end_turn")
			want("after the turn of the message", task2(), sdk.TaskStateInputRequired, "Two.")
			want("the same message again", send(second)(), sdk.TaskStateInputRequired, "Two.")

			third := to(sdk.NewTextPart("Three?"))
			task3 := send(third)
			d.turn(run, 3)
			l.Permission("make", 0)
			for _, asked := range []*sdk.Task{task3(), send(third)()} { // and the same message again
				want("a question", asked, sdk.TaskStateInputRequired, "")
				if asked.Status.Message.ID != run+"-q1" {
					t.Errorf("asked %+v", asked.Status.Message)
				}
			}
			if _, err = c.SendMessage(t.Context(), to(sdk.NewTextPart("yes"))); !errors.Is(err, sdk.ErrUnsupportedOperation) ||
				!strings.Contains(err.Error(), "yes (Yes)") {
				t.Errorf("text for an answer: %v", err)
			}
			answered := send(to(sdk.NewDataPart(map[string]any{"answer": map[string]any{"question": "q1", "option": "yes"}})))
			l.Asks()
			l.EndTurn("Three.", "end_turn")
			want("after the answer", answered(), sdk.TaskStateInputRequired, "Three.")

			var last sdk.TaskState
			for event, err := range c.SendStreamingMessage(t.Context(), to(sdk.NewDataPart(map[string]any{"end": true}))) {
				if err != nil {
					t.Fatal(err)
				}
				switch e := event.(type) {
				case *sdk.Task: // the first
					got := d.rpc(token, "SendMessage", idleText(run))
					if !strings.Contains(got.Get("error.message").String(), "the run ends with its turn") {
						t.Errorf("a message behind the end: %s", got.Raw)
					}
					l.Quit()
				case *sdk.TaskStatusUpdateEvent:
					last = e.Status.State
				}
			}
			if last != sdk.TaskStateCompleted {
				t.Errorf("the stream of the end: %s", last)
			}
			_, err = c.SendMessage(t.Context(), to(sdk.NewTextPart("x")))
			if !errors.Is(err, sdk.ErrUnsupportedOperation) || !strings.Contains(err.Error(), "has ended") {
				t.Errorf("after the end: %v", err)
			}
		})
	}
}

// idleText is a message with text for a task.
func idleText(run string) string { return to(run, `{"text":"More."}`) }

// A message in the context of an open run that is kept is for that run; what is not for it is refused, and begins none.
func TestMessageInTheContextOfAKeptRunIsForIt(t *testing.T) {
	t.Parallel()
	var l *servicetest.Live
	var away atomic.Bool
	lab := newLab(t)
	d := lab.endpointOf(responder.Config{
		Requests: &idempotency.Requests{Store: lab.bus.RequestStore()},
		Absent: func(ctx context.Context, _, _ string, c runs.Command) (runs.Ruling, error) {
			if away.Load() {
				return runs.Ruling{}, context.DeadlineExceeded
			}
			return l.Answer(ctx, c) // reads the log of the run that has ended
		},
	}, nil)
	l = d.talk("talks")
	l.EndTurn("One.", "end_turn")
	d.idle("talks")
	in := func(name, parts string) gjson.Result {
		return d.rpc(token, "SendMessage", fmt.Sprintf(`{"configuration":{"returnImmediately":true},"message":{"messageId":`+
			`"in-%s","role":"ROLE_USER","contextId":%q,"parts":[%s]}}`, name, name, parts))
	}
	for turn, name := range []string{"talks", talksThread} {
		for range 2 {
			if got := in(name, `{"text":"More."}`); got.Get("result.task.id").String() != "talks" || got.Get(
				"result.task.contextId").String() != name {
				t.Errorf("in %s: %s", name, got.Raw)
			}
		}
		d.turn("talks", turn+2)
		l.EndTurn("More.", "end_turn")
		d.idle("talks")
	}
	for parts, code := range map[string]int64{
		answer(`{"question":"q1","option":"yes"}`):   -32602, // which names its task
		`{"text":"x"},{"data":{"mode":"read-only"}}`: -32602,
		`{"text":"x"},{"data":{"end":true}}`:         -32602,
		`{"data":{"end":false}}`:                     -32602,
		`{"data":{"end":true,"sentinel":1}}`:         -32602,
		`{"data":{}}`:                                -32602,
		`{"text":" "}`:                               -32602,
	} {
		if got := in(talksThread, parts); got.Get("error.code").Int() != code || strings.Contains(got.Raw, "sentinel") {
			t.Errorf("%s: %s", parts, got.Raw)
		}
	}
	if got := in("talks", `{"data":{"end":true}}`); got.Get("result.task.id").String() != "talks" {
		t.Errorf("the end: %s", got.Raw)
	}
	l.Quit()
	// While it is unknown whether the run has a message, that begins no other run.
	old := fmt.Sprintf(`{"configuration":{"returnImmediately":true},"message":{"messageId":"old","role":"ROLE_USER",`+
		`"contextId":%q,"parts":[{"text":"Old."}]}}`, talksThread)
	away.Store(true)
	for range 2 {
		if got := d.rpc(token, "SendMessage", old); got.Get("error.message").String() !=
			"the streams did not answer in time" {
			t.Errorf("a message, while the log cannot be read: %s", got.Raw)
		}
	}
	away.Store(false)
	// Another text with the id of a message that was sent is refused, and begins no run.
	got := in(talksThread, `{"text":"Else."}`)
	if !strings.Contains(got.Get("error.message").String(), "another request") {
		t.Errorf("another message of the same id, after the end: %s", got.Raw)
	}
	if got := in(talksThread, `{"text":"More."}`); got.Get("result.task.id").String() != "talks" || !strings.Contains(got.Raw,
		`"replayed":true`) {
		t.Errorf("a repeated message, after the end: %s", got.Raw)
	}
	got = d.rpc(token, "SendMessage", old)
	if got.Get("result.task.id").String() == "talks" || strings.Contains(got.Raw, `"replayed":true`) || got.Get(
		"result.task.status.state").String() != "TASK_STATE_SUBMITTED" {
		t.Errorf("after the end: %s", got.Raw)
	}
}

// forgetful stores that requests were begun, and no outcome until it is back: as if responders were killed.
type forgetful struct {
	idempotency.Store
	back *atomic.Bool
}

func (f forgetful) Get(ctx context.Context, key string) ([]byte, uint64, error) {
	value, revision, err := f.Store.Get(ctx, key)
	return regexp.MustCompile(`"until":\d+`).ReplaceAll(value, []byte(`"until":1`)), revision, err
}

func (f forgetful) Put(ctx context.Context, key string, value []byte, ttl time.Duration, revision uint64) (uint64, bool,
	error) {
	if strings.Contains(string(value), `"outcome"`) && !f.back.Load() {
		return 0, false, errors.New("the store is away")
	}
	return f.Store.Put(ctx, key, value, ttl, revision)
}

// A message that began a kept run in its context, and whose outcome was not stored, is no message for that run when it
// comes again.
func TestMessageThatBeganAKeptRunComesAgainWithoutItsOutcome(t *testing.T) {
	t.Parallel()
	lab := newLab(t)
	store := forgetful{lab.bus.RequestStore(), new(atomic.Bool)}
	d := lab.endpointOf(responder.Config{Requests: &idempotency.Requests{Store: store}}, nil)
	l := d.talk("talks")
	l.EndTurn("One.", "end_turn")
	d.idle("talks")
	l.Quit()
	send := func() gjson.Result {
		return d.rpc(token, "SendMessage", fmt.Sprintf(`{"configuration":{"returnImmediately":true},"message":{"messageId":`+
			`"m","role":"ROLE_USER","contextId":%q,"parts":[{"text":"Anew."},{"data":{"live":true,"keep":true}}]}}`,
			talksThread))
	}
	run := send().Get("result.task.id").String()
	l = d.talk(run)
	l.EndTurn("Two.", "end_turn")
	d.idle(run)
	store.back.Store(true)
	if got := send(); run == "" || got.Get("result.task.id").String() != run {
		t.Errorf("it began %q: %s", run, got.Raw)
	}
	got := d.rpc(token, "SendMessage", fmt.Sprintf(`{"configuration":{"returnImmediately":true},"message":{"messageId":`+
		`"m","role":"ROLE_USER","contextId":%q,"parts":[{"text":"Else."}]}}`, talksThread))
	if !strings.Contains(got.Raw, "IDEMPOTENCY_CONFLICT") {
		t.Errorf("another message with its id: %s", got.Raw)
	}
}

// awayOnce is a store that cannot be read once: at one of the next times.
type awayOnce struct {
	idempotency.Store
	at *atomic.Int32
}

func (a awayOnce) Get(ctx context.Context, key string) ([]byte, uint64, error) {
	if a.at.Add(-1) == 0 {
		return nil, 0, errors.New("the store is away")
	}
	return a.Store.Get(ctx, key)
}

// A message in a context is for the run that it was sent to, also when that has ended, and a later run of the context
// takes messages.
func TestMessageThatComesAgainIsForTheRunThatHasIt(t *testing.T) {
	t.Parallel()
	lab := newLab(t)
	store := awayOnce{lab.bus.RequestStore(), new(atomic.Int32)}
	d := lab.endpointOf(responder.Config{Requests: &idempotency.Requests{Store: store}}, nil)
	send := func(id, text string) gjson.Result {
		return d.rpc(token, "SendMessage", fmt.Sprintf(`{"configuration":{"returnImmediately":true},"message":{"messageId":`+
			`%q,"role":"ROLE_USER","contextId":%q,"parts":[{"text":%q}]}}`, id, talksThread, text))
	}
	for _, run := range []string{"first", "second"} {
		l := d.talk(run)
		l.EndTurn("One.", "end_turn")
		d.idle(run)
		if got := send("m-"+run, "More."); got.Get("result.task.id").String() != run {
			t.Errorf("to the %s run: %s", run, got.Raw)
		}
		d.turn(run, 2)
		l.EndTurn("Two.", "end_turn")
		d.idle(run)
		for _, has := range []string{"first", run} {
			if got := send("m-"+has, "More."); got.Get("result.task.id").String() != has {
				t.Errorf("in the %s run, that of the %s: %s", run, has, got.Raw)
			}
			for i := range int32(2) { // it is not taken for one that was not sent
				store.at.Store(i + 1)
				if got := send("m-"+has, "More."); !got.Get("error").Exists() {
					t.Errorf("the store is away at time %d: %s", i, got.Raw)
				}
			}
			if got := send("m-"+has, "Else."); !strings.Contains(got.Get("error.message").String(), "another request") {
				t.Errorf("in the %s run, another message with the id of that of the %s: %s", run, has, got.Raw)
			}
		}
		if record, err := d.service.Record(t.Context(), run); err != nil || record.Live.Turn != 2 ||
			len(record.Live.Queue.Messages) > 0 {
			t.Errorf("the %s run has a message twice: %+v, %v", run, record, err)
		}
		if run == "first" {
			l.Quit()
		}
	}
	// In another context it is another message.
	d.play("other", "shell-ok", thread, 0)
	got := d.rpc(token, "SendMessage", fmt.Sprintf(`{"configuration":{"returnImmediately":true},"message":{"messageId":`+
		`"m-second","role":"ROLE_USER","contextId":%q,"parts":[{"text":"More."}]}}`, thread))
	if got.Get("result.task.status.state").String() != "TASK_STATE_SUBMITTED" {
		t.Errorf("in another context: %s", got.Raw)
	}
}

// A message that a task has got is the same after its end: its sender may not know whether it came.
func TestMessageForATaskThatHasEndedComesAgain(t *testing.T) {
	t.Parallel()
	var l *servicetest.Live
	d := newLab(t).endpointOf(responder.Config{
		Absent: func(ctx context.Context, _, _ string, c runs.Command) (runs.Ruling, error) {
			return l.Answer(ctx, c) // reads the log of the run that has ended
		},
	}, nil)
	l = d.talk("talks")
	l.EndTurn("One.", "end_turn")
	d.idle("talks")
	yes := strings.Replace(to("talks", answer(`{"question":"q1","option":"yes"}`)), `"m"`, `"a"`, 1)
	same := func(when string, replayed bool, params ...string) {
		t.Helper()
		for _, message := range params {
			got := d.rpc(token, "SendMessage", message)
			if got.Get("result.task.id").String() != "talks" || replayed != strings.Contains(got.Raw, `"replayed":true`) {
				t.Errorf("%s, %s: %s", when, message, got.Raw)
			}
		}
	}
	same("first", false, idleText("talks"))
	d.turn("talks", 2)
	l.Asks(l.Permission("make", 0))
	same("while it asks", true, idleText("talks"))
	if record, err := d.service.Record(t.Context(), "talks"); err != nil || len(record.Live.Queue.Messages) != 0 {
		t.Errorf("it waits: %+v, %v", record, err)
	}
	same("first", false, yes)
	l.Asks()
	l.EndTurn("Two.", "end_turn")
	d.idle("talks")
	d.rpc(token, "SendMessage", strings.Replace(to("talks", `{"data":{"end":true}}`), `"m"`, `"end"`, 1))
	l.Quit()
	d.await("talks", func(v runs.Header) bool { return v.State.Final() })
	same("after the end", true, idleText("talks"))
	same("after the end", false, yes)
	for what, params := range map[string]string{
		"another text":   strings.Replace(idleText("talks"), `"m"`, `"m2"`, 1),
		"another answer": to("talks", answer(`{"question":"q1","option":"no"}`)),
		"an unknown one": to("talks", answer(`{"question":"q2","option":"no"}`)),
	} {
		if got := d.rpc(token, "SendMessage", params); got.Get("error.code").Int() != -32004 {
			t.Errorf("%s: %s", what, got.Raw)
		}
	}
}

// Messages that a run does not take are refused with the reason, whoever sends them.
func TestMessagesThatARunDoesNotTake(t *testing.T) {
	t.Parallel()
	d := newLab(t).endpoint(nil)
	d.live("once").Asks()
	d.talk("full").Asks()
	talks := d.talk("held")
	for i := range runs.MaxQueued {
		params := strings.Replace(idleText("full"), `"m"`, fmt.Sprintf("%q", fmt.Sprint("m", i)), 1)
		if got := d.rpc(token, "SendMessage", params); got.Get("result.task.status.state").String() != "TASK_STATE_WORKING" {
			t.Fatalf("message %d: %s", i, got.Raw)
		}
	}
	for run, want := range map[string]string{
		"none": "no task", "once": "takes no message while it is working", "full": "32 messages",
	} {
		params := strings.Replace(idleText(run), `"m"`, `"last"`, 1)
		if got := d.rpc(token, "SendMessage", params); !strings.Contains(got.Get("error.message").String(), want) {
			t.Errorf("%s: %s", run, got.Raw)
		}
	}
	if got := d.rpc(token, "SendMessage", to("once", `{"data":{"end":true}}`)); got.Get("error.code").Int() != -32004 {
		t.Errorf("the end of a run that is not kept: %s", got.Raw)
	}
	for scopes, want := range map[string]int64{"read": -31403, "read,answer": -31403, "read,submit": 0} {
		bearer := d.named(strings.ReplaceAll(scopes, ",", "-"), scopes)
		for name, parts := range map[string]string{"text": `{"text":"x"}`, "end": `{"data":{"end":true}}`} {
			params := strings.Replace(to("held", parts), `"m"`, fmt.Sprintf("%q", name), 1)
			if name == "end" && want == 0 {
				continue
			}
			if got := d.rpc(bearer, "SendMessage", params); got.Get("error.code").Int() != want {
				t.Errorf("%s by %s: %s", name, scopes, got.Raw)
			}
		}
	}
	// After a turn that was not completed what waits is held: the next message sends it.
	talks.EndTurn("Not done.", "cancelled")
	d.idle("held")
	if got := d.rpc(token, "SendMessage", idleText("held")); got.Get("error").Exists() {
		t.Errorf("to a run that holds messages: %s", got.Raw)
	}
	d.turn("held", 2)
}

// A stream of a message has its turn, not those before it, and ends with it, or at a question; a subscription goes on.
func TestStreamOfAMessageEndsWithItsTurn(t *testing.T) {
	t.Parallel()
	d := newLab(t).endpoint(nil)
	l := d.talk("talks")
	l.EndTurn("One.", "end_turn")
	d.idle("talks")
	whole := make(chan string, 1)
	go func() {
		whole <- strings.Join(d.told("SubscribeToTask", `{"id":"talks"}`), " ")
	}()
	for i, tt := range []struct{ parts, want string }{
		{`{"text":"Two?"}`, "Two. INPUT_REQUIRED"},
		{`{"text":"Three?"}`, "q1 INPUT_REQUIRED"},
		{answer(`{"question":"q1","option":"yes"}`), "Three. INPUT_REQUIRED"},
	} {
		told := make(chan string, 1)
		go func() {
			params := strings.Replace(to("talks", tt.parts), `"m"`, fmt.Sprintf(`"m%d"`, i), 1)
			told <- strings.Join(d.told("SendStreamingMessage", params), " ")
		}()
		switch i {
		case 0:
			d.turn("talks", 2)
			l.EndTurn("Two.", "end_turn")
		case 1:
			d.turn("talks", 3)
			l.Permission("make", 0)
		case 2:
			l.Asks()
			l.EndTurn("Three.", "end_turn")
		}
		if got := <-told; got != tt.want {
			t.Errorf("the stream of %s: %q, want %q", tt.parts, got, tt.want)
		}
	}
	again := strings.Replace(to("talks", `{"text":"Two?"}`), `"m"`, `"m0"`, 1)
	if got := strings.Join(d.told("SendStreamingMessage", again), " "); got != "Three. INPUT_REQUIRED" {
		t.Errorf("a repeated message: %q", got)
	}
	d.rpc(token, "SendMessage", strings.Replace(to("talks", `{"data":{"end":true}}`), `"m"`, `"end"`, 1))
	l.Quit()
	if got := <-whole; got != "One. Two. q1 Three. COMPLETED" {
		t.Errorf("the subscription: %q", got)
	}
}

// told is what a stream tells after its first event: texts, questions, and the state that it ends with.
func (d *endpoint) told(method, params string) (all []string) {
	d.t.Helper()
	state := ""
	for e := range d.events(token, method, params) {
		for _, p := range e.Get("artifactUpdate.artifact.parts").Array() {
			if text := p.Get("text"); text.Exists() {
				all = append(all, text.String())
			}
		}
		status := e.Get("statusUpdate.status")
		if !status.Exists() {
			status = e.Get("task.status")
		}
		if q := status.Get("message.parts.2.data.question.id"); q.Exists() && e.Get("statusUpdate").Exists() {
			all = append(all, q.String())
		}
		if status.Exists() {
			state = status.Get("state").String()
		}
	}
	return append(all, strings.TrimPrefix(state, "TASK_STATE_"))
}
