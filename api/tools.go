package api

import "encoding/json"

// A Tool describes a tool for its callers.
type Tool struct {
	Name        string `json:"name"`
	Title       string `json:"title"`              // for people
	Description string `json:"description"`        // for the model that chooses a tool
	Category    string `json:"category,omitempty"` // of its answers, in the v3.6 contract

	// InputSchema is the JSON Schema of the arguments, an object.
	InputSchema json.RawMessage `json:"inputSchema"`

	Hints
}

// Hints are what a call may do, in the terms of MCP's annotations and without a guarantee.
type Hints struct {
	ReadOnly    bool `json:"readOnly,omitempty"`    // changes nothing
	Destructive bool `json:"destructive,omitempty"` // may overwrite or cancel something
	Idempotent  bool `json:"idempotent,omitempty"`  // a repeated call has no further effect
	OpenWorld   bool `json:"openWorld,omitempty"`   // reaches beyond this machine
}

// The tools that a server of MCP calls itself, to ask the user of its client.
const (
	ToolAgentWait   = "_agent_wait"
	ToolLiveWait    = "_agent_live_wait"
	ToolAgentAnswer = "_agent_answer"
)

// AgentWaitSeconds is how long [ToolAgentWait] and [ToolLiveWait] wait by default.
const AgentWaitSeconds = 300

// Asking is the answer of [ToolAgentWait] and [ToolLiveWait] about a run that has not ended.
type Asking struct {
	*Run
	// Reached says, in the answer of [ToolLiveWait], that what it waits for has come.
	Reached bool `json:"reached,omitempty"`
	// Asked are the open questions of the run, the oldest first, for callers who may answer them.
	Asked    []Question `json:"asked,omitempty"`
	Unlisted int        `json:"unlisted,omitempty"` // questions that do not fit into the message
}

// ToolsRequest is a request for the tools of a responder.
type ToolsRequest struct {
	Set string `json:"set,omitempty"` // agents, live, local, adcp or all; "": all
}

// Tools are the tools of a responder.
type Tools struct {
	Tools []Tool `json:"tools"`
	Also  []Tool `json:"also,omitempty"` // tools that are not announced to clients, but may be called
}

// ToolRequest is a call of a tool. Its answer is a [ToolAnswer].
type ToolRequest struct {
	Name string `json:"name"`
	// Dir is the directory of a task that names none; "": the worker decides. It is no argument: the
	// same arguments are the same request, wherever the caller is.
	Dir string `json:"dir,omitempty"`
	// Progress asks for the progress of the call.
	Progress bool `json:"progress,omitempty"`
	// Patience is how long the caller waits, in seconds: a call that waits for a run answers sooner. 0: as
	// long as the arguments say.
	Patience    int64  `json:"patienceSec,omitempty"`
	Traceparent string `json:"traceparent,omitempty"` // of the caller; "": none

	// Arguments are passed on byte for byte, since a caller gets parts of them back.
	Arguments json.RawMessage `json:"arguments,omitempty"`
}

// ToolProgress is the progress of a call.
type ToolProgress struct {
	Percent float64 `json:"percent"` // 0 to 100, never decreasing within a call
	Message string  `json:"message"`
}

// ToolAnswer is the outcome of a call, successful or not.
type ToolAnswer struct {
	Text    []byte // an envelope or, if not JSON, Markdown
	JSON    bool
	IsError bool // the text describes an error
}

// Media types of the answers of tools.
const (
	TypeJSON     = "application/json"
	TypeMarkdown = "text/markdown"
)
