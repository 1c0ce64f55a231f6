package runs

import "encoding/json"

// SavedFold is the state of the fold of a run behind an entry of its raw log, between two lines.
// Readers of the end of a log begin there. It holds what the record of an open run holds.
type SavedFold struct {
	By     string          `json:"by"`        // what derived it: a program and its settings
	Number uint64          `json:"number"`    // of the saved folds of the run; larger for later ones
	Seq    uint64          `json:"raw_seq"`   // of the last folded entry
	At     int64           `json:"stored_at"` // when that was stored, in nanoseconds: no other entry has both
	Record *Record         `json:"record"`
	State  json.RawMessage `json:"state"`
}

// Span is a range of entries of a raw log, by sequence numbers of RAW.
type Span struct {
	From  uint64 `json:"f"`
	To    uint64 `json:"t"`
	Bytes int64  `json:"n"` // of them, as far as they count
}
