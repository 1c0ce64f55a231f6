package client_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/test/fixture"
)

type called struct {
	api.ToolAnswer
	error
}

// A call that waits for a run survives the restart of its responder, and that of the server.
func TestToolSurvivesItsResponderAndItsServer(t *testing.T) {
	s := begin(t)
	c, ctx := connect(t, s, embedded.OperatorUser), t.Context()
	run := submit(t, c, "hold")
	watch := func() *nats.Subscription {
		asked, err := s.bus.Inside().SubscribeSync(s.bus.API() + ".tool")
		if err := errors.Join(err, s.bus.Inside().FlushTimeout(fixture.Patience)); err != nil {
			t.Fatal(err)
		}
		return asked
	}
	await := func(asked *nats.Subscription) {
		t.Helper()
		if _, err := asked.NextMsg(fixture.Patience); err != nil {
			t.Fatal(err)
		}
	}
	asked, ended := watch(), make(chan called, 1)
	go func() {
		a, err := c.Tool(ctx, api.ToolRequest{
			Name: "_codex_local_wait", Arguments: json.RawMessage(`{"task_id":"` + run + `","format":"json"}`),
		}, true, func(api.ToolProgress) {})
		ended <- called{a, err}
	}()
	await(asked)
	if err := errors.Join(s.leave(), s.serve(ctx)); err != nil {
		t.Fatal(err)
	}
	await(asked)
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
	if got := <-ended; got.error != nil || got.IsError || !strings.Contains(string(got.Text), `"state":"completed"`) {
		t.Errorf("%s, %v", got.Text, got.error)
	}
}

// Without a responder a call was not carried out, so it is made once there is one. A call that changes
// something is not repeated if its answer is lost.
func TestALostCallIsRepeatedOnlyIfThatDoesNoHarm(t *testing.T) {
	s := begin(t)
	ctx := t.Context()
	b, err := s.server.Connect(bus.WithPatience(ctx, fixture.Patience/2), embedded.OperatorUser, names, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	c := client.New(b)
	defer c.Close()
	if err := s.leave(); err != nil {
		t.Fatal(err)
	}
	call := func(tool, args string, repeat bool) chan called {
		done := make(chan called, 1)
		go func() {
			a, err := c.Tool(ctx, api.ToolRequest{Name: tool, Arguments: json.RawMessage(args)}, repeat, nil)
			done <- called{a, err}
		}()
		return done
	}
	before := b.Inside().Stats().InMsgs
	early := call("_codex_local_exec", `{"task":"Which files are here?","workingDir":"/srv"}`, false)
	if !fixture.Poll(fixture.Patience, func() bool { return b.Inside().Stats().InMsgs > before }) {
		t.Fatal("the server does not say that there is no responder")
	}
	if err := s.serve(ctx); err != nil {
		t.Fatal(err)
	}
	if got := <-early; got.error != nil || got.IsError {
		t.Errorf("a task while there is no responder: %s, %v", got.Text, got.error)
	}
	if err := s.leave(); err != nil {
		t.Fatal(err)
	}
	asked := make(chan *nats.Msg, 8)
	silent, err := s.bus.Inside().ChanSubscribe(s.bus.API()+".tool", asked)
	if err := errors.Join(err, s.bus.Inside().FlushTimeout(fixture.Patience)); err != nil {
		t.Fatal(err)
	}
	change, read := call("_codex_local_exec", `{"task":"Lost."}`, false), call("_codex_local_status", `{}`, true)
	<-asked
	<-asked
	if err := silent.Unsubscribe(); err != nil {
		t.Fatal(err)
	}
	address := strings.TrimPrefix(s.server.URL(), "nats://")
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	if got := <-change; code(got.error) != api.OutcomeUnknown {
		t.Errorf("a task that is lost: %s, %v", got.Text, got.error)
	}
	next, err := open(ctx, s.dir, address)
	if err != nil {
		t.Fatal(err)
	}
	*s = *next
	if got := <-read; got.error != nil || got.IsError {
		t.Errorf("a status that is lost: %s, %v", got.Text, got.error)
	}
}
