package rest

import (
	"encoding/base64"
	"errors"
	"net/url"
	"testing"

	"github.com/linesman/linesman/runs"
)

// FuzzCursor reads what a caller gives for a cursor: it is refused with the
// name of the field, or stands for one place in the list that was asked for.
// Our own comes back as it was, and fits no other list.
func FuzzCursor(f *testing.F) {
	f.Add("MWsgMTc2MzQ2MTgwMDAwMCBkb25l", "completed", "/srv", int64(1763461800000), "T-local-1")
	f.Add(base64.RawURLEncoding.EncodeToString([]byte("x +1 a")), "", "", int64(-1), "a.b")
	f.Add("x\n", "5:", "\xff", int64(1)<<62, "")
	f.Fuzz(func(t *testing.T, text, state, dir string, at int64, id string) {
		of := func(cursor string, more url.Values) *request {
			values := url.Values{"state": {state}, "workingDir": {dir}, "cursor": {cursor}}
			for name, given := range more {
				values[name] = given
			}
			return &request{query: &query{values}}
		}
		if p, err := of(text, nil).cursor(); err != nil {
			var problem *Problem
			if !errors.As(err, &problem) || problem.Field != "cursor" || p != nil {
				t.Errorf("%q: %v", text, err)
			}
		} else if again, err := of(of("", nil).encodeCursor(*p), nil).cursor(); err != nil || *again != *p {
			t.Errorf("%q is %+v, and that %+v, %v", text, p, again, err)
		}
		own := of("", nil).encodeCursor(place{at, id})
		p, err := of(own, nil).cursor()
		if valid := runs.CheckID(id) == nil; valid != (err == nil) || valid && *p != (place{at, id}) {
			t.Errorf("%d %q comes back as %+v, %v", at, id, p, err)
		}
		if _, err := of(own, url.Values{"agent": {"codex"}}).cursor(); err == nil {
			t.Errorf("the cursor of one list is taken for another")
		}
	})
}
