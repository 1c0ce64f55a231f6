// Package api has the types that programs and linesman exchange: requests,
// outcomes and errors. It owns their names, shapes, units and limits. It does
// not validate or carry out a request: package responder does.
//
//	request ──▶ responder.Service ──▶ outcome, or *Error
//	              ▲
//	  REST, A2A, MCP tools, NATS, command line
//
// Every type marshals to JSON and back without loss. Times are UTC with
// milliseconds.
package api

import (
	"encoding/json"
	"fmt"
	"time"
)

// Time is a moment in Unix milliseconds; 0 means that it has not come. In JSON
// it is a string of RFC 3339 in UTC with milliseconds.
type Time int64

// TimeOf returns t as a Time.
func TimeOf(t time.Time) Time { return Time(t.UnixMilli()) }

// timeForm has exactly three digits of a second's fraction.
const timeForm = "2006-01-02T15:04:05.000Z"

// String returns the form that JSON has, "" for 0.
func (t Time) String() string {
	if t == 0 {
		return ""
	}
	return string(t.append(make([]byte, 0, len(timeForm))))
}

// append appends the form of a time that is not 0. The layout RFC3339 is formatted four times as fast as others.
func (t Time) append(b []byte) []byte {
	at := time.UnixMilli(int64(t)).UTC()
	b = at.AppendFormat(b, time.RFC3339)
	ms := at.Nanosecond() / int(time.Millisecond)
	return append(b[:len(b)-1], '.', byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10), 'Z')
}

// MarshalJSON writes a string. A zero time is "": leave it out with omitzero.
func (t Time) MarshalJSON() ([]byte, error) {
	b := append(make([]byte, 0, len(timeForm)+2), '"')
	if t != 0 {
		b = t.append(b)
	}
	return append(b, '"'), nil
}

// UnmarshalJSON reads a string of RFC 3339, or "".
func (t *Time) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	if s == "" {
		*t = 0
		return nil
	}
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return fmt.Errorf("a time of RFC 3339: %w", err)
	}
	*t = TimeOf(at)
	return nil
}

// Basis is the state that an answer is based on.
type Basis struct {
	Seq uint64 `json:"seq"` // newest sequence of RAW that was read
	At  Time   `json:"ts"`  // when it was read
}
