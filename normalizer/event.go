package normalizer

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/normalizer/scan"
	"github.com/linesman/linesman/runs"
)

// eventKind is the kind of an event.
type eventKind uint8

// The kinds of the universal event envelope.
const (
	unknownLine eventKind = iota // a line of an unknown type
	textOutput
	ToolCall
	ToolResult
	status
	errorLine
)

var kinds = [...]struct{ name, token string }{
	unknownLine: {"Unknown", "unknown"},
	textOutput:  {"TextOutput", "text_output"},
	ToolCall:    {"ToolCall", "tool_call"},
	ToolResult:  {"ToolResult", "tool_result"},
	status:      {"Status", "status"},
	errorLine:   {"Error", "error"},
}

// String returns the name of the kind in the envelope.
func (k eventKind) String() string { return kinds[k].name }

// Token returns the name of the kind in NATS subjects.
func (k eventKind) Token() string { return kinds[k].token }

// CompletionToken is the token of the completion in NATS subjects.
const CompletionToken = "completion"

// Tokens returns the tokens of all kinds, and CompletionToken at the end.
func Tokens() []string {
	var tokens []string
	for _, k := range kinds {
		tokens = append(tokens, k.token)
	}
	return append(tokens, CompletionToken)
}

// Event is one AgentWrapperEvent. A nil field becomes null.
type Event struct {
	Kind    eventKind
	Channel *string
	Text    *string // TextOutput only
	Message *string // Status and Error only
	Data    []byte  // one JSON value, published unchanged

	text scan.Value // of the line, in place of Text, or the whole of Message; of kind String
	body []byte     // the envelope, if it is known; Data is a part of it
}

// The channels in use.
var (
	channelAssistant = "assistant"
	channelReasoning = "reasoning"
	channelStatus    = "status"
	channelError     = "error"
	channelTool      = "tool"
	channelSubagent  = "subagent"
)

// AssistantText returns the event of a text for the user.
func AssistantText(text string) Event {
	return Event{Kind: textOutput, Channel: &channelAssistant, Text: &text}
}

// AssistantTextOf is AssistantText for a string of the line.
func AssistantTextOf(text scan.Value) Event {
	return Event{Kind: textOutput, Channel: &channelAssistant, text: text}
}

// ReasoningTextOf is ReasoningText for a string of the line.
func ReasoningTextOf(text scan.Value) Event {
	return Event{Kind: textOutput, Channel: &channelReasoning, text: text}
}

// ReasoningText returns the event of a reasoning text.
func ReasoningText(text string) Event {
	return Event{Kind: textOutput, Channel: &channelReasoning, Text: &text}
}

// SubagentText returns the event of a text of a sub-agent.
func SubagentText(text string) Event {
	return Event{Kind: textOutput, Channel: &channelSubagent, Text: &text}
}

// StatusMessage returns the event of a status change. Data may be nil.
func StatusMessage(message string, data []byte) Event {
	return Event{Kind: status, Channel: &channelStatus, Message: &message, Data: data}
}

// ErrorMessage returns the event of an error, terminal or not. The message must
// be safe to publish: a message of the agent for its user, or a fixed text.
func ErrorMessage(message string) Event {
	return Event{Kind: errorLine, Channel: &channelError, Message: &message}
}

// ErrorMessageOf is ErrorMessage for a string of the line. It also returns the beginning of the
// message, at least as much of it as an event or a record can have.
func ErrorMessageOf(message scan.Value) (e Event, head string) {
	first, rest := message.Cut(bounds.MaxMessage + utf8.UTFMax)
	head = first.Text()
	if e = ErrorMessage(head); rest.Len > 0 {
		e.text = message // for Scrubbed
	}
	return e, head
}

