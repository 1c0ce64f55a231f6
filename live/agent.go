package live

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"

	"github.com/linesman/linesman/agent/acp"
	"github.com/linesman/linesman/runs"
)

// Codes of the errors of JSON-RPC and of the protocol.
const (
	methodNotFound = -32601
	invalidParams  = -32602
	authRequired   = -32000
)

// message folds a line of the agent. Its length is 0 if it was too long, or damaged: it has no values then.
func (c *Conversation) message(m *acp.Message, at place, length int) {
	var asked acp.Question
	if m.Kind == acp.Request {
		if asked = m.QuestionOf(); asked.Kind != "" && length > 0 {
			c.s.Numbered++ // so does the dialect, which gets the same lines
		}
	}
	if !c.s.Alive || c.over() {
		return
	}
	switch m.Kind {
	case acp.Request:
		c.request(m, &asked, at, length)
	case acp.Response:
		c.response(m)
	case acp.Notification:
		c.notification(m)
	}
}

// response folds the response to a request that the agent has got in full. Any other one has no effect.
func (c *Conversation) response(m *acp.Message) {
	s := &c.s
	id := m.RequestID()
	at := slices.IndexFunc(s.Await, func(i item) bool { return strconv.FormatInt(i.ID, 10) == id })
	if at < 0 {
		return
	}
	answered := s.Await[at]
	s.Await = slices.Delete(s.Await, at, at+1)
	switch failed := m.Failed() || m.Result.Raw == nil; {
	case s.Outcome != nil || s.Sleeps: // the session is closed, or the agent was late
	case answered.Do == doPrompt:
		c.turnEnded(m, failed)
	case failed && m.Code() == authRequired, failed && answered.Do == doAuthenticate:
		c.refused(c.login())
	case failed && answered.Do == doModel && (s.Ready || answered.Value != c.config.Task.Model):
		if s.Wants.Model == answered.Value { // the one before stays
			s.Wants.Model = s.Has.Model
		}
		c.goOn()
	case failed && answered.Do == doResume && s.Loads:
		c.call(doLoad, answered.Value)
	case failed:
		c.refused("the agent refused to " + map[string]string{
			doInitialize: "initialize", doNew: "create a session", doMode: "set the mode " + answered.Value,
			doModel: "set the model", doResume: "continue the session", doLoad: "continue the session",
		}[answered.Do])
	default:
		c.setUp(m, answered)
	}
}

// login returns the reason of a run whose agent has no login.
func (c *Conversation) login() string {
	why := "the agent is not logged in"
	if login := c.config.Agent.Login; login != "" {
		why += ": run " + login
	}
	return why
}

// setUp makes the next step of a process due, after the response to a step.
func (c *Conversation) setUp(m *acp.Message, answered item) {
	s := &c.s
	switch told := acp.SessionOf(m.Result); answered.Do {
	case doInitialize:
		hello, ok := acp.HelloOf(m.Result)
		if !ok || hello.Protocol != 1 {
			c.refused("the agent does not speak version 1 of the protocol")
			return
		}
		if len(c.config.Task.AddDirs) > 0 && !hello.AddDirs {
			c.refused("the agent does not offer further directories: it lacks the capability " + runs.CanAddDirs)
			return
		}
		s.Closes, s.Resumes, s.Loads = hello.Close, hello.Resume, hello.Load
		if s.Auth != "" {
			c.call(doAuthenticate, s.Auth)
			return
		}
		c.open()
		return
	case doAuthenticate:
		c.open()
		return
	case doResume, doLoad:
		s.Session = answered.Value
	case doNew:
		if !told.ID.IsString() || told.ID.Len == 0 || told.ID.Len > runs.MaxThread {
			c.refused("the agent created a session without a valid id")
			return
		}
		s.Session = told.ID.Text()
	case doMode, doModel:
		if !c.chosen(answered, told.Mode) {
			return
		}
	}
	c.goOn()
}

// goOn makes the next step of a session that is open due: an option, or a prompt.
func (c *Conversation) goOn() {
	s := &c.s
	if c.choose() {
		return
	}
	if s.Ready = true; s.Turn == 0 || s.Again {
		s.Again = false
		c.prompt("")
	}
}

