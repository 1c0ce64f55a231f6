package api

import "github.com/linesman/linesman/runs"

// A live run that is kept takes messages: each begins a turn once no other one runs.

// SendRequest sends a message, or changes one that waits.
type SendRequest struct {
	Run  string `json:"run"`
	Text string `json:"text"` // 1 to 262144 bytes
	// When is next, the default: in its turn; or now: the turn that runs is cancelled for it.
	When    string `json:"when,omitempty"`
	Message string `json:"message,omitempty"` // id of the one to change
	Key     string `json:"key,omitempty"`     // idempotency key: the same again is sent once; absent: each time
	Unique  bool   `json:"-"`                 // the key is for no other run either
}

// MessageRequest names a message that waits.
type MessageRequest struct {
	Run     string `json:"run"`
	Message string `json:"message"`
}

// TurnRequest names a turn.
type TurnRequest struct {
	Run  string `json:"run"`
	Turn int    `json:"turn,omitempty"` // from 1; absent: the one that runs
	Key  string `json:"key,omitempty"`  // idempotency key: the same again cancels no later turn
}

// SetRequest changes what the agent may do, and the model, from the next turn on. One of both is required.
type SetRequest struct {
	Run string `json:"run"`
	// Mode is read-only, workspace-write or danger-full-access, at most that of the task; absent: as it is. What the
	// agent asks is decided by it at once.
	Mode  runs.Mode `json:"mode,omitempty"`
	Model string    `json:"model,omitempty"` // absent: as it is; one that the agent refuses leaves the one before
	Key   string    `json:"key,omitempty"`   // idempotency key: the same again changes nothing later
}

// Sent is the state of a live run after a message, or another request.
type Sent struct {
	Run     string     `json:"run"`
	State   runs.State `json:"state"`
	Message string     `json:"message,omitempty"` // id
	Waits   bool       `json:"waits,omitempty"`   // the message waits for its turn
	Turn    int        `json:"turn"`              // the newest one
	Waiting int        `json:"waiting"`           // messages that wait
	Held    bool       `json:"held,omitempty"`    // since the last turn was not completed
	// Delivered says that the agent has what is due for it. Else the worker gives it to the agent when it is back.
	Delivered bool   `json:"delivered,omitempty"`
	Entry     uint64 `json:"entry,omitempty"` // of the log: a wait after it ends with nothing earlier
}

// Conversation is how a live run that is kept stands.
type Conversation struct {
	Turn     int    `json:"turn"`                // the newest one, from 1; 0: none has begun
	Last     string `json:"last_turn,omitempty"` // completed or failed: the last one that has ended
	WaitsFor string `json:"waits_for,omitempty"` // permission, question or message; absent: nothing
	Waiting  int    `json:"waiting"`             // messages that wait
	Held     bool   `json:"held,omitempty"`      // they are, since the last turn was not completed
	Process  int    `json:"process"`             // the newest process of the agent, from 1; 0: none was started
	Asleep   bool   `json:"asleep,omitempty"`    // the process has ended, and the next message starts another one
	Mode     string `json:"mode,omitempty"`      // of the session, in the agent's word; absent: not told
	Model    string `json:"model,omitempty"`     // of the session, as the agent told it last
}

// Messages are those that wait, in the order in which they will be sent.
type Messages struct {
	Run      string    `json:"run"`
	Messages []Message `json:"messages"`
	Held     bool      `json:"held,omitempty"`
}

// Message is a message that waits.
type Message struct {
	Message string `json:"message"` // id
	Text    string `json:"text"`
	Bytes   int    `json:"bytes,omitempty"` // of a text that is left out, over NATS alone: an answer has 400 KiB of them
	By      string `json:"by,omitempty"`    // the name of a token, owner or operator
	Via     string `json:"via,omitempty"`   // the surface
}
