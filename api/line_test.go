package api_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/linesman/linesman/api"
)

func TestOneLineHasNoOtherLineBreaks(t *testing.T) {
	t.Parallel()
	body := []byte("{\"a\u0085\u2028\":\"\u2029\\u2028\\n\u00e9\u0084\U0001F680\"}\n")
	got := api.OneLine(body)
	if strings.ContainsAny(string(got), "\u0085\u2028\u2029") {
		t.Errorf("%q", got)
	}
	var want, is map[string]string
	if err := json.Unmarshal(body, &want); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(got, &is); err != nil || len(is) != 1 || is["a\u0085\u2028"] != want["a\u0085\u2028"] {
		t.Errorf("%q, %v; want the value of %q", got, err, body)
	}
	if plain := []byte("{}\n"); !bytes.Equal(api.OneLine(plain), plain) {
		t.Error("JSON without them changes")
	}
}
