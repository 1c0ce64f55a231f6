package live

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/linesman/linesman/runs"
)

// stage is a raw log, and the conversation that a worker has of it.
type stage struct {
	t      testing.TB
	config Config
	c      *Conversation
	log    []runs.Entry
	out    int64
	asked  map[string]string // methods of the agent's requests by their ids, for the schema
	quick  bool              // lines are not checked by the schema
}

func config() Config {
	task := runs.Task{Prompt: "Go."}
	task.Dir, task.Mode = "/home/dev/project", runs.WorkspaceWrite
	return Config{Task: task, Version: "1.2.3"}
}

// newStage returns a conversation whose first process has started.
func newStage(t testing.TB, config Config) *stage {
	s := &stage{t: t, config: config, c: New(config), asked: map[string]string{}}
	s.entry(runs.Started, []byte("{}"))
	s.process(runs.Process{N: 1, Do: runs.ProcessStart, How: "new"})
	return s
}

func (s *stage) append(e runs.Entry) {
	s.log = append(s.log, e)
	s.c.Apply(uint64(len(s.log)), e)
}

func (s *stage) entry(kind runs.Kind, body []byte)  { s.append(runs.Entry{Kind: kind, Body: body}) }
func (s *stage) process(p runs.Process)             { s.entry(runs.Proc, runs.Encode(p)) }
func (s *stage) order(cmd runs.Command)             { s.entry(runs.Ordered, runs.Encode(cmd)) }
func (s *stage) answer(id, question, option string) { s.order(answerOf(id, question, option)) }

func answerOf(id, question, option string) runs.Command {
	return runs.Command{ID: id, Do: runs.DoAnswer, Question: question, Option: option}
}

// print appends output.
func (s *stage) print(output string) {
	for piece := []byte(output); len(piece) > 0; {
		n := min(len(piece), runs.MaxChunk)
		s.append(runs.Entry{Kind: runs.Out, Offset: s.out, Body: piece[:n]})
		s.out, piece = s.out+int64(n), piece[n:]
	}
}

// say appends lines of the agent.
func (s *stage) say(lines ...string) {
	for _, line := range lines {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if json.Unmarshal([]byte(line), &m) == nil && m.Method != "" {
			s.asked[string(m.ID)] = m.Method
		}
		s.print(line + "\n")
	}
}

// sent is a line that the agent got.
type sent struct {
	ID     json.RawMessage
	Method string
	Params json.RawMessage
	Result json.RawMessage
	Error  json.RawMessage
}

// drain sends what is due, as a worker does, and returns the lines.
func (s *stage) drain() (lines []sent) {
	s.t.Helper()
	var text []byte
	for {
		offset, body := s.c.Due()
		if len(body) == 0 {
			break
		}
		text = append(text, body...)
		s.append(runs.Entry{Kind: runs.Sent, Offset: offset, Body: bytes.Clone(body)})
	}
	for line := range strings.Lines(string(text)) {
		var m sent
		if !strings.HasSuffix(line, "\n") || json.Unmarshal([]byte(line), &m) != nil {
			s.t.Fatalf("no line: %.200q", line)
		}
		if !s.quick {
			s.valid([]byte(line), &m)
		}
		lines = append(lines, m)
	}
	return lines
}

// kinds returns the lines in short: the method of a request, or the id and the outcome of an answer.
func kinds(lines []sent) string {
	var all []string
	for _, m := range lines {
		switch {
		case m.Method != "":
			all = append(all, m.Method)
		case m.Error != nil:
			var e struct{ Code json.Number }
			_ = json.Unmarshal(m.Error, &e)
			all = append(all, string(m.ID)+":"+e.Code.String())
		default:
			var r struct {
				Outcome struct{ Outcome, OptionID string }
				Action  string
			}
			_ = json.Unmarshal(m.Result, &r)
			outcome := r.Outcome.Outcome + r.Action
			if r.Outcome.OptionID != "" {
				outcome = r.Outcome.OptionID
			}
			all = append(all, string(m.ID)+":"+outcome)
		}
	}
	return strings.Join(all, " ")
}

