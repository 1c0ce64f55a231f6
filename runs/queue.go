package runs

import "slices"

// Queue are the messages for the agent of a live run that wait for their turn. Whoever folds the log folds it by the
// same methods: the conversation, which sends the texts, and the dialect, which keeps none.
type Queue struct {
	Messages []Message `json:"messages,omitempty"` // in the order in which they are sent; at most MaxQueued
	// Held: a turn was not completed while messages waited. As they assume that it would be, none is sent until
	// somebody releases the queue or sends another one.
	Held bool `json:"held,omitempty"`
	// Sent is the message of the turn that runs. It waits again if the agent ended before it took it.
	Sent *Message `json:"sent,omitempty"`
}

// Message is a text for the agent.
type Message struct {
	ID    string `json:"id"` // of the command that sent it
	Bytes int    `json:"bytes"`
	Seq   uint64 `json:"raw_seq,omitempty"` // of the entry that has its text
	Text  string `json:"text,omitempty"`    // in the conversation alone
	Hash  uint64 `json:"hash,omitempty"`    // of the text, in a dialect alone
	Now   bool   `json:"now,omitempty"`     // it cancelled the turn before it, which therefore holds nothing
}

// Limits of a queue.
const (
	MaxQueued      = 32        // messages
	MaxQueuedBytes = 1 << 20   // of their texts
	MaxMessage     = 256 << 10 // bytes of a text
	MaxMessageJSON = 512 << 10 // of it as JSON: an entry with it fits into any NATS server that linesman takes
)

// What a command does to a queue, in [Command.Do].
const (
	DoSend    = "send"    // a message, whose id is that of the command
	DoEdit    = "edit"    // the text of one that waits
	DoUnsend  = "unsend"  // take one back that waits
	DoRelease = "release" // what is held
)

// WhenNow is when a message is sent, in [Command.When]: at once. The turn that runs is cancelled. Else it waits for its
// turn.
const WhenNow = "now"

// Changes reports whether a command changes what is sent next: the queue, or the options of the session.
func (c *Command) Changes() bool {
	return c.Do == DoSend || c.Do == DoEdit || c.Do == DoUnsend || c.Do == DoRelease || c.Do == DoSet
}

// Refuses returns why a command has no effect on the queue, as one of the Why constants, "" if it has.
func (q *Queue) Refuses(c *Command) string {
	i := q.at(c.Message)
	total := len(c.Text)
	for k := range q.Messages {
		if k != i || c.Do != DoEdit {
			total += q.Messages[k].Bytes
		}
	}
	switch text := c.Do == DoSend || c.Do == DoEdit; {
	case text && (len(c.Text) == 0 || len(c.Text) > MaxMessage || longJSON(c.Text, MaxMessageJSON)):
		return WhyUnfit
	case c.Do == DoSend && (q.at(c.ID) >= 0 || longJSON(c.ID, MaxCommandID+len(`""`))):
		return WhyUnfit
	case c.Do == DoSend && len(q.Messages) >= MaxQueued, text && total > MaxQueuedBytes:
		return WhyFull
	case (c.Do == DoEdit || c.Do == DoUnsend) && i < 0:
		return WhySent
	case c.Do == DoRelease && !q.Held:
		return WhyUnfit
	}
	return ""
}

// Apply folds a command that the queue does not refuse, and reports whether there was an effect.
func (q *Queue) Apply(c *Command) bool {
	if q.Refuses(c) != "" {
		return false
	}
	switch i := q.at(c.Message); c.Do {
	case DoSend:
		m := Message{ID: c.ID, Bytes: len(c.Text), Text: c.Text, Now: c.When == WhenNow}
		if q.Held = false; m.Now {
			q.Messages = slices.Insert(q.Messages, 0, m)
		} else {
			q.Messages = append(q.Messages, m)
		}
	case DoEdit:
		q.Messages[i].Text, q.Messages[i].Bytes = c.Text, len(c.Text)
	case DoUnsend:
		q.take(i)
	case DoRelease:
		q.Held = false
	}
	return true
}

// Ended folds the end of a turn.
func (q *Queue) Ended(completed bool) {
	q.Sent = nil
	q.Held = !completed && len(q.Messages) > 0 && !q.Messages[0].Now
	for i := range q.Messages {
		q.Messages[i].Now = false
	}
}

// Next returns the message that is to be sent when no turn runs; nil: there is none.
func (q *Queue) Next() *Message {
	if q.Held || len(q.Messages) == 0 {
		return nil
	}
	return &q.Messages[0]
}

// Take takes the first message for which is is true, as its turn begins, and reports whether there was one.
func (q *Queue) Take(is func(m *Message) bool) bool {
	for i := range q.Messages {
		if is(&q.Messages[i]) {
			q.Sent = new(q.Messages[i])
			q.take(i)
			return true
		}
	}
	return false
}

// Unsent folds the end of an agent that had not got the message of the turn: it is the next one, unless others are to
// be sent at once.
func (q *Queue) Unsent() {
	if q.Sent != nil {
		at := slices.IndexFunc(q.Messages, func(m Message) bool { return !m.Now })
		if at < 0 {
			at = len(q.Messages)
		}
		q.Messages = slices.Insert(q.Messages, at, *q.Sent)
	}
	q.Ended(true)
}

func (q *Queue) take(i int) {
	q.Messages = slices.Delete(q.Messages, i, i+1)
	q.Held = q.Held && len(q.Messages) > 0
}

func (q *Queue) at(id string) int {
	return slices.IndexFunc(q.Messages, func(m Message) bool { return m.ID == id })
}

// Of returns the message with an id; nil: it does not wait.
func (q *Queue) Of(id string) *Message {
	if i := q.at(id); i >= 0 {
		return &q.Messages[i]
	}
	return nil
}

// shown is the queue as a record has it: without texts.
func (q *Queue) shown() Queue {
	all := Queue{Messages: slices.Clone(q.Messages), Held: q.Held}
	if q.Sent != nil {
		all.Sent = new(*q.Sent)
		all.Sent.shorten()
	}
	for i := range all.Messages {
		all.Messages[i].shorten()
	}
	return all
}

func (m *Message) shorten() { m.Text, m.Hash, m.Now = "", 0, false }

// foldQueue folds the queue that a line or a command leaves. Changed is the message whose text is new.
func (l *live) foldQueue(q *Queue, changed string, seq uint64) {
	now := q.shown()
	place := func(m *Message) {
		if m.Seq = seq; m.ID == changed {
			return
		}
		if was := l.Queue.Of(m.ID); was != nil {
			m.Seq = was.Seq
		} else if was := l.Queue.Sent; was != nil && was.ID == m.ID {
			m.Seq = was.Seq
		}
	}
	for i := range now.Messages {
		place(&now.Messages[i])
	}
	if now.Sent != nil {
		place(now.Sent)
	}
	l.Queue = now
}

// IsZero reports whether nothing waits, and no message has its turn.
func (q Queue) IsZero() bool { return len(q.Messages) == 0 && !q.Held && q.Sent == nil }
