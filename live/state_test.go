package live

import (
	"encoding/json"
	"errors"
)

// restore returns the conversation of a saved state.
func restore(config Config, saved []byte) (*Conversation, error) {
	c := New(config)
	if json.Unmarshal(saved, &c.s) != nil || c.s.V != version {
		return nil, errors.New("the saved state of a conversation is not valid")
	}
	return c, nil
}
