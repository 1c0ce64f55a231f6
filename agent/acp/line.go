// Package acp is the Agent Client Protocol, version 1: JSON-RPC 2.0, one message a line. It
// reads the lines of both directions.
//
//	line ─▶ Read ─▶ Message ─▶ Hello, Session, Update, Question, Stop: the values that are used
//
// Reading is by allow-list: a value that no function here names does not leave the line. What
// the agents do differently is in [Agent].
package acp

import (
	"bytes"

	"github.com/linesman/linesman/normalizer/scan"
	"github.com/linesman/linesman/normalizer/wire"
	"github.com/linesman/linesman/runs"
)

// Limits of what is read of a line.
const (
	MaxID     = 64  // of the id of a request, in bytes of its JSON
	MaxOption = 128 // of the id of an option, a mode, a model, in bytes
	maxOpts   = 32  // options of a question, modes, models; further ones are not read
)

// kind is what a line is in JSON-RPC.
type kind uint8

// The kinds. Invalid is JSON that is no message, or a request whose id is longer than MaxID.
const (
	invalid kind = iota
	Request
	Notification
	Response
)

// Message is one line. Its values share the memory of the line.
type Message struct {
	Kind   kind
	ID     scan.Value // of a request and a response; a number or a string
	Method scan.Value // of a request and a notification
	Params scan.Value // of the same
	Result scan.Value // of a response; absent: it failed, see [Message.Failure]
	fault  scan.Value // of a response that failed
}

// Read reads a line. The message is valid only if the fault is [scan.OK].
func Read(line []byte) (m Message, fault scan.Fault) {
	var version scan.Value
	fault = scan.Fields(line, map[string]*scan.Value{
		"jsonrpc": &version, "id": &m.ID, "method": &m.Method, "params": &m.Params, "result": &m.Result, "error": &m.fault,
	})
	if fault != scan.OK || !version.Equal("2.0") {
		return m, fault
	}
	id := m.ID.Kind == scan.Number || m.ID.IsString()
	switch {
	case id && len(m.ID.Raw) > MaxID:
	case m.Method.IsString() && id:
		m.Kind = Request
	case m.Method.IsString():
		m.Kind = Notification
	case m.fault.Kind == scan.Object || id && m.Result.Kind != scan.Absent:
		m.Kind = Response
	}
	return m, fault
}

// begins reports whether a line tells that an agent speaks the protocol. It may be the first of a run, so other
// programs that speak JSON-RPC print no such line.
func begins(line []byte) bool {
	if !bytes.Contains(line[:min(len(line), 4<<10)], []byte(`"jsonrpc"`)) {
		return false
	}
	m, fault := Read(line)
	if fault == scan.OK && m.Kind == Response {
		return new(dialect).guess(&m).For != forNothing
	}
	return fault == scan.OK && m.Kind != invalid && bytes.HasPrefix(m.Method.Raw, []byte("session/"))
}

// RequestID returns the id of a request or a response as JSON, for a key or an answer.
func (m *Message) RequestID() string {
	if m.ID.IsString() {
		return `"` + string(m.ID.Raw) + `"`
	}
	return string(m.ID.Raw)
}

// Failure returns the text of an error: its own, or that in its data where its own says nothing.
// It is "" if the message is none.
func (m *Message) Failure() string {
	text := wire.At(m.fault, "message")
	if details := wire.At(m.fault, "data", "details"); details.IsString() && text.Equal("Internal error") {
		text = details
	}
	return text.Text()
}

// Failed reports whether a response is an error.
func (m *Message) Failed() bool {
	return m.Kind == Response && m.fault.Kind != scan.Absent && m.fault.Kind != scan.Null
}

// Code returns the code of an error, 0 if there is none.
func (m *Message) Code() int64 {
	n, _ := wire.At(m.fault, "code").Int()
	return n
}

// hello is the result of `initialize`.
type hello struct {
	Protocol            int64
	Version             string // of the agent, at most MaxOption bytes
	Load, Resume, Close bool   // it offers them
	AddDirs             bool   // a session may have further directories
}

// HelloOf returns the result of a response to `initialize`, false if it is none.
func HelloOf(result scan.Value) (h hello, ok bool) {
	protocol := wire.At(result, "protocolVersion")
	if h.Protocol, ok = protocol.Int(); !ok {
		return h, false
	}
	abilities := wire.At(result, "agentCapabilities")
	sessions := wire.At(abilities, "sessionCapabilities")
	h.Version = short(wire.At(result, "agentInfo", "version"))
	h.Load = wire.True(wire.At(abilities, "loadSession"))
	h.Resume = wire.At(sessions, "resume").Kind == scan.Object
	h.Close = wire.At(sessions, "close").Kind == scan.Object
	h.AddDirs = wire.At(sessions, "additionalDirectories").Kind == scan.Object
	return h, true
}

