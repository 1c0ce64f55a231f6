package fields

import (
	"encoding/json"
	"testing"
	"unicode/utf8"
)

// FuzzValid compares the two ways to check that arguments are JSON.
func FuzzValid(f *testing.F) {
	for _, s := range []string{
		`{}`, ` {"a":[1,-0.5e+3,true,null,"\u00e9\n"]} `, `{"a":01}`, `{"a":1.}`, `{"a":-}`, `{"a":"` + "\x01" + `"}`,
		`{"a":"\x"}`, `{"a":"\u12"}`,
		`{"a" 1}`, `{"a":1,}`, `[1,]`, `{} {}`, `nul`, `truex`, "\x0b{}", `"\ud800"`, `{"a":1e}`, `{"a":"`, `{"a`, ``, ` `,
		`1e5`, `-`, `+1`, `.5`, `[[[[]]]]`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) > 4<<10 || !utf8.Valid(raw) {
			t.Skip("that is not checked the quick way")
		}
		if got, want := valid(raw), json.Valid(raw); got != want {
			t.Errorf("%q: %v, and package json says %v", raw, got, want)
		}
	})
}
