package normalizer

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/runs"
)

// MaxState is the maximum length of the saved state of a fold, in bytes. The
// record with its own limit [runs.MaxRecord] is not part of the state.
const MaxState = 480 << 10

// saved is the state of a fold between two lines.
type saved struct {
	Offset  int64           `json:"offset"` // offset in stdout: all lines before it are folded
	Err     int64           `json:"err_offset,omitempty"`
	Long    int64           `json:"long,omitempty"`
	CR      bool            `json:"cr,omitempty"` // with Long: the last byte was a carriage return
	Torn    bool            `json:"torn,omitempty"`
	Missing int64           `json:"missing,omitempty"`
	Handled bool            `json:"handled,omitempty"`
	Session string          `json:"session,omitempty"`
	Final   *string         `json:"final,omitempty"`
	FinalN  int64           `json:"final_bytes,omitempty"`
	Draft   bool            `json:"draft,omitempty"`
	Seen    uint64          `json:"seen"`
	Dialect json.RawMessage `json:"dialect,omitempty"`
}

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
	s := saved{
		Offset: f.offset - int64(len(f.partial)), Err: f.errOffset, Missing: f.missing,
		Long: f.oversize, CR: f.endsInCR, Torn: f.afterGap,
		Handled: f.sessionDone, Session: f.session, Final: f.final.Text, FinalN: f.final.Bytes, Draft: f.final.Draft,
		Seen: f.seen, Dialect: dialect,
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
		f.done, f.seen = true, record.Seq
		f.release()
		return f, nil
	}
	var s saved
	if err := json.Unmarshal(state, &s); err != nil {
		return nil, fmt.Errorf("run %s: restore: %w", record.ID, errors.New("the saved state is not valid"))
	}
	f.offset, f.errOffset, f.missing = s.Offset, s.Err, s.Missing
	f.oversize, f.endsInCR, f.afterGap = s.Long, s.CR, s.Torn
	f.sessionDone, f.session, f.seen = s.Handled, s.Session, s.Seen
	f.final = finalText{s.Final, s.FinalN, s.Draft}
	if err := f.dialect.Restore(s.Dialect); err != nil {
		return nil, fmt.Errorf("run %s: restore: %w", record.ID, err)
	}
	return f, nil
}

// Forget resets the last sequence number, for a recreated raw log with new
// sequence numbers. Folded output is still recognized by its offset.
func (f *Fold) Forget() { f.seen = 0 }
