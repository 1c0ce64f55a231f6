package acp

import (
	"strings"

	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/normalizer"
)

// text is the text of a message, as far as it is not published: chunks are joined up to the last
// newline, up to maxText, and up to any other event.
type text struct {
	Channel byte   `json:"channel,omitempty"` // see the constants; 0: there was none
	ID      string `json:"id,omitempty"`      // of the message, at most MaxID bytes
	Rest    string `json:"rest,omitempty"`
	Goes    bool   `json:"goes,omitempty"` // the next chunk continues the final text, if it is of the same message
	Said    string `json:"said,omitempty"` // beginning of the last message, if it may be an error
}

// The channels of a text.
const (
	answer    = 'a'
	reasoning = 'r'
	subagent  = 's'
)

// Limits of texts, in bytes.
const (
	maxText = 1 << 10
	maxSaid = 512
)

// say maps a chunk of a message.
func (d *dialect) say(channel byte, id, chunk string, out *normalizer.Out) {
	t := &d.Text
	id = id[:bounds.Cut(id, MaxID)]
	if t.Channel != channel || t.ID != id {
		d.flush(out)
		t.Channel, t.ID, t.Goes = channel, strings.Clone(id), false
	}
	if channel == answer {
		d.final(chunk, out)
	}
	t.Rest += chunk
	n := strings.LastIndexByte(t.Rest, '\n') + 1
	switch {
	case len(t.Rest)-n >= maxText:
		n = len(t.Rest)
	case strings.TrimSpace(t.Rest[:n]) == "" && len(t.Rest) < maxText:
		n = 0
	}
	rest := t.Rest[n:]
	if t.Rest = t.Rest[:n]; n > 0 {
		d.flush(out)
	}
	t.Rest = strings.Clone(rest)
}

// final adds a chunk to the final text, which is the last message of a turn that has text.
func (d *dialect) final(chunk string, out *normalizer.Out) {
	t := &d.Text
	switch {
	case t.Goes:
		out.More(chunk)
	case strings.TrimSpace(chunk) == "":
		return
	default:
		out.Draft(chunk)
		out.Facts.Step = true
		t.Goes, t.Said = true, ""
	}
	if d.agent.Silent && len(t.Said) < maxSaid {
		t.Said += chunk[:bounds.Cut(chunk, maxSaid-len(t.Said))]
	}
}

// flush publishes the text so far, unless it is blank.
func (d *dialect) flush(out *normalizer.Out) {
	t := &d.Text
	rest := t.Rest
	if t.Rest = ""; strings.TrimSpace(rest) == "" {
		return
	}
	switch t.Channel {
	case reasoning:
		out.Event(normalizer.ReasoningText(rest))
	case subagent:
		out.Event(normalizer.SubagentText(rest))
	default:
		out.Event(normalizer.AssistantText(rest))
	}
}
