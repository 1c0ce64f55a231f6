// Package v36 writes answers in the form of the v3.6 delegator: an envelope of
// JSON for programs, and a markdown page for readers. It owns the types and the
// schemas of the payloads, and the table of error codes. It decides nothing and
// reads nothing: what it writes comes from package responder.
//
//	outcome ──▶ Reply ──┬─▶ Encoder ──▶ envelope (JSON)
//	error   ──▶ Error ──┴─▶ Markdown ──▶ page
//
// The one rule: text of agents and callers cannot break out of its position on a
// page, and every envelope fits its schema.
package v36

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"math/rand/v2"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bounds"
)

const version = "3.6"

func schemaID(category string) string { return "codex/v3.6/" + category + "/v1" }

// Reply is the content of a successful answer.
type Reply struct {
	Meta any // a struct of scalars
	Data Data
}

// Data is the payload of an envelope.
type Data interface {
	// markdown writes the payload to a page.
	markdown(p *page)
	// message is the payload in one line; "": none.
	message() string
}

// Markdown returns the reply as a page.
func (r *Reply) Markdown() string {
	p := &page{}
	r.Data.markdown(p)
	return p.String()
}

// Message returns the reply in one line; "" if it is not about a single task.
func (r *Reply) Message() string { return r.Data.message() }

// Body returns the data, with the meta as its last member: the contents beside
// an AdCP envelope. The state of the task is omitted, because the envelope has
// it.
func (r *Reply) Body() json.RawMessage {
	said := r.Data
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

// Encoder writes the envelopes of one tool.
type Encoder struct {
	begin []byte // of each envelope, up to its request_id
}

// NewEncoder returns the encoder of a tool, whose answers are of a category.
func NewEncoder(tool, category string) Encoder {
	b := encode(struct {
		Version  string `json:"version"`
		SchemaID string `json:"schema_id"`
		Tool     string `json:"tool"`
		Category string `json:"tool_category"`
	}{version, schemaID(category), tool, category})
	return Encoder{append(b[:len(b)-1], `,"request_id":"`...)}
}

// Reply returns the envelope of a reply, as compact JSON.
func (e Encoder) Reply(r *Reply) []byte {
	b := e.envelope("ok", r.Meta)
	b = appendJSON(append(b, `,"data":`...), r.Data)
	return append(b, '}')
}

// Error returns the envelope of an error, as compact JSON.
func (e Encoder) Error(err *Error) []byte {
	b := e.envelope("error", struct{}{})
	b = appendJSON(append(b, `,"error":`...), err)
	return append(b, '}')
}

// envelope encodes an envelope up to its data or error, field by field in the
// order of v3.6.
func (e Encoder) envelope(status string, meta any) []byte {
	b := make([]byte, 0, 640) // a status of one run
	b = appendUUID(append(b, e.begin...))
	b = append(b, `","ts":"`...)
	b = appendStamp(b, time.Now())
	b = append(b, `","status":"`...)
	b = append(b, status...)
	b = append(b, `","meta":`...)
	return appendJSON(b, meta)
}

// appender is a part of an envelope that encodes itself. The parts of a status
// do, because it is the most frequent answer.
type appender interface {
	appendJSON(b []byte) []byte
}

func appendJSON(b []byte, v any) []byte {
	if a, ok := v.(appender); ok {
		return a.appendJSON(b)
	}
	body := bytes.NewBuffer(b)
	encoder := json.NewEncoder(body)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil { // strings, numbers, and JSON that was read before
		panic("v36: encode an envelope: " + err.Error())
	}
	return bytes.TrimSuffix(body.Bytes(), []byte("\n"))
}

func encode(v any) []byte {
	b, err := bounds.Encode(v)
	if err != nil { // strings, numbers, and JSON that was read before
		panic("v36: " + err.Error())
	}
	return b
}

// appendUUID appends a random UUID, version 4. It identifies a request, and is
// not secret.
func appendUUID(b []byte) []byte {
	var id [16]byte
	hi, lo := rand.Uint64(), rand.Uint64()
	for i := range 8 {
		id[i], id[i+8] = byte(hi>>(8*i)), byte(lo>>(8*i))
	}
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	begin := 0
	for _, end := range [...]int{4, 6, 8, 10, 16} {
		if begin > 0 {
			b = append(b, '-')
		}
		b = hex.AppendEncode(b, id[begin:end])
		begin = end
	}
	return b
}

// appendStamp appends a time in the format of answers: UTC, milliseconds.
func appendStamp(b []byte, t time.Time) []byte {
	b = t.UTC().AppendFormat(b, time.RFC3339) // the format that package time is quick with
	ms := t.Nanosecond() / 1e6
	return append(b[:len(b)-1], '.', byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10), 'Z')
}

func stamp(t time.Time) string { return string(appendStamp(make([]byte, 0, 32), t)) }

// moment is [stamp] of a time in Unix milliseconds.
func moment(ms int64) string { return stamp(time.UnixMilli(ms)) }

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
