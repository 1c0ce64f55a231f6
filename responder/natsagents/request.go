package natsagents

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	strict "github.com/go-json-experiment/json"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

// options is the member linesman of a prompt: what a profile lets its callers choose.
type options struct {
	Model   string    `json:"model"`
	Mode    runs.Mode `json:"mode"`
	Dir     string    `json:"workingDir"`
	Title   string    `json:"title"`
	Timeout int64     `json:"timeoutSec"`
	Resume  string    `json:"resume"` // a thread
	Key     string    `json:"idempotency_key"`
	Events  bool      `json:"events"`
}

// read returns the submission of a prompt, and whether its stream has events.
func read(body []byte) (q api.Submission, events bool, err error) {
	switch {
	case len(body) > maxPayload:
		return q, false, api.Invalid("request", fmt.Sprintf("at most %d bytes, got %d", maxPayload, len(body)))
	case !utf8.Valid(body):
		return q, false, api.Invalid("request", "must be UTF-8")
	case len(body) == 0 || body[0] != '{':
		q.Prompt = string(body)
		return q, false, nil
	}
	var r struct {
		Prompt      *string           `json:"prompt"`
		Attachments []json.RawMessage `json:"attachments"`
		Linesman    json.RawMessage   `json:"linesman"`
	}
	if err := strictly(body, &r, false); err != nil {
		return q, false, err
	}
	switch {
	case r.Prompt == nil:
		return q, false, api.Invalid(api.FieldPrompt, "is missing")
	case len(r.Attachments) > 0:
		return q, false, api.Invalid("attachments", "are not accepted here")
	}
	var o options
	if len(r.Linesman) > 0 && !bytes.Equal(r.Linesman, []byte("null")) {
		if err := strictly(r.Linesman, &o, true); err != nil {
			return q, false, err
		}
	}
	q.Prompt, q.Model, q.Mode, q.Dir, q.Title = *r.Prompt, o.Model, o.Mode, o.Dir, o.Title
	q.Hard, q.Thread, q.Once.Key = o.Timeout, o.Resume, o.Key
	return q, o.Events, nil
}

// strictly decodes a JSON object, without other members if it is closed. The error quotes none of it.
func strictly(body []byte, to any, closed bool) error {
	if len(body) > maxPayload || strict.Unmarshal(body, to, strict.RejectUnknownMembers(closed)) != nil {
		what := "must be a JSON object with members of the known types"
		if closed {
			what += ", and no others"
		}
		return api.Invalid("request", what)
	}
	return nil
}

// line is s as a header takes it: printable ASCII, at most 512 bytes.
func line(s string) string {
	b := []byte(s[:min(len(s), 512)])
	for i, c := range b {
		if c < ' ' || c >= 0x7f {
			b[i] = ' '
		}
	}
	return string(b)
}
