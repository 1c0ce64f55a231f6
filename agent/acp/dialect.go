package acp

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/normalizer/scan"
	"github.com/linesman/linesman/normalizer/wire"
	"github.com/linesman/linesman/runs"
)

// Backend is the backend of an agent that prints nothing but the protocol.
type Backend struct {
	Kind string // see [normalizer.Backend]
	Live *Agent
}

// Agent returns the kind.
func (b Backend) Agent() string { return b.Kind }

// Dialect returns the dialect of a new run.
func (b Backend) Dialect() normalizer.Dialect { return &dialect{agent: b.Live} }

// dialect has the conversation of a run, as far as a later line needs it.
type dialect struct {
	agent *Agent
	state

	drift wire.Drift // of the line
	told  runs.Told  // by the line
	lost  bool       // the agent ended before it got the prompt of its turn
	by    string     // who gave the answer in the last line to the agent, and which; for its detail
}

// state is saved. Ids that are too long are not kept.
type state struct {
	Session wire.Thread `json:"session,omitempty"`
	// Heard: the log has the lines to the agent. Else the form of a response tells which request it answers.
	Heard   bool      `json:"heard,omitempty"`
	Pending []request `json:"pending,omitempty"` // of the client, without a response; at most maxPending
	// Replay: the agent may send again what its session had before.
	Replay bool `json:"replay,omitempty"`

	Turns int    `json:"turns,omitempty"` // so far
	Open  bool   `json:"open,omitempty"`  // the last one has not ended
	Echo  uint64 `json:"echo,omitempty"`  // hash of its prompt

	Asks  int        `json:"asks,omitempty"`  // questions so far
	Asked []question `json:"asked,omitempty"` // that are open; at most runs.MaxQuestions
	Ends  bool       `json:"ends,omitempty"`  // the end of the run was requested
	Again bool       `json:"again,omitempty"` // the next prompt is that of the task, which the agent had not got
	Queue runs.Queue `json:"queue,omitzero"`  // messages that wait; with hashes of their texts
	// Commands are hashes of the ids of commands of callers, the newest: a log that was lost has them again. They are as
	// many as the conversation knows.
	Commands []uint64 `json:"changes,omitempty"`
	// Older: the log was lost, and has again what was before Commands, until it has one of these. A new command in that
	// part, of a responder while the owner was away, is not told from old ones: it does not count.
	Older bool `json:"older,omitempty"`

	Calls []toolCall `json:"calls,omitempty"` // the newest; at most maxCalls
	Text  text       `json:"text,omitzero"`

	Mode   string `json:"mode,omitempty"`
	Model  string `json:"model,omitempty"`
	Effort string `json:"effort,omitempty"`

	Spent runs.Usage `json:"spent,omitzero"`  // by the process, or in the turn: see Tokens
	Cost  float64    `json:"cost,omitempty"`  // of the session so far
	Costs bool       `json:"costs,omitempty"` // that is known: a session that is continued has earlier ones
}

// request is a request of the client.
type request struct {
	ID    string `json:"id"`
	For   string `json:"for"`
	Value string `json:"value,omitempty"` // a session, a mode, a model, an effort
}

// What requests are for. Others have no result that counts.
const (
	forHello   = "hello"
	forNew     = "new"
	forOld     = "old" // session
	forPrompt  = "prompt"
	forMode    = "mode"
	forModel   = "model"
	forEffort  = "effort"
	forNothing = ""
)

// Limits of the state.
const (
	maxPending  = 16
	maxCommands = 256
	maxValue    = 256 // bytes of a session that is kept
)

// State implements [normalizer.Dialect].
func (d *dialect) State() ([]byte, error) { return bounds.Encode(d.state) }

// Restore implements [normalizer.Dialect].
func (d *dialect) Restore(b []byte) error { return wire.Restore("acp", b, &d.state) }

