package v36

import (
	"encoding/json"
	"errors"
)

// ErrUnknownTool reports an unknown tool name. A surface answers it with its
// own protocol's error; every other mistake is an [Answer].
var ErrUnknownTool = errors.New("unknown tool")

// A Tool is the description of a tool for callers.
type Tool struct {
	Name        string
	Title       string // for people
	Description string // for the model that chooses a tool
	Category    string // of its answers: execution_ack, status_snapshot, …

	// InputSchema is the JSON Schema of the arguments, an object.
	InputSchema json.RawMessage

	// Hints in the terms of MCP's annotations: what a call may do, without a
	// guarantee.
	ReadOnly    bool // changes nothing
	Destructive bool // may overwrite or cancel something
	Idempotent  bool // a repeated call has no further effect
	OpenWorld   bool // reaches beyond this machine
}

// A Schema is the JSON Schema of one category of envelopes, for callers that
// validate answers.
type Schema struct {
	URI         string // linesman://schemas/codex/v3.6/CATEGORY/v1
	Name        string
	Description string
	Body        []byte // application/schema+json
}

// Progress is the progress of a call.
type Progress struct {
	Percent float64 // 0 to 100, never decreasing within a call
	Message string
}

// An Answer is the outcome of a call, successful or not.
type Answer struct {
	// Envelope is the v3.6 envelope as compact JSON or, if requested, the AdCP
	// envelope. It is never empty.
	Envelope []byte

	// JSON means that the caller reads the envelope; otherwise it reads
	// Markdown.
	JSON     bool
	Markdown string

	// IsError means that the envelope has an error. The state of a failed task
	// is not an error, except on AdCP.
	IsError bool
	// Code and Message are those of the error.
	Code, Message string
}

// Text is the representation that the caller reads.
func (a Answer) Text() string {
	if a.JSON {
		return string(a.Envelope)
	}
	return a.Markdown
}
