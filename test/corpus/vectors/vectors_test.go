package vectors

import (
	"encoding/json"
	"testing"
)

func TestStringReadsEveryForm(t *testing.T) {
	for raw, want := range map[string]String{
		`""`:                                          "",
		`"a\u00df\ud83d\ude80"`:                       "aß🚀",
		`{"parts":[]}`:                                "",
		`{"parts":[{"s":"ab","n":3}]}`:                "ababab",
		`{"parts":[{"s":"ab","n":0}]}`:                "",
		`{"parts":[{"s":"x"},{"s":"y"}]}`:             "xy",
		`{"parts":[{"hex":"f09f","n":2}, {"s":"!"}]}`: "\xf0\x9f\xf0\x9f!",
	} {
		var got String
		if err := json.Unmarshal([]byte(raw), &got); err != nil || got != want {
			t.Errorf("%s: got %q, %v; want %q", raw, got, err, want)
		}
	}
}

func TestNullIsNoText(t *testing.T) {
	got := struct{ A, B *String }{A: new(String)}
	if err := json.Unmarshal([]byte(`{"A":null,"B":""}`), &got); err != nil || got.A != nil || got.B == nil {
		t.Errorf("got %v, %v; want nil for null, and a pointer to \"\"", got, err)
	}
}

func TestMalformedStringIsRefused(t *testing.T) {
	for _, raw := range []string{
		`null`, `7`, `["a"]`, `{}`, `{"parts":null}`, `{"parts":[{}]}`, `{"parts":[{"n":2}]}`,
		`{"parts":[{"s":"a","hex":"00"}]}`, `{"parts":[{"hex":"0"}]}`, `{"parts":[{"s":"a","n":-1}]}`,
		`{"parts":[{"s":"a","m":2}]}`, `{"pieces":[]}`,
	} {
		var got String
		if err := json.Unmarshal([]byte(raw), &got); err == nil {
			t.Errorf("%s: got %q, want an error", raw, got)
		}
	}
}

func TestEveryVectorHasItsOwnIDAndBothSides(t *testing.T) {
	seen := map[string]bool{}
	for _, v := range Load(t) {
		if v.ID == "" || seen[v.ID] || len(v.In) == 0 || len(v.Out) == 0 {
			t.Errorf("vector %q: its id is empty or taken, or in or out is missing", v.ID)
		}
		seen[v.ID] = true
	}
}