// Tool adds the event of a step of a tool call. Kind is ToolCall or ToolResult.
func (o *Out) Tool(kind eventKind, facet *Facet) {
	from := len(o.data)
	o.data = appendHead(o.data, o.agent, kind)
	o.data = append(o.data, `"tool","text":null,"message":null,"data":`...)
	data := len(o.data)
	o.data = append(facet.appendJSON(o.data), '}')
	end := len(o.data)
	o.events = append(o.events, Event{Kind: kind, Channel: &channelTool})
	if o.observed && kind == ToolResult {
		o.ended = append(o.ended, endedCall{facet.Kind, facet.ToolName, facet.Status})
	}
	e := &o.events[len(o.events)-1]
	e.Data, e.body = o.data[data:end-1:end-1], o.data[from:end:end]
}

// maxToolBytes is how many bytes of tool events a line has, until it is full.
const maxToolBytes = 1 << 20

// Full reports whether the tool events of a line are so long that it gets no more: each of them can repeat an id of
// the line.
func (o *Out) Full() bool { return len(o.data) > maxToolBytes }

// EndedBefore tells that the call whose result was added last had ended before: it is counted once.
func (o *Out) EndedBefore() {
	o.Facts.Closed, o.ended = "", o.ended[:max(len(o.ended)-1, 0)]
}

// limit enforces the limits of channel, message and data. It reports whether
// data was dropped. [Fold.publish] splits a long text.
func (e *Event) limit() (dropped bool) {
	if e.Channel != nil && len(*e.Channel) > bounds.MaxChannel {
		e.Channel = nil
	}
	if e.Message != nil && len(*e.Message) > bounds.MaxMessage {
		message := bounds.Truncate(*e.Message, bounds.MaxMessage)
		e.Message, e.text = &message, scan.Value{}
	}
	if e.Data != nil && len(e.Data) > bounds.MaxData {
		e.Data, e.body = []byte(bounds.Dropped), nil
		dropped = true
	}
	return dropped
}

// appendJSON appends the envelope of e: the six keys, in the order of the contract. The name
// of an agent needs no escapes, see [Backend].
func (e *Event) appendJSON(dst []byte, agent string) []byte {
	if e.body != nil {
		return append(dst, e.body...)
	}
	dst = append(appendOptional(appendHead(dst, agent, e.Kind), e.Channel), `,"text":`...)
	switch {
	case e.text.Kind == scan.Absent:
		dst = appendOptional(dst, e.Text)
	case e.text.Odd:
		dst = bounds.AppendString(dst, e.text.Text())
	default: // as it is written in the line
		dst = append(append(append(dst, '"'), e.text.Raw...), '"')
	}
	dst = appendOptional(append(dst, `,"message":`...), e.Message)
	if e.Data == nil {
		return append(dst, `,"data":null}`...)
	}
	return append(append(append(dst, `,"data":`...), e.Data...), '}')
}

// appendHead appends the beginning of an envelope, up to the channel.
func appendHead(dst []byte, agent string, kind eventKind) []byte {
	dst = append(append(append(dst, `{"agent_kind":"`...), agent...), `","kind":"`...)
	return append(append(dst, kind.String()...), `","channel":`...)
}

// size estimates the length of the envelope of e, to allocate only once.
func (e *Event) size() int {
	if e.body != nil {
		return len(e.body)
	}
	n := 160 + len(e.Data) + len(e.text.Raw)
	if e.Text != nil {
		n += len(*e.Text) + len(*e.Text)/16
	}
	if e.Message != nil {
		n += len(*e.Message)
	}
	return n
}

func appendOptional(dst []byte, s *string) []byte {
	if s == nil {
		return append(dst, "null"...)
	}
	return bounds.AppendString(dst, *s)
}

// completion is the last message of a run, in the order of the contract.
type completion struct {
	Agent     string           `json:"agent_kind"`
	Status    *exitStatus      `json:"status"` // of the process; nil if there was no process, or if unknown
	FinalText *string          `json:"final_text"`
	Data      json.RawMessage  `json:"data"`
	Error     *completionError `json:"error"`
}

type exitStatus struct {
	Success bool `json:"success"`
	Code    *int `json:"code"`
	Signal  *int `json:"signal"`
}

type completionError struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

