package live

import (
	"bytes"
	"encoding/json"
	"errors"
)

// maxState bounds the state of a conversation, in bytes.
const maxState = 64 << 10

// restore returns the conversation of a saved state.
func restore(config Config, saved []byte) (*Conversation, error) {
	c := New(config)
	if json.Unmarshal(saved, &c.s) != nil || c.s.V != version {
		return nil, errors.New("the saved state of a conversation is not valid")
	}
	return c, nil
}

// State returns the state as JSON, at most maxState bytes. It is nil where none can be taken: within a line of the
// agent, or if more lines are due, messages wait, or files are asked about, than fit. The last one is then still good,
// with the entries after it.
func (c *Conversation) State() []byte {
	if c.lines.unfinished() {
		return nil
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(c.s); err != nil { // impossible for these types
		panic("live: " + err.Error())
	}
	if b.Len() > maxState {
		return nil
	}
	return b.Bytes()
}
