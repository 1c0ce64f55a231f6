package acp

import (
	"encoding/json"

	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
)

// Own is the dialect of the lines of an agent's own.
type Own interface {
	normalizer.Dialect
	// IsNew reports whether State returns what it returns for a new dialect.
	IsNew() bool
}

// Within returns the dialect of an agent that prints lines of its own, for which there is a new dialect, or
// speaks the protocol. A run has one of both from its first line on.
func Within(own Own, agent *Agent) normalizer.Dialect {
	return &within{Dialect: own, own: own, agent: agent}
}

type within struct {
	normalizer.Dialect // own, or a *dialect
	own                Own
	agent              *Agent
}

// live returns the dialect of the protocol; nil: the agent prints lines of its own.
func (w *within) live() *dialect {
	d, _ := w.Dialect.(*dialect)
	return d
}

// Line implements [normalizer.Dialect]. A line of the protocol has no type. After a line of its own that told
// something, an agent does not begin to speak the protocol.
func (w *within) Line(line []byte, out *normalizer.Out) normalizer.Fault {
	fault := w.Dialect.Line(line, out)
	if fault == normalizer.MissingType && w.live() == nil && w.own.IsNew() && begins(line) {
		return w.speak().Line(line, out)
	}
	return fault
}

// speak makes the run one of the protocol.
func (w *within) speak() *dialect {
	if w.live() == nil {
		w.Dialect = &dialect{agent: w.agent}
	}
	return w.live()
}

// spoken is the state of a run of the protocol.
type spoken struct {
	ACP json.RawMessage `json:"acp"`
}

// State implements [normalizer.Dialect].
func (w *within) State() ([]byte, error) {
	state, err := w.Dialect.State()
	if err != nil || w.live() == nil {
		return state, err
	}
	return bounds.Encode(spoken{state})
}

// Restore implements [normalizer.Dialect].
func (w *within) Restore(state []byte) error {
	var s spoken
	if json.Unmarshal(state, &s) == nil && s.ACP != nil {
		return w.speak().Restore(s.ACP)
	}
	return w.Dialect.Restore(state)
}

// Detail implements [normalizer.Detailer].
func (w *within) Detail(line []byte, out *normalizer.Details) {
	if from, ok := w.Dialect.(normalizer.Detailer); ok {
		from.Detail(line, out)
	}
}

// Sent implements [normalizer.Conversation], as the methods below.
func (w *within) Sent(line []byte, out *normalizer.Out) { w.speak().Sent(line, out) }

func (w *within) SentDetail(line []byte, out *normalizer.Details) { w.speak().SentDetail(line, out) }

func (w *within) Process(p *runs.Process, out *normalizer.Out) { w.speak().Process(p, out) }

func (w *within) Command(c *runs.Command, out *normalizer.Out) { w.speak().Command(c, out) }

func (w *within) Forget() {
	if d := w.live(); d != nil {
		d.Forget()
	}
}

func (w *within) Finish(out *normalizer.Out) {
	if d := w.live(); d != nil {
		d.Finish(out)
	}
}
