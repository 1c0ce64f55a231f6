package runs

// Facts is the information in one line of output for the run record. It does
// not include the events. A backend fills it in; [Record.Line] folds it.
type Facts struct {
	Malformed  bool      // the line could not be parsed
	Unknown    bool      // the line was parsed, but its type is unknown
	Drift      []Unknown // what in the line is unknown, its type too
	Log        bool      // the line is of the log of a session, which has a person's prompts
	Asks       asks      // whether the agent asks for permissions, if the line tells it
	Dir        string    // working directory of the session, if the line tells it
	Version    string    // version of the agent, if the line tells it
	Model      string    // model of the agent, if the line tells it; of any form
	Title      string    // what the session is for, or a prompt of its user, if the line has one; truncated
	Named      bool      // Title is a name that the session got: it replaces an earlier title
	At         int64     // when the line was written, Unix milliseconds, if the line of a session log tells it
	Doing      Doing     // what the agent is doing since this line, without NextAt; Phase "": see foldDoing
	NextIn     int64     // with Doing: milliseconds from the line to the next attempt; 0: see NextAt
	NextAt     int64     // with Doing: next attempt, Unix milliseconds; 0: unknown
	Thread     string    // thread id in the line, or ""
	ForkedFrom string    // thread of which it is a copy, if the line tells it
	Turn       Turn      // state change of a turn
	MustEnd    bool      // with TurnStarted: the agent always prints a line that ends the turn
	Answered   bool      // the turn has completed, if neither a call nor another turn follows: no line will tell it
	Used       *Account  // what the thread has used so far, as the agent tells it
	Before     *Account  // with Used: what it had used when this part of it began, if the lines tell it
	Counts     counts    // what Used counts
	Spent      *Usage    // usage since the last line with one, without that of sub-agents
	SpentAll   *Usage    // the same with that of sub-agents
	SpentCost  *float64  // cost since the last line with one, in US dollars
	Tasks      *int      // number of tasks in the background, if the line tells it
	TasksBegun int       // how many more of them there are since the line
	Delegates  bool      // a sub-agent was started
	Untold     bool      // the agent makes requests to the model that no line tells
	Opened     Call      // newest tool call that started; none if its ID is ""
	Closed     string    // id of the newest tool call that ended, or ""
	Cloud      *Cloud    // update of a cloud task
	Live       *Told     // what the line tells of the conversation of a live run, or nil

	Resumed   bool      // the agent does not wait for an answer any more, and goes on with the call that is open
	Step      bool      // an item ended that is not a tool call or a to-do list
	Todo      *Todo     // the current to-do list, or nil
	Activity  string    // current activity, for people; truncated
	Edits     []Edit    // file changes that were made
	MoreEdits int       // number of file changes that Edits does not list
	Command   *Findings // findings in the output of a command

	Error       string // error message; truncated
	ErrorSource ErrorSource

	opened []Call   // those before Opened
	closed []string // those before Closed
}

// Open adds a tool call that started, if it has an id. A line has few: its backend bounds them.
func (f *Facts) Open(c Call) {
	if c.ID == "" {
		return
	}
	if f.Opened.ID != "" {
		f.opened = append(f.opened, f.Opened)
	}
	f.Opened = c
}

// Close adds a tool call that ended, if it has an id. A line has few: its backend bounds them.
func (f *Facts) Close(id string) {
	if id == "" {
		return
	}
	if f.Closed != "" {
		f.closed = append(f.closed, f.Closed)
	}
	f.Closed = id
}

// asks is whether an agent asks its user for permissions.
type asks uint8

// The values of Asks.
const (
	asksUnknown asks = iota
	AsksNever        // what is not allowed is refused, or all is allowed
	AsksPerhaps
)

// Turn is a state change of a turn.
type Turn uint8

// The state changes of a turn. TurnCompleted and TurnFailed are terminal.
const (
	TurnNone Turn = iota
	TurnStarted
	TurnCompleted
	TurnFailed
)

// Call is a tool call in progress.
type Call struct {
	ID   string `json:"id"`
	Kind string `json:"kind"`           // type of the item
	Name string `json:"name,omitempty"` // name of the tool, if the agent reports it
	At   int64  `json:"at"`             // start time, Unix milliseconds

	Shown string `json:"shown,omitempty"` // fixed name of the tool for people, if it is not Name; in Doing
	Phase Phase  `json:"phase,omitempty"` // what the agent is doing during the call, if not RunningTool
}
