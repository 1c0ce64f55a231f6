package normalizer

import (
	"strconv"

	"github.com/linesman/linesman/runs"
)

// exit folds the exit entry. An unreadable body means that nobody knows how
// the run ended.
func (f *Fold) exit(body []byte) { f.end(runs.DecodeExit(body)) }

// end ends the run: the last line, if it had no newline, then the Error event
// of a bad end, then the completion.
func (f *Fold) end(exit runs.Exit) {
	if len(f.partial) > 0 || f.long > 0 {
		f.flush()
	}
	f.Record.End(exit, f.pos.Time)
	f.done = true

	c := Completion{FinalText: f.final}
	if f.session != "" {
		c.Data = sessionHandle(f.session)
	}
	complaint := ""
	switch {
	case f.Record.State == runs.StateCancelled:
		c.Err = "cancelled"
	case exit.Reason == runs.ReasonExited && (exit.Code != nil || exit.Signal != 0):
		c.Exit = &exit
		if exit.Signal != 0 {
			complaint = f.agent + " ended by signal: signal=" + strconv.Itoa(exit.Signal) + " (stderr redacted)"
		} else if *exit.Code != 0 {
			complaint = f.agent + " exited non-zero: exit_code=" + strconv.Itoa(*exit.Code) + " (stderr redacted)"
		}
	case exit.Reason == runs.ReasonEOF:
	default:
		c.Err = f.agent + " backend error: " + backendError(exit.Reason)
		complaint = c.Err
	}
	if complaint != "" {
		c.FinalText = nil
		f.message(ErrorMessage(complaint))
	}
	if c.Err != "" {
		c.FinalText = nil
	}
	f.loose++
	f.pos.Line, f.pos.Part = 0, f.loose
	f.emit(Message{Pos: f.pos, Token: CompletionToken, Body: c.append(nil, f.agent)})
	f.release()
}

// release forgets what a run that has ended does not need.
func (f *Fold) release() {
	f.partial, f.final, f.dialect = nil, nil, nil
	f.out = Out{}
}

func backendError(r runs.Reason) string {
	switch r {
	case runs.ReasonIdle, runs.ReasonHard:
		return "timeout (details redacted when unsafe)"
	case runs.ReasonSpawn:
		return "could not be started (details redacted when unsafe)"
	case runs.ReasonSpool:
		return "output limit reached"
	}
	return "exit status lost"
}
