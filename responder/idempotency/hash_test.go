package idempotency_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/linesman/linesman/responder/idempotency"
)

// TestCanonicalIsThatOfTheRFC has the examples of RFC 8785: 3.2.2, 3.2.3 and
// appendix B.
func TestCanonicalIsThatOfTheRFC(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{
			`{"numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
			  "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/", "literals": [null, true, false]}`,
			`{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`,
		},
		{
			`{"\u20ac": "Euro Sign", "\r": "Carriage Return", "\ufb33": "Hebrew Letter Dalet With Dagesh", "1": "One",
			  "\ud83d\ude00": "Emoji: Grinning Face", "\u0080": "Control", "\u00f6": "Latin Small Letter O With Diaeresis"}`,
			"{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u0080\":\"Control\",\"ö\":\"Latin Small Letter O With Diaeresis\"," +
				"\"€\":\"Euro Sign\",\"😀\":\"Emoji: Grinning Face\",\"\ufb33\":\"Hebrew Letter Dalet With Dagesh\"}",
		},
		{` [ ] `, `[]`}, {`{}`, `{}`}, {`{"a":{"c":1,"b":[{}]}}`, `{"a":{"b":[{}],"c":1}}`}, {`"<&>\u2028"`, "\"<&>\u2028\""},
	} {
		got, err := idempotency.Canonical([]byte(c.in))
		if err != nil || string(got) != c.want {
			t.Errorf("%s\n got %s, %v\nwant %s", c.in, got, err, c.want)
		}
	}
	for bits, want := range map[uint64]string{
		0x0000000000000000: "0", 0x8000000000000000: "0", 0x0000000000000001: "5e-324", 0x8000000000000001: "-5e-324",
		0x7fefffffffffffff: "1.7976931348623157e+308", 0xffefffffffffffff: "-1.7976931348623157e+308",
		0x4340000000000000: "9007199254740992",
		0xc340000000000000: "-9007199254740992", 0x4430000000000000: "295147905179352830000",
		0x44b52d02c7e14af5: "9.999999999999997e+22",
		0x44b52d02c7e14af6: "1e+23", 0x44b52d02c7e14af7: "1.0000000000000001e+23",
		0x444b1ae4d6e2ef4e: "999999999999999700000",
		0x444b1ae4d6e2ef4f: "999999999999999900000", 0x444b1ae4d6e2ef50: "1e+21", 0x3eb0c6f7a0b5ed8c: "9.999999999999997e-7",
		0x3eb0c6f7a0b5ed8d: "0.000001", 0x41b3de4355555553: "333333333.3333332", 0x41b3de4355555554: "333333333.33333325",
		0x41b3de4355555555: "333333333.3333333", 0x41b3de4355555556: "333333333.3333334",
		0x41b3de4355555557: "333333333.33333343",
		0xbecbf647612f3696: "-0.0000033333333333333333", 0x43143ff3c1cb0959: "1424953923781206.2",
	} {
		f := math.Float64frombits(bits)
		if got, err := idempotency.Canonical([]byte(fmt.Sprintf("%.17g", f))); err != nil || string(got) != want {
			t.Errorf("%x: got %s, %v, want %s", bits, got, err, want)
		}
	}
}

func TestJSONWithoutCanonicalFormIsRefused(t *testing.T) {
	for _, in := range []string{
		``, `{`, `{} {}`, `{"a":1,"a":1}`, `{"a":1,"\u0061":2}`, `{"b":{"a":1,"a":2}}`, `1e400`, "\"\xff\"", `"\ud800"`,
		`"\udc00\ud800"`, `"\ud800\u0041"`,
		strings.Repeat("[", 300) + strings.Repeat("]", 300), `nul`,
	} {
		if got, err := idempotency.Canonical([]byte(in)); err == nil {
			t.Errorf("%.40q has the form %s", in, got)
		}
	}
	if _, err := idempotency.Canonical([]byte(`"\\ud800"`)); err != nil {
		t.Errorf("no surrogate at all: %v", err)
	}
}

// TestEquivalentJSONHasOneCanonicalForm: what is the same JSON has the same form, and the
// form is its own.
func TestEquivalentJSONHasOneCanonicalForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.MapOf(rapid.String(), rapid.SliceOf(rapid.Float64Range(-1e300, 1e300))).Draw(t, "v")
		indented, err := json.MarshalIndent(v, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		plain, _ := json.Marshal(v)
		a, errA := idempotency.Canonical(indented)
		b, errB := idempotency.Canonical(plain)
		if errA != nil || errB != nil || string(a) != string(b) {
			t.Fatalf("%s and %s: %v %v", a, b, errA, errB)
		}
		if again, err := idempotency.Canonical(a); err != nil || string(again) != string(a) {
			t.Fatalf("%s has the form %s, %v", a, again, err)
		}
	})
}

func TestHashDistinguishesMissingFromNull(t *testing.T) {
	seen := map[string]string{}
	for _, in := range []string{`{}`, `{"a":null}`, `{"a":false}`, `{"a":""}`, `[]`} {
		h, err := idempotency.Hash([]byte(in))
		if err != nil || len(h) != 64 || seen[h] != "" {
			t.Errorf("%s: %s, %v; as %s", in, h, err, seen[h])
		}
		seen[h] = in
	}
}

func FuzzCanonical(f *testing.F) {
	f.Add([]byte(`{"b":[1e21,-0,"\ud83d\ude00"],"a":"\u0000"}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		out, err := idempotency.Canonical(in)
		if err != nil {
			return
		}
		again, err := idempotency.Canonical(out)
		if err != nil || string(again) != string(out) {
			t.Errorf("%q has the form %q, and that %q, %v", in, out, again, err)
		}
	})
}
