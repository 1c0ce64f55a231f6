package runs

import (
	"slices"
	"strings"

	"github.com/linesman/linesman/bounds"
)

// openCall lists a call, unless it is listed, or there are too many.
func (r *Record) openCall(c Call, at int64) {
	if r.openCallAt(c.ID) >= 0 { // a repeated start, or an update
		return
	}
	r.ToolCalls++
	if len(r.OpenCalls) >= maxOpenCalls || longJSON(c.ID, maxCallField) {
		r.MoreCalls++
		return
	}
	c.At, c.ID = at, strings.Clone(c.ID)
	if longJSON(c.Kind, maxCallField) {
		c.Kind = ""
	}
	if longJSON(c.Name, maxCallField) {
		c.Name = ""
	}
	if longJSON(c.Shown, maxCallShown) {
		c.Shown = ""
	}
	r.OpenCalls = append(r.OpenCalls, c)
}

// longJSON reports whether the JSON of s has more than n bytes. A byte has at most six.
func longJSON(s string, n int) bool {
	return 6*len(s)+len(`""`) > n && bounds.StringSize(s) > n
}

// closeCall takes a call off the list. One that is not listed is counted.
func (r *Record) closeCall(id string) {
	if i := r.openCallAt(id); i >= 0 {
		r.OpenCalls = slices.Delete(r.OpenCalls, i, i+1)
		if i < r.OldCalls {
			r.OldCalls--
		}
	} else if r.MoreCalls > 0 {
		r.MoreCalls--
	} else {
		r.ToolCalls++ // the call was reported only at its end
	}
}

// CallSince returns when the listed open call with an id began, in Unix milliseconds.
func (r *Record) CallSince(id string) (at int64, open bool) {
	if id == "" {
		return 0, false
	}
	if i := r.openCallAt(id); i >= 0 {
		return r.OpenCalls[i].At, true
	}
	return 0, false
}

// openCallAt returns the index of an open call, or -1.
func (r *Record) openCallAt(id string) int {
	for i := range r.OpenCalls {
		if r.OpenCalls[i].ID == id {
			return i
		}
	}
	return -1
}