// Facet is the tools facet (agent_api.tools.structured.v1): metadata of a tool
// call without its input and output. An empty string becomes null, except for
// Kind, Phase and Status, which are always set.
type Facet struct {
	ItemID   string // id of the item, from the agent
	ThreadID string
	TurnID   string
	Kind     string // type of the item
	Phase    string // start, delta, complete or fail; no other, as it is written without escapes
	Status   string // pending, running, completed, failed or unknown; no other
	ExitCode *int32
	Bytes    struct{ Stdout, Stderr, Diff, Result int } // lengths of input and output, in decoded bytes
	ToolName string
	UseID    string
}

func (f *Facet) appendJSON(dst []byte) []byte {
	dst = append(dst, `{"schema":"agent_api.tools.structured.v1","tool":{"backend_item_id":`...)
	dst = appendNullable(dst, f.ItemID)
	dst = appendNullable(append(dst, `,"thread_id":`...), f.ThreadID)
	dst = appendNullable(append(dst, `,"turn_id":`...), f.TurnID)
	dst = bounds.AppendString(append(dst, `,"kind":`...), f.Kind)
	dst = append(append(dst, `,"phase":"`...), f.Phase...)
	dst = append(append(dst, `","status":"`...), f.Status...)
	if f.ExitCode == nil {
		dst = append(dst, `","exit_code":null,"bytes":{"stdout":`...)
	} else {
		dst = strconv.AppendInt(append(dst, `","exit_code":`...), int64(*f.ExitCode), 10)
		dst = append(dst, `,"bytes":{"stdout":`...)
	}
	dst = strconv.AppendInt(dst, int64(f.Bytes.Stdout), 10)
	if f.Bytes.Stderr == 0 && f.Bytes.Diff == 0 && f.Bytes.Result == 0 && f.ToolName == "" && f.UseID == "" { // often
		return append(dst, `,"stderr":0,"diff":0,"result":0},"tool_name":null,"tool_use_id":null}}`...)
	}
	dst = strconv.AppendInt(append(dst, `,"stderr":`...), int64(f.Bytes.Stderr), 10)
	dst = strconv.AppendInt(append(dst, `,"diff":`...), int64(f.Bytes.Diff), 10)
	dst = strconv.AppendInt(append(dst, `,"result":`...), int64(f.Bytes.Result), 10)
	dst = appendNullable(append(dst, `},"tool_name":`...), f.ToolName)
	dst = appendNullable(append(dst, `,"tool_use_id":`...), f.UseID)
	return append(dst, "}}"...)
}

// The maximum lengths of ids that a backend may keep between lines, in bytes of
// JSON. A facet with a longer thread id would exceed its limit; turn ids are much
// shorter than their limit. [TooLong] replaces a longer id.
const (
	MaxThread = bounds.MaxData - 256
	MaxTurn   = 8 << 10
)

// TooLong is an id that exceeds the limit of every facet that contains it, so
// that the facet is dropped.
var TooLong = strings.Repeat("x", bounds.MaxData)

func appendNullable(dst []byte, s string) []byte {
	if s == "" {
		return append(dst, "null"...)
	}
	return bounds.AppendString(dst, s)
}

// driftEvent returns the event of the first occurrence of an unknown thing in a run: what
// it is, and the hash of its name. The name stays in the run record.
func driftEvent(agent, version string, t runs.Thing) Event {
	dst := append(make([]byte, 0, 192), `{"schema":"backend.drift.v1","agent":`...)
	dst = bounds.AppendString(dst, agent)
	dst = appendNullable(append(dst, `,"version":`...), version)
	dst = bounds.AppendString(append(dst, `,"what":`...), string(t.What))
	dst = bounds.AppendString(append(dst, `,"name_hash":`...), t.Hash)
	return StatusMessage("drift (redacted): unknown "+string(t.What), append(dst, '}'))
}

// maxSession is the maximum length of the id in a session handle, in bytes.
const maxSession = 1024

// sessionHandle returns the session handle facet (agent_api.session.handle.v1).
func sessionHandle(id string) []byte {
	dst := append(make([]byte, 0, 80+len(id)), `{"schema":"agent_api.session.handle.v1","session":{"id":`...)
	dst = bounds.AppendString(dst, id)
	return append(dst, "}}"...)
}
