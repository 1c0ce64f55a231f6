package normalizer_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/linesman/linesman/agent/codex"
	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/corpus/vectors"
	"github.com/linesman/linesman/test/fixture/backendtest"
)

func TestVectors(t *testing.T) {
	ran := map[string]int{}
	for _, v := range vectors.Load(t) {
		check, known := map[string]func(*testing.T, vectors.Vector){
			"event":      eventVector,
			"lines":      linesVector,
			"agent_kind": agentVector,
		}[v.Op]
		if !known {
			continue // a vector of package bounds
		}
		ran[v.Op]++
		t.Run(v.ID, func(t *testing.T) {
			t.Log(v.Why)
			check(t, v)
		})
	}
	for _, op := range []string{"event", "lines"} { // there are no vectors for agent_kind yet
		if ran[op] == 0 {
			t.Errorf("no vector for %s was run", op)
		}
	}
}

// envelope is an event in a vector.
type envelope struct {
	Kind                   string
	Channel, Text, Message *vectors.String
	Data                   json.RawMessage
	DataJSON               *vectors.String `json:"data_json"`
}

func (e envelope) event(t *testing.T) normalizer.Event {
	out := normalizer.Event{Data: e.Data}
	for kind := normalizer.Unknown; kind <= normalizer.Error; kind++ {
		if kind.String() == e.Kind {
			out.Kind = kind
		}
	}
	if out.Kind.String() != e.Kind {
		t.Fatalf("there is no kind %q", e.Kind)
	}
	out.Channel, out.Text, out.Message = (*string)(e.Channel), (*string)(e.Text), (*string)(e.Message)
	if e.DataJSON != nil {
		data, err := bounds.Encode(json.RawMessage(*e.DataJSON))
		if err != nil {
			t.Fatal(err)
		}
		out.Data = data
	}
	return out
}

// String returns the envelope as JSON.
func (e envelope) String() string {
	b, err := json.Marshal(map[string]any{
		"kind": e.Kind, "channel": e.Channel, "text": e.Text, "message": e.Message, "data": e.Data,
	})
	if err != nil {
		panic(err)
	}
	return string(b)
}

func wanted(events []envelope) []string {
	var out []string
	for _, e := range events {
		out = append(out, e.String())
	}
	return out
}

func eventVector(t *testing.T, v vectors.Vector) {
	var in struct{ Event envelope }
	var out struct{ Events []envelope }
	vectors.Decode(t, v.In, &in)
	vectors.Decode(t, v.Out, &out)
	r := newRun(constant{in.Event.event(t)}, 0)
	r.out(0, "x\n")
	backendtest.Expect(t, "test", r.got, wanted(out.Events)...)
}

func TestFieldsOverTheirLimits(t *testing.T) {
	text := func(s string, n int) *string { s = strings.Repeat(s, n); return &s }
	for _, c := range []struct {
		in   normalizer.Event
		want string
	}{
		{normalizer.Event{Channel: text("c", 128)}, `{"kind":"Unknown","channel":"` + *text("c", 128) + `"}`},
		{normalizer.Event{Channel: text("c", 129)}, `{"kind":"Unknown"}`},
		{normalizer.Event{Channel: text("ß", 65)}, `{"kind":"Unknown"}`}, // bytes count
		{normalizer.Event{Kind: normalizer.Error, Message: text("m", 4096)},
			`{"kind":"Error","message":"` + *text("m", 4096) + `"}`},
		{normalizer.Event{Kind: normalizer.Error, Message: text("m", 4097)},
			`{"kind":"Error","message":"` + *text("m", 4082) + `…(truncated)"}`},
		{normalizer.Event{Data: []byte(`"` + *text("d", 65534) + `"`)},
			`{"kind":"Unknown","data":"` + *text("d", 65534) + `"}`},
		{normalizer.Event{Data: []byte(`"` + *text("d", 65535) + `"`)},
			`{"kind":"Unknown","data":{"dropped":{"reason":"oversize"}}}`},
	} {
		r := newRun(constant{c.in}, 0)
		r.out(0, "x\n")
		backendtest.Expect(t, "test", r.got, c.want)
	}
}

func linesVector(t *testing.T, v vectors.Vector) {
	var in struct{ Lines []vectors.String }
	var out struct{ Events []envelope }
	vectors.Decode(t, v.In, &in)
	vectors.Decode(t, v.Out, &out)
	var log strings.Builder
	for _, line := range in.Lines {
		log.WriteString(string(line) + "\n")
	}
	r := newRun(codex.Backend{}, 0)
	r.out(0, log.String())
	backendtest.Expect(t, "codex", r.got, wanted(out.Events)...)
}

func agentVector(t *testing.T, v vectors.Vector) {
	var in struct {
		AgentKind vectors.String `json:"agent_kind"`
	}
	var out struct{ Valid bool }
	vectors.Decode(t, v.In, &in)
	vectors.Decode(t, v.Out, &out)
	if err := runs.CheckAgent(string(in.AgentKind)); (err == nil) != out.Valid {
		t.Errorf("%q: %v, want valid: %v", in.AgentKind, err, out.Valid)
	}
}

// constant is an agent whose lines all result in the same events.
type constant []normalizer.Event

func (s constant) Agent() string               { return "test" }
func (s constant) Dialect() normalizer.Dialect { return s }
func (s constant) State() ([]byte, error)      { return []byte("{}"), nil }
func (s constant) Restore([]byte) error        { return nil }

func (s constant) Line(_ []byte, out *normalizer.Out) normalizer.Fault {
	for _, e := range s {
		out.Event(e)
	}
	return normalizer.NoFault
}
