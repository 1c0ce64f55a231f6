package responder

import (
	"encoding/base64"
	"errors"
	"testing"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder/runtable"
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
		of := func(text string) api.List {
			return api.List{States: []runs.State{runs.State(state)}, Dir: dir, Cursor: text}
		}
		if c, err := readCursor(of(text)); err != nil {
			var e *api.Error
			if !errors.As(err, &e) || e.Code != api.Validation || e.Field != "cursor" || c != nil {
				t.Errorf("%q: %v", text, err)
			}
		} else if c == nil {
			if text != "" { // the first page
				t.Errorf("%q is taken for no cursor", text)
			}
		} else if again, err := readCursor(of(cursorAt(*c, of("")))); err != nil || *again != *c {
			t.Errorf("%q is %+v, and that %+v, %v", text, c, again, err)
		}
		place := runtable.Point{At: runs.Time(at), Run: id}
		own := cursorAt(place, of(""))
		c, err := readCursor(of(own))
		if valid := runs.CheckID(id) == nil; valid != (err == nil) || valid && *c != place {
			t.Errorf("%d %q comes back as %+v, %v", at, id, c, err)
		}
		other := of(own)
		other.Agent = "codex"
		if _, err := readCursor(other); err == nil {
			t.Errorf("the cursor of one list is taken for another")
		}
	})
}
