package runs

import (
	"encoding/json"
	"slices"
	"strings"
)

// The steps of a process, in [Process].
const (
	ProcessStart = "start"
	ProcessEnd   = "end"
)

// Process is the body of an entry of kind [Proc]: a process of a live run starts, or has ended.
type Process struct {
	N       int    `json:"n"` // from 1
	Do      string `json:"do"`
	How     string `json:"how,omitempty"`     // of a start: new, or resume, which continues a session
	Version string `json:"version,omitempty"` // of the program of the agent
	Auth    string `json:"auth,omitempty"`    // of a start: the method of `authenticate`; "": it is not called

	// Stays says that the run goes on after the end: a message starts the next process. Unsent, that the agent has
	// certainly not got the prompt of the turn that ran: the next process gets it, at once.
	Stays  bool   `json:"stays,omitempty"`
	Unsent bool   `json:"unsent,omitempty"`
	Reason Reason `json:"reason,omitempty"` // of an end, as that of an [Exit], with Code and Signal
	Code   *int   `json:"code,omitempty"`
	Signal int    `json:"signal,omitempty"`
	At     int64  `json:"at,omitempty"` // when that was, Unix milliseconds
}

// What a command does, in [Command].
const (
	DoAsk    = "ask"    // people, who have until Due: no rule of the policy decides the question
	DoAnswer = "answer" // a question
	DoStop   = "stop"   // cancel the turn
	DoEnd    = "end"    // the run, after its turn; what waits is not sent
	DoSet    = "set"    // mode and model, from the next turn on
	DoLimit  = "limit"  // a limit was reached: cancel the turn
	DoSleep  = "sleep"  // end a process that has nothing to do; the next message starts another one
)

// The deciders of a command that is no person's, in [Command].
const (
	ByPolicy  = "policy"
	ByTimeout = "timeout"
	ByLimit   = "limit"
)

// Command is the body of an entry of kind [Ordered]: what somebody asks of a live run. Whether it
// has an effect is decided by what the log has before it.
type Command struct {
	ID   string `json:"id"` // of the command, at most MaxCommandID bytes: a repeated one has no effect; see BehindKey
	Do   string `json:"do"`
	By   string `json:"by"`             // who decided: the name of a token, owner, operator, or one of the above
	Via  string `json:"via,omitempty"`  // the surface
	Rule string `json:"rule,omitempty"` // of a policy; of a limit, its name
	Turn int    `json:"turn,omitempty"` // of stop and limit; from 1; 0: before the first one

	Question string `json:"question,omitempty"` // of ask and answer: q1, q2, …
	Due      int64  `json:"due,omitempty"`      // of ask, Unix milliseconds; 0: never
	// Option is the answer to a permission: the id of an option; to a form: accept or decline. "": the question is
	// closed without an answer.
	Option  string          `json:"option,omitempty"`
	Content json.RawMessage `json:"content,omitempty"` // of a form that is accepted: an object, at most MaxContent

	Text    string `json:"text,omitempty"`    // of send and edit, at most MaxMessage bytes
	When    string `json:"when,omitempty"`    // of send: WhenNow; "": in its turn
	Message string `json:"message,omitempty"` // of edit and unsend: the id of the message

	Mode  Mode   `json:"mode,omitempty"`  // of set; "": as it is
	Model string `json:"model,omitempty"` // of set, at most MaxModel bytes; "": as it is
}

// Automatic reports whether no caller gave the command.
func (c *Command) Automatic() bool {
	return slices.Contains([]string{ByPolicy, ByTimeout, ByLimit}, c.By)
}

// BehindKey is what the id of a command with an idempotency key has between the key and the request, each as a digest.
const BehindKey = "."

// Limits of a command, in bytes.
const (
	MaxCommandID = 64       // of its id
	MaxBy        = 64       // of By and Via
	MaxContent   = 16 << 10 // of Content, as compact JSON
)

// The answers to a form, in [Command.Option].
const (
	Accept  = "accept"
	Decline = "decline"
)

// live is the state of the conversation of a live run, in a [Record].
type live struct {
	Process   int      `json:"process,omitempty"` // number of the newest process
	Awake     bool     `json:"awake,omitempty"`   // it has not ended
	Asleep    bool     `json:"asleep,omitempty"`  // it has, and the next message starts another one
	Turn      int      `json:"turn,omitempty"`    // number of the newest turn, over all processes
	Keep      bool     `json:"keep,omitempty"`    // the run goes on after a turn
	Always    bool     `json:"always,omitempty"`  // see [Start]
	Idle      bool     `json:"idle,omitempty"`    // it is between two turns
	Queue     Queue    `json:"queue,omitzero"`    // messages that wait
	WaitsFor  string   `json:"waits_for,omitempty"`
	Questions []Asked  `json:"questions,omitempty"` // that are open, the oldest first; at most MaxQuestions
	Mode      string   `json:"mode,omitempty"`      // of the agent, at most maxChoice bytes of JSON
	Model     string   `json:"model,omitempty"`     // that is chosen, of the same size
	Context   *Context `json:"context,omitempty"`   // nil: not told
}

