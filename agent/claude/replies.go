package claude

import (
	"slices"
	"strings"

	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/normalizer/wire"
	"github.com/linesman/linesman/runs"
)

// replies are the newest messages of the model in a session log, oldest first. A message is counted
// once: two processes that continue a session write to one log, and a line can be repeated.
type replies []reply

// reply is what is known of a message.
type reply struct {
	ID    string      `json:"id"`
	Used  *runs.Usage `json:"used,omitempty"`  // what was counted; nil: nothing
	Ended bool        `json:"ended,omitempty"` // a line has told its end
}

// maxReplies is the number of messages that are remembered.
const maxReplies = 8

// counted counts what the message of the line has used, as far as it was not counted, and returns
// the message. It is valid until the next call.
func (d *dialect) counted(out *normalizer.Out) *reply {
	id := wire.ID(d.line.log.id)
	i := slices.IndexFunc(d.Replies, func(m reply) bool { return m.ID == id && id != "" })
	if i < 0 {
		d.leave(out)
		if len(d.Replies) == maxReplies {
			d.Replies = slices.Delete(d.Replies, 0, 1)
		}
		i = len(d.Replies)
		d.Replies = append(d.Replies, reply{})
		if len(id) <= wire.MaxCallBytes {
			d.Replies[i].ID = strings.Clone(id)
		}
	}
	m := &d.Replies[i]
	if u := &d.line.log.usage; u.Any() && !m.Ended {
		now := spent(&u.N)
		if m.Used == nil {
			out.Facts.Spent, m.Used = now, now
		} else if more := now.Minus(*m.Used); more != (runs.Usage{}) {
			out.Facts.Spent, m.Used = &more, new(m.Used.Plus(&more))
		}
	}
	return m
}

// leave reports that a message has no end, whose usage is then that of its start.
func (d *dialect) leave(out *normalizer.Out) {
	if n := len(d.Replies); n > 0 && !d.Replies[n-1].Ended {
		out.Facts.Untold = true
	}
}

// open maps a line of a message whose reason to stop is not known, or not yet.
func (d *dialect) open(said bool, text string, out *normalizer.Out) {
	if m := d.counted(out); m.Ended {
		return
	}
	switch {
	case !d.Reasons && said && !wire.Blank(text) && out.Facts.Opened.ID == "":
		d.Answers, out.Facts.Answered = true, true
		out.Final(text)
	case d.Answers:
		d.Answers = false
		out.NoFinal()
	}
}
