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
	Unknown Kind = iota // the agent said something that has no meaning here
	TextOutput
	ToolCall
	ToolResult
	Status
	Error
)

var kinds = [...]struct{ name, token string }{
	Unknown:    {"Unknown", "unknown"},
	TextOutput: {"TextOutput", "text_output"},
	ToolCall:   {"ToolCall", "tool_call"},
	ToolResult: {"ToolResult", "tool_result"},
	Status:     {"Status", "status"},
	Error:      {"Error", "error"},
}

// String is the kind's name in the envelope.
func (k Kind) String() string { return kinds[k].name }

// Token is the kind's name in subjects.
func (k Kind) Token() string { return kinds[k].token }

// CompletionToken stands in subjects in the place of a kind's token.
const CompletionToken = "completion"

// Tokens are the tokens of all kinds, the completion's last.
func Tokens() []string {
	var all []string
	for _, k := range kinds {
		all = append(all, k.token)
	}
	return append(all, CompletionToken)
}

// Event is one AgentWrapperEvent. A nil field is null.
type Event struct {
	Kind    Kind
	Channel *string
	Text    *string // TextOutput only
	Message *string // Status and Error only
	Data    []byte  // one JSON value, as it is to be published
}

// The channels in use.
var (
	channelAssistant = "assistant"
	channelReasoning = "reasoning"
	channelStatus    = "status"
	channelError     = "error"
	channelTool      = "tool"
)

// AssistantText is what the agent says to its user.
func AssistantText(text string) Event {
	return Event{Kind: TextOutput, Channel: &channelAssistant, Text: &text}
}

// ReasoningText is what the agent says to itself.
func ReasoningText(text string) Event {
	return Event{Kind: TextOutput, Channel: &channelReasoning, Text: &text}
}

// StatusMessage is a change in the life of the run. Data may be nil.
func StatusMessage(message string, data []byte) Event {
	return Event{Kind: Status, Channel: &channelStatus, Message: &message, Data: data}
}

// ErrorMessage is something that went wrong, terminal or not. The message
// must be safe to show: the agent's own words for its user, or a fixed text.
func ErrorMessage(message string) Event {
	return Event{Kind: Error, Channel: &channelError, Message: &message}
}

// ToolEvent is a tool call's step, described by a facet. Kind is ToolCall or ToolResult.
func ToolEvent(kind Kind, facet Facet) Event {
	return Event{Kind: kind, Channel: &channelTool, Data: facet.append(make([]byte, 0, 352))}
}

// limit enforces the limits of channel, message and data. It reports whether
// the dropped marker took the place of data. A text is split where it is sent.
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

// append appends the envelope of e: the six keys, in the contract's order.
func (e *Event) append(dst []byte, agent string) []byte {
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

// size is about how long the envelope of e will be, for one allocation.
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

// Completion is how a run ended: the last message of its events.
type Completion struct {
	Exit      *runs.Exit // the process's end; nil where there was none, or it is not known
	FinalText *string
	Data      []byte
	Err       string // what kept the run from completing, or ""
}

func (c *Completion) append(dst []byte, agent string) []byte {
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
