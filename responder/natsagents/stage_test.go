package natsagents_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"go.uber.org/zap"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/idempotency"
	"github.com/linesman/linesman/responder/natsagents"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/bustest"
	"github.com/linesman/linesman/test/fixture/servicetest"
)

func TestMain(m *testing.M) { fixture.VerifyGoroutines(m) }

// stage is a server with a responder that announces agents, a worker that has them, and a caller.
type stage struct {
	*servicetest.Streams
	caller  *nats.Conn
	dropped atomic.Int32
	stop    func() // ends the announcements
	again   func() // begins them on another connection
	worker  func() // ends the worker
}

// settings of a stage that differ.
type settings struct {
	natsagents.Config
	lost  time.Duration
	other string        // agent of the worker, beside Codex and Claude Code
	fails *atomic.Int32 // how many reads of output fail next; nil: none
}

// failing are streams of which some reads fail.
type failing struct {
	responder.Streams
	next *atomic.Int32
}

func (f failing) OutputAt(ctx context.Context, agent, run string, kind runs.Kind, offset int64, most int) (
	int64, []byte, error) {
	if f.next.Add(-1) >= 0 {
		return 0, nil, context.DeadlineExceeded
	}
	return f.Streams.OutputAt(ctx, agent, run, kind, offset, most)
}

