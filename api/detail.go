package api

import (
	"encoding/json"
	"fmt"

	"github.com/linesman/linesman/runs"
)

// DetailItem is an event of a run with what the event omits, or what only the owner of the
// run may see. It is derived from RAW on demand, and never stored.
type DetailItem struct {
	Pos    string          `json:"pos"`  // position in the run, to continue after it; opaque
	Line   uint64          `json:"line"` // number of the line, as in the event's header; 0: not of a line
	Part   int             `json:"part"` // number within the line
	At     runs.Time       `json:"time"`
	Kind   string          `json:"kind"`            // of the event; `detail`: there is no event
	Event  json.RawMessage `json:"event,omitempty"` // the envelope, or a completion
	Detail *runs.Detail    `json:"detail,omitempty"`
	Meaning
}

// DetailRequest asks for a page of the details of a run.
type DetailRequest struct {
	Run   string `json:"run"`
	After string `json:"after,omitempty"`   // Pos of an item; "": from the first
	Last  int    `json:"last,omitempty"`    // without After: begin with so many of the newest items, at most 1000
	Limit int    `json:"limit,omitempty"`   // items of the page, 1 to 1000; 0: 100
	Wait  int64  `json:"waitSec,omitempty"` // wait that long for an item, at most 60 seconds
}

// DetailPage is some of the details of a run, in order.
type DetailPage struct {
	Items []DetailItem `json:"items"`
	Next  string       `json:"next,omitempty"` // `after` of the next page; absent before the first item
	Done  bool         `json:"done"`           // no item comes after these

	// The raw log has lost the beginning of the run, or all of it. Lines are counted from the first one that is left.
	Omitted Omitted `json:"omitted,omitempty"`
}

// Limits of a [DetailRequest].
const (
	MaxDetailItems = 1000 // of a page, and the newest ones
	maxDetailWait  = 60   // seconds
)

// Valid reports a number outside its limits as a [Validation] error.
func (q DetailRequest) Valid() error {
	for _, n := range []struct {
		field       string
		value, most int64
	}{
		{"last", int64(q.Last), MaxDetailItems}, {"limit", int64(q.Limit), MaxDetailItems}, {"waitSec", q.Wait,
			maxDetailWait},
	} {
		if n.value < 0 || n.value > n.most {
			return Invalid(n.field, fmt.Sprintf("must be 1 to %d", n.most))
		}
	}
	return nil
}