// open makes the request of the session due: of a new one, unless there was one before.
func (c *Conversation) open() {
	switch s, session := &c.s, cmp.Or(c.s.Session, c.config.Task.Thread); {
	case session == "":
		c.call(doNew, "")
	case s.Resumes:
		c.call(doResume, session)
	case s.Loads:
		c.call(doLoad, session)
	default:
		c.refused("the agent does not continue sessions")
	}
}

// prompt begins a turn. Text is that of a message, "" the task's.
func (c *Conversation) prompt(text string) {
	s := &c.s
	s.Running, s.Asked, s.Fault, s.Limit = true, 0, "", ""
	s.Turn++
	c.call(doPrompt, text)
}

// next returns the message whose turn it is; nil: there is none. It waits, and can be changed, until the log has a byte
// of its prompt.
func (c *Conversation) next() *runs.Message {
	if s := &c.s; !s.Ready || s.Running || s.Outcome != nil || !s.Alive || c.chooses() {
		return nil
	}
	return c.s.Queue.Next()
}

// proceed begins the turn of the next message, and reports whether there is one.
func (c *Conversation) proceed() bool {
	m := c.next()
	if m == nil {
		return false
	}
	text := m.Text
	c.s.Queue.Take(func(other *runs.Message) bool { return other == m })
	c.prompt(text)
	return true
}

// refused ends the run: no turn was possible.
func (c *Conversation) refused(why string) { c.finish(outcome{State: NoSession, Why: why}) }

// turnEnded folds the response to a prompt.
func (c *Conversation) turnEnded(m *acp.Message, failed bool) {
	o, empty := outcome{State: TurnFailed, Limit: c.s.Limit, Why: c.s.Fault}, c.empty(m)
	switch reason := acp.StopReason(m.Result); {
	case o.Why != "":
	case failed && m.Code() == authRequired:
		o.Why = c.login()
	case failed:
		o.Why = "the agent reported an error"
	case reason == "end_turn":
		o.State = TurnCompleted
	case reason == "cancelled":
		o.State = turnCancelled
	case reason == "max_tokens", reason == "max_turn_requests", reason == "refusal":
		o.Why = "the agent stopped: " + reason
	default:
		o.Why = "the agent stopped for an unknown reason"
	}
	c.turnOver(o, o.State == TurnCompleted && !empty)
	if failed && c.s.Outcome == nil { // the program below an adapter may be gone
		c.sleep()
	}
}

// sleep lets the process end, and the run go on. It reports whether that is possible.
func (c *Conversation) sleep() bool {
	s := &c.s
	if !s.Alive || !s.Ready || s.Running || s.Sleeps || len(s.Open) > 0 || s.Outcome != nil || !c.continues() {
		return false
	}
	if s.Sleeps, s.Ready = true, false; s.Closes {
		c.call(doClose, "")
	}
	return true
}

// empty reports whether a turn has failed without saying so; see [acp.Agent.Silent].
func (c *Conversation) empty(m *acp.Message) bool {
	a := &c.config.Agent
	spent, told := a.Spent(m.Result)
	if a.Tokens == acp.PerProcess && told {
		spent, c.s.Spent = spent.Minus(c.s.Spent), spent
	}
	return a.Silent && spent.Input+spent.Output == 0
}

// turnOver folds the end of a turn. A run that is not kept ends with it, and so does one whose agent left its mode or
// asks without end. What waits is held unless the turn was good.
func (c *Conversation) turnOver(o outcome, good bool) {
	s := &c.s
	if s.Last, s.Starts = o.State, 0; !c.config.Task.Keep || s.Ends || s.Fault != "" {
		c.finish(o)
		return
	}
	s.Running, s.Cancelled, s.Asked, s.Calls, s.Limit = false, false, 0, nil, ""
	c.withdrawAll()
	s.Queue.Ended(good)
}

// end lets the run end with the turn that runs. What waits is not sent.
func (c *Conversation) end() { c.s.Ends, c.s.Queue = true, runs.Queue{} }