// What a live run waits for, in [live]: that people answer the oldest question that is put to them, or send a message.
// "": nothing.
const (
	WaitsPermission = "permission"
	waitsQuestion   = "question" // a form
	WaitsMessage    = "message"
)

// Asked is an open question of an agent.
type Asked struct {
	ID   string `json:"id"`   // q1, q2, …
	Kind string `json:"kind"` // permission or form
	Tool string `json:"tool,omitempty"`
	// Options are all of a permission; none: they are too many or too long for a record.
	Options []Option `json:"options,omitempty"`
	At      int64    `json:"asked"`   // Unix milliseconds
	Seq     uint64   `json:"raw_seq"` // of the entry in which the request ends
	// People says that they are asked, until Due, in Unix milliseconds; 0: for ever. Else the policy decides.
	People bool  `json:"people,omitempty"`
	Due    int64 `json:"due,omitempty"`
	// The line of the request: its offset in the output, and its length without the newline, in bytes.
	Offset int64 `json:"offset"`
	Length int   `json:"length"`
}

// Option is an option of a question.
type Option struct {
	ID   string `json:"id"`
	Kind string `json:"kind"` // allow_once, allow_always, reject_once, reject_always; or unknown
}

// Lasts reports whether an option may hold for longer than the call: it changes settings of the agent itself.
func (o Option) Lasts() bool { return o.Kind != "allow_once" && o.Kind != "reject_once" }

// Context is how much of its context a model has used, in tokens.
type Context struct {
	Used int64 `json:"used"`
	Size int64 `json:"size"`
}

// Told is what a line tells of the conversation of a live run. A zero value tells nothing.
type Told struct {
	Turn        int      // that begins
	Asked       *Asked   // a question, without what the record knows: At, Seq and the line
	People      string   // a question that people are asked, until Due
	Due         int64    // Unix milliseconds; 0: for ever
	Settled     []string // questions that are not open any more
	Outcome, By string   // of the settled ones, as in the event of an answer; "": not told
	Mode, Model string
	Context     *Context
	Queue       *Queue // as it is now; nil: as before
	Changed     string // the message in it whose text is new
	Message     string // what became of a message: queued, sent or removed
}

// MaxQuestions is how many questions of a run may be open. Further ones are rejected.
const MaxQuestions = 10

// MaxLiveLine is the longest line of a conversation, in either direction, in bytes. All that fold it have this limit:
// questions have their numbers by the lines before.
const MaxLiveLine = 8 << 20

// Limits of what a record has of a conversation.
const (
	maxChoice  = 130  // bytes of JSON of a mode, a model
	maxTool    = 34   // bytes of JSON of the kind of a tool
	maxOptions = 1024 // bytes of JSON of all options
)

// foldProcess folds the start or the end of a process. It reports whether the record has it already: a raw log that
// was lost has got it again.
func (r *Record) foldProcess(e Entry) (known bool) {
	var p Process
	if json.Unmarshal(e.Body, &p) != nil {
		return false
	}
	if l := r.Live; l != nil && (p.N < l.Process || p.N == l.Process && (p.Do == ProcessStart || !l.Awake)) {
		return true
	}
	if r.Live == nil {
		r.Live = new(live)
	}
	l := r.Live
	l.Process, l.Awake = max(p.N, l.Process), p.Do == ProcessStart
	l.Asleep = !l.Awake && p.Stays && !p.Unsent
	l.Idle, l.Questions = l.Asleep, nil
	r.setWaits()
	switch {
	case l.Awake:
		r.OpenCalls, r.OldCalls, r.MoreCalls = nil, 0, 0 // of the process before
		r.setDoing(Doing{Phase: starting}, e.Time)
	case l.WaitsFor == WaitsMessage:
		r.setDoing(Doing{Phase: YourTurn}, e.Time)
	default:
		r.Doing = Doing{}
	}
	return false
}

