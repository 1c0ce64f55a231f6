package runs

import (
	"strconv"
	"strings"
)

// needsAgent is the reason of a run whose program needs the answer of an agent:
// it exited with status [ExitNeedsAgent], and must be restarted when the answer
// is available. If the run was started by hand, its state is input-required. All
// other runs have failed, because linesman does not restart them.
const needsAgent = "needs agent"

// ExitNeedsAgent is the exit status of a program that needs an agent's answer.
const ExitNeedsAgent = 42

// End folds the exit entry, whose reason determines the state. [Record.Reason]
// becomes
//
//   - for a failed run "spawn", "session", "lost", "spool", "signal", "exit status",
//     "turn failed", "silent", "no terminal event", "option refused" or [needsAgent],
//   - for a timeout "idle" or "hard",
//   - for a run in the state input-required [needsAgent].
//
// A requested cancel takes precedence over every reason except "lost", "spawn"
// and "session". Open tool calls stay listed, because they never ended.
//
// The run ended at x.At, or else at the time of the entry, at: that of a worker
// that took the run over may be much later. An x.At before the start or after the
// entry is ignored. A session whose log has times ended when its last line was written.
func (r *Record) End(x Exit, at int64) {
	r.Exit = &x
	r.EndedAt = at
	switch {
	case r.WrittenAt > 0 && (x.Reason == ReasonEOF || x.Reason == ReasonIdle):
		r.EndedAt = r.WrittenAt
	case x.At > 0 && x.At >= r.StartedAt && x.At <= at:
		r.EndedAt = x.At
	}
	if r.Answered {
		r.TurnsDone++
		r.LastTurn, r.InTurn, r.Begun, r.Answered = TurnCompleted, false, false, false
	}
	r.State, r.Reason = r.outcome(x)
	r.InTurn, r.Tasks = false, 0
	r.endLive()
	r.endProgress()
}

func (r *Record) outcome(x Exit) (State, string) {
	switch x.Reason {
	case ReasonSpawn, ReasonSession:
		return StateFailed, string(x.Reason)
	case ReasonCancelled:
		return StateCancelled, ""
	case ReasonIdle, ReasonHard, ReasonSpool, ReasonEOF, ReasonFinished:
	case ReasonExited:
		if x.Code == nil && x.Signal == 0 {
			return StateFailed, string(ReasonLost)
		}
	default:
		return StateFailed, string(ReasonLost)
	}
	if r.Cancel && !r.endedBefore(x) { // takes precedence over the reasons below
		return StateCancelled, ""
	}
	switch {
	case x.Reason == ReasonIdle, x.Reason == ReasonHard:
		return StateTimeout, string(x.Reason)
	case x.Reason == ReasonSpool:
		return StateFailed, string(x.Reason)
	case x.Reason == ReasonExited && x.Signal != 0:
		return StateFailed, "signal"
	case x.Reason == ReasonExited && *x.Code == ExitNeedsAgent && r.Source == SourceRun:
		return StateInputRequired, needsAgent
	case x.Reason == ReasonExited && *x.Code == ExitNeedsAgent:
		return StateFailed, needsAgent
	case x.Reason == ReasonExited && *x.Code != 0 && r.refused():
		return StateFailed, reasonOption
	case x.Reason == ReasonExited && *x.Code != 0:
		return StateFailed, "exit status"
	case x.Reason == ReasonEOF && r.LastTurn == TurnNone:
		return StateFailed, "no terminal event"
	case r.LastTurn == TurnFailed:
		return StateFailed, "turn failed"
	case r.InTurn, r.Begun && x.Reason == ReasonEOF, r.LastTurn == TurnNone && len(r.OpenCalls)+int(r.MoreCalls) > 0:
		return StateFailed, "no terminal event"
	case r.Lines == r.Blank:
		return StateFailed, "silent"
	}
	return StateCompleted, ""
}

