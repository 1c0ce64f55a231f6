// Package vectors reads the envelope's test vectors, bounds.json beside it. It
// is for tests only: each of its functions ends the test on a malformed vector.
//
// A vector says what goes in and what must come out of one operation. Which
// package tests which operation:
//
//	bounds      channel message text_split final_text data
//	normalizer  event lines agent_kind
package vectors

import (
	"bytes"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

//go:embed bounds.json
var file []byte

// Ops are the operations that a vector may be for.
var Ops = []string{"channel", "message", "text_split", "final_text", "data", "event", "lines", "agent_kind"}

// A Vector is one entry of the file. In and Out depend on Op; read them with
// [Decode] into structs whose texts are [String] or, where null may stand,
// *String.
type Vector struct {
	ID        string          `json:"id"`
	Op        string          `json:"op"`
	Why       string          `json:"why"`
	In        json.RawMessage `json:"in"`
	Out       json.RawMessage `json:"out"`
	Requires  []string        `json:"requires"`  // abilities beyond the plain operation: "bound"
	Decisions []string        `json:"decisions"` // entries of the decision list it depends on
	Tier      string          `json:"tier"`      // "numbers": serde_json's layout of numbers
}

// Load returns all vectors, in the order of the file. It refuses an unknown
// operation or field, so that no vector is passed over in silence.
func Load(tb testing.TB) []Vector {
	tb.Helper()
	var all struct {
		Format  json.RawMessage `json:"format"`
		Vectors []Vector        `json:"vectors"`
	}
	Decode(tb, file, &all)
	if len(all.Vectors) == 0 {
		tb.Fatal("vectors: the file has none")
	}
	for _, v := range all.Vectors {
		if !slices.Contains(Ops, v.Op) {
			tb.Fatalf("vectors: %s: unknown op %q", v.ID, v.Op)
		}
	}
	return all.Vectors
}

// Decode decodes raw into v and ends the test if raw has a key v has no field
// for.
func Decode(tb testing.TB, raw json.RawMessage, v any) {
	tb.Helper()
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		tb.Fatalf("vectors: decode into %T: %v", v, err)
	}
}

// A String is a text of a vector: a JSON string, or the form
//
//	{"parts": [{"s": text, "n": repeats}, {"hex": bytes, "n": repeats}]}
//
// where n is 1 if it is absent. It may hold bytes that are not UTF-8. A null
// leaves a *String nil and is refused for a String.
type String string

// UnmarshalJSON reads either form.
func (s *String) UnmarshalJSON(raw []byte) error {
	if string(raw) == "null" {
		return errors.New("null where a text must be")
	}
	if raw[0] == '"' {
		return json.Unmarshal(raw, (*string)(s))
	}
	var form struct {
		Parts []struct {
			S   *string `json:"s"`
			Hex *string `json:"hex"`
			N   *int    `json:"n"`
		} `json:"parts"`
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&form); err != nil {
		return err
	}
	if form.Parts == nil {
		return errors.New("neither a string nor parts")
	}
	var b strings.Builder
	for i, p := range form.Parts {
		n := 1
		if p.N != nil {
			n = *p.N
		}
		if n < 0 {
			return fmt.Errorf("part %d: negative n", i)
		}
		switch {
		case p.S != nil && p.Hex == nil:
			b.WriteString(strings.Repeat(*p.S, n))
		case p.Hex != nil && p.S == nil:
			text, err := hex.DecodeString(*p.Hex)
			if err != nil {
				return fmt.Errorf("part %d: %w", i, err)
			}
			b.Write(bytes.Repeat(text, n))
		default:
			return fmt.Errorf("part %d: needs one of s and hex", i)
		}
	}
	*s = String(b.String())
	return nil
}