// Line implements [normalizer.Dialect].
func (d *dialect) Line(line []byte, out *normalizer.Out) normalizer.Fault {
	m, fault := Read(line)
	if fault != scan.OK {
		return normalizer.Fault(fault)
	}
	if m.Kind == invalid {
		return normalizer.InvalidPayload
	}
	switch m.Kind {
	case Response:
		d.response(&m, out)
	case Request:
		d.asks(&m, out)
	default:
		d.notified(&m, out)
	}
	d.done(out)
	return normalizer.NoFault
}

// done sets the facts that are the same for all lines.
func (d *dialect) done(out *normalizer.Out) {
	if slices.ContainsFunc(d.Asked, func(q question) bool { return q.People || !d.Heard }) {
		out.Facts.Doing = runs.Doing{Phase: runs.AwaitingInput}
	}
	t := &d.told
	if t.Turn > 0 || t.Asked != nil || t.Settled != nil || t.People+t.Mode+t.Model != "" || t.Context != nil ||
		t.Queue != nil {
		out.Facts.Live = new(*t)
	}
	out.Facts.Drift = d.drift
	d.told, d.drift = runs.Told{}, nil
}

// event adds an event after the text before it.
func (d *dialect) event(out *normalizer.Out, e normalizer.Event) {
	d.flush(out)
	out.Event(e)
}

func (d *dialect) status(out *normalizer.Out, message string, data []byte) {
	d.event(out, normalizer.StatusMessage(message, data))
}

func (d *dialect) unknown(out *normalizer.Out) {
	d.flush(out)
	out.Unknown()
}

// notified maps a notification of the agent.
func (d *dialect) notified(m *Message, out *normalizer.Out) {
	switch {
	case m.Method.Equal("session/update"):
		d.update(m, out)
	case m.Method.Equal("$/cancel_request"):
		id := Message{ID: wire.At(m.Params, "requestId")}
		d.withdraw(d.openQuestion(id.RequestID()), "agent", out)
	case bytes.HasPrefix(m.Method.Raw, []byte("_")):
	default:
		d.drift.Add(runs.DriftMethod, "", m.Method)
		d.unknown(out)
	}
}

// session sets the session of the run.
func (d *dialect) session(id string, out *normalizer.Out) {
	if id == "" {
		return
	}
	id = strings.Clone(id)
	if d.Session.Set(id); len(id) > maxValue {
		d.Session = wire.Thread(normalizer.TooLong)
	}
	out.Session, out.Facts.Thread = id, id
}

// foreign reports whether a session is not that of the run, but of a sub-agent.
func (d *dialect) foreign(session string) bool {
	return session != "" && d.Session != "" && session != string(d.Session) && string(d.Session) != normalizer.TooLong
}

// expect remembers a request.
func (d *dialect) expect(m *Message, what string, value scan.Value) {
	if len(d.Pending) == maxPending {
		d.Pending = slices.Delete(d.Pending, 0, 1)
	}
	r := request{ID: strings.Clone(m.RequestID()), For: what}
	if value.Len <= maxValue {
		r.Value = strings.TrimSpace(value.Text())
	}
	d.Pending = append(d.Pending, r)
}

// take removes the request that m answers, and returns it. Without the lines to the agent it is a guess, by the
// form of the response.
func (d *dialect) take(m *Message) (request, bool) {
	if !d.Heard {
		return d.guess(m), true
	}
	id := m.RequestID()
	i := slices.IndexFunc(d.Pending, func(r request) bool { return r.ID == id })
	if i < 0 || m.ID.Kind == scan.Absent || m.ID.Kind == scan.Null {
		return request{}, false
	}
	r := d.Pending[i]
	d.Pending = slices.Delete(d.Pending, i, i+1)
	return r, true
}

