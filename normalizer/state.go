package normalizer

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/runs"
)

// MaxState bounds the saved state of a fold, in bytes, beside its record's
// own [runs.MaxRecord].
const MaxState = 480 << 10

// saved is the state of a fold between two lines.
type saved struct {
	Offset  int64           `json:"offset"` // of stdout: all lines before it are folded
	Err     int64           `json:"err_offset,omitempty"`
	Long    int64           `json:"long,omitempty"`
	CR      bool            `json:"cr,omitempty"` // with Long: the last byte seen was a carriage return
	Torn    bool            `json:"torn,omitempty"`
	Missing int64           `json:"missing,omitempty"`
	Handled bool            `json:"handled,omitempty"`
	Session string          `json:"session,omitempty"`
	Final   *string         `json:"final,omitempty"`
	Seen    uint64          `json:"seen"`
	Dialect json.RawMessage `json:"dialect,omitempty"`
}

// State saves the fold, without its record, as of the last line that is
// complete. It is nil once the run is done: the record alone says it all.
func (f *Fold) State() ([]byte, error) {
	if f.done {
		return nil, nil
	}
	dialect, err := f.dialect.State()
	if err != nil {
		return nil, fmt.Errorf("run %s: state of the dialect: %w", f.Record.ID, err)
	}
	s := saved{
		Offset: f.next - int64(len(f.partial)), Err: f.errNext, Long: f.long, CR: f.cr, Torn: f.torn, Missing: f.missing,
		Handled: f.handled, Session: f.session, Final: f.final, Seen: f.seen, Dialect: dialect,
	}
	b, err := bounds.Encode(s)
	if err != nil {
		return nil, fmt.Errorf("run %s: state: %w", f.Record.ID, err)
	}
	return b, nil
}

// Restore continues a run from its record and the state that was saved with
// it; both are the fold's own from then on. No state means that the run is done.
func Restore(b Backend, record *runs.Record, state []byte, maxLine int) (*Fold, error) {
	f := NewFold(b, record.ID, maxLine)
	if record.Agent != b.Agent() {
		return nil, fmt.Errorf("run %s: restore: of another agent", record.ID)
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
		return nil, fmt.Errorf("run %s: restore: %w", record.ID, errors.New("the state is no JSON of the known form"))
	}
	f.next, f.errNext, f.long, f.torn = s.Offset, s.Err, s.Long, s.Torn
	f.cr, f.missing = s.CR, s.Missing
	f.handled, f.session, f.final, f.seen = s.Handled, s.Session, s.Final, s.Seen
	if err := f.dialect.Restore(s.Dialect); err != nil {
		return nil, fmt.Errorf("run %s: restore: %w", record.ID, err)
	}
	return f, nil
}

// Forget makes the fold take the entries of another raw log, one that was
// made anew: no sequence of it was seen. What was folded stays, by offset.
func (f *Fold) Forget() { f.seen = 0 }
