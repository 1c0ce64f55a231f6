package normalizer

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/runs"
)

// maxState is the maximum length of the saved state of a fold, in bytes. The
// record with its own limit of 64 KiB is not part of the state.
const maxState = 272 << 10

// saved is the state of a fold. What is stored is the state between two lines.
type saved struct {
	stream                      // stdout
	In          stream          `json:"in,omitzero"`          // what was sent to the agent
	ErrOffset   int64           `json:"err_offset,omitempty"` // in stderr, of the next new byte
	Missing     int64           `json:"missing,omitempty"`    // bytes of gaps without an event so far
	SessionDone bool            `json:"handled,omitempty"`    // the session handle was published or omitted
	Session     string          `json:"session,omitempty"`    // id of the session handle, for the completion
	TurnAt      int64           `json:"turn_at,omitempty"`    // when the current turn began, Unix milliseconds
	Left        bool            `json:"left,omitempty"`       // further output is of processes that the agent left
	Seen        uint64          `json:"seen"`                 // sequence number of the last folded entry
	Entries     int64           `json:"entries,omitempty"`    // number of folded entries
	Stderr      []runs.Span     `json:"stderr,omitempty"`     // see [Fold.Again]
	Unlisted    []uint32        `json:"unlisted,omitempty"`   // see [runs.Files], Hashes; only in the stored state
	Dialect     json.RawMessage `json:"dialect,omitempty"`    // only in the stored state
	finalText
	Packed []byte `json:"final_packed,omitempty"` // the final text, if escapes make it long
}

// maxPlain is the maximum length of the final text in the stored state, in bytes of JSON. A
// longer one is stored in base64.
const maxPlain = 96 << 10

// State returns the state of the fold without its record, as of the last complete
// line. It is nil if the run is done.
func (f *Fold) State() ([]byte, error) {
	if f.done {
		return nil, nil
	}
	dialect, err := f.dialect.State()
	if err != nil {
		return nil, fmt.Errorf("run %s: state of the dialect: %w", f.Record.ID, err)
	}
	f.state.whole()
	s := f.state
	s.drop()
	s.In.drop()
	s.Dialect = dialect
	if files := f.Record.Files; files != nil {
		s.Unlisted = files.Hashes
	}
	if s.Text != nil && bounds.StringSize(*s.Text) > maxPlain {
		s.Packed, s.Text = []byte(*s.Text), nil
	}
	b, err := bounds.Encode(s)
	if err != nil {
		return nil, fmt.Errorf("run %s: state: %w", f.Record.ID, err)
	}
	return b, nil
}

// Restore returns the fold of a run from its record and its saved state. The fold
// takes ownership of both. An empty state means that the run is done.
func Restore(b Backend, record *runs.Record, state []byte, maxLine int) (*Fold, error) {
	f := NewFold(b, record.ID, maxLine)
	if record.Agent != b.Agent() {
		return nil, fmt.Errorf("run %s: restore: the record is of another agent kind", record.ID)
	}
	if record.Events == nil {
		record.Events = map[string]int64{}
	}
	f.Record = record
	if len(state) == 0 {
		f.done, f.state.Seen = true, record.Seq
		f.release()
		return f, nil
	}
	if err := json.Unmarshal(state, &f.state); err != nil {
		return nil, fmt.Errorf("run %s: restore: %w", record.ID, errors.New("the saved state is not valid"))
	}
	if f.state.Packed != nil {
		text := string(f.state.Packed)
		f.state.Packed, f.state.Text = nil, &text
	}
	if err := f.dialect.Restore(f.state.Dialect); err != nil {
		return nil, fmt.Errorf("run %s: restore: %w", record.ID, err)
	}
	f.state.Dialect = nil
	if record.Files != nil {
		record.Files.Hashes = f.state.Unlisted
	}
	f.state.Unlisted = nil
	return f, nil
}

// Forget resets the last sequence number, for a recreated raw log with new
// sequence numbers. Folded output is still recognized by its offset.
func (f *Fold) Forget() {
	f.state.Seen = 0
	if c, ok := f.dialect.(Conversation); ok {
		c.Forget()
	}
}