func newStage(t *testing.T, change func(*settings)) *stage {
	t.Helper()
	s := &stage{Streams: servicetest.New(t)}
	c := settings{lost: time.Minute, Config: natsagents.Config{
		Owner: "ada", Version: "1.2.3", Log: zap.NewNop(), Slots: responder.NewSlots(128),
		Dropped: func() { s.dropped.Add(1) },
	}}
	if change != nil {
		change(&c)
	}
	var streams responder.Streams = s.Bus
	if c.fails != nil {
		streams = failing{streams, c.fails}
	}
	s.Service = responder.New(responder.Config{
		Streams: streams, Queue: bus.DefaultQueue, LostAfter: c.lost, MaxHard: time.Hour,
		Requests: &idempotency.Requests{Store: s.Bus.RequestStore()}, Patience: fixture.Patience,
	})
	servicetest.During(t, "service", s.Service.Run)
	c.Service = s.Service
	s.work(c.lost, c.other)
	s.again = func() {
		names := bus.Names{Prefix: bus.DefaultPrefix}
		b, err := s.Server.Connect(bustest.Patient(t), embedded.ResponderAgentsUser, names, zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		c.Conn = b.Inside()
		s.stop = servicetest.During(t, "agents", func(ctx context.Context) error { return natsagents.Serve(ctx, c.Config) })
	}
	s.caller = s.connect()
	s.again()
	return s
}

// work sends the heartbeats of a worker.
func (s *stage) work(ttl time.Duration, other string) {
	s.worker = servicetest.During(s.T, "worker", func(ctx context.Context) error {
		s.Operator.SendHeartbeats(ctx, ttl, func() runs.Heartbeat {
			return runs.Heartbeat{ID: "w1", Name: "w1", Queue: bus.DefaultQueue, Slots: 4, Busy: 1,
				Agents: []string{"claude_code", "codex", other}}
		})
		return nil
	})
}

func (s *stage) connect() *nats.Conn {
	s.T.Helper()
	const user = embedded.PrompterUser
	nc, err := nats.Connect(s.Server.URL(), nats.UserInfo(user, s.Server.Credentials[user]),
		nats.CustomInboxPrefix(bus.InboxPrefix(user)), nats.MaxReconnects(-1),
		nats.ReconnectWait(50*time.Millisecond), nats.Timeout(fixture.Patience))
	if err != nil {
		s.T.Fatal(err)
	}
	s.T.Cleanup(nc.Close)
	return nc
}

// found waits until as many instances are announced, and returns them.
func (s *stage) found(n int) (all []micro.Info) {
	s.T.Helper()
	fixture.Eventually(s.T, fixture.Patience, fmt.Sprintf("%d instances", n), func() bool {
		all = nil
		for _, m := range s.many("$SRV.INFO.agents", nil, 0) {
			var one micro.Info
			if err := json.Unmarshal(m.Data, &one); err != nil {
				s.T.Fatal(err)
			}
			all = append(all, one)
		}
		return len(all) == n
	})
	return all
}

// many returns the answers to a request: it waits for as many as are due, and then for more that come without a pause.
func (s *stage) many(subject string, body []byte, due int) (all []*nats.Msg) {
	s.T.Helper()
	sub, err := s.caller.SubscribeSync(s.caller.NewInbox())
	if err != nil {
		s.T.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := s.caller.PublishRequest(subject, sub.Subject, body); err != nil {
		s.T.Fatal(err)
	}
	for {
		pause := 200 * time.Millisecond
		if len(all) < due {
			pause = fixture.Patience
		}
		m, err := sub.NextMsg(pause)
		if err != nil || m.Header.Get("Status") == "503" {
			return all
		}
		all = append(all, m)
	}
}

// asked is a prompt, and what comes of it.
type asked struct {
	t    testing.TB
	sub  *nats.Subscription
	seen []string // types of messages, with words
	text strings.Builder
	run  string
	code string // of an error
	body map[string]any
	data map[string]json.RawMessage // the last one of each type
}

func (s *stage) ask(subject, body string) *asked {
	s.T.Helper()
	sub, err := s.caller.SubscribeSync(s.caller.NewInbox())
	if err != nil {
		s.T.Fatal(err)
	}
	if err := s.caller.PublishRequest(subject, sub.Subject, []byte(body)); err != nil {
		s.T.Fatal(err)
	}
	return &asked{t: s.T, sub: sub, data: map[string]json.RawMessage{}}
}

// next reads a message. It returns its type with its word, error, or end.
func (a *asked) next() string {
	a.t.Helper()
	m, err := a.sub.NextMsg(fixture.Patience)
	if err != nil {
		a.t.Fatalf("after %q: %v", a.seen, err)
	}
	what := a.read(m)
	if a.seen = append(a.seen, what); what == "end" {
		if n, _, _ := a.sub.Pending(); n > 0 {
			a.t.Errorf("%d messages after the end", n)
		}
		_ = a.sub.Unsubscribe()
	}
	return what
}

func (a *asked) read(m *nats.Msg) string {
	if len(m.Data) == 0 && len(m.Header) == 0 {
		return "end"
	}
	if code := m.Header.Get(micro.ErrorCodeHeader); code != "" {
		a.code = code
		if err := json.Unmarshal(m.Data, &a.body); err != nil || m.Header.Get(micro.ErrorHeader) == "" {
			a.t.Errorf("error %q: %v", m.Data, err)
		}
		return "error"
	}
	var v struct {
		Type string
		Data json.RawMessage
	}
	if err := json.Unmarshal(m.Data, &v); err != nil {
		a.t.Fatalf("%q: %v", m.Data, err)
	}
	a.data[v.Type] = v.Data
	var word string
	switch v.Type {
	case "response":
		if err := json.Unmarshal(v.Data, &word); err != nil {
			a.t.Fatal(err)
		}
		a.text.WriteString(word)
	case "status":
		_ = json.Unmarshal(v.Data, &word)
		return "status " + word
	case "linesman.run":
		var at struct{ Run string }
		_ = json.Unmarshal(v.Data, &at)
		a.run = at.Run
	}
	return v.Type
}

// until reads on until a message.
func (a *asked) until(what string) *asked {
	a.t.Helper()
	for {
		switch got := a.next(); got {
		case what:
			return a
		case "end":
			a.t.Fatalf("it ended: %q %v", a.seen, a.body)
		}
	}
}

// refused reads a stream that is refused at once.
func (a *asked) refused() (code, what string) {
	a.t.Helper()
	for a.next() != "end" {
	}
	what, _ = a.body["error"].(string)
	return a.code, what
}

const (
	codex  = "agents.prompt.codex.ada.default"
	claude = "agents.prompt.claude-code.ada.default"
)

// play is what a worker does with the run: its output, and its exit.
func (s *stage) play(agent, run, out string, x runs.Exit) {
	s.T.Helper()
	s.Begin(agent, run, runs.Start{Source: "queue", Worker: "w1"}).Out([]byte(out)).End(x)
}

func exit(code int) runs.Exit { return runs.Exit{Reason: runs.ReasonExited, Code: &code} }

// says is a message of Codex, on a line.
func says(text string) string {
	return fmt.Sprintf(`{"type":"item.completed","item":{"id":"i","type":"agent_message","text":%q}}`+"\n", text)
}

const (
	begins = `{"type":"thread.started","thread_id":"01a1fd7b-f84f-78d0-8880-a6cacce2ab1b"}` + "\n" + `{"type":"turn.started"}` + "\n"
	ends   = `{"type":"turn.completed","usage":{"input_tokens":1200,"cached_input_tokens":1000,"cache_write_input_tokens":0,` +
		`"output_tokens":80,"reasoning_output_tokens":20}}` + "\n"
	thread = "01a1fd7b-f84f-78d0-8880-a6cacce2ab1b"
)

// parallel runs something many times at once.
func parallel(n int, do func(int)) {
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { do(i) })
	}
	group.Wait()
}
