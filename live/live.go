// Package live is the conversation with an agent that speaks the Agent Client Protocol. It folds the raw log of a
// run to the lines that are due for the agent:
//
//	                  ┌──────────── RAW ◀───────────┐
//	process, out,     │                             │ in, command
//	in, command       ▼                             │
//	             Conversation ─▶ Due: bytes ─▶ worker ─▶ file ─▶ agent
//	                  │                             ▲
//	                  └─▶ Open ─▶ Decide: command ──┘
//
// It is pure: a state is a function of the entries, whoever wrote them, and bytes are due until the log has
// them. So a worker that is killed at any point is followed by one that goes on with the next byte: no line is
// lost, and none is sent twice. What an agent prints makes a line due only if the protocol allows it: one answer
// to each request, one prompt at a time.
//
// A due line is an item of a queue, rendered when it is asked for. How the lines of prompts and sessions are rendered
// is therefore part of the format of the log: only these can be longer than an entry.
package live

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"

	"github.com/linesman/linesman/agent/acp"
	"github.com/linesman/linesman/runs"
)

// Config is what a conversation is about. All workers of a run must give the same.
type Config struct {
	Agent   acp.Agent
	Task    runs.Task
	Version string // of linesman
	Always  bool   // see [runs.Start]
}

// Conversation is a conversation up to some entry of the raw log. It is not safe for concurrent use.
type Conversation struct {
	config Config
	s      state
	lines  joiner
	head   []byte // the first line that is due; nil: not rendered
}

// state is what a conversation knows. Its JSON has a bound, which tests hold.
type state struct {
	V    int    `json:"v"`
	Seq  uint64 `json:"seq"`            // of the last entry
	Out  int64  `json:"out,omitempty"`  // bytes of output
	Sent int64  `json:"sent,omitempty"` // bytes for the agent
	// Prompted is Sent behind the last prompt.
	Prompted int64  `json:"prompted,omitempty"`
	Part     int    `json:"part,omitempty"` // bytes that the log has of the first line that is due
	Due      []item `json:"due,omitempty"`  // further ones follow at the end

	Process int     `json:"process,omitempty"`
	Alive   bool    `json:"alive,omitempty"`
	Auth    string  `json:"auth,omitempty"`
	Next    int64   `json:"next,omitempty"`  // id of the next request
	Await   []item  `json:"await,omitempty"` // requests without a response
	Closes  bool    `json:"closes,omitempty"`
	Resumes bool    `json:"resumes,omitempty"` // it continues a session
	Loads   bool    `json:"loads,omitempty"`   // it does, and sends all of it again
	Session string  `json:"session,omitempty"` // of the process before, too
	Mode    string  `json:"mode,omitempty"`    // as the agent told it last, since one was requested
	Has     options `json:"has,omitzero"`      // what the agent confirmed last
	Wants   options `json:"wants,omitzero"`    // what people chose, the mode as that of a run; "": as the task
	Ready   bool    `json:"ready,omitempty"`
	Sleeps  bool    `json:"sleeps,omitempty"` // the process is to end, and the run goes on
	Again   bool    `json:"again,omitempty"`  // the agent had not got the prompt of the task
	Starts  int     `json:"starts,omitempty"` // of processes, since a turn

	Turn      int    `json:"turn,omitempty"`
	Running   bool   `json:"running,omitempty"`   // from when the prompt is due to its response
	Cancelled bool   `json:"cancelled,omitempty"` // the turn that runs
	Fault     string `json:"fault,omitempty"`     // why the turn was cancelled, if that makes it a failed one
	Limit     string `json:"limit,omitempty"`
	Asked     int    `json:"asked,omitempty"` // requests of the agent since a turn began or ended
	Calls     []call `json:"calls,omitempty"` // the tool calls that are open, at most maxCalls

	Numbered int        `json:"numbered,omitempty"` // questions of the run
	Open     []question `json:"open,omitempty"`     // at most runs.MaxQuestions
	Commands []uint64   `json:"commands,omitempty"` // the last maxCommands of callers; see remember
	Decided  []decision `json:"decided,omitempty"`  // the last ones; see keep

	Automatic []uint64 `json:"automatic,omitempty"` // the last maxAutomatic other commands

	Queue runs.Queue `json:"queue,omitzero"` // of a run that goes on after a turn
	Ends  bool       `json:"ends,omitempty"` // with the turn that runs
	Last  ending     `json:"last,omitempty"` // how the last turn ended
	Spent runs.Usage `json:"spent,omitzero"` // by the process, if the agent tells that

	Outcome *outcome `json:"outcome,omitempty"`
}

