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
	statusSuccess = "success"
	statusError   = "error"
	statusTimeout = "timeout"
)

// The error types of responses that the bridge writes.
const (
	typeTimeout    = "timeout"
	typeInvocation = "AgentInvocationError"
)

// responseFile is the content of a response file: exactly the nine fields of the contract.
type responseFile struct {
	RequestID    string            `json:"request_id"`
	Version      string            `json:"version"`
	Status       string            `json:"status"`
	Response     *string           `json:"response"`
	ErrorMessage *string           `json:"error_message"`
	ErrorType    *string           `json:"error_type"`
	CreatedAt    string            `json:"created_at"`
	Duration     seconds           `json:"duration_seconds"`
	Metadata     map[string]string `json:"metadata"`
}

// outcome is the result of a request.
type outcome struct {
	Status  string            // one of the Status constants
	Text    string            // final text of the agent, for success
	Message string            // error text for people, for other statuses
	Took    time.Duration     // duration of the agent's work; 0: unknown
	Meta    map[string]string // for the metadata of the response
	Taken   bool              // an external agent sent it, and got the reply that it was accepted
	Unended bool              // its run could not be ended
}

// failed returns the outcome of a request that cannot be executed.
func failed(message string) outcome { return outcome{Status: statusError, Message: message} }

// newResponse returns the response to the request with this id, created at the
// given time.
func newResponse(id string, o outcome, at time.Time) responseFile {
	r := responseFile{
		RequestID: id, Version: "1.0", Status: o.Status, Duration: seconds(o.Took), Metadata: o.Meta,
		CreatedAt: at.UTC().Format("2006-01-02T15:04:05.000000-07:00"), // Python before 3.11 reads no Z
	}
	if r.Metadata == nil {
		r.Metadata = map[string]string{}
	}
	switch kind := typeInvocation; o.Status {
	case statusSuccess:
		r.Response = &o.Text
	case statusTimeout:
		kind = typeTimeout
		fallthrough
	default:
		r.ErrorMessage, r.ErrorType = &o.Message, &kind
	}
	return r
}

// encode returns the content of the file: indented UTF-8.
func (r responseFile) encode() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(r)
	return b.Bytes(), err
}

// seconds is a duration that is encoded as a number of seconds with a
// fraction.
type seconds time.Duration

// MarshalJSON rounds to milliseconds.
func (s seconds) MarshalJSON() ([]byte, error) {
	n := math.Round(time.Duration(s).Seconds()*1000) / 1000
	text := strconv.FormatFloat(max(n, 0), 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return []byte(text), nil
}