// session is what a result or an update tells of a session. What it does not tell is "".
type session struct {
	ID            scan.Value
	Mode, Model   string   // at most MaxOption bytes
	Effort        string   // of the same length
	Modes, Models []string // that can be set; at most MaxOpts
}

// SessionOf returns the session in the result of `session/new`, `load` or `resume`, or in an update
// of the mode or the options.
func SessionOf(v scan.Value) (s session) {
	s.ID = wire.At(v, "sessionId")
	modes, models := wire.At(v, "modes"), wire.At(v, "models")
	s.Mode, s.Modes = short(wire.At(modes, "currentModeId")), ids(wire.At(modes, "availableModes"), "id")
	s.Model, s.Models = short(wire.At(models, "currentModelId")), ids(wire.At(models, "availableModels"), "modelId")
	if mode := short(wire.At(v, "currentModeId")); mode != "" {
		s.Mode = mode
	}
	wire.Each(wire.At(v, "configOptions"), func(option scan.Value) {
		value, all := short(wire.At(option, "currentValue")), ids(wire.At(option, "options"), "value")
		switch wire.At(option, "id").View() {
		case "mode":
			s.Mode, s.Modes = value, all
		case "model":
			s.Model, s.Models = value, all
		case "reasoning_effort", "effort", "thought_level":
			s.Effort = value
		}
	})
	return s
}

// ids returns the short texts under a key of the elements of a list.
func ids(list scan.Value, key string) (all []string) {
	wire.Each(list, func(v scan.Value) {
		if id := short(wire.At(v, key)); id != "" && len(all) < maxOpts {
			all = append(all, id)
		}
	})
	return all
}

// short returns a text of at most MaxOption bytes, "" for any other value.
func short(v scan.Value) string {
	if v.Len > MaxOption {
		return ""
	}
	return v.Text()
}

// StopReason returns why a turn ended, "" if v is no result of `session/prompt`.
func StopReason(result scan.Value) string { return short(wire.At(result, "stopReason")) }

// Option is an option of a question.
type Option = runs.Option

// Question is a request that a person, a policy or a time-out answers. The kind of one that is
// none is "".
type Question struct {
	Kind     string // permission, form
	Session  scan.Value
	Tool     string // kind of the tool: execute, edit, read, …; "": not told
	Call     scan.Value
	Command  string // that the tool is to run; "": not told, or Unread
	Unread   bool   // the command is longer than maxCommand, or no text
	Options  []Option
	ToolCall scan.Value // of a permission, as `tool_call` of an update
}

// maxCommand is the maximum length of a command for which rules can be, in bytes.
const maxCommand = 512

// The kinds of questions.
const (
	Permission = runs.WaitsPermission
	Form       = "form"
)

// QuestionOf returns the question in a request. More options than MaxOpts, or one whose id is
// longer than MaxOption, make it unanswerable: it has none then.
func (m *Message) QuestionOf() (q Question) {
	switch {
	case m.Kind != Request:
	case m.Method.Equal("session/request_permission"):
		q.Kind, q.ToolCall = Permission, wire.At(m.Params, "toolCall")
		q.Tool, q.Call = short(wire.At(q.ToolCall, "kind")), wire.At(q.ToolCall, "toolCallId")
		if command := wire.At(q.ToolCall, "rawInput", "command"); command.IsString() && command.Len <= maxCommand {
			q.Command = command.Text()
		} else {
			q.Unread = len(command.Raw) > 0
		}
		whole := true
		wire.Each(wire.At(m.Params, "options"), func(v scan.Value) {
			o := Option{ID: short(wire.At(v, "optionId")), Kind: short(wire.At(v, "kind"))}
			whole = whole && o.ID != "" && len(q.Options) < maxOpts
			q.Options = append(q.Options, o)
		})
		if !whole {
			q.Options = nil
		}
	case m.Method.Equal("elicitation/create") && !wire.At(m.Params, "mode").Equal("url"):
		q.Kind = Form
	}
	q.Session = wire.At(m.Params, "sessionId")
	return q
}

// Update returns the kind of a `session/update` and its object; "" for any other message.
func (m *Message) Update() (kind string, update scan.Value) {
	if m.Kind != Notification || !m.Method.Equal("session/update") {
		return "", update
	}
	update = wire.At(m.Params, "update")
	return short(wire.At(update, "sessionUpdate")), update
}
