package main

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/linesman/linesman/normalizer"
)

// timeFormat is RFC 3339 with milliseconds, for times in UTC.
const timeFormat = "2006-01-02T15:04:05.000Z"

// record is one message of the event stream with what correlates it: an event
// or, as the last one of a run, a completion.
type record struct {
	Seq        uint64    // of the message in the stream; 0 where there is none
	Time       time.Time // when the line was captured
	Agent, Run string
	Line       uint64 // of the run's output, from 1; 0 when no line made it
	Part       int    // counts the events of that line, from 1
	Event      json.RawMessage
	Completion json.RawMessage
}

// wireRecord is the form that `--json` prints, which is a contract.
type wireRecord struct {
	Seq        uint64          `json:"seq"`
	Time       string          `json:"time"`
	Agent      string          `json:"agent"`
	Run        string          `json:"run"`
	Line       uint64          `json:"line"`
	Part       int             `json:"part"`
	Event      json.RawMessage `json:"event,omitempty"`
	Completion json.RawMessage `json:"completion,omitempty"`
}

func (r record) wire() wireRecord {
	return wireRecord{r.Seq, r.Time.UTC().Format(timeFormat), r.Agent, r.Run, r.Line, r.Part, r.Event, r.Completion}
}

// writeJSON prints one record as a line of JSON. The event's own bytes stay as
// they are stored, but for white space between them, and escapes on a terminal.
func writeJSON(w io.Writer, r record) error {
	if err := printJSON(w, r.wire()); err != nil {
		return fmt.Errorf("record %d of run %s: %w", r.Seq, r.Run, err)
	}
	return nil
}

// eventKind is a kind as subjects spell it.
type eventKind string

var (
	allKinds   = normalizer.Tokens()
	eventKinds = reflect.TypeFor[[]eventKind]()
)

// UnmarshalText accepts what there is and nothing else.
func (k *eventKind) UnmarshalText(text []byte) error {
	if !slices.Contains(allKinds, string(text)) {
		return fmt.Errorf("must be one of %s, got %q", strings.Join(allKinds, ", "), text)
	}
	*k = eventKind(text)
	return nil
}
