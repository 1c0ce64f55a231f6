package natsagents

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	strict "github.com/go-json-experiment/json"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder"
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
	Live    *bool     `json:"live"` // absent: as the profile
	Keep    bool      `json:"keep"` // the run is a session
}

// request is a prompt with its options.
type request struct {
	prompt      string
	attachments []attachment
	options
}

// submission returns the submission of a prompt.
func (o *options) submission(prompt string) (q api.Submission) {
	q.Prompt, q.Model, q.Mode, q.Dir, q.Title, q.Keep = prompt, o.Model, o.Mode, o.Dir, o.Title, o.Keep
	q.Hard, q.Thread = o.Timeout, o.Resume
	return q
}

// once identifies a prompt with a key by what its caller wants, as what that means may change.
func (q request) once() (api.Once, error) {
	key := q.Key
	q.Key, q.Events = "", false
	return responder.OnceOf(key, struct {
		Prompt      string       `json:"prompt"`
		Attachments []attachment `json:"attachments"`
		Options     options      `json:"linesman"`
	}{q.prompt, q.attachments, q.options})
}

// none refuses all options but events: they are those of the run.
func (o options) none() error {
	if o.Events = false; o != (options{}) {
		return api.Invalid("linesman", "a session takes no options but events")
	}
	return nil
}

// read reads a prompt.
func read(body []byte) (q request, err error) {
	switch {
	case len(body) > maxPayload:
		return q, api.Invalid("request", fmt.Sprintf("at most %d bytes, got %d", maxPayload, len(body)))
	case !utf8.Valid(body):
		return q, api.Invalid("request", "must be UTF-8")
	case len(body) == 0 || body[0] != '{':
		q.prompt = string(body)
		return q, nil
	}
	var r struct {
		Prompt      *string         `json:"prompt"`
		Attachments []attachment    `json:"attachments"`
		Linesman    json.RawMessage `json:"linesman"`
	}
	if err := strictly(body, &r, false); err != nil {
		return q, err
	}
	if r.Prompt == nil {
		return q, api.Invalid(api.FieldPrompt, "is missing")
	}
	q.prompt, q.attachments = *r.Prompt, r.Attachments
	if len(r.Linesman) > 0 && !bytes.Equal(r.Linesman, []byte("null")) {
		err = strictly(r.Linesman, &q.options, true)
	}
	return q, err
}

// text returns the prompt with its attachments, which only live runs take.
func (q *request) text(live bool) (string, error) {
	switch {
	case len(q.attachments) == 0:
		return q.prompt, nil
	case !live:
		return "", api.Invalid("attachments", "are not accepted here")
	}
	return attach(q.prompt, q.attachments)
}

// said returns the text of an answer, which has the form of a prompt; of a form it may be a JSON object.
func said(body []byte) (string, error) {
	switch {
	case len(body) > maxPayload:
		return "", api.Invalid("answer", fmt.Sprintf("at most %d bytes", maxPayload))
	case !utf8.Valid(body):
		return "", api.Invalid("answer", "must be UTF-8")
	case len(body) == 0 || body[0] != '{':
		return string(body), nil
	}
	var r struct {
		Prompt      json.RawMessage   `json:"prompt"`
		Attachments []json.RawMessage `json:"attachments"`
	}
	if err := strictly(body, &r, false); err != nil {
		return "", api.Invalid("answer", "must be text, or a JSON object with prompt")
	}
	if len(r.Attachments) > 0 {
		return "", api.Invalid("attachments", "are not accepted here")
	}
	var text string
	switch {
	case len(r.Prompt) == 0: // the content of a form
		return string(body), nil
	case json.Unmarshal(r.Prompt, &text) == nil:
		return text, nil
	}
	return string(r.Prompt), nil
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
