package wire_test

import (
	"bytes"
	"testing"

	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/normalizer/scan"
	"github.com/linesman/linesman/normalizer/wire"
)

// Objects counts what NextObject finds, after any number of elements.
func TestObjectsCountsTheOtherElements(t *testing.T) {
	for _, list := range []string{
		`[]`, ` [ ] `, `[{}]`, `[1,{"a":[{"b":{}}]},"{",null, {"c":"}"} ,[{}],{"d":"\"{"}]`,
		`[{"a":"\\"},{"b":"\\\""},{"c":"x\\\\"}]`, `["\\",{},"\"",{}]`,
	} {
		var s scan.Scanner
		s.Reset([]byte(list))
		v := s.Value()
		if s.End() != scan.OK {
			t.Fatalf("%s is not valid", list)
		}
		for from := 0; ; from++ {
			elements, rest, want := wire.ElementsOf(v), wire.ElementsOf(v), 0
			for range from {
				elements.Next(&s)
				rest.Next(&s)
			}
			for _, more := elements.NextObject(&s); more; _, more = elements.NextObject(&s) {
				want++
			}
			if got := rest.Objects(); got != want {
				t.Errorf("%s after %d elements: %d objects, want %d", list, from, got, want)
			}
			if _, more := rest.Next(&s); more {
				t.Errorf("%s: an element after Objects", list)
			}
			if want == 0 {
				break
			}
		}
	}
}

// IsNew agrees with the saved state, whatever it has had before.
func TestIsNewIsThatOfTheSavedState(t *testing.T) {
	type state struct {
		Thread wire.Thread        `json:"thread,omitempty"`
		Calls  wire.Memory        `json:"calls"`
		Others wire.Memory        `json:"others,omitzero"`
		Done   []string           `json:"done,omitempty"`
		Fork   struct{ A, B int } `json:"fork,omitzero"`
		Turns  int64              `json:"turns,omitempty"`
		Open   bool               `json:"open,omitempty"`
	}
	var emptied, full wire.Memory
	emptied.Add(wire.Call{ID: "c", Name: "n"})
	emptied.Take("c")
	full.Add(wire.Call{ID: "c", Name: "n"})
	for _, s := range []state{
		{}, {Calls: emptied}, {Others: emptied, Done: []string{}}, {Calls: full}, {Others: full}, {Thread: "t"},
		{Done: []string{""}}, {Fork: struct{ A, B int }{B: 1}}, {Turns: 1}, {Open: true},
	} {
		saved, err := bounds.Encode(s)
		if err != nil {
			t.Fatal(err)
		}
		none, _ := bounds.Encode(state{})
		if got, want := wire.IsNew(&s), bytes.Equal(saved, none); got != want {
			t.Errorf("%s is new: %v, want %v", saved, got, want)
		}
	}
}
