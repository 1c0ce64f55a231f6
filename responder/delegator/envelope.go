package delegator

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"math/rand/v2"
	"time"
)

const version = "3.6"

func schemaID(category string) string { return "codex/v3.6/" + category + "/v1" }

// appender is a part of an envelope that writes its own JSON. Those of a
// status are: it is asked for more often than all the rest.
type appender interface {
	appendJSON(b []byte) []byte
}

// head is what each envelope of a tool begins with, up to its request_id.
func (t *tool) head() []byte {
	b := encode(struct {
		Version  string `json:"version"`
		SchemaID string `json:"schema_id"`
		Tool     string `json:"tool"`
		Category string `json:"tool_category"`
	}{version, schemaID(t.category), t.name, t.category})
	return append(b[:len(b)-1], `,"request_id":"`...)
}

func (c *call) succeed(r *reply) Answer {
	b := c.envelope("ok", r.meta)
	b = appendJSON(append(b, `,"data":`...), r.data)
	return c.answer(append(b, '}'), r.data, false)
}

func (c *call) fail(err error) Answer {
	f := c.explain(err)
	b := c.envelope("error", struct{}{})
	b = appendJSON(append(b, `,"error":`...), &f.wireError)
	return c.answer(append(b, '}'), f, true)
}

// envelope is one up to its data or error, field by field in the order of v3.6.
func (c *call) envelope(status string, meta any) []byte {
	b := make([]byte, 0, 640) // a status of one run
	b = appendUUID(append(b, c.tool.begin...))
	b = append(b, `","ts":"`...)
	b = appendStamp(b, time.Now())
	b = append(b, `","status":"`...)
	b = append(b, status...)
	b = append(b, `","meta":`...)
	return appendJSON(b, meta)
}

func (c *call) answer(envelope []byte, said data, isError bool) Answer {
	a := Answer{Envelope: envelope, JSON: c.args.json, IsError: isError}
	if !a.JSON {
		p := &page{}
		said.markdown(p)
		a.Markdown = p.String()
	}
	return a
}

func appendJSON(b []byte, v any) []byte {
	if a, ok := v.(appender); ok {
		return a.appendJSON(b)
	}
	body := bytes.NewBuffer(b)
	encoder := json.NewEncoder(body)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil { // strings, numbers, and JSON that was read before
		panic("delegator: encode an envelope: " + err.Error())
	}
	return bytes.TrimSuffix(body.Bytes(), []byte("\n"))
}

// appendUUID appends a random UUID, version 4. It names a request, and is no
// secret.
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

// appendStamp appends a time as answers show it: UTC, milliseconds.
func appendStamp(b []byte, t time.Time) []byte {
	b = t.UTC().AppendFormat(b, time.RFC3339) // the format that package time is quick with
	ms := t.Nanosecond() / 1e6
	return append(b[:len(b)-1], '.', byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10), 'Z')
}

func stamp(t time.Time) string { return string(appendStamp(make([]byte, 0, 32), t)) }

// moment is [stamp] of a time in Unix milliseconds.
func moment(ms int64) string { return stamp(time.UnixMilli(ms)) }
