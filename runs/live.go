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
	How     string `json:"how,omitempty"`     // of a start: new, resume or load
	Version string `json:"version,omitempty"` // of the program of the agent
	Auth    string `json:"auth,omitempty"`    // of a start: the method of `authenticate`; "": it is not called

	Reason Reason `json:"reason,omitempty"` // of an end, as that of an [Exit], with Code and Signal
	Code   *int   `json:"code,omitempty"`
	Signal int    `json:"signal,omitempty"`
	At     int64  `json:"at,omitempty"` // when that was, Unix milliseconds
}

// What a command does, in [Command].
const (
	DoAnswer = "answer" // a question
	DoStop   = "stop"   // cancel the turn
	DoEnd    = "end"    // the run, after its turn
	DoLimit  = "limit"  // a limit was reached: cancel the turn
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
	ID   string `json:"id"` // of the command, at most MaxCommandID bytes: a repeated one has no effect
	Do   string `json:"do"`
	By   string `json:"by"`             // who decided: the name of a token, owner, operator, or one of the above
	Via  string `json:"via,omitempty"`  // the surface
	Rule string `json:"rule,omitempty"` // of a policy; of a limit, its name
	Turn int    `json:"turn,omitempty"` // of stop and limit; from 1; 0: before the first one

	Question string `json:"question,omitempty"` // of an answer: q1, q2, …
	Option   string `json:"option,omitempty"`   // that was chosen; "": the question is closed without one
}

// MaxCommandID is the maximum length of the id of a command, in bytes.
const MaxCommandID = 64

// Live is the state of the conversation of a live run, in a [Record].
type Live struct {
	Process   int      `json:"process,omitempty"` // number of the newest process
	Awake     bool     `json:"awake,omitempty"`   // it has not ended
	Turn      int      `json:"turn,omitempty"`    // number of the newest turn, over all processes
	WaitsFor  string   `json:"waits_for,omitempty"`
	Questions []Asked  `json:"questions,omitempty"`          // that are open, the oldest first; at most maxQuestions
	More      int      `json:"questions_unlisted,omitempty"` // that are open, too
	Mode      string   `json:"mode,omitempty"`               // of the agent, at most maxChoice bytes of JSON
	Model     string   `json:"model,omitempty"`              // that is chosen, of the same size
	Context   *Context `json:"context,omitempty"`            // nil: not told
}

// What a live run waits for, in [Live], beside the kinds of questions. "": nothing.
const (
	WaitsPermission = "permission"
	WaitsQuestion   = "question" // a form
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
}

// Option is an option of a question.
type Option struct {
	ID   string `json:"id"`
	Kind string `json:"kind"` // allow_once, allow_always, reject_once, reject_always; or unknown
}

// Context is how much of its context a model has used, in tokens.
type Context struct {
	Used int64 `json:"used"`
	Size int64 `json:"size"`
}

// Told is what a line tells of the conversation of a live run. A zero value tells nothing.
type Told struct {
	Turn        int      // that begins
	Asked       *Asked   // a question, without At and Seq
	Settled     []string // questions that are not open any more
	Mode, Model string
	Context     *Context
}

// Limits of what a record has of a conversation.
const (
	maxQuestions = 8
	maxChoice    = 130  // bytes of JSON of a mode, a model
	maxTool      = 34   // bytes of JSON of the kind of a tool
	maxOptions   = 1536 // bytes of JSON of all options
)

// foldProcess folds the start or the end of a process.
func (r *Record) foldProcess(e Entry) {
	var p Process
	if json.Unmarshal(e.Body, &p) != nil {
		return
	}
	if r.Live == nil {
		r.Live = new(Live)
	}
	l := r.Live
	l.Process, l.Awake = max(p.N, l.Process), p.Do == ProcessStart
	l.Questions, l.More = nil, 0
	if l.Awake {
		r.OpenCalls, r.OldCalls, r.MoreCalls = nil, 0, 0 // of the process before
		r.setDoing(Doing{Phase: Starting}, e.Time)
	} else {
		r.Doing = Doing{}
	}
	r.setWaits()
}

// foldTold folds what a line tells, which was written at at.
func (r *Record) foldTold(t *Told, at int64) {
	if r.Live == nil {
		r.Live = new(Live)
	}
	l := r.Live
	l.Turn = max(l.Turn, t.Turn)
	for _, id := range t.Settled {
		if i := slices.IndexFunc(l.Questions, func(q Asked) bool { return q.ID == id }); i >= 0 {
			l.Questions = slices.Delete(l.Questions, i, i+1)
		} else {
			l.More = max(l.More-1, 0)
		}
	}
	switch {
	case t.Asked == nil:
	case len(l.Questions) == maxQuestions:
		l.More++
	default:
		l.ask(*t.Asked, at, r.Seq)
	}
	for _, choice := range []struct{ from, to *string }{{&t.Mode, &l.Mode}, {&t.Model, &l.Model}} {
		if *choice.from != "" && !longJSON(*choice.from, maxChoice) {
			*choice.to = strings.Clone(*choice.from)
		}
	}
	if t.Context != nil {
		l.Context = new(*t.Context)
	}
	r.setWaits()
}

// ask adds a question.
func (l *Live) ask(q Asked, at int64, seq uint64) {
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

// setWaits sets what the run waits for. The policy decides it at once, so it is no state of the run, and
// nobody is called.
func (r *Record) setWaits() {
	l := r.Live
	l.WaitsFor = ""
	if len(l.Questions) > 0 {
		if l.WaitsFor = WaitsQuestion; l.Questions[0].Kind == WaitsPermission {
			l.WaitsFor = WaitsPermission
		}
	}
}

// endLive ends the conversation with the run.
func (r *Record) endLive() {
	if l := r.Live; l != nil {
		l.Awake, l.WaitsFor, l.Questions, l.More = false, "", nil, 0
	}
}
