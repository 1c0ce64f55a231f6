package natsapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/linesman/linesman/agent/codex"
	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/bus/pipeline"
	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/natsapi"
	"github.com/linesman/linesman/responder/tools"
	v36 "github.com/linesman/linesman/responder/v36"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
)

func TestMain(m *testing.M) { fixture.VerifyGoroutines(m) }

// lab is a server with a normalizer, responders that serve, and a client.
type lab struct {
	*testing.T
	server *embedded.Server
	asker  *nats.Conn
}

func newLab(t *testing.T) *lab {
	t.Helper()
	s, err := embedded.StartServer(t.TempDir(), "127.0.0.1:0", bus.Names{Prefix: bus.DefaultPrefix}, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	l := &lab{T: t, server: s}
	operator := l.bus(embedded.OperatorUser)
	limits := bus.DefaultLimits()
	limits.RawBytes, limits.EventsBytes, limits.RunsBytes = 1<<28, 1<<28, 1<<27
	if _, err := operator.Ensure(t.Context(), limits); err != nil {
		t.Fatal(err)
	}
	l.asker = operator.Inside()
	office := l.bus(embedded.NormalizerUser)
	l.start(func(ctx context.Context) error {
		return (&pipeline.Normalizer{Bus: office, Out: office.Names, Backends: []normalizer.Backend{codex.Backend{}},
			Log: zap.NewNop()}).Run(ctx)
	})
	return l
}

func (l *lab) bus(user string) *bus.Bus {
	l.Helper()
	b, err := l.server.Connect(l.Context(), user, bus.Names{Prefix: bus.DefaultPrefix}, zap.NewNop())
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(b.Close)
	return b
}

func (l *lab) start(f func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	ended := false
	stop = func() {
		cancel()
		if !ended {
			ended = true
			if err := <-done; err != nil {
				l.Error(err)
			}
		}
	}
	l.Cleanup(stop)
	return stop
}

// serve runs a responder with its NATS service, until it answers.
func (l *lab) serve() (stop func()) {
	l.Helper()
	b := l.bus(embedded.ResponderUser)
	service := responder.New(responder.Config{
		Streams: b, Queue: bus.DefaultQueue, LostAfter: time.Minute, Patience: fixture.Patience,
	})
	l.start(service.Run)
	listening := make(chan struct{})
	stop = l.start(func(ctx context.Context) error {
		return natsapi.Serve(ctx, natsapi.Config{
			Conn: b.Inside(), Root: b.API(), Version: "v1.2.3", Log: zap.NewNop(),
			Endpoints: slices.Concat(natsapi.VerbEndpoints(service), natsapi.ToolEndpoints(tools.New(service), tools.List())),
			Listening: func() { close(listening) },
		})
	})
	if err := service.Ready(l.Context()); err != nil {
		l.Fatal(err)
	}
	select {
	case <-listening:
	case <-time.After(fixture.Patience):
		l.Fatal("the service does not listen")
	}
	// From here on every request is answered, whichever connection it comes by.
	if m, err := l.asker.Request("linesman.api._codex_local_status", nil, 20*time.Second); err != nil || len(m.Data) == 0 {
		l.Fatal(err)
	}
	return stop
}

func (l *lab) ask(verb, args string) *nats.Msg {
	l.Helper()
	m, err := l.asker.Request("linesman.api."+verb, []byte(args), 30*time.Second)
	if err != nil {
		l.Fatalf("%s: %v", verb, err)
	}
	return m
}

func TestEveryToolAndVerbIsAnEndpoint(t *testing.T) {
	l := newLab(t)
	l.serve()
	m, err := l.asker.Request("$SRV.INFO.linesman", nil, fixture.Patience)
	if err != nil {
		t.Fatal(err)
	}
	var info micro.Info
	if err := json.Unmarshal(m.Data, &info); err != nil {
		t.Fatal(err)
	}
	subjects := map[string]bool{}
	for _, e := range info.Endpoints {
		subjects[e.Subject] = true
	}
	for _, tool := range tools.List() {
		if !subjects["linesman.api."+tool.Name] {
			t.Errorf("%s is no endpoint", tool.Name)
		}
	}
	for _, verb := range natsapi.VerbEndpoints(nil) {
		if !subjects["linesman.api."+verb.Name] {
			t.Errorf("%s is no endpoint", verb.Name)
		}
	}
	if info.Name != "linesman" || info.Version != "1.2.3" {
		t.Errorf("%s %s", info.Name, info.Version)
	}
	for _, question := range []string{"$SRV.PING", "$SRV.STATS.linesman"} {
		if _, err := l.asker.Request(question, nil, fixture.Patience); err != nil {
			t.Errorf("%s: %v", question, err)
		}
	}
}

func TestErrorsAreInTheHeadersToo(t *testing.T) {
	l := newLab(t)
	l.serve()
	for _, c := range []struct{ verb, args, code, word string }{
		{"_codex_local_status", `{}`, "", ""},
		{"_codex_local_status", ``, "", ""},
		{"_codex_local_results", `{"task_id":"T-local-none"}`, "404", "NOT_FOUND"},
		{"_codex_local_results", `{}`, "400", "VALIDATION"},
		{"_codex_local_wait", `nonsense`, "400", "VALIDATION"},
		{"_codex_cloud_submit", `{"task":"x","envId":"e"}`, "501", "UNSUPPORTED"},
		{"_codex_local_status", `{"format":"adcp"}`, "", ""},
		{"_codex_local_results", `{"format":"adcp","task_id":"T-local-none"}`, "404", "REFERENCE_NOT_FOUND"},
		{"_codex_local_results", `{"for\u006dat":"adcp"}`, "400", "VALIDATION_ERROR"},
		{"_codex_local_wait", `{"format":"adcp", nonsense`, "400", "INVALID_REQUEST"},
		// keys are not remembered here
		{"_codex_local_exec", `{"format":"adcp","task":"x","idempotency_key":"0123456789abcdef"}`, "501",
			"UNSUPPORTED_FEATURE"},
	} {
		m := l.ask(c.verb, c.args)
		if got := m.Header.Get(micro.ErrorCodeHeader); got != c.code {
			t.Errorf("%s %s: code %q, want %q", c.verb, c.args, got, c.code)
		}
		e := gjson.ParseBytes(m.Data)
		form := map[bool]string{true: "3.6"}[!strings.Contains(c.args, "adcp")]
		if got := e.Get("error.code").String() + e.Get("adcp_error.code").String(); got != c.word ||
			e.Get("version").String() != form {
			t.Errorf("%s %s: %s", c.verb, c.args, m.Data)
		}
		if text := m.Header.Get(micro.ErrorHeader); !strings.HasPrefix(text, c.word) || strings.ContainsAny(text, "\r\n") {
			t.Errorf("%s %s: text %q", c.verb, c.args, text)
		}
	}
}

func TestAWaitDoesNotBlockOtherRequests(t *testing.T) {
	l := newLab(t)
	l.serve()
	run := gjson.GetBytes(l.ask("_codex_local_exec", `{"task":"x"}`).Data, "data.task_id").String()
	if run == "" {
		t.Fatal("nothing was submitted")
	}
	waits := make(chan *nats.Msg, 1)
	go func() {
		m, err := l.asker.Request("linesman.api._codex_local_wait", []byte(`{"task_id":"`+run+`"}`), 30*time.Second)
		if err != nil {
			t.Error(err)
		}
		waits <- m
	}()
	for range 50 {
		l.ask("_codex_local_status", `{}`)
	}
	if state := gjson.GetBytes(l.ask("_codex_local_cancel", `{"task_id":"`+run+`"}`).Data,
		"data.state").String(); state != "cancelled" {
		t.Errorf("cancel: %s", state)
	}
	if m := <-waits; m != nil && gjson.GetBytes(m.Data, "data.state").String() != "cancelled" {
		t.Errorf("wait: %s", m.Data)
	}
}

func TestRespondersShareTheRequests(t *testing.T) {
	l := newLab(t)
	l.serve()
	stop := l.serve()
	count := func() map[string]int {
		inbox := l.asker.NewRespInbox()
		sub, err := l.asker.SubscribeSync(inbox)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = sub.Unsubscribe() }()
		if err := l.asker.PublishRequest("$SRV.STATS.linesman", inbox, nil); err != nil {
			t.Fatal(err)
		}
		seen := map[string]int{}
		for {
			soon := 300 * time.Millisecond // a third one would be noticed
			if len(seen) < 2 {
				soon = fixture.Patience
			}
			m, err := sub.NextMsg(soon)
			if errors.Is(err, nats.ErrTimeout) {
				return seen
			}
			if err != nil {
				t.Fatal(err)
			}
			var s micro.Stats
			if err := json.Unmarshal(m.Data, &s); err != nil {
				t.Fatal(err)
			}
			for _, e := range s.Endpoints {
				if e.Name == "_codex_local_status" {
					seen[s.ID] = e.NumRequests
				}
			}
		}
	}
	for range 200 {
		l.ask("_codex_local_status", `{}`)
	}
	seen := count()
	if len(seen) != 2 {
		t.Fatalf("%d responders, want 2", len(seen))
	}
	for id, n := range seen {
		if n < 20 {
			t.Errorf("%s answered %d of 200", id, n)
		}
	}
	stop()
	for range 20 { // one that ends takes nothing with it
		l.ask("_codex_local_status", `{}`)
	}
}

