package delegator

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/responder/cloud"
	"github.com/linesman/linesman/runs"
)

// outputData is what an agent printed, or why it is left out.
type outputData struct {
	Included  bool    `json:"included"`
	Reason    string  `json:"reason,omitempty"`
	Stdout    *string `json:"stdout,omitempty"`
	Stderr    *string `json:"stderr,omitempty"`
	Truncated bool    `json:"truncated"`
	MaxBytes  int     `json:"max_bytes"`
	Original  int64   `json:"original_size,omitempty"` // bytes of both streams, where one is cut
}

// marker stands where a stream is cut. It does not count.
const marker = "\n... [truncated] ...\n"

// Limits of the events that an answer shows, the newest ones.
const (
	maxEvents       = 50
	maxEventBytes   = 512 << 10 // of all of them; any single one fits
	maxPartialBytes = 64 << 10  // of all of them, beside the output of a timeout
)

// output is what a task printed. Of one that failed or ran out of time it is
// always told.
func (c *call) output(ctx context.Context, r *runs.Record, o resultOptions) (outputData, error) {
	always := r.State == runs.StateFailed || r.State == runs.StateTimeout
	inCloud := ofCloud(r.Row())
	switch {
	case !o.output && inCloud:
		return outputData{Reason: "Output excluded by default (use include_output=true for the diff)"}, nil
	case !o.output && (!always || o.silent):
		return outputData{Reason: "Output excluded by default (use include_output=true)"}, nil
	case inCloud:
		return c.diff(ctx, r, o.most)
	}
	out, errs, err := c.Responder.Output(ctx, r, o.most)
	if err != nil {
		return outputData{}, err
	}
	if out.Size+errs.Size == 0 && r.Bytes+r.ErrBytes > 0 {
		return outputData{Reason: "The output is no longer kept"}, nil
	}
	d := outputData{Included: true, MaxBytes: o.most}
	stdout, cutOut := show(out, o.most/2)
	stderr, cutErr := show(errs, o.most/2)
	d.Stdout, d.Stderr = &stdout, &stderr
	if d.Truncated = cutOut || cutErr; d.Truncated {
		d.Original = out.Size + errs.Size
	}
	return d, nil
}

// show is a stream as text of at most most bytes: all of it, or its beginning
// and its end with a marker between. What is no UTF-8 becomes U+FFFD, but for
// the halves of a character that the cut has parted.
func show(x runs.Excerpt, most int) (s string, cut bool) {
	if x.Whole() {
		s = toText(x.Head)
		if len(s) <= most {
			return s, false
		}
		return s[:bounds.Cut(s, most/2)] + marker + ending(s, most/2), true
	}
	head, tail := x.Head, x.Tail
	for i := 1; i < utf8.UTFMax && i <= len(head); i++ { // a character that was parted
		if b := head[len(head)-i:]; utf8.RuneStart(b[0]) {
			if !utf8.FullRune(b) {
				head = head[:len(head)-i]
			}
			break
		}
	}
	for i := 0; i < utf8.UTFMax-1 && len(tail) > 0 && !utf8.RuneStart(tail[0]); i++ {
		tail = tail[1:]
	}
	first := toText(head)
	return first[:bounds.Cut(first, most/2)] + marker + ending(toText(tail), most/2), true
}

func toText(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }

// ending is the end of s, at most most bytes of it.
func ending(s string, most int) string {
	if len(s) <= most {
		return s
	}
	i := len(s) - most
	for i < len(s) && !utf8.RuneStart(s[i]) {
		i++
	}
	return s[i:]
}

// partial is the end of what a task printed before its time was over.
func (c *call) partial(ctx context.Context, r *runs.Record, most int) (*partial, error) {
	out, errs, err := c.Responder.Output(ctx, r, 4*most) // whose ends have at least most bytes
	if err != nil {
		return nil, err
	}
	text := last(out)
	if s := last(errs); s != "" {
		if len(text)+len(s) > most { // the messages matter as much as the lines
			s = ending(s, most/2)
		}
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		text = ending(text, most-len(s)) + s
	}
	p := &partial{Output: ending(text, most), Events: []json.RawMessage{}}
	items, err := c.lastEvents(ctx, r, maxPartialBytes)
	if err != nil {
		return nil, err
	}
	for _, e := range items {
		p.Events = append(p.Events, typed(e))
	}
	return p, nil
}

