package api

import (
	"encoding/json"

	"github.com/linesman/linesman/runs"
)

// Output is what an agent printed, or why it is left out.
type Output struct {
	Omitted   Omitted `json:"omitted,omitempty"` // why the output is missing; "": it is included
	Stdout    string  `json:"stdout,omitempty"`  // UTF-8; if cut, its beginning and its end
	Stderr    string  `json:"stderr,omitempty"`
	Truncated bool    `json:"truncated,omitempty"`
	MaxBytes  int     `json:"maxBytes,omitempty"` // the limit that was asked for
	Size      int64   `json:"size,omitempty"`     // bytes of both streams, if one is cut
}

// Omitted is why there is no output.
type Omitted string

// The reasons.
const (
	NotRequested Omitted = "not_requested"
	Expired      Omitted = "expired" // RAW no longer has it
	NoDiff       Omitted = "no_diff" // Codex Cloud has reported no diff
)

// RecentEvents are the newest events of a run, or only their number.
type RecentEvents struct {
	Included bool              `json:"included"`
	Count    int64             `json:"count"` // of all events of the run
	Items    []json.RawMessage `json:"items,omitempty"`
}

// Partial is the end of what an agent printed before a time limit passed.
type Partial struct {
	Events []json.RawMessage `json:"events"` // the newest ones
	Output string            `json:"output"`
}

// Event is one event of a run.
type Event struct {
	Seq   uint64 `json:"seq"` // sequence number in EVENTS
	Kind  string `json:"kind"`
	Run   string `json:"run,omitempty"`
	Agent string `json:"agent,omitempty"` // kind of the agent
	// Time of the line that the event is from; `times` of the run says what it is.
	At   runs.Time       `json:"time,omitzero"`
	Line uint64          `json:"line,omitempty"` // line of the run's output, from 1; absent: of no line
	Part int             `json:"part,omitempty"` // counts the events of that line, from 1
	Body json.RawMessage `json:"event"`          // the envelope, or a completion
	Meaning
}

// Meaning is what an event means, in a form that is the same for all agents: the event has an agent's
// own names. What does not apply is left out, and all of it for an agent that is not known.
type Meaning struct {
	// Of a call and its result: what the tool does, in the same words for all agents.
	Class    string  `json:"class,omitempty"`
	Subagent bool    `json:"subagent,omitempty"` // the tool runs a sub-agent to its end
	Piece    bool    `json:"piece,omitempty"`    // of a text: the agent prints messages in pieces, and this is one
	Tokens   *Tokens `json:"tokens,omitempty"`   // tokens that the event counts
}

// Tokens are the tokens that an event counts.
type Tokens struct {
	Input  int64 `json:"input"`  // with those from and to a cache
	Cached int64 `json:"cached"` // of the input, read from a cache
	Output int64 `json:"output"`
	Thread bool  `json:"thread,omitempty"` // of the thread so far; else since the last event with tokens
}

// EventKinds are the kinds of events.
var EventKinds = []string{
	"text_output", "tool_call", "tool_result", "status", "error", "unknown", Completion,
}

// Completion is the kind of the last event of a run.
const Completion = "completion"

// EventPage is some events of a run, or of all runs, in order. A page of all runs may be
// empty although more events are stored: there are none if Next is the sequence that was
// asked for.
type EventPage struct {
	Events []Event `json:"events"`
	Next   uint64  `json:"next"` // `after` of the next page, also where this one is empty
	// No event comes after these: the completion is one of them, lies before them, or has aged out. Never for the
	// events of all runs.
	Done bool `json:"done"`
}

// OutputRequest asks for a part of what an agent printed.
type OutputRequest struct {
	Run    string `json:"run"`
	Stderr bool   `json:"stderr,omitempty"` // else stdout
	Offset int64  `json:"offset,omitempty"` // bytes
	Limit  int    `json:"limit,omitempty"`  // bytes
}

// OutputPart is a part of what an agent printed.
type OutputPart struct {
	Offset int64  `json:"offset"` // of Data; larger than requested if RAW no longer has the bytes before it
	Size   int64  `json:"size"`   // known bytes of the stream
	Data   []byte `json:"data"`
}