func TestALargeAnswerIsRefusedAndNotLost(t *testing.T) {
	l := newLab(t)
	b := l.bus(embedded.ResponderUser)
	l.start(func(ctx context.Context) error {
		return natsapi.Serve(ctx, natsapi.Config{Conn: b.Inside(), Root: "linesman.api",
			Endpoints: natsapi.ToolEndpoints(large{}, tools.List()), Log: zap.NewNop()})
	})
	for end := time.Now().Add(fixture.Patience); ; {
		m, err := l.asker.Request("linesman.api._codex_local_status", nil, time.Second)
		if err == nil {
			if got := m.Header.Get(micro.ErrorCodeHeader); got != "413" {
				t.Errorf("code %q with %d bytes", got, len(m.Data))
			}
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// large answers with more than a message holds.
type large struct{}

func (large) Call(context.Context, string, json.RawMessage, func(v36.Progress)) (v36.Answer, error) {
	return v36.Answer{Envelope: make([]byte, 9<<20)}, nil
}

// The verbs carry requests and outcomes of package api, errors in the headers
// and in the body.
func TestVerbsSpeakTheTypesOfTheService(t *testing.T) {
	l := newLab(t)
	l.serve()
	ctx, c := t.Context(), client.New(l.bus(embedded.OperatorUser))
	done, err := c.Submit(ctx, api.Submission{Task: runs.Task{Attributes: runs.Attributes{Dir: "/d",
		Labels: runs.LabelsOf(map[string]string{"a": "b"})}, Prompt: "x"}, Once: api.Once{}})
	if err != nil || done.Run == "" || done.At == 0 || done.Basis == nil {
		t.Fatalf("submit: %+v, %v", done, err)
	}
	run, err := c.Status(ctx, done.Run)
	if err != nil || run.ID != done.Run || run.State != runs.StateQueued || run.Dir != "/d" || run.Detail != nil {
		t.Errorf("status: %+v, %v", run, err)
	}
	page, err := c.List(ctx, api.List{States: []runs.State{runs.StateQueued}})
	if err != nil || len(page.Runs) != 1 || page.Runs[0].ID != done.Run {
		t.Errorf("list: %+v, %v", page, err)
	}
	_, err = c.Results(ctx, api.ResultsRequest{Run: done.Run})
	var e *api.Error
	if !errors.As(err, &e) || e.Code != api.NotEnded || e.State != runs.StateQueued || !e.Retryable {
		t.Errorf("results of a queued run: %+v", err)
	}
	if ended, err := c.Cancel(ctx, api.Cancel{Run: done.Run, Reason: "enough"}); err != nil ||
		ended.State != runs.StateCancelled {
		t.Errorf("cancel: %+v, %v", ended, err)
	}
	if _, err := c.Wait(ctx, done.Run, nil); err != nil {
		t.Errorf("wait: %v", err)
	}
	result, err := c.Results(ctx, api.ResultsRequest{Run: done.Run})
	if err != nil || result.Run.State != runs.StateCancelled || result.Run.Detail == nil || !result.Run.Labels.Has("a",
		"b") {
		t.Errorf("results: %+v, %v", result, err)
	}
	events, err := c.Events(ctx, api.EventsRequest{Run: done.Run})
	if err != nil || len(events.Events) != 1 || !events.Done || events.Events[0].Kind != api.Completion {
		t.Errorf("events: %+v, %v", events, err)
	}
	if _, err := c.Status(ctx, "T-none"); !errors.As(err, &e) || e.Code != api.NotFound || e.Run != "T-none" {
		t.Errorf("a run that is not there: %v", err)
	}
	m := l.ask("status", `{"run":"T-none"}`)
	if got := m.Header.Get(micro.ErrorCodeHeader); got != "404" || !strings.HasPrefix(m.Header.Get(micro.ErrorHeader),
		"NOT_FOUND: ") {
		t.Errorf("headers: %v", m.Header)
	}
}

// An outcome that does not fit a message is an error that a client can read.
func TestAnOutcomeThatDoesNotFitIsAnErrorOfTheAPI(t *testing.T) {
	l := newLab(t)
	b := l.bus(embedded.ResponderUser)
	e := natsapi.VerbEndpoints(nil)[0]
	e.Do = func(context.Context, []byte) natsapi.Answer { return natsapi.Answer{Body: make([]byte, 9<<20)} }
	l.start(func(ctx context.Context) error {
		return natsapi.Serve(ctx, natsapi.Config{Conn: b.Inside(), Root: "linesman.api", Endpoints: []natsapi.Endpoint{e},
			Log: zap.NewNop()})
	})
	c := client.New(l.bus(embedded.OperatorUser))
	for end := time.Now().Add(fixture.Patience); ; {
		_, err := c.Status(t.Context(), "T-x")
		var said *api.Error
		if !errors.As(err, &said) {
			t.Fatalf("answered %v", err)
		}
		if said.Code == api.Validation && !said.Retryable {
			return
		}
		if time.Now().After(end) { // until the service listens it is api.Unavailable
			t.Fatal(err)
		}
	}
}
