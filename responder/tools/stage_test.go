package tools_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/linesman/linesman/test/fixture"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/tools"
	v36 "github.com/linesman/linesman/responder/v36"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/servicetest"
)

// stage is a server with its streams, a normalizer and a service, and the tools.
type stage struct {
	*servicetest.Streams
	config responder.Config
	tools  *tools.Set
}

func newStage(t testing.TB, change func(*responder.Config)) *stage {
	t.Helper()
	s := &stage{Streams: servicetest.New(t)}
	s.config = responder.Config{
		Streams: s.Operator, Queue: bus.DefaultQueue, LostAfter: time.Minute, Idle: 5 * time.Minute,
		Hard: 20 * time.Minute, MaxHard: time.Hour, Danger: true, Cause: s.Operator.Cause,
		Patience: fixture.Patience,
	}
	s.serve(t, change)
	return s
}

// serve begins a service with another configuration, and its tools.
func (s *stage) serve(t testing.TB, change func(*responder.Config)) {
	t.Helper()
	if change != nil {
		change(&s.config)
	}
	s.Service = responder.New(s.config)
	servicetest.During(t, "responder", s.Service.Run)
	if err := s.Service.Filled(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.tools = tools.New(s.Service)
}

// streams is the bus of a configuration.
func streams(c *responder.Config) *bus.Bus { return c.Streams.(*bus.Bus) }

// jetstream is a client of the server, for faults.
func (s *stage) jetstream(t *testing.T) jetstream.JetStream {
	t.Helper()
	credentials, err := embedded.LoadCredentials(s.Dir)
	if err != nil {
		t.Fatal(err)
	}
	login, _ := credentials.Logins(s.Server.URL(), embedded.OperatorUser)
	conn, err := nats.Connect(login.URL, nats.UserInfo(login.User, login.Password),
		nats.CustomInboxPrefix(bus.InboxPrefix(login.User)), nats.Timeout(fixture.Patience))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(fixture.Patience))
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// logs is how many runs have a raw log. The table may get them a moment
// later.
func (s *stage) logs(t *testing.T) int {
	t.Helper()
	stream, err := s.jetstream(t).Stream(t.Context(), s.Operator.Raw())
	if err != nil {
		t.Fatal(err)
	}
	info, err := stream.Info(t.Context(), jetstream.WithSubjectFilter(">"))
	if err != nil {
		t.Fatal(err)
	}
	return len(info.State.Subjects)
}

// answer is an envelope that was checked, and the text beside it.
type answer struct {
	v36.Answer
	Status string
	Meta   map[string]any
	Data   map[string]any
	Error  struct {
		Code      string
		Message   string
		Details   map[string]any
		Retryable bool
		Duration  int64 `json:"duration_ms"`
	}
}

// largest is more than any answer can be.
const largest = 16 << 20

// ask calls a tool, and checks what holds for every answer.
func ask(t testing.TB, d *tools.Set, tool string, args string) answer {
	t.Helper()
	got, err := d.Call(t.Context(), tool, json.RawMessage(args), nil)
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	return check(t, tool, got)
}

// start calls a tool that waits; end is its answer.
func start(ctx context.Context, t testing.TB, d *tools.Set, tool, args string,
	progress func(v36.Progress)) (end func() answer) {
	type result struct {
		v36.Answer
		err error
	}
	done := make(chan result, 1)
	go func() {
		a, err := d.Call(ctx, tool, json.RawMessage(args), progress)
		done <- result{a, err}
	}()
	return func() answer {
		t.Helper()
		r := <-done
		if r.err != nil {
			t.Fatalf("%s: %v", tool, r.err)
		}
		return check(t, tool, r.Answer)
	}
}

func check(t testing.TB, tool string, got v36.Answer) answer {
	t.Helper()
	a := answer{Answer: got}
	if err := json.Unmarshal(got.Envelope, &a); err != nil {
		t.Fatalf("%s: the envelope is no JSON: %v", tool, err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, got.Envelope); err != nil || !bytes.Equal(compact.Bytes(), got.Envelope) {
		t.Errorf("%s: the envelope is not compact", tool)
	}
	if len(got.Envelope) > largest || len(got.Text()) > largest {
		t.Errorf("%s: an answer of %d and %d bytes", tool, len(got.Envelope), len(got.Text()))
	}
	if !got.JSON && !strings.HasPrefix(got.Text(), "#") {
		t.Errorf("%s: the text is no markdown page: %.80q", tool, got.Text())
	}
	if got.IsError != (a.Status == "error") {
		t.Errorf("%s: IsError is %v, and the status %q", tool, got.IsError, a.Status)
	}
	if want := `{"version":"3.6","schema_id":"codex/v3.6/`; !strings.HasPrefix(string(got.Envelope), want) {
		t.Errorf("%s: the envelope begins with %.60s", tool, got.Envelope)
	}
	instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(got.Envelope))
	if err != nil {
		t.Fatal(err)
	}
	if err := schemaOf(t, tool).Validate(instance); err != nil {
		t.Errorf("%s: the answer does not fit its schema: %v\n%s", tool, err, got.Envelope[:min(len(got.Envelope), 4000)])
	}
	// Optional members of the contract that linesman could only invent.
	for _, name := range []string{"estimated_start_ms", "expected_duration", "artifacts"} {
		if bytes.Contains(got.Envelope, []byte(`"`+name+`":`)) {
			t.Errorf("%s: the answer has %s", tool, name)
		}
	}
	return a
}

// schemas are the compiled ones, by URI.
var schemas = sync.OnceValues(func() (map[string]*jsonschema.Schema, error) {
	c := jsonschema.NewCompiler()
	for _, s := range v36.Schemas() {
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(s.Body))
		if err != nil {
			return nil, err
		}
		if err := c.AddResource(s.URI, doc); err != nil {
			return nil, err
		}
	}
	all := map[string]*jsonschema.Schema{}
	for _, s := range v36.Schemas() {
		compiled, err := c.Compile(s.URI)
		if err != nil {
			return nil, err
		}
		all[s.URI] = compiled
	}
	return all, nil
})