// want compares what is sent now.
func (s *stage) want(want string) {
	s.t.Helper()
	if got := kinds(s.drain()); got != want {
		s.t.Fatalf("sent %q, want %q", got, want)
	}
}

// ended compares the outcome, and whether it is over.
func (s *stage) ended(state ending, over bool) {
	s.t.Helper()
	o, is := s.c.Ended()
	if o == nil || o.State != state || is != over {
		s.t.Fatalf("outcome %+v, over %v; want %s, %v", o, is, state, over)
	}
}

// schemas are the definitions of the protocol by method, and how they end: Request, Notification, Response.
var schemas = sync.OnceValue(func() map[string]*jsonschema.Schema {
	file, err := os.ReadFile("testdata/acp-v1.schema.json")
	if err != nil {
		panic(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(file))
	if err != nil {
		panic(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("acp.json", doc); err != nil {
		panic(err)
	}
	all := map[string]*jsonschema.Schema{
		"client": c.MustCompile("acp.json#/anyOf/1"), "error": c.MustCompile("acp.json#/$defs/Error"),
	}
	for name, def := range doc.(map[string]any)["$defs"].(map[string]any) {
		if method, ok := def.(map[string]any)["x-method"].(string); ok {
			end := "Request"
			for _, other := range []string{"Response", "Notification"} {
				if strings.HasSuffix(name, other) {
					end = other
				}
			}
			all[method+" "+end] = c.MustCompile("acp.json#/$defs/" + name)
		}
	}
	return all
})

// valid checks a line for the agent by the schema of the protocol.
func (s *stage) valid(line []byte, m *sent) {
	s.t.Helper()
	check := func(name string, text []byte) {
		s.t.Helper()
		schema := schemas()[name]
		if schema == nil {
			s.t.Fatalf("the protocol has no %s", name)
		}
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err == nil {
			err = schema.Validate(v)
		}
		if err != nil {
			s.t.Fatalf("%s: %v\n%.300s", name, err, text)
		}
	}
	check("client", line)
	switch {
	case m.Method == "session/set_model": // older than the option, and in no schema
	case m.Method != "" && m.ID == nil:
		check(m.Method+" Notification", m.Params)
	case m.Method != "":
		check(m.Method+" Request", m.Params)
	case m.Error != nil:
		check("error", m.Error)
	default:
		check(s.asked[string(m.ID)]+" Response", m.Result)
	}
}

// restart replaces the conversation by one of another worker, from its state where there is one.
func (s *stage) restart() {
	s.t.Helper()
	saved := s.c.State()
	if saved == nil {
		return
	}
	c, err := restore(s.config, saved)
	if err != nil || len(saved) > maxState {
		s.t.Fatalf("%d bytes: %v", len(saved), err)
	}
	s.c = c
}

const (
	hello   = `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentCapabilities":{"sessionCapabilities":{"close":{}}}}}`
	created = `{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s"}}`
	turned  = `{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}`
	closed  = `{"jsonrpc":"2.0","id":4,"result":{}}`
)

// inTurn returns a stage with a turn that runs.
func inTurn(t testing.TB) *stage {
	s := newStage(t, config())
	s.drain()
	s.say(hello)
	s.drain()
	s.say(created)
	s.want("session/prompt")
	return s
}

// permission returns a request for one.
func permission(id, tool, more string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{` +
		`"toolCallId":"c","kind":"` + tool + `"` + more + `},"options":[{"optionId":"always","kind":"allow_always","name":""},` +
		`{"optionId":"yes","kind":"allow_once","name":""},{"optionId":"no","kind":"reject_once","name":""}]}}`
}

func update(kind, more string) string {
	return `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"` + kind + `",` +
		more + `}}}`
}
