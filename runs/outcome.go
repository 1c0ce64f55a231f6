package runs

import "strconv"

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
//   - for a failed run "spawn", "lost", "spool", "signal", "exit status", "turn
//     failed", "silent", "no terminal event" or [needsAgent],
//   - for a timeout "idle" or "hard",
//   - for a run in the state input-required [needsAgent].
//
// A requested cancel takes precedence over every reason except "lost" and
// "spawn". Open tool calls stay listed, because they never ended.
func (r *Record) End(x Exit, at int64) {
	r.Exit = &x
	r.EndedAt = at
	r.State, r.Reason = r.outcome(x)
	r.endProgress()
}

func (r *Record) outcome(x Exit) (State, string) {
	switch x.Reason {
	case ReasonSpawn:
		return StateFailed, string(x.Reason)
	case ReasonCancelled:
		return StateCancelled, ""
	case ReasonIdle, ReasonHard, ReasonSpool, ReasonEOF:
	case ReasonExited:
		if x.Code == nil && x.Signal == 0 {
			return StateFailed, string(ReasonLost)
		}
	default:
		return StateFailed, string(ReasonLost)
	}
	if r.Cancel { // takes precedence over the reasons below
		return StateCancelled, ""
	}
	switch {
	case x.Reason == ReasonIdle, x.Reason == ReasonHard:
		return StateTimeout, string(x.Reason)
	case x.Reason == ReasonSpool:
		return StateFailed, string(x.Reason)
	case x.Reason == ReasonExited && x.Signal != 0:
		return StateFailed, "signal"
	case x.Reason == ReasonExited && *x.Code == ExitNeedsAgent && r.Source == sourceRun:
		return StateInputRequired, needsAgent
	case x.Reason == ReasonExited && *x.Code == ExitNeedsAgent:
		return StateFailed, needsAgent
	case x.Reason == ReasonExited && *x.Code != 0:
		return StateFailed, "exit status"
	case x.Reason == ReasonEOF && r.LastTurn == TurnNone:
		return StateFailed, "no terminal event"
	case r.LastTurn == TurnFailed:
		return StateFailed, "turn failed"
	case r.Lines == r.Blank:
		return StateFailed, "silent"
	}
	return StateCompleted, ""
}

// Unowned reports whether no worker owns the run: it is queued or awaiting
// external input. A cancel entry ends an unowned run.
func (r *Record) Unowned() bool {
	return r.State == StateQueued && r.QueuedAt != 0 || r.State == StateInputRequired
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