// categories are those of all tools, by name. To describe a tool takes longer
// than to call it.
var categories = sync.OnceValue(func() map[string]string {
	all := map[string]string{}
	for _, tool := range tools.List() {
		all[tool.Name] = tool.Category
	}
	return all
})

func schemaOf(t testing.TB, tool string) *jsonschema.Schema {
	t.Helper()
	all, err := schemas()
	if err != nil {
		t.Fatal(err)
	}
	if category, ok := categories()[tool]; ok {
		return all["linesman://schemas/codex/v3.6/"+category+"/v1"]
	}
	t.Fatalf("no tool %s", tool)
	return nil
}

// args makes a JSON object of pairs.
func args(pairs ...any) string {
	var b strings.Builder
	for i := 0; i < len(pairs); i += 2 {
		v, err := json.Marshal(pairs[i+1])
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(&b, "%s%q:%s", map[bool]string{true: ","}[i > 0], pairs[i], v)
	}
	return "{" + b.String() + "}"
}

// recording is what a real agent printed.
func recording(t testing.TB, name string) (out, err []byte) {
	t.Helper()
	return servicetest.Recording(t, name+".jsonl"), servicetest.Recording(t, name+".stderr")
}

// play makes a run of a recording.
func (s *stage) play(t testing.TB, id, name string, code int) {
	t.Helper()
	out, stderr := recording(t, name)
	s.Begin("codex", id, runs.Start{Source: "run", Attributes: runs.Attributes{Dir: "/home/dev/project"},
		Worker: "w1"}).Out(out).Err(stderr).Exit(code)
}

// submitted is the id of a task that a tool has just put on the queue.
func submitted(t testing.TB, a answer) string {
	t.Helper()
	id, _ := a.Data["task_id"].(string)
	if a.IsError || id == "" {
		t.Fatalf("not submitted: %s", a.Envelope)
	}
	return id
}
