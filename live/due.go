package live

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/linesman/linesman/runs"
)

// item is a line for the agent.
type item struct {
	Do    string `json:"do"`
	ID    int64  `json:"id,omitempty"`    // of a request
	Ref   string `json:"ref,omitempty"`   // of an answer: the id of the request, as JSON, at most acp.MaxID bytes
	Value string `json:"value,omitempty"` // method of authenticate, mode, model, option, answer to a form; text of a prompt that is not the task's
	Code  int    `json:"code,omitempty"`  // of a refusal

	Content json.RawMessage `json:"content,omitempty"` // of a form, at most runs.MaxContent
}

// What an item does: a request, a notification, an answer.
const (
	doInitialize   = "initialize"
	doAuthenticate = "authenticate"
	doNew          = "new"
	doResume       = "resume"
	doLoad         = "load"
	doMode         = "mode"
	doModel        = "model"
	doPrompt       = "prompt"
	doClose        = "close"

	doCancel = "cancel"

	doSelect   = "select"
	doWithdraw = "withdraw"
	doForm     = "form"
	doRefuse   = "refuse"
)

func (i item) prompts() bool { return i.Do == doPrompt }

func (i *item) request() bool { return i.Ref == "" && i.Do != doCancel }

// Due returns the next bytes for the agent, at most [runs.MaxChunk], and their offset in all that it got in the run;
// none if nothing is due. A message that waits is due when all else is sent, and no turn runs. The worker appends
// them as an entry of kind [runs.Sent], and applies it, before it appends any other entry or asks again. The body is
// valid until then.
func (c *Conversation) Due() (offset int64, body []byte) {
	if len(c.s.Due) == 0 {
		m := c.next()
		if m == nil {
			return c.s.Sent, nil
		}
		body = c.render(item{Do: doPrompt, ID: c.s.Next + 1, Value: m.Text})
		return c.s.Sent, body[:min(len(body), runs.MaxChunk)]
	}
	if c.head == nil {
		c.head = c.render(c.s.Due[0])
	}
	rest := c.head[min(c.s.Part, len(c.head)-1):] // a line that another version began has its end at least
	return c.s.Sent, rest[:min(len(rest), runs.MaxChunk)]
}

// sent folds bytes that the agent gets: a newline takes the first due line from the queue. The first byte of a message
// begins its turn.
func (c *Conversation) sent(offset int64, body []byte) {
	s := &c.s
	known := max(s.Sent-offset, 0)
	if known >= int64(len(body)) {
		return
	}
	if offset > s.Sent {
		c.giveUp("the raw log has lost what was sent to the agent")
	}
	body, s.Sent = body[known:], offset+int64(len(body))
	for len(body) > 0 && (len(s.Due) > 0 || c.proceed()) {
		end := bytes.IndexByte(body, '\n')
		if end < 0 {
			s.Part += len(body)
			return
		}
		body = body[end+1:]
		first := s.Due[0]
		s.Due, s.Part, c.head = slices.Delete(s.Due, 0, 1), 0, nil
		if first.request() {
			if first.Do == doPrompt {
				first.Value = "" // of no use any more
				s.Prompted = s.Sent - int64(len(body))
			}
			s.Await = append(s.Await, first)
		}
		if first.Do == doMode {
			s.Mode = ""
		}
	}
}

// call makes a request due.
func (c *Conversation) call(do, value string) {
	c.s.Next++
	c.s.Due = append(c.s.Due, item{Do: do, ID: c.s.Next, Value: value})
}

// answer makes the answer to a request due.
func (c *Conversation) answer(i item) { c.s.Due = append(c.s.Due, i) }

// retract takes the items for which drop is true back, unless the log has a byte of them, and reports whether there
// was one.
func (c *Conversation) retract(drop func(i item) bool) bool {
	begun := 0
	if c.s.Part > 0 {
		begun = 1
	}
	n := len(c.s.Due)
	if begun < n {
		kept := slices.DeleteFunc(c.s.Due[begun:], drop)
		c.s.Due = c.s.Due[:begun+len(kept)]
	}
	if begun == 0 {
		c.head = nil
	}
	return len(c.s.Due) < n
}

// expects reports whether a request of a kind is due, or has no response.
func (c *Conversation) expects(do string) bool {
	is := func(i item) bool { return i.Do == do }
	return slices.ContainsFunc(c.s.Due, is) || slices.ContainsFunc(c.s.Await, is)
}
