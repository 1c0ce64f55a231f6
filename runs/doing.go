package runs

import (
	"cmp"
	"strconv"

	"github.com/linesman/linesman/bounds"
)

// Phase is what an agent is doing, as far as its lines say so.
type Phase string

// The phases. "" is unknown.
const (
	starting      Phase = "starting"           // the agent was started, and has not printed a line that tells more
	Thinking      Phase = "thinking"           // the model is asked, or reasons
	RunningTool   Phase = "running"            // a tool runs: see Doing.Tool
	Writing       Phase = "writing"            // the model writes its answer
	Retrying      Phase = "retrying"           // a request to the model failed, and is tried again
	RateLimited   Phase = "rate-limited"       // the provider of the model refuses requests for now
	Compacting    Phase = "compacting"         // the agent shortens its context
	AwaitingAgent Phase = "waiting-for-agent"  // a sub-agent works
	AwaitingInput Phase = "waiting-for-answer" // the agent asked its user, or waits for a permission

	// Of a session that linesman follows only.
	YourTurn        Phase = "your-turn"          // a turn has ended: the agent waits for the next prompt
	RunningOrAsking Phase = "running-or-waiting" // a tool runs, or the agent waits for a permission: the log does not tell
)

// RunsTool reports whether a tool runs, or may.
func (p Phase) RunsTool() bool { return p == RunningTool || p == RunningOrAsking }

// maxDoingTool is the maximum length of the name of a tool, in bytes.
const maxDoingTool = 64

// Doing is what an agent is doing, and since when.
type Doing struct {
	Phase   Phase  `json:"phase"`
	Tool    string `json:"tool,omitempty"`    // with `running`: name of the tool, at most 64 bytes
	Attempt int    `json:"attempt,omitempty"` // with `retrying` and `rate-limited`: number of the attempt; absent: unknown
	Of      int    `json:"of,omitempty"`      // with the same: maximum number of attempts; absent: unknown
	NextAt  Time   `json:"nextAt,omitzero"`   // with the same: time of the next attempt; absent: unknown
	Since   Time   `json:"since,omitzero"`
}

// maxWait is the longest time until a next attempt that counts, in milliseconds: 30 days.
const maxWait = 30 * 24 * 3600 * 1000

// foldDoing folds what a line, which was written at at, says about it. What a line says
// of itself comes first. A call that starts is what the agent does. When a call or another
// item has ended, the agent is back at the newest call of this turn that is open, or else
// asks the model. At the end of a turn it waits for the next prompt of the person, if there
// is one.
func (r *Record) foldDoing(f *Facts, at int64) {
	ended := f.Turn == TurnCompleted || f.Turn == TurnFailed
	if f.Turn != TurnNone {
		r.OldCalls = len(r.OpenCalls)
	}
	switch said, told := f.Doing.Phase, r.told(at); {
	case told != "":
		r.setDoing(Doing{Phase: told}, r.Presence.Since)
	case said == AwaitingAgent && r.Doing.Phase.RunsTool(): // a sub-agent works beside it
	case said != "":
		d := f.Doing
		d.Tool = toolName(d.Tool)
		if f.NextIn > 0 {
			d.NextAt = Time(at + min(f.NextIn, maxWait))
		} else if f.NextAt > at {
			d.NextAt = Time(min(f.NextAt, at+maxWait))
		}
		r.setDoing(d, at)
	case ended && (r.Person || r.Live != nil && r.Live.Keep):
		r.setDoing(Doing{Phase: YourTurn}, at)
	case ended:
		r.Doing = Doing{}
	case f.Opened.ID != "":
		r.setDoing(f.Opened.doing(), at)
	case f.Closed != "", f.Step, f.Resumed && r.Doing.Phase == AwaitingInput:
		r.backToCall(at)
	}
}

// setDoing sets what the agent is doing since at, unless it does the same for longer.
func (r *Record) setDoing(d Doing, at int64) {
	if d.Phase == RunningTool && r.Person && !r.Unasked && r.Presence == nil {
		d.Phase = RunningOrAsking
	}
	if d.Since = r.Doing.Since; d != r.Doing {
		d.Since = Time(at)
	}
	r.Doing = d
}

// toolName returns the name of a tool for people, redacted.
func toolName(name string) string {
	if name == "" || isShortWord(name) {
		return name
	}
	name = oneLine(name[:bounds.Cut(name, maxDoingTool)], maxDoingTool)
	return name[:bounds.Cut(name, maxDoingTool)]
}

// isShortWord reports whether s has at most eight characters, all of them ASCII letters, as most names
// of tools: nothing to redact, which is longer or has other characters.
func isShortWord(s string) bool {
	if len(s) > 8 {
		return false
	}
	for i := range len(s) {
		if c := s[i] | 0x20; c < 'a' || 'z' < c {
			return false
		}
	}
	return true
}

// backToCall sets what the agent is doing after a call or another item has ended.
func (r *Record) backToCall(at int64) {
	switch n := len(r.OpenCalls); {
	case n > r.OldCalls:
		c := &r.OpenCalls[n-1]
		r.setDoing(c.doing(), c.At)
	case r.InTurn, r.Steps.Turns > r.TurnsDone+r.TurnsBad:
		r.setDoing(Doing{Phase: Thinking}, at)
	default:
		r.Doing = Doing{}
	}
}

