package runs

import "github.com/linesman/linesman/bounds"

// Detail is what an event omits and the owner of the run may see: the content of a tool
// call, a plan, a prompt. It is read from RAW on demand and never stored. [Detail.Limit]
// redacts and bounds it.
type Detail struct {
	Prompt    *Excerpted   `json:"prompt,omitempty"`    // of the user or, in a tool call, of a sub-agent
	Command   *Excerpted   `json:"command,omitempty"`   // without the shell that runs it
	Tool      string       `json:"tool,omitempty"`      // name of the tool, if it is not in the event
	Server    string       `json:"server,omitempty"`    // MCP server of the tool
	Arguments *Excerpted   `json:"arguments,omitempty"` // JSON or text
	Output    *Excerpted   `json:"output,omitempty"`    // of a command
	Result    *Excerpted   `json:"result,omitempty"`    // of another tool: JSON or text
	Stderr    *Excerpted   `json:"stderr,omitempty"`    // end of the agent's stderr, or stderr of a command
	ExitCode  *int         `json:"exitCode,omitempty"`  // of a command, if it is not in the event
	Files     []FileDetail `json:"files,omitempty"`     // changed files, at most 50
	MoreFiles int          `json:"moreFiles,omitempty"` // changed files beyond those
	Plan      []PlanStep   `json:"plan,omitempty"`      // the whole to-do list, at most 50 steps
	MoreSteps int          `json:"moreSteps,omitempty"`
	Text      *Excerpted   `json:"text,omitempty"` // what the line shows beside an event, such as a summary
}

// FileDetail is one changed file.
type FileDetail struct {
	Path    string     `json:"path"`
	Kind    string     `json:"kind"`              // added, modified or deleted
	Added   *int       `json:"added,omitempty"`   // lines; nil: the line does not tell
	Removed *int       `json:"removed,omitempty"` // lines
	Diff    *Excerpted `json:"diff,omitempty"`    // if the line contains it
}

// PlanStep is a step of a to-do list.
type PlanStep struct {
	Text  string `json:"text"`
	State string `json:"state"` // pending, active or done
}

// Excerpted is a text, or its beginning and its end.
type Excerpted struct {
	Head    string `json:"head"`
	Tail    string `json:"tail,omitempty"`         // "": Head is all but for Omitted bytes at the end
	Omitted int    `json:"omittedBytes,omitempty"` // between Head and Tail
}

// Whole returns a text without a limit, for [Detail.Limit]. An empty text is nil.
func Whole(text string) *Excerpted {
	if text == "" {
		return nil
	}
	return &Excerpted{Head: text}
}

// Limits of a detail, in bytes of text but for the numbers of elements.
const (
	MaxDetail = 64 << 10 // bytes of JSON of a detail

	maxDetailFiles = 50
	maxDetailSteps = 50
	maxDetailName  = 256
	maxDetailStep  = 400
)

// Limit redacts the texts and enforces the limits. Scrub, unless it is nil, replaces
// secrets in addition.
func (d *Detail) Limit(scrub func(string) string) {
	// TODO(detail)
	_ = scrub
	_ = bounds.MaxText
	_, _, _, _ = maxDetailFiles, maxDetailSteps, maxDetailName, maxDetailStep
}