// foldTold folds what a line tells, which was written at at.
func (r *Record) foldTold(t *Told, at int64) {
	if r.Live == nil {
		r.Live = new(live)
	}
	l := r.Live
	l.Turn = max(l.Turn, t.Turn)
	for _, id := range t.Settled {
		if i := slices.IndexFunc(l.Questions, func(q Asked) bool { return q.ID == id }); i >= 0 {
			l.Questions = slices.Delete(l.Questions, i, i+1)
		}
	}
	if t.Asked != nil && len(l.Questions) < MaxQuestions {
		l.ask(*t.Asked, at, r.Seq)
	}
	if i := slices.IndexFunc(l.Questions, func(q Asked) bool { return q.ID == t.People }); i >= 0 {
		l.Questions[i].People, l.Questions[i].Due = true, t.Due
	}
	for _, choice := range []struct{ from, to *string }{{&t.Mode, &l.Mode}, {&t.Model, &l.Model}} {
		if *choice.from != "" && !longJSON(*choice.from, maxChoice) {
			*choice.to = strings.Clone(*choice.from)
		}
	}
	if t.Context != nil {
		l.Context = new(*t.Context)
	}
	if t.Queue != nil {
		l.foldQueue(t.Queue, t.Changed, r.Seq)
	}
	r.setWaits()
}

// ask adds a question.
func (l *live) ask(q Asked, at int64, seq uint64) {
	q.At, q.Seq = at, seq
	if longJSON(q.Tool, maxTool) {
		q.Tool = ""
	}
	size := len(encode(q.Options))
	for i := range l.Questions {
		size += len(encode(l.Questions[i].Options))
	}
	if size > maxOptions {
		q.Options = nil
	}
	l.Questions = append(l.Questions, q)
}

// setWaits sets what the run waits for. What the policy decides at once is no state of the run, and nobody is
// called for it.
func (r *Record) setWaits() {
	l := r.Live
	l.WaitsFor = ""
	if i := slices.IndexFunc(l.Questions, func(q Asked) bool { return q.People }); i >= 0 {
		if l.WaitsFor = waitsQuestion; l.Questions[i].Kind == WaitsPermission {
			l.WaitsFor = WaitsPermission
		}
	} else if l.Keep && l.Idle && (l.Queue.Held || len(l.Queue.Messages) == 0) {
		l.WaitsFor = WaitsMessage
	}
	switch {
	case l.WaitsFor != "" && r.State == StateWorking:
		r.State = StateInputRequired
	case l.WaitsFor == "" && r.State == StateInputRequired:
		if r.State = StateWorking; r.Doing.Phase == YourTurn { // there is a message
			r.Doing = Doing{}
		}
	}
}

// put returns the ids of the questions that are put to people, the oldest first.
func (r *Record) put() (ids []string) {
	if r.Live == nil || r.State != StateInputRequired {
		return nil
	}
	for _, q := range r.Live.Questions {
		if q.People {
			ids = append(ids, q.ID)
		}
	}
	return ids
}

// endLive ends the conversation with the run.
func (r *Record) endLive() {
	if l := r.Live; l != nil {
		l.Awake, l.Asleep, l.Idle, l.WaitsFor, l.Questions, l.Queue = false, false, false, "", nil, Queue{}
	}
}

// Ruling is what became of a command.
type Ruling struct {
	Open  bool   `json:"open,omitempty"`  // it would have an effect: the log does not have it yet
	Holds bool   `json:"holds,omitempty"` // it had one, or the question is decided as the answer says
	Why   string `json:"why,omitempty"`   // it has none: one of the Why constants; "": people are not asked now

	// The decision that holds, if there is one, as in its [Command].

	Option string `json:"option,omitempty"`
	By     string `json:"by,omitempty"`
	Via    string `json:"via,omitempty"`

	Delivered bool   `json:"delivered,omitempty"` // the agent has it
	Seq       uint64 `json:"seq,omitempty"`       // the last entry of the log that this is based on
	Turn      int    `json:"turn,omitempty"`      // the newest turn
}

// Why an answer does not hold, in [Ruling].
const (
	WhyUnknown   = "unknown"   // there is no such question
	WhyUnfit     = "unfit"     // it is no answer to this kind of question, or none of its options
	WhyDecided   = "decided"   // otherwise, before
	WhyExpired   = "expired"   // its time is over, and its owner is away
	WhyWithdrawn = "withdrawn" // the agent does not wait any more, or its process has ended
	WhyFull      = "full"      // too many messages wait, or too long ones
	WhySent      = "sent"      // the message does not wait, or there is none
	WhyCeiling   = "ceiling"   // the mode may do more than that of the task
	WhyFixed     = "fixed"     // the agent has no such mode that can be set
	WhyEnds      = "ends"      // the run ends with the turn, or has ended
	WhyKey       = "key"       // another command had its key
)