// endedBefore reports whether the agent had ended with its turn before the cancel: then only processes
// that it left were cancelled. Of a live run the worker knows.
func (r *Record) endedBefore(x Exit) bool {
	if r.Live != nil {
		return x.Reason == ReasonEOF && r.Rests()
	}
	return x.Reason == ReasonExited && x.At > 0 && x.At < r.CancelAt && r.Rests()
}

// Rests reports whether a turn has ended, no other one has begun since, and no task is running in
// the background.
func (r *Record) Rests() bool {
	return r.LastTurn != TurnNone && !r.Begun && r.Tasks == 0 && len(r.OpenCalls)+int(r.MoreCalls) == 0
}

// Unowned reports whether no worker owns the run: it is queued or awaiting
// external input, but not as a live run. A cancel entry ends an unowned run.
func (r *Record) Unowned() bool {
	return r.State == StateQueued && r.QueuedAt != 0 || r.State == StateInputRequired && r.Live == nil
}

// Outcome returns the state and the reason, for people: "failed (exit status 7)".
func (r *Record) Outcome() string {
	s := string(r.State)
	switch {
	case r.Reason == "signal" && r.Exit != nil:
		s += " (signal " + strconv.Itoa(r.Exit.Signal) + ")"
	case r.Reason == "exit status" && r.Exit != nil && r.Exit.Code != nil:
		s += " (exit status " + strconv.Itoa(*r.Exit.Code) + ")"
	case r.Reason != "":
		s += " (" + r.Reason + ")"
	}
	return s
}

// The maximum lengths of a summary and of an activity, in characters.
const (
	maxSummary  = 200
	maxActivity = 200

	maxActivityRead = 4096 // bytes of an activity that are read
)

// Summary describes the state of the run in one line for people: the beginning
// of the answer, the reason of the failure, or the current activity. It is
// redacted and has at most maxSummary characters.
func (r *Record) Summary() string {
	s := ""
	switch r.State {
	case StateCompleted:
		if r.FinalText != nil {
			s = firstSentence(*r.FinalText)
		}
		if s == "" {
			s = "Completed"
		}
	case StateFailed:
		message := r.ErrorContext().Message
		s = "Failed: " + message
		if _, reason, found := strings.Cut(r.Outcome(), " ("); found && message != r.reasonText() {
			s = "Failed: " + strings.TrimSuffix(reason, ")") + ": " + message
		}
	case StateTimeout:
		s = "Timed out: " + r.reasonText()
	case StateCancelled:
		s = "Cancelled"
	case StateQueued:
		s = "Queued"
	case StateInputRequired:
		s = "Waits for an answer from outside"
		switch {
		case r.Live != nil && r.Live.WaitsFor == WaitsPermission:
			s = "Waits for a permission"
		case r.Live != nil && r.Live.WaitsFor == WaitsMessage:
			s = "Waits for a message"
		case r.Live != nil:
			s = "Waits for an answer"
		case r.Waits():
			s = "Waits for an agent's answer, to be started again with it"
		}
	default:
		s = "Working"
		if r.Activity != "" {
			s += ": " + r.Activity
		}
	}
	if s = oneLine(s, maxSummary); s == "" {
		return string(r.State)
	}
	return s
}

// firstSentence returns the first sentence of the first non-empty line of text,
// without the Markdown of a heading or a list.
func firstSentence(text string) string {
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSpace(strings.TrimLeft(line, "#*->_` \t\r"))
		if line == "" {
			continue
		}
		for _, end := range []string{". ", "! ", "? "} {
			if i := strings.Index(line, end); i >= 0 {
				line = line[:i+1]
			}
		}
		return unmarked(strings.TrimRight(line, "*_` \t\r"))
	}
	return ""
}

// CacheHitRate returns the fraction of the thread's input tokens that came from a
// cache, 0 to 1. It returns false if the number of input tokens is unknown.
func (r *Record) CacheHitRate() (float64, bool) {
	if r.Usage == nil || r.Usage.Input <= 0 {
		return 0, false
	}
	rate := float64(r.Usage.CachedInput) / float64(r.Usage.Input)
	return min(max(rate, 0), 1), true
}
