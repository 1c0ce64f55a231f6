package runs

// Facts is what one line of output says about its run, beside the events that
// it becomes. A backend fills it in; the run record folds it.
type Facts struct {
	Malformed bool   // no event could be read from the line
	Unknown   bool   // it was read, but not understood
	Thread    string // id of the thread that the line names, or ""
	Turn      Turn   // what the line says about a turn
	Usage     *Usage // totals of the thread so far
	Opened    Call   // a tool call that began, if its ID is not ""
	Closed    string // id of a tool call that ended, or ""
	Cloud     *Cloud // what it says of a task in the cloud

	Step      bool      // an item ended that is no tool call and no to-do list
	Todo      *Todo     // the to-do list, if the line shows one
	Activity  string    // what began, for people; only its beginning is used
	Edits     []Edit    // changes of files that were made
	MoreEdits int       // others that it does not list
	Command   *Findings // what the output of a command tells

	Error       string // an error message, of which only the beginning is used
	ErrorSource ErrorSource
}

// Turn is what a line says about a turn.
type Turn uint8

// What a line can say about a turn. TurnCompleted and TurnFailed are terminal.
const (
	TurnNone Turn = iota
	TurnStarted
	TurnCompleted
	TurnFailed
)

// Usage counts tokens.
type Usage struct {
	Input           int64 `json:"input_tokens"`
	CachedInput     int64 `json:"cached_input_tokens"`
	CacheWriteInput int64 `json:"cache_write_input_tokens"`
	Output          int64 `json:"output_tokens"`
	ReasoningOutput int64 `json:"reasoning_output_tokens"`
}

// Minus is u without what v counts already; no count falls below zero.
func (u Usage) Minus(v Usage) Usage {
	return Usage{
		Input:           max(u.Input-v.Input, 0),
		CachedInput:     max(u.CachedInput-v.CachedInput, 0),
		CacheWriteInput: max(u.CacheWriteInput-v.CacheWriteInput, 0),
		Output:          max(u.Output-v.Output, 0),
		ReasoningOutput: max(u.ReasoningOutput-v.ReasoningOutput, 0),
	}
}

// Call is a tool call in progress.
type Call struct {
	ID   string `json:"id"`
	Kind string `json:"kind"`           // the item's type
	Name string `json:"name,omitempty"` // the tool's name, where the agent gives one
	At   int64  `json:"at"`             // when it began, Unix milliseconds
}
