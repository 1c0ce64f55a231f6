package runs

import "github.com/linesman/linesman/bounds"

// Phase is what an agent is doing, as far as its lines say so.
type Phase string

// The phases. "" is unknown.
const (
	Starting      Phase = "starting"           // the agent was started, and has not printed a line that tells more
	Thinking      Phase = "thinking"           // the model is asked, or reasons
	RunningTool   Phase = "running"            // a tool runs: see Doing.Tool
	Writing       Phase = "writing"            // the model writes its answer
	Retrying      Phase = "retrying"           // a request to the model failed, and is tried again
	RateLimited   Phase = "rate-limited"       // the provider of the model refuses requests for now
	Compacting    Phase = "compacting"         // the agent shortens its context
	AwaitingAgent Phase = "waiting-for-agent"  // a sub-agent works
	AwaitingInput Phase = "waiting-for-answer" // the agent asked its user, or waits for a permission
)

// maxDoingTool is the maximum length of the name of a tool, in bytes.
const maxDoingTool = 64

// Doing is what an agent is doing, and since when.
type Doing struct {
	Phase   Phase  `json:"phase"`
	Tool    string `json:"tool,omitempty"`    // with RunningTool: name of the tool, at most 64 bytes
	Attempt int    `json:"attempt,omitempty"` // with Retrying: number of the attempt; 0: unknown
	Of      int    `json:"of,omitempty"`      // with Retrying: most attempts; 0: unknown
	Next    int64  `json:"next,omitempty"`    // with Retrying and RateLimited: next attempt, Unix ms; 0: unknown
	Since   int64  `json:"since,omitempty"`   // Unix milliseconds
}

// foldDoing folds what a line, which was captured at at, says about it. In a fact, Next is
// relative to the line, in milliseconds.
func (r *Record) foldDoing(d Doing, at int64) {
	if d.Phase == "" {
		return
	}
	d.Tool = d.Tool[:bounds.Cut(d.Tool, maxDoingTool)]
	d.Since = at
	if d.Next > 0 {
		d.Next += at
	}
	was := r.Doing
	if was.Since = at; was == d { // the same, for longer
		d.Since = r.Doing.Since
	}
	r.Doing = d
}
