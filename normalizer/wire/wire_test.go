package wire_test

import (
	"testing"

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