// finish sets the outcome of the run, and closes the session.
func (c *Conversation) finish(o outcome) {
	s := &c.s
	if s.Turn == 0 && o.State == TurnFailed {
		o.State = NoSession
	}
	if s.Outcome == nil {
		s.Outcome = &o
	}
	s.Running, s.Cancelled, s.Asked, s.Calls, s.Queue = false, false, 0, nil, runs.Queue{}
	c.retract(func(i item) bool { return i.Ref == "" })
	c.withdrawAll()
	if s.Session != "" && s.Closes && s.Alive && !s.Sleeps {
		c.call(doClose, "")
	}
}

// stop cancels the turn that runs. If there is none, it ends a run that has not begun its first turn, or is to end. It
// reports whether it had an effect.
func (c *Conversation) stop(o outcome) bool {
	s := &c.s
	switch {
	case s.Outcome == nil && s.Cancelled && s.Fault == "": // it is cancelled once, but may have failed
		s.Fault = o.Why
		return o.Why != ""
	case s.Outcome != nil || s.Cancelled:
		return false
	case s.Running && s.Limit == "":
		s.Limit = o.Limit
	}
	if s.Fault = o.Why; !s.Running {
		if c.config.Task.Keep && s.Turn > 0 && !s.Ends && o.Why == "" {
			return false
		}
		c.finish(o)
		return true
	}
	if c.retract(item.prompts) {
		c.turnOver(o, false)
		return true
	}
	s.Cancelled = true
	c.answer(item{Do: doCancel})
	c.withdrawAll()
	return true
}

// giveUp ends the conversation where it is: nothing further is due.
func (c *Conversation) giveUp(why string) {
	c.finish(outcome{State: TurnFailed, Why: why, Limit: c.s.Limit})
	c.s.Due, c.s.Part, c.s.Await, c.head = nil, 0, nil, nil
}

// notification folds a notification.
func (c *Conversation) notification(m *acp.Message) {
	if id := m.Withdrawn(); id != "" {
		c.closeQuestion(func(q *question) bool { return q.Request == id })
		return
	}
	switch kind, update := m.Update(); kind {
	case "tool_call", "tool_call_update":
		id, status := acp.CallOf(update)
		c.toolCall(id.Text(), status, acp.KindOf(update), acp.FilesOf(update))
	case "current_mode_update", "config_option_update":
		if c.s.Session != "" && m.SessionID() == c.s.Session {
			c.tellMode(acp.SessionOf(update).Mode)
		}
	}
}

// call is a tool call that is open.
type call struct {
	ID      uint64   `json:"id"`                // digest
	Tool    string   `json:"tool,omitempty"`    // kind, of those of the protocol that are kept
	Changed []string `json:"changed,omitempty"` // files of the diffs that its updates told, absolute
}

// toolCall folds an update of a tool call.
func (c *Conversation) toolCall(id, status, tool string, files acp.Files) {
	s := &c.s
	if id == "" || !s.Running {
		return
	}
	now := c.called(id)
	s.Calls = slices.DeleteFunc(s.Calls, func(other call) bool { return other.ID == now.ID })
	switch status {
	case "completed": // without an answer, if it is asked about
		c.closeQuestion(func(q *question) bool { return q.Call == id })
	case "failed":
	default:
		c.changes(&now, files)
		now.Tool = cmp.Or(known(tools, tool), now.Tool)
		s.Calls = append(s.Calls, now)
		s.Calls = s.Calls[max(len(s.Calls)-maxCalls, 0):]
	}
}

// called returns what is known of a call.
func (c *Conversation) called(id string) call {
	of := digest(id)
	if i := slices.IndexFunc(c.s.Calls, func(other call) bool { return other.ID == of }); i >= 0 {
		return c.s.Calls[i]
	}
	return call{ID: of}
}

// changes adds the files of an update that have a diff to its call, as long as there is room for them: only so does
// Codex tell where to it moves a file.
func (c *Conversation) changes(now *call, files acp.Files) {
	size := 0
	for _, other := range c.s.Calls {
		size += len(strings.Join(other.Changed, ""))
	}
	for _, p := range c.absolute(files.Changed) {
		if !slices.Contains(now.Changed, p) && size+len(strings.Join(now.Changed, ""))+len(p) <= maxChanged {
			now.Changed = append(now.Changed, p)
		}
	}
}

// digest shortens an id of any length.
func digest(id string) uint64 {
	sum := sha256.Sum256([]byte(id))
	return binary.BigEndian.Uint64(sum[:])
}
