package bridge

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"
)

// The statuses of a response.
const (
	StatusSuccess = "success"
	StatusError   = "error"
	StatusTimeout = "timeout"
)

// The error types of responses that the bridge writes.
const (
	TypeTimeout    = "timeout"
	TypeInvocation = "AgentInvocationError"
)

// Response is a response file: exactly the nine fields of the contract.
type Response struct {
	RequestID    string            `json:"request_id"`
	Version      string            `json:"version"`
	Status       string            `json:"status"`
	Response     *string           `json:"response"`
	ErrorMessage *string           `json:"error_message"`
	ErrorType    *string           `json:"error_type"`
	CreatedAt    string            `json:"created_at"`
	Duration     Seconds           `json:"duration_seconds"`
	Metadata     map[string]string `json:"metadata"`
}

// Outcome is what came of a request.
type Outcome struct {
	Status  string            // one of the Status constants
	Text    string            // the agent's final text, of a success
	Message string            // what went wrong, for people, of everything else
	Took    time.Duration     // how long the agent worked; 0: not known
	Meta    map[string]string // goes to the metadata
	Taken   bool              // somebody outside has given it, and was told that it counts
}

// failed is the outcome of what cannot be done.
func failed(message string) Outcome { return Outcome{Status: StatusError, Message: message} }

// newResponse is the response to the request of an id, made at a given time.
func newResponse(id string, o Outcome, at time.Time) Response {
	r := Response{
		RequestID: id, Version: "1.0", Status: o.Status, Duration: Seconds(o.Took), Metadata: o.Meta,
		CreatedAt: at.UTC().Format("2006-01-02T15:04:05.000000-07:00"), // Python before 3.11 reads no Z
	}
	if r.Metadata == nil {
		r.Metadata = map[string]string{}
	}
	switch kind := TypeInvocation; o.Status {
	case StatusSuccess:
		r.Response = &o.Text
	case StatusTimeout:
		kind = TypeTimeout
		fallthrough
	default:
		r.ErrorMessage, r.ErrorType = &o.Message, &kind
	}
	return r
}

// Encode is the content of the file: UTF-8, indented, and read by any JSON
// reader.
func (r Response) Encode() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(r)
	return b.Bytes(), err
}

// Seconds is a duration that is written as a number of seconds with a fraction.
type Seconds time.Duration

// MarshalJSON rounds to milliseconds.
func (s Seconds) MarshalJSON() ([]byte, error) {
	n := math.Round(time.Duration(s).Seconds()*1000) / 1000
	text := strconv.FormatFloat(max(n, 0), 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return []byte(text), nil
}
