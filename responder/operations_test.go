package responder_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/linesman/linesman/responder"
)

// A struct whose embedded type has a JSON form of its own would have that form as a whole.
func TestNoEmbeddedTypeHasAFormOfItsOwn(t *testing.T) {
	seen := map[reflect.Type]bool{}
	var walk func(reflect.Type)
	walk = func(of reflect.Type) {
		switch of.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			walk(of.Elem())
		case reflect.Struct:
			if seen[of] {
				return
			}
			seen[of] = true
			for i := range of.NumField() {
				f := of.Field(i)
				whole := reflect.PointerTo(f.Type)
				if f.Anonymous && (whole.Implements(reflect.TypeFor[json.Marshaler]()) ||
					whole.Implements(reflect.TypeFor[json.Unmarshaler]())) {
					t.Errorf("%s embeds %s", of, f.Type)
				}
				walk(f.Type)
			}
		}
	}
	var s *responder.Service
	for _, op := range s.Operations() {
		walk(reflect.TypeOf(op.New()))
		walk(op.Outcome)
	}
	if len(seen) < 30 {
		t.Errorf("only %d types were looked at", len(seen))
	}
}
