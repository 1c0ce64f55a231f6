// Package v36 writes answers in the form of the v3.6 delegator: an envelope of
// JSON for programs, and a markdown page for readers. It owns the types and the
// schemas of the payloads, and the table of error codes. It decides nothing and
// reads nothing: what it writes comes from package responder.
//
//	outcome ──▶ Reply ──┬─▶ Tool.Answer ──▶ envelope (JSON)
//	error   ──▶ Error ──┴─▶ Tool.Fail   ──▶ page
//
// The one rule: text of agents and callers cannot break out of its position on a
// page, and every envelope fits its schema.
package v36

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/runs"
)

// ErrUnknownTool reports an unknown tool name. A surface answers it with its
// own protocol's error; every other mistake is an [Answer].
var ErrUnknownTool = errors.New("unknown tool")

// A Tool is the description of a tool for callers. Its category is that of its answers: execution_ack,
// status_snapshot, …; "": see [Plain].
type Tool api.Tool

// Hints are what a call may do.
type Hints = api.Hints

// A Schema is the JSON Schema of one category of envelopes, for callers that
// validate answers.
type Schema struct {
	URI         string // linesman://schemas/codex/v3.6/CATEGORY/v1
	Name        string
	Description string
	Body        []byte // application/schema+json
}

// Progress is the progress of a call.
type Progress = api.ToolProgress

// An Answer is the outcome of a call, successful or not.
type Answer struct {
	// Envelope is the v3.6 envelope as compact JSON or, if requested, the AdCP
	// envelope. It is never empty.
	Envelope []byte

	// JSON means that the caller reads the envelope; otherwise it reads
	// Markdown.
	JSON     bool
	Markdown string

	// IsError means that the envelope has an error. The state of a failed task
	// is not an error, except on AdCP.
	IsError bool
	// Code and Message are those of the error.
	Code, Message string
}

// Text is the representation that the caller reads.
func (a Answer) Text() string {
	if a.JSON {
		return string(a.Envelope)
	}
	return a.Markdown
}

// The categories of answers.
const (
	ExecutionAck   = "execution_ack"
	WaitResult     = "wait_result"
	StatusSnapshot = "status_snapshot"
	ResultSet      = "result_set"
	RegistryInfo   = "registry_info"
)

//go:embed schemas/*.json
var schemaFiles embed.FS

// Schemas are the JSON Schemas of the envelopes, by category, and of the error
// that any of them can hold, which the others refer to by its URI.
func Schemas() []Schema {
	var all []Schema
	for _, s := range []struct{ name, about string }{
		{ExecutionAck, "Envelope of a task that was taken."},
		{WaitResult, "Envelope of a task that was waited for."},
		{StatusSnapshot, "Envelope of how tasks stand."},
		{ResultSet, "Envelope of what came of a task."},
		{RegistryInfo, "Envelope of cancels, cleanups, environments and guides."},
		{"error", "Error of an envelope."},
	} {
		body, err := schemaFiles.ReadFile("schemas/" + s.name + ".json")
		if err != nil { // it is part of the program
			panic(fmt.Sprintf("v36: schema %s: %v", s.name, err))
		}
		all = append(all, Schema{
			URI: "linesman://schemas/" + schemaID(s.name), Name: s.name, Description: s.about, Body: body,
		})
	}
	return all
}

const version = "3.6"

func schemaID(category string) string { return "codex/v3.6/" + category + "/v1" }

// Reply is the content of a successful answer.
type Reply struct {
	Meta any // a struct of scalars
	data data
}

// data is the payload of an envelope.
type data interface {
	// markdown writes the payload to a page.
	markdown(p *page)
	// message is the payload in one line; "": none.
	message() string
}

// Message returns the reply in one line; "" if it is not about a single task.
func (r *Reply) Message() string { return r.data.message() }

// Body returns the data, with the meta as its last member: the contents beside
// an AdCP envelope. The state of the task is omitted, because the envelope has
// it.
func (r *Reply) Body() json.RawMessage {
	said := r.data
	if d, ok := said.(*resultData); ok {
		without := *d
		without.Metadata.TaskStatus = ""
		said = &without
	}
	b := encode(said)
	meta := encode(r.Meta)
	if string(meta) == "{}" {
		return b
	}
	b = append(b[:len(b)-1], `,"meta":`...)
	return append(append(b, meta...), '}')
}

// Answer returns the answer of a call that succeeded. Its caller reads the
// envelope, or the page.
func (t Tool) Answer(r *Reply, json bool) Answer {
	a := Answer{Envelope: t.encode(envelope{Status: "ok", Meta: r.Meta, Data: r.data}), JSON: json}
	if !json {
		p := &page{}
		r.data.markdown(p)
		a.Markdown = p.String()
	}
	return a
}

// Fail returns the answer of a call with an error.
func (t Tool) Fail(err *api.Error, json bool) Answer {
	if t.Category == "" {
		return plainError(err)
	}
	e := ErrorOf(err)
	a := Answer{
		Envelope: t.encode(envelope{Status: "error", Meta: struct{}{}, Error: e}), JSON: json, IsError: true,
		Code: e.Code, Message: e.Message,
	}
	if !json {
		a.Markdown = e.markdown()
	}
	return a
}

// envelope has the fields of v3.6 in their order.
type envelope struct {
	Version   string    `json:"version"`
	SchemaID  string    `json:"schema_id"`
	Tool      string    `json:"tool"`
	Category  string    `json:"tool_category"`
	RequestID string    `json:"request_id"`
	TS        runs.Time `json:"ts"`
	Status    string    `json:"status"`
	Meta      any       `json:"meta"`
	Data      data      `json:"data,omitempty"`
	Error     *failure  `json:"error,omitempty"`
}

func (t Tool) encode(e envelope) []byte {
	e.Version, e.SchemaID, e.Tool, e.Category = version, schemaID(t.Category), t.Name, t.Category
	e.RequestID, e.TS = uuid.NewString(), api.TimeOf(time.Now())
	b := bytes.NewBuffer(make([]byte, 0, 1024)) // the length of most answers
	encoder := json.NewEncoder(b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(&e); err != nil { // strings, numbers, and JSON that was read before
		panic("v36: encode an envelope: " + err.Error())
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

func encode(v any) []byte {
	b, err := bounds.Encode(v)
	if err != nil { // strings, numbers, and JSON that was read before
		panic("v36: " + err.Error())
	}
	return b
}

// moment is a time in Unix milliseconds as answers have it: UTC, milliseconds.
func moment(ms int64) string {
	if ms == 0 {
		return "1970-01-01T00:00:00.000Z"
	}
	return runs.Time(ms).String()
}

// onlyStream is the extension of an answer that has no other.
type onlyStream struct {
	Stream *api.Basis `json:"stream,omitempty"`
}

func extOf(b *api.Basis) *onlyStream {
	if b == nil {
		return nil
	}
	return &onlyStream{b}
}

func (x *onlyStream) markdown(p *page) {
	if x != nil {
		p.stream(x.Stream)
	}
}
