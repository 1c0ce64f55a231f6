package console

import (
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// TimeFormat is RFC 3339 with milliseconds, for times in UTC.
const TimeFormat = "2006-01-02T15:04:05.000Z"

// Record is one message of the event stream with what correlates it: an event
// or, as the last one of a run, a completion.
type Record struct {
	Seq        uint64    // of the message in the stream; 0 where there is none
	Time       time.Time // when the line was captured
	Agent, Run string
	Line       uint64 // of the run's output, from 1; 0 when no line made it
	Part       int    // counts the events of that line, from 1
	Event      json.RawMessage
	Completion json.RawMessage
}

// Kind returns the kind of the event as subjects spell it, and its message, if
// it has one. Both are an agent's: see [Safe].
func (r Record) Kind() (kind, message string) {
	v := look(r)
	return v.kind, v.message
}

// wire is the form that `--json` prints, which is a contract.
type wire struct {
	Seq        uint64          `json:"seq"`
	Time       string          `json:"time"`
	Agent      string          `json:"agent"`
	Run        string          `json:"run"`
	Line       uint64          `json:"line"`
	Part       int             `json:"part"`
	Event      json.RawMessage `json:"event,omitempty"`
	Completion json.RawMessage `json:"completion,omitempty"`
}

// WriteJSON prints one record as a line of JSON. The event's own bytes stay as
// they are stored, but for white space between them, and escapes on a terminal.
func WriteJSON(w io.Writer, r Record) error {
	line := wire{r.Seq, r.Time.UTC().Format(TimeFormat), r.Agent, r.Run, r.Line, r.Part, r.Event, r.Completion}
	if err := PrintJSON(w, line); err != nil {
		return fmt.Errorf("record %d of run %s: %w", r.Seq, r.Run, err)
	}
	return nil
}
