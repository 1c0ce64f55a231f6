package natsapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/natsapi"
	v36 "github.com/linesman/linesman/responder/v36"
	"github.com/linesman/linesman/test/fixture"
)

// toolbox is a tool that reads, and a tool that changes.
type toolbox func(
	ctx context.Context, tool string, args json.RawMessage, progress func(v36.Progress),
) (v36.Answer, error)

func (t toolbox) Call(ctx context.Context, tool string, args json.RawMessage, progress func(v36.Progress)) (v36.Answer,
	error) {
	return t(ctx, tool, args, progress)
}

func (toolbox) Named(set string) []v36.Tool {
	if set != "all" {
		return nil
	}
	schema := json.RawMessage(`{"type":"object"}`)
	return []v36.Tool{
		{Name: "reads", Title: "R", Description: "Reads.", Category: "result_set", InputSchema: schema,
			Hints: v36.Hints{ReadOnly: true}},
		{Name: "changes", InputSchema: schema, Hints: v36.Hints{Destructive: true}},
	}
}

func (toolbox) Also(set string) []v36.Tool {
	return []v36.Tool{{Name: "unlisted", InputSchema: json.RawMessage(`{"type":"object"}`)}}
}

// hold serves tools.
func (l *lab) hold(tools toolbox, lease time.Duration) (stop func()) {
	b, listening := l.bus(embedded.ResponderUser), make(chan struct{})
	stop = l.start(func(ctx context.Context) error {
		return natsapi.Serve(ctx, natsapi.Config{Conn: b.Inside(), Root: "linesman.api", Log: zap.NewNop(), Lease: lease,
			Endpoints: natsapi.CallEndpoints(tools), Listening: func() { close(listening) }})
	})
	<-listening
	return stop
}

func TestToolsAreCalledByAClient(t *testing.T) {
	l := newLab(t)
	const args = `{ "b" : "<&>\u003c", "a":1.0, "a": [ ] }`
	large := bytes.Repeat([]byte("0123456789"), bus.MaxAnswer/10) // which a message does not hold
	l.hold(func(ctx context.Context, tool string, got json.RawMessage, progress func(v36.Progress)) (v36.Answer, error) {
		most, bounded := responder.Patience(ctx)
		switch {
		case tool == "none":
			return v36.Answer{}, v36.ErrUnknownTool
		case strings.HasPrefix(string(got), `["larger"`):
			return v36.Answer{Envelope: append(large, large...), JSON: true}, nil
		case tool == "changes":
			return v36.Answer{Envelope: []byte(`{}`), Markdown: fmt.Sprint("no ", string(got), most), IsError: true,
				Code: "VALIDATION"}, nil
		case string(got) != args || bounded || responder.TraceparentOf(ctx) == "":
			return v36.Answer{Envelope: []byte("?"), JSON: true}, nil
		}
		for i := range 3 {
			progress(v36.Progress{Percent: float64(i) / 2, Message: "<" + strings.Repeat("m", i)})
		}
		return v36.Answer{Envelope: large, JSON: true}, nil
	}, 0)
	c := client.New(l.bus(embedded.OperatorUser))
	all, err := c.Tools(t.Context(), "all")
	list := all.Tools
	if err != nil || len(list) != 2 || list[0].Category != "result_set" || !list[0].ReadOnly || list[1].ReadOnly ||
		!list[1].Destructive || len(all.Also) != 1 || all.Also[0].Name != "unlisted" || string(list[0].InputSchema) != `{"type":"object"}` || list[0].Description != "Reads." {
		t.Errorf("tools: %+v, %v", list, err)
	}
	if _, err := c.Tools(t.Context(), "none"); !api.Is(err, api.Validation) {
		t.Errorf("another set: %v", err)
	}
	told := ""
	q := api.ToolRequest{Name: "reads", Arguments: json.RawMessage(args),
		Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
	a, err := c.Tool(t.Context(), q, true, func(p api.ToolProgress) { told += fmt.Sprint(p.Percent, p.Message, " ") })
	if err != nil || !a.JSON || a.IsError || !bytes.Equal(a.Text, large) || told != "0< 0.5<m 1<mm " {
		t.Errorf("%d bytes, %v, progress %q", len(a.Text), err, told)
	}
	a, err = c.Tool(t.Context(), api.ToolRequest{Name: "changes", Patience: 7}, false, nil)
	if err != nil || a.JSON || !a.IsError || string(a.Text) != "no {}7s" {
		t.Errorf("an error: %s %+v, %v", a.Text, a, err)
	}
	if _, err = c.Tool(t.Context(), api.ToolRequest{Name: "none"}, false, nil); !api.Is(err, api.Validation) {
		t.Errorf("an unknown tool: %v", err)
	}
	q.Arguments = json.RawMessage(`["larger"]`)
	_, err = c.Tool(t.Context(), q, false, nil)
	if !api.Is(err, api.Internal) || !strings.Contains(err.Error(), "ask for less") {
		t.Errorf("an answer that is too large: %v", err)
	}
	if m := l.ask("tool", `[]`); !strings.Contains(string(m.Data), string(api.Validation)) {
		t.Errorf("no request: %s", m.Data)
	}
}

// A caller that gives up ends its call, as one does that was killed: then nobody renews it.
func TestCallEndsWithItsCaller(t *testing.T) {
	l := newLab(t)
	begun, ended := make(chan struct{}), make(chan struct{})
	wait := func(ctx context.Context, _ string, _ json.RawMessage, _ func(v36.Progress)) (v36.Answer, error) {
		begun <- struct{}{}
		<-ctx.Done()
		ended <- struct{}{}
		return v36.Answer{Envelope: []byte("{}"), Markdown: "it ends"}, nil
	}
	stop := l.hold(wait, time.Hour)
	c := client.New(l.bus(embedded.OperatorUser))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := c.Tool(ctx, api.ToolRequest{Name: "reads"}, true, nil)
		done <- err
	}()
	<-begun
	cancel()
	<-ended
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("it was cancelled: %v", err)
	}

	inbox := l.asker.NewInbox()
	sub, err := l.asker.SubscribeSync(inbox)
	if err != nil {
		t.Fatal(err)
	}
	next := func() *nats.Msg {
		t.Helper()
		m, err := sub.NextMsg(fixture.Patience)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	ask := func(verb, body string) {
		t.Helper()
		if err := l.asker.PublishRequest("linesman.api."+verb, inbox, []byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	ask("tool", `{"name":"changes"}`)
	<-begun
	ask(bus.RenewVerb, "")
	if m := next(); m.Header.Get(bus.PartHeader) != bus.HeldPart {
		t.Errorf("it was renewed, and is answered %v %s", m.Header, m.Data)
	}
	go func() { <-ended }()
	stop() // ends it; a call that changes something says what it has done
	if m := next(); m.Header.Get(bus.PartHeader) != "" || string(m.Data) != "it ends" {
		t.Errorf("the responder ends: %v %s", m.Header, m.Data)
	}

	l.hold(wait, 10*time.Millisecond)
	ask("tool", `{"name":"changes"}`)
	<-begun
	<-ended
}
