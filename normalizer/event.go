package normalizer

import (
	"strconv"

	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/runs"
)

// Kind is the kind of an event.
type Kind uint8

// The kinds of the universal event envelope.
const (
	Unknown Kind = iota // a line of an unknown type
	textOutput
	ToolCall
	ToolResult
	status
	Error
)

var kinds = [...]struct{ name, token string }{
	Unknown:    {"Unknown", "unknown"},
	textOutput: {"TextOutput", "text_output"},
	ToolCall:   {"ToolCall", "tool_call"},
	ToolResult: {"ToolResult", "tool_result"},
	status:     {"Status", "status"},
	Error:      {"Error", "error"},
}

// String returns the name of the kind in the envelope.
func (k Kind) String() string { return kinds[k].name }

// Token returns the name of the kind in NATS subjects.
func (k Kind) Token() string { return kinds[k].token }

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
	Kind    Kind
	Channel *string
	Text    *string // TextOutput only
	Message *string // Status and Error only
	Data    []byte  // one JSON value, published unchanged
}

// The channels in use.
var (
	channelAssistant = "assistant"
	channelReasoning = "reasoning"
	channelStatus    = "status"
	channelError     = "error"
	channelTool      = "tool"
)

// AssistantText returns the event of a text for the user.
func AssistantText(text string) Event {
	return Event{Kind: textOutput, Channel: &channelAssistant, Text: &text}
}

// ReasoningText returns the event of a reasoning text.
func ReasoningText(text string) Event {
	return Event{Kind: textOutput, Channel: &channelReasoning, Text: &text}
}

// StatusMessage returns the event of a status change. Data may be nil.
func StatusMessage(message string, data []byte) Event {
	return Event{Kind: status, Channel: &channelStatus, Message: &message, Data: data}
}

// ErrorMessage returns the event of an error, terminal or not. The message must
// be safe to publish: a message of the agent for its user, or a fixed text.
func ErrorMessage(message string) Event {
	return Event{Kind: Error, Channel: &channelError, Message: &message}
}

// ToolEvent returns the event of a step of a tool call. Kind is ToolCall or
// ToolResult.
func ToolEvent(kind Kind, facet Facet) Event {
	return Event{Kind: kind, Channel: &channelTool, Data: facet.appendJSON(make([]byte, 0, 352))}
}

// limit enforces the limits of channel, message and data. It reports whether
// data was dropped. [Fold.publish] splits a long text.
func (e *Event) limit() (dropped bool) {
	if e.Channel != nil && !bounds.ChannelFits(*e.Channel) {
		e.Channel = nil
	}
	if e.Message != nil && len(*e.Message) > bounds.MaxMessage {
		message := bounds.Message(*e.Message)
		e.Message = &message
	}
	if e.Data != nil && !bounds.DataFits(e.Data) {
		e.Data = []byte(bounds.Dropped)
		dropped = true
	}
	return dropped
}

// appendJSON appends the envelope of e: the six keys, in the order of the contract.
func (e *Event) appendJSON(dst []byte, agent string) []byte {
	dst = append(dst, `{"agent_kind":`...)
	dst = bounds.AppendString(dst, agent)
	dst = append(dst, `,"kind":"`...)
	dst = append(dst, e.Kind.String()...)
	dst = append(dst, `","channel":`...)
	dst = appendOptional(dst, e.Channel)
	dst = append(dst, `,"text":`...)
	dst = appendOptional(dst, e.Text)
	dst = append(dst, `,"message":`...)
	dst = appendOptional(dst, e.Message)
	dst = append(dst, `,"data":`...)
	if e.Data == nil {
		dst = append(dst, "null"...)
	} else {
		dst = append(dst, e.Data...)
	}
	return append(dst, '}')
}

// size estimates the length of the envelope of e, to allocate only once.
func (e *Event) size() int {
	n := 160 + len(e.Data)
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

// Completion is the last message of a run.
type Completion struct {
	Exit      *runs.Exit // exit of the process; nil if there was no process, or if unknown
	FinalText *string
	Data      []byte
	Err       string // error message, or ""
}

func (c *Completion) appendJSON(dst []byte, agent string) []byte {
	dst = append(dst, `{"agent_kind":`...)
	dst = bounds.AppendString(dst, agent)
	dst = append(dst, `,"status":`...)
	if c.Exit == nil {
		dst = append(dst, "null"...)
	} else {
		dst = append(dst, `{"success":`...)
		dst = strconv.AppendBool(dst, c.Exit.Code != nil && *c.Exit.Code == 0)
		dst = append(dst, `,"code":`...)
		if c.Exit.Code == nil {
			dst = append(dst, "null"...)
		} else {
			dst = strconv.AppendInt(dst, int64(*c.Exit.Code), 10)
		}
		dst = append(dst, `,"signal":`...)
		if c.Exit.Signal == 0 {
			dst = append(dst, "null"...)
		} else {
			dst = strconv.AppendInt(dst, int64(c.Exit.Signal), 10)
		}
		dst = append(dst, '}')
	}
	dst = append(dst, `,"final_text":`...)
	dst = appendOptional(dst, c.FinalText)
	dst = append(dst, `,"data":`...)
	if c.Data == nil {
		dst = append(dst, "null"...)
	} else {
		dst = append(dst, c.Data...)
	}
	dst = append(dst, `,"error":`...)
	if c.Err == "" {
		dst = append(dst, "null"...)
	} else {
		dst = append(dst, `{"kind":"backend","message":`...)
		dst = bounds.AppendString(dst, c.Err)
		dst = append(dst, '}')
	}
	return append(dst, '}')
}