// doing is what the agent is doing while the call is open.
func (c *Call) doing() Doing {
	if c.Phase != "" {
		return Doing{Phase: c.Phase}
	}
	if c.Shown != "" && len(c.Shown) <= maxCallShown {
		return Doing{Phase: RunningTool, Tool: c.Shown}
	}
	return Doing{Phase: RunningTool, Tool: toolName(cmp.Or(c.Shown, c.Name, c.Kind))}
}

// Units of time, in milliseconds.
const (
	second = 1000
	minute = 60 * second
	hour   = 60 * minute
	day    = 24 * hour
)

// words are the phases for people.
var words = map[Phase]string{
	starting: "starting", Thinking: "thinking", Writing: "writing", Retrying: "retrying the model",
	RateLimited: "rate-limited", Compacting: "compacting", AwaitingAgent: "waiting for a sub-agent",
	AwaitingInput: "waiting for an answer", YourTurn: "your turn",
}

// Text returns what the agent is doing at now, in Unix milliseconds, for people: "thinking",
// "running Bash for 2m", "retrying the model (3 of 10, next in 40 s)". It is "" if that is
// unknown. A time of less than ten seconds is omitted.
func (d Doing) Text(now int64) string {
	s := words[d.Phase]
	switch d.Phase {
	case RunningTool:
		s = "running " + cmp.Or(d.Tool, "a tool")
	case RunningOrAsking:
		s = "running " + cmp.Or(d.Tool, "a tool") + " or waiting for permission"
	case Retrying, RateLimited:
		if more := d.attempts(now); more != "" {
			return s + more
		}
	}
	if age := now - int64(d.Since); s != "" && d.Since > 0 && age >= 10*second {
		s += " for " + span(age)
	}
	return s
}

// attempts returns the number of the attempt and the time until the next one, in parentheses.
func (d Doing) attempts(now int64) string {
	s := ""
	switch {
	case d.Attempt > 0 && d.Of > 0:
		s = strconv.Itoa(d.Attempt) + " of " + strconv.Itoa(d.Of)
	case d.Attempt > 0:
		s = "attempt " + strconv.Itoa(d.Attempt)
	}
	if wait := int64(d.NextAt) - now; wait > 0 {
		if s != "" {
			s += ", "
		}
		s += "next in " + span(wait+second-1)
	}
	if s == "" {
		return ""
	}
	return " (" + s + ")"
}

// span returns a length of time in milliseconds for people, rounded down: "40 s", "2m",
// "1h5m", "3d2h".
func span(ms int64) string {
	two := func(big int64, unit string, small int64, smaller string) string {
		s := strconv.FormatInt(big, 10) + unit
		if small > 0 {
			s += strconv.FormatInt(small, 10) + smaller
		}
		return s
	}
	switch {
	case ms < minute:
		return strconv.FormatInt(max(ms, 0)/second, 10) + " s"
	case ms < hour:
		return two(ms/minute, "m", 0, "")
	case ms < day:
		return two(ms/hour, "h", ms%hour/minute, "m")
	}
	return two(ms/day, "d", ms%day/hour, "h")
}

// minSilence is the shortest time without output that is called silence, in milliseconds.
const minSilence = minute

// Silence returns for how many milliseconds a working run has printed nothing, at now, in
// Unix milliseconds. It is 0 for less than a minute, and while a tool runs, a sub-agent
// works, the agent waits for an answer or a prompt, or until the next attempt to ask the model.
func (s Summary) Silence(now int64) int64 {
	silent := now - int64(max(s.ActiveAt, s.StartedAt))
	d := s.does()
	switch d.Phase {
	case RunningTool, RunningOrAsking, AwaitingAgent, AwaitingInput, YourTurn:
		return 0
	}
	if s.State != StateWorking || silent < minSilence || int64(d.NextAt) > now {
		return 0
	}
	return silent
}

// Need is whether a person is needed.
type Need uint8

// The needs, the most urgent last.
const (
	noNeed        Need = iota
	NeedsPrompt        // the agent waits for the next prompt
	MayNeedAnswer      // it has run a tool, or waited for a permission, for mayNeedAfter or longer
	NeedsAnswer        // it waits for an answer
)

// mayNeedAfter is how long a tool runs, or the agent waits for a permission, until that counts as
// [MayNeedAnswer], in milliseconds.
const mayNeedAfter = 30 * second

// Need returns whether the run needs a person at now, in Unix milliseconds.
func (d Doing) Need(s State, now int64) Need {
	switch {
	case (s == StateWorking || s == StateInputRequired) && d.Phase == YourTurn:
		return NeedsPrompt
	case s == StateInputRequired, s == StateWorking && d.Phase == AwaitingInput:
		return NeedsAnswer
	case s != StateWorking:
	case d.Phase == RunningOrAsking && now-int64(d.Since) >= mayNeedAfter:
		return MayNeedAnswer
	}
	return noNeed
}

// DoingText returns [Doing.Text] of a run that has begun and not ended, and its silence:
// "thinking, silent for 3m". It is "" if nothing is known.
func (s Summary) DoingText(now int64) string {
	if s.State != StateWorking && s.State != StateInputRequired {
		return ""
	}
	d := s.does()
	silent := s.Silence(now)
	if silent == 0 {
		return d.Text(now)
	}
	d.Since = 0 // one time is enough
	if text := d.Text(now); text != "" {
		return text + ", silent for " + span(silent)
	}
	return "silent for " + span(silent)
}