// typed is an event with a type in front, as the contract's last_events have it.
func typed(event json.RawMessage) json.RawMessage {
	return append([]byte(`{"type":"`+typeOf(event)+`",`), bytes.TrimPrefix(event, []byte("{"))...)
}

// typeOf is the type of the agent's line that an event came from, as far as
// the event says; else the token of its kind.
func typeOf(event json.RawMessage) string {
	e := gjson.GetManyBytes(event, "kind", "message", "data.tool.phase")
	switch kind, message := e[0].String(), e[1].String(); kind {
	case "":
		return "completion"
	case "TextOutput", "ToolResult":
		return "item.completed"
	case "ToolCall":
		if e[2].String() == "delta" {
			return "item.updated"
		}
		return "item.started"
	case "Status":
		switch message {
		case "thread started", "turn started", "turn completed", "turn failed":
			return strings.Replace(message, " ", ".", 1)
		case "todo list started", "todo list updated", "todo list completed":
			return "item." + strings.TrimPrefix(message, "todo list ")
		}
		return "status"
	case "Error":
		return "error"
	}
	return "unknown"
}

// last is the end of a stream, as far as it is known.
func last(x runs.Excerpt) string {
	if x.Whole() {
		return toText(x.Head)
	}
	tail := x.Tail
	for i := 0; i < utf8.UTFMax-1 && len(tail) > 0 && !utf8.RuneStart(tail[0]); i++ {
		tail = tail[1:]
	}
	return toText(tail)
}

// eventsOf are the last events of a run, where they are wanted.
func (c *call) eventsOf(ctx context.Context, r *runs.Record, wanted bool) (*eventsData, error) {
	d := &eventsData{Included: wanted, Count: 1} // the completion, which the record does not count
	for _, n := range r.Events {
		d.Count += n
	}
	if !wanted {
		d.Reason = "Events excluded by default (use include_events=true)"
		return d, nil
	}
	items, err := c.lastEvents(ctx, r, maxEventBytes)
	d.Items = append([]json.RawMessage{}, items...)
	return d, err
}

// lastEvents are the newest events of a run, as many as most bytes hold.
func (c *call) lastEvents(ctx context.Context, r *runs.Record, most int) ([]json.RawMessage, error) {
	all, err := c.Responder.Events(ctx, r, maxEvents)
	if err != nil {
		return nil, err
	}
	first, size := len(all), 0
	for first > 0 && size+len(all[first-1]) <= most {
		first--
		size += len(all[first])
	}
	return all[first:], nil
}

// diff is the unified diff of a task in the cloud, as its log tells it.
func (c *call) diff(ctx context.Context, r *runs.Record, most int) (outputData, error) {
	out, _, err := c.Responder.Output(ctx, r, 2*cloud.MaxOutput)
	if err != nil {
		return outputData{}, err
	}
	diff, cut, found := lastDiff(out.Head)
	if !found {
		return outputData{Reason: "There is no diff of the task"}, nil
	}
	none := ""
	text, shortened := show(runs.Excerpt{Head: []byte(diff), Size: int64(len(diff))}, most)
	d := outputData{Included: true, MaxBytes: most, Stdout: &text, Stderr: &none}
	if d.Truncated = shortened || cut; d.Truncated {
		d.Original = int64(len(diff))
	}
	return d, nil
}

// lastDiff is the newest diff that the lines of a driver hold.
func lastDiff(lines []byte) (diff string, cut, found bool) {
	for line := range strings.Lines(string(lines)) {
		var l struct {
			Type      string `json:"type"`
			Diff      string `json:"diff"`
			Truncated bool   `json:"truncated"`
		}
		if strings.HasPrefix(line, `{"type":"cloud.diff"`) && json.Unmarshal([]byte(line), &l) == nil && l.Type == "cloud.diff" {
			diff, cut, found = l.Diff, l.Truncated, true
		}
	}
	return diff, cut, found
}

func (d outputData) markdown(p *page) {
	if !d.Included {
		p.gap()
		p.line(d.Reason)
		return
	}
	for _, s := range []struct {
		name string
		text *string
	}{{"stdout", d.Stdout}, {"stderr", d.Stderr}} {
		if s.text != nil && *s.text != "" {
			p.block(s.name, "", *s.text)
		}
	}
	if d.Truncated {
		p.line("(cut: " + number(d.Original) + " bytes in all)")
	}
}