// Limits of a conversation.
const (
	maxLine  = runs.MaxLiveLine // of a longer one only id and method are read
	maxState = 64 << 10         // of a state as JSON, in bytes

	maxAsked    = 1000    // requests in a turn: more cancel it, and twice as many end the conversation
	maxCalls    = 64      // tool calls: the oldest is forgotten
	maxChanged  = 8 << 10 // bytes of the paths that calls change
	maxCommands = 256
	maxStarts   = 3 // of processes without a turn

	maxAutomatic = 64 // commands: more than can be of the questions that are open
)

const version = 1

// New returns the conversation before the first entry.
func New(config Config) *Conversation {
	return &Conversation{config: config, s: state{V: version}}
}

// State returns the state as JSON, at most maxState bytes. It is nil where none can be taken: within a line of the
// agent, or if more lines are due, messages wait, or files are asked about, than fit. The last one is then still good,
// with the entries after it.
func (c *Conversation) State() []byte {
	if c.lines.unfinished() {
		return nil
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(c.s); err != nil { // impossible for these types
		panic("live: " + err.Error())
	}
	if b.Len() > maxState {
		return nil
	}
	return b.Bytes()
}

// Seen returns the sequence of the last entry.
func (c *Conversation) Seen() uint64 { return c.s.Seq }

// Apply folds an entry of the raw log with its sequence. Entries come in the log's order; one that was applied
// before has no effect.
func (c *Conversation) Apply(seq uint64, e runs.Entry) {
	if seq <= c.s.Seq {
		return
	}
	c.s.Seq = seq
	switch e.Kind {
	case runs.Proc:
		c.process(e.Body)
	case runs.Out:
		c.lines.add(c, place{seq, e.Offset}, e.Body)
	case runs.Sent:
		c.sent(e.Offset, e.Body)
	case runs.Ordered:
		c.command(e.Body)
	case runs.Cancelled:
		c.end()
		c.stop(outcome{State: turnCancelled})
	case runs.Exited:
		c.s.Ends = true
		c.died(false)
	}
	c.change()
}

// Status is what the limits of a conversation depend on.
type Status struct {
	Process int    // number of the last process; 0: none
	Alive   bool   // it has started, and not ended
	Ready   bool   // its session can take a prompt, or has
	Turn    int    // number of the last turn; 0: none
	Running bool   // it has not ended
	Stopped bool   // it was cancelled
	Asking  bool   // a question is open
	Calling bool   // a tool call is open
	Idle    bool   // it waits for a message
	Sleeps  bool   // its process is to end before the run: there is nothing to do for it, or it has failed
	Asleep  bool   // no process is there, and the run goes on
	Lasts   bool   // another process can go on with the session
	Wakes   bool   // it is asleep, and has something to send
	Session string // of the agent; "": it has none yet
}

// Status returns the present status.
func (c *Conversation) Status() Status {
	asleep := c.asleep()
	return Status{
		Process: c.s.Process, Alive: c.s.Alive, Ready: c.s.Ready, Turn: c.s.Turn, Running: c.s.Running,
		Stopped: c.s.Cancelled, Asking: len(c.s.Open) > 0, Calling: len(c.s.Calls) > 0,
		Idle: c.config.Task.Keep && c.s.Outcome == nil && !c.s.Running && c.s.Queue.Next() == nil &&
			(c.s.Ready && len(c.s.Due) == 0 && !c.chooses() || c.s.Sleeps || asleep && !c.s.Again),
		Lasts: c.continues(), Sleeps: c.s.Sleeps, Asleep: asleep, Wakes: asleep && (c.s.Again || c.s.Queue.Next() != nil),
		Session: c.s.Session,
	}
}

// asleep reports whether the process has ended, and the run goes on.
func (c *Conversation) asleep() bool { return c.s.Process > 0 && !c.s.Alive && c.s.Outcome == nil }

// continues reports whether another process can go on with the session.
func (c *Conversation) continues() bool {
	s := &c.s
	return c.config.Task.Keep && s.Session != "" && (s.Resumes || s.Loads) && !c.config.Agent.Forgets
}

// ending is how a run ends as far as the conversation knows.
type ending string

// The endings. With NoSession no turn was possible; with Interrupted the process ended first.
const (
	TurnCompleted ending = "completed"
	TurnFailed    ending = "failed"
	turnCancelled ending = "cancelled"
	NoSession     ending = "session"
	Interrupted   ending = "interrupted"
)

// outcome is how a run ended: as its last turn.
type outcome struct {
	State ending `json:"state"`
	Why   string `json:"why,omitempty"`   // for people, with nothing that the agent wrote
	Limit string `json:"limit,omitempty"` // the limit that was reached
}

// Ended returns the outcome, nil if there is none yet. If over is true the agent gets nothing further: its process
// is to be ended. Else some lines are due, or the agent closes the session: the worker ends the process if that
// takes too long.
func (c *Conversation) Ended() (outcome *outcome, over bool) { return c.s.Outcome, c.over() }

// over reports whether the agent gets nothing further. What it asks then has no effect.
func (c *Conversation) over() bool {
	return (c.s.Outcome != nil || c.s.Sleeps) && len(c.s.Due) == 0 && !c.expects(doClose)
}

// process folds the start or the end of a process.
func (c *Conversation) process(body []byte) {
	var p runs.Process
	if json.Unmarshal(body, &p) != nil {
		return
	}
	switch s := &c.s; {
	case p.Do == runs.ProcessEnd && p.N == s.Process:
		c.died(p.Unsent)
	case p.Do == runs.ProcessStart && p.N > s.Process:
		if s.Alive {
			c.died(false)
		}
		if s.Outcome == nil {
			s.Process, s.Alive, s.Auth, s.Next, s.Spent = p.N, true, p.Auth, 0, runs.Usage{}
			s.Closes, s.Mode, s.Has, s.Ready = false, "", options{}, false
			s.Starts++
			c.call(doInitialize, "")
		}
	}
}

// died ends the process: its questions are withdrawn, and nothing is due for it. Unsent says that it had not got the
// prompt of its turn.
func (c *Conversation) died(unsent bool) {
	s := &c.s
	if s.Process > 0 && s.Outcome == nil {
		c.leave(unsent)
	}
	s.Alive, s.Ready, s.Sleeps, s.Running, s.Cancelled, s.Asked = false, false, false, false, false, 0
	s.Due, s.Part, s.Await, s.Open, s.Calls, c.head = nil, 0, nil, nil, nil, nil
	c.lines.reset()
}

// leave folds the end of a process before that of the run.
func (c *Conversation) leave(unsent bool) {
	s := &c.s
	switch {
	case !c.continues() || s.Ends || s.Running && s.Fault != "":
		why := cmp.Or(s.Fault, "the agent ended before its turn did")
		s.Outcome = &outcome{State: Interrupted, Why: why, Limit: s.Limit}
	case unsent:
		if s.Again = s.Queue.Sent == nil; slices.ContainsFunc(s.Due, item.prompts) {
			s.Turn-- // no line of the log begins it
		}
		s.Queue.Unsent()
	case s.Running:
		s.Last, s.Starts = Interrupted, 0
		s.Queue.Ended(false)
	case s.Sleeps: // nothing was to be sent
		s.Starts = 0
	}
	if s.Starts >= maxStarts && s.Outcome == nil {
		s.Outcome = &outcome{State: NoSession, Why: "the agent ended again and again before it took a message"}
	}
}

// Unsent reports whether a process that has taken the first fed bytes of all in the log has not got the prompt of the
// turn that runs, or of the first one.
func (c *Conversation) Unsent(fed int64) bool {
	s := &c.s
	return s.Turn == 0 || s.Again ||
		s.Running && !s.Cancelled && (fed < s.Prompted || slices.ContainsFunc(s.Due, item.prompts))
}

// Stays reports whether the run goes on when its process ends now.
func (c *Conversation) Stays(unsent bool) bool {
	after := Conversation{config: c.config, s: c.s}
	after.s.Queue.Messages = slices.Clone(c.s.Queue.Messages)
	after.died(unsent)
	return after.s.Outcome == nil
}
