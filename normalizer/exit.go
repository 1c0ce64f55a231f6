package normalizer

import (
	"strconv"

	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/runs"
)

// end ends the run: it folds an unfinished last line, publishes an Error event if
// the run failed, and then the completion.
func (f *Fold) end(exit runs.Exit) {
	if f.state.open() {
		f.flush()
	}
	f.finish()
	f.settle()
	f.observeEnd()
	f.Record.End(exit, f.pos.Time)
	if f.Record.WrittenAt > 0 {
		f.pos.Time = min(f.Record.EndedAt, f.pos.Time) // earlier if the log of a session has ended
	}
	f.done = true

	c := completion{Agent: f.agent}
	if text, n := f.final(); text != nil {
		limited := *text
		if n > int64(len(limited)) { // scrubbed, it can be within the limit
			limited += bounds.Suffix
		}
		limited = bounds.Truncate(limited, bounds.MaxFinalText)
		c.FinalText = &limited
	}
	if f.state.Session != "" {
		c.Data = sessionHandle(f.state.Session)
	}
	failure := ""
	switch {
	case f.Record.State == runs.StateCancelled:
		c.Error = &completionError{"backend", "cancelled"}
	case f.Record.Why() == runs.OptionRefused:
		failure = runs.OptionRefused
		c.Error = &completionError{"backend", failure}
	case exit.Reason == runs.ReasonExited && (exit.Code != nil || exit.Signal != 0):
		c.Status = &exitStatus{Success: exit.Code != nil && *exit.Code == 0, Code: exit.Code}
		if exit.Signal != 0 {
			c.Status.Signal = &exit.Signal
			failure = f.agent + " ended by signal: signal=" + strconv.Itoa(exit.Signal) + " (stderr redacted)"
		} else if *exit.Code != 0 {
			failure = f.agent + " exited non-zero: exit_code=" + strconv.Itoa(*exit.Code) + " (stderr redacted)"
		}
	case exit.Reason == runs.ReasonSpawn && exit.Spawn == runs.SpawnNoSession:
		failure = runs.NoSession
		c.Error = &completionError{"backend", failure}
	case exit.Reason == runs.ReasonEOF, exit.Reason == runs.ReasonFinished:
	default:
		failure = f.agent + " backend error: " + backendError(exit.Reason)
		c.Error = &completionError{"backend", failure}
	}
	if failure != "" {
		f.publishEntryEvent(ErrorMessage(failure))
	}
	if failure != "" || c.Error != nil {
		c.FinalText = nil
	}
	body, err := bounds.Encode(c)
	if err != nil { // impossible: strings, numbers and a handle that is valid JSON
		panic("normalizer: encode a completion: " + err.Error())
	}
	f.entryMessages++
	f.pos.Line, f.pos.Part = 0, f.entryMessages
	f.emit(Message{Pos: f.pos, Token: CompletionToken, Body: body, Detail: f.details.completion(f.Record, exit.Reason)})
	f.release()
}

// release frees the state that an ended run does not need.
func (f *Fold) release() {
	f.state.partial, f.state.In.partial, f.state.finalText, f.dialect = nil, nil, finalText{}, nil
}

func backendError(r runs.Reason) string {
	switch r {
	case runs.ReasonIdle, runs.ReasonHard:
		return "timeout (details redacted when unsafe)"
	case runs.ReasonSpawn:
		return "could not be started (details redacted when unsafe)"
	case runs.ReasonSpool:
		return "output limit reached"
	case runs.ReasonSession:
		return "no session (details redacted when unsafe)"
	}
	return "exit status lost"
}