// guess returns what a response is to by its form.
func (d *dialect) guess(m *Message) request {
	_, hello := HelloOf(m.Result)
	members := wire.Object(m.Result)
	has := func(key string) bool { return members[key].Kind != scan.Absent }
	switch {
	case m.Failed() && d.Open, StopReason(m.Result) != "":
		return request{For: forPrompt}
	case hello:
		return request{For: forHello}
	case has("sessionId"):
		return request{For: forNew}
	case has("modes"), has("configOptions"):
		return request{For: forOld}
	}
	return request{}
}

// response maps a response of the agent.
func (d *dialect) response(m *Message, out *normalizer.Out) {
	r, known := d.take(m)
	switch {
	case !known:
		d.unknown(out)
	case r.For == forPrompt:
		d.ended(m, out)
	case m.Failed():
		text := m.Failure()
		if wire.Blank(text) {
			text = "the agent refused a request"
		}
		out.Facts.Error, out.Facts.ErrorSource = text, runs.ErrorTop
		d.event(out, normalizer.ErrorMessage(text))
	case r.For == forHello:
		hello, _ := HelloOf(m.Result)
		out.Facts.Version = hello.Version
		d.status(out, "initialized", nil)
	case r.For == forNew, r.For == forOld:
		d.opened(m, r, out)
	case r.For == forMode:
		d.options(session{Mode: r.Value}, out)
	case r.For == forModel:
		d.options(session{Model: r.Value}, out)
	case r.For == forEffort:
		d.options(session{Effort: r.Value}, out)
	}
}

// opened maps the result of a request for a session.
func (d *dialect) opened(m *Message, r request, out *normalizer.Out) {
	s := SessionOf(m.Result)
	id := wire.ID(s.ID)
	if id == "" {
		id = r.Value
	}
	if r.For == forNew {
		d.Cost, d.Costs = 0, true
	} else if id != string(d.Session) {
		d.Costs = false
	}
	d.session(id, out)
	d.chosen(s, out)
	if r.For == forOld {
		d.status(out, "session continued", nil)
	} else {
		d.status(out, "session started", nil)
	}
}

// chosen sets the mode, the model and the effort that a session has, and reports whether one differs.
func (d *dialect) chosen(s session, out *normalizer.Out) (differs bool) {
	for _, c := range []struct {
		from string
		to   *string
		told *string
	}{{s.Mode, &d.Mode, &d.told.Mode}, {s.Model, &d.Model, &d.told.Model}, {s.Effort, &d.Effort, new(string)}} {
		if c.from != "" && c.from != *c.to {
			*c.to, *c.told, differs = c.from, c.from, true
		}
	}
	if d.told.Model != "" {
		out.Facts.Model = d.told.Model
	}
	return differs
}

// options maps a change of the mode, the model or the effort.
func (d *dialect) options(s session, out *normalizer.Out) {
	if !d.chosen(s, out) {
		return
	}
	b := []byte(`{"schema":"backend.options.v1","options":{"mode":`)
	b = appendWord(b, d.Mode)
	b = appendWord(append(b, `,"model":`...), d.Model)
	b = appendWord(append(b, `,"effort":`...), d.Effort)
	d.status(out, "options changed", append(b, "}}"...))
}

// appendWord appends an identifier as JSON, and null for any other text.
func appendWord(dst []byte, s string) []byte {
	for i := range len(s) {
		c := s[i]
		if ('a' > c|0x20 || c|0x20 > 'z') && ('0' > c || c > '9') && strings.IndexByte("._:/@#-[]", c) < 0 {
			return append(dst, "null"...)
		}
	}
	return appendText(dst, s)
}

// appendText appends a text as JSON, and null for none.
func appendText(dst []byte, s string) []byte {
	if s == "" {
		return append(dst, "null"...)
	}
	return bounds.AppendString(dst, s)
}

// turnID is the id of the current turn in facets; "": there is none.
func (d *dialect) turnID() string {
	if !d.Open {
		return ""
	}
	return "synthetic-turn-" + strconv.Itoa(d.Turns)
}
