package client_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
)

// begin opens a stage for a test.
func begin(t *testing.T) *stage {
	t.Helper()
	s, err := open(t.Context(), t.TempDir(), fixture.FreeAddresses(t, 1)[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func connect(t *testing.T, s *stage, user string) *client.Client {
	t.Helper()
	c, err := client.Connect(t.Context(), s.config(user))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func submit(t *testing.T, c *client.Client, prompt string) string {
	t.Helper()
	done, err := c.Submit(t.Context(), api.Submission{Task: runs.Task{Prompt: prompt}})
	if err != nil {
		t.Fatal(err)
	}
	return done.Run
}

// code is that of an [*api.Error].
func code(err error) api.Code {
	var e *api.Error
	errors.As(err, &e)
	if e == nil {
		return ""
	}
	return e.Code
}

func TestATaskFromItsSubmissionToItsResult(t *testing.T) {
	s := begin(t)
	c, ctx := connect(t, s, embedded.OperatorUser), t.Context()
	run := submit(t, c, "Which files are here?")
	ended, err := c.Wait(ctx, run, nil)
	if err != nil || ended.State != runs.StateCompleted {
		t.Fatalf("wait: %+v, %v", ended, err)
	}
	r, err := c.Results(ctx, api.ResultsRequest{Run: run, ResultRequest: api.ResultRequest{Output: true, Events: true}})
	if err != nil || *r.Run.FinalText != "Two files." || r.Output.Stdout != recording || len(r.Events.Items) != 5 {
		t.Errorf("results: %+v, %v", r, err)
	}
	page, err := c.Events(ctx, api.EventsRequest{Run: run, Limit: 2})
	if err != nil || len(page.Events) != 2 || page.Done {
		t.Errorf("events: %+v, %v", page, err)
	}
	part, err := c.Output(ctx, api.OutputRequest{Run: run, Offset: 1, Limit: 6})
	if err != nil || string(part.Data) != `"type"` {
		t.Errorf("output: %+v, %v", part, err)
	}
	all, err := c.Overview(ctx, api.OverviewRequest{})
	if err != nil || all.Counts != (api.Counts{Ended: 1}) || all.Ended[0].ID != run {
		t.Errorf("overview: %+v, %v", all, err)
	}
	list, err := c.List(ctx, api.List{States: []runs.State{runs.StateCompleted}})
	if err != nil || len(list.Runs) != 1 || list.Runs[0].ID != run {
		t.Errorf("list: %+v, %v", list, err)
	}
	for _, look := range []func(context.Context, string) (*api.Run, error){c.Status, c.Describe} {
		if now, err := look(ctx, run); err != nil || now.State != runs.StateCompleted {
			t.Errorf("status: %+v, %v", now, err)
		}
	}
	if known, err := c.Known(ctx, run); !known || err != nil {
		t.Errorf("known: %v, %v", known, err)
	}
	if known, err := c.Known(ctx, "T-none"); known || err != nil {
		t.Errorf("a run that does not exist is known: %v, %v", known, err)
	}
}

func TestErrorsAreThoseOfTheService(t *testing.T) {
	s := begin(t)
	c, ctx := connect(t, s, embedded.OperatorUser), t.Context()
	_, err := c.Submit(ctx, api.Submission{Task: runs.Task{Prompt: " ", Idle: 1 << 40}})
	var e *api.Error
	if !errors.As(err, &e) || e.Code != api.Validation || len(e.Issues) != 2 {
		t.Errorf("two mistakes: %+v", e)
	}
	if _, err := c.Status(ctx, "T-none"); code(err) != api.NotFound {
		t.Errorf("status of no run: %v", err)
	}
	if _, err := c.Wait(ctx, "T-none", nil); code(err) != api.NotFound {
		t.Errorf("wait for no run: %v", err)
	}
	run := submit(t, c, "hold")
	if _, err := c.Results(ctx, api.ResultsRequest{Run: run}); code(err) != api.NotEnded {
		t.Errorf("results of a run that works: %v", err)
	}
	wide := api.ResultsRequest{Run: run, ResultRequest: api.ResultRequest{MaxBytes: 1}}
	if _, err := c.Results(ctx, wide); !errors.As(err, &e) || e.Code != api.Validation || e.Field != "maxOutputBytes" {
		t.Errorf("results of one byte: %v", err)
	}
	if _, err := c.Cancel(ctx, api.Cancel{Run: run, Reason: strings.Repeat("x", 2000)}); code(err) != api.Validation {
		t.Errorf("a reason that is too long: %v", err)
	}
}

func TestWaitTellsHowItStandsAndEndsWithItsContext(t *testing.T) {
	s := begin(t)
	c := connect(t, s, embedded.OperatorUser)
	run := submit(t, c, "hold")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := make(chan runs.State, 100)
	_, err := c.Wait(ctx, run, func(now *api.Run) {
		seen <- now.State
		cancel()
	})
	if !errors.Is(err, context.Canceled) || len(seen) != 1 {
		t.Errorf("%v after %d looks, want one and the end of the context", err, len(seen))
	}
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := c.Wait(short, run, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a deadline: %v", err)
	}
}

// A wait goes on where the responder that owed its answer is replaced, and where
// the whole server is.
func TestWaitSurvivesItsResponderAndItsServer(t *testing.T) {
	s := begin(t)
	c, ctx := connect(t, s, embedded.OperatorUser), t.Context()
	run := submit(t, c, "hold")
	type outcome struct {
		run *api.Run
		err error
	}
	asked, err := s.bus.Inside().SubscribeSync(s.bus.API() + ".wait")
	if err := errors.Join(err, asked.AutoUnsubscribe(1), s.bus.Inside().FlushTimeout(fixture.Patience)); err != nil {
		t.Fatal(err)
	}
	ended, waiting := make(chan outcome, 1), make(chan struct{}, 100)
	go func() {
		r, err := c.Wait(ctx, run, func(*api.Run) { waiting <- struct{}{} })
		ended <- outcome{r, err}
	}()
	<-waiting
	if _, err := asked.NextMsg(fixture.Patience); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.leave(), s.serve(ctx)); err != nil {
		t.Fatal(err)
	}
	<-waiting
	address := strings.TrimPrefix(s.server.URL(), "nats://")
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	next, err := open(ctx, s.dir, address)
	if err != nil {
		t.Fatal(err)
	}
	*s = *next
	if err := s.release(ctx, run); err != nil {
		t.Fatal(err)
	}
	if got := <-ended; got.err != nil || got.run.State != runs.StateCompleted {
		t.Errorf("%+v, %v", got.run, got.err)
	}
	if now, err := c.Status(ctx, run); err != nil || now.State != runs.StateCompleted {
		t.Errorf("the connection is not back: %+v, %v", now, err)
	}
}

func TestWhyThereIsNoAnswer(t *testing.T) {
	s := begin(t)
	_, err := connect(t, s, embedded.SubscriberUser).Status(t.Context(), "T-1")
	if !errors.Is(err, client.ErrDenied) || code(err) != api.Unavailable {
		t.Errorf("without the right to ask: %v", err)
	}
	c := connect(t, s, embedded.OperatorUser)
	if err := s.leave(); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"status": second(c.Status(t.Context(), "T-1")), "wait": second(c.Wait(t.Context(), "T-1", nil)),
	} {
		if !errors.Is(err, client.ErrNoResponder) || code(err) != api.Unavailable {
			t.Errorf("%s without a responder: %v", name, err)
		}
	}
	wrong := s.config(embedded.OperatorUser)
	wrong.Password = "wrong"
	for name, config := range map[string]client.Config{"a wrong password": wrong,
		"no server": {URL: "nats://127.0.0.1:1"}} {
		if _, err := client.Connect(t.Context(), config); !errors.Is(err, client.ErrUnreachable) ||
			code(err) != api.Unavailable {
			t.Errorf("%s: %v", name, err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Status(ended, "T-1"); !errors.Is(err, context.Canceled) {
		t.Errorf("an ended context: %v", err)
	}
}

func second[A, B any](_ A, b B) B { return b }

func TestFollowResumesAndSelects(t *testing.T) {
	s := begin(t)
	c, ctx := connect(t, s, embedded.OperatorUser), t.Context()
	run := submit(t, c, "Which files are here?")
	kinds := func(f client.Filter) (got []string, last uint64) {
		t.Helper()
		for e, err := range c.Follow(ctx, f) {
			if err != nil {
				t.Fatal(err)
			}
			got, last = append(got, e.Kind), e.Seq
		}
		return got, last
	}
	all, last := kinds(client.Filter{Run: run, Follow: true})
	if want := "status status text_output status completion"; strings.Join(all, " ") != want {
		t.Errorf("got %v, want %s", all, want)
	}
	some, _ := kinds(client.Filter{Run: run, Follow: true, Kinds: []string{"text_output"}})
	if strings.Join(some, " ") != "text_output" {
		t.Errorf("one kind: %v", some)
	}
	rest, _ := kinds(client.Filter{Run: run, Follow: true, After: last - 1})
	if strings.Join(rest, " ") != api.Completion {
		t.Errorf("after the last but one: %v", rest)
	}
	if none, _ := kinds(client.Filter{Run: run, Follow: true, After: last}); none != nil { // it would wait for ever
		t.Errorf("after its end: %v", none)
	}
	first := 0
	for _, err := range c.Follow(ctx, client.Filter{Follow: true}) {
		if err != nil {
			t.Fatal(err)
		}
		first++
		break
	}
	if first != 1 {
		t.Errorf("%d events before the break", first)
	}
}
