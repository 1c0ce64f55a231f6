package v36

import (
	"encoding/json"
	"errors"
)

// ErrUnknownTool reports a tool name that is none of ours. A surface answers
// it with its own protocol's error; every other mistake is an [Answer].
var ErrUnknownTool = errors.New("unknown tool")

// A Tool is what a surface tells its callers about one of the tools.
type Tool struct {
	Name        string
	Title       string // for people
	Description string // for the model that chooses a tool
	Category    string // of its answers: execution_ack, status_snapshot, …

	// InputSchema is the JSON Schema of the arguments, an object.
	InputSchema json.RawMessage

	// Hints to the caller, in the words of MCP's annotations: what a call may
	// do, not what a caller may rely on.
	ReadOnly    bool // changes nothing
	Destructive bool // may overwrite or end something
	Idempotent  bool // the same call again changes nothing more
	OpenWorld   bool // reaches beyond this machine
}

// A Schema is the JSON Schema of one category of envelopes, served to callers
// who want to check what they get.
type Schema struct {
	URI         string // linesman://schemas/codex/v3.6/CATEGORY/v1
	Name        string
	Description string
	Body        []byte // application/schema+json
}

// Progress says how far a call is.
type Progress struct {
	Percent float64 // 0 to 100, never falling within a call
	Message string
}

// An Answer is what a call came to, whether it went well or not.
type Answer struct {
	// Envelope is the v3.6 envelope as compact JSON, or, where that was asked
	// for, that of AdCP. It is always there.
	Envelope []byte

	// JSON says that the envelope is what the caller reads; else it is Markdown.
	JSON     bool
	Markdown string

	// IsError says that the envelope holds an error. A task that failed is none:
	// its state was asked for, and given. On AdCP it is one.
	IsError bool
	// Code and Message are those of the error.
	Code, Message string
}

// Text is what the caller reads.
func (a Answer) Text() string {
	if a.JSON {
		return string(a.Envelope)
	}
	return a.Markdown
}
