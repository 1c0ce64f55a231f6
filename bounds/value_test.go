package bounds_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/linesman/linesman/bounds"
)

func TestAppendValueWritesAsSerdeJSON(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{`null`, `null`},
		{" \t\r\ntrue \n", `true`},
		{`{}`, `{}`},
		{`[ ]`, `[]`},
		{`{"b": 2.50, "c": [ ]}`, `{"b":2.5,"c":[]}`},
		{` [ 1 , "a" , { "k" : false } , null ] `, `[1,"a",{"k":false},null]`},
		{`{"z":1,"a":2}`, `{"z":1,"a":2}`},             // the order is kept
		{`{"id":"a","id":"b"}`, `{"id":"a","id":"b"}`}, // a duplicate key is kept
		{`{ "\u0061\/" : "\u00df" }`, `{"a/":"ß"}`},
		{`"\b\t\n\f\r\"\\"`, `"\b\t\n\f\r\"\\"`},
		{`"\u0008\u0009\u000A\u000c\u000D\u0022\u005C\u002f"`, `"\b\t\n\f\r\"\\/"`},
		{`"\u0000\u001F\u007f"`, "\"\\u0000\\u001f\x7f\""},
		{`"\u003c\u2028\uFFFD"`, "\"<\u2028\uFFFD\""},
		{`"\ud83d\ude80\uD83D\uDE80"`, `"` + rocket + rocket + `"`},
		{`"\ud83d"`, "\"\uFFFD\""},
		{`"\ude80\ud83d"`, "\"\uFFFD\uFFFD\""},
		{`"\ud83d\ud83d\ude80"`, "\"\uFFFD" + rocket + `"`},
		{`"\ud83d\u0041\ud83d\n\ud83dA"`, "\"\uFFFDA\uFFFD\\n\uFFFDA\""},
		{"\"\u2028<&>\x7f\"", "\"\u2028<&>\x7f\""},
	} {
		got, err := bounds.AppendValue([]byte("> "), []byte(tt.in))
		if err != nil || string(got) != "> "+tt.want {
			t.Errorf("AppendValue(%s) = %s, %v; want %s", tt.in, got, err, tt.want)
		}
		checkValue(t, []byte(tt.in))
	}
}

// The right side is the output of serde_json up to 1.0.146, with ryu and with
// correctly rounded parsing (feature float_roundtrip).
func TestNumbersAreLaidOutAsBySerdeJSON(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{`0`, `0`},
		{`-0`, `-0.0`},
		{`-0.0`, `-0.0`},
		{`0e5`, `0.0`},
		{`-1`, `-1`},
		{`9223372036854775807`, `9223372036854775807`},
		{`9223372036854775808`, `9223372036854775808`},
		{`18446744073709551615`, `18446744073709551615`},
		{`18446744073709551616`, `1.8446744073709552e19`},
		{`20000000000000000000`, `2e19`},
		{`-9223372036854775808`, `-9223372036854775808`},
		{`-9223372036854775809`, `-9.223372036854776e18`},
		{`-10000000000000000000`, `-1e19`},
		{`123456789012345678901`, `1.2345678901234568e20`},
		{`1.0`, `1.0`},
		{`1E2`, `100.0`},
		{`1e+2`, `100.0`},
		{`2.50`, `2.5`},
		{`-12.34`, `-12.34`},
		{`0.1`, `0.1`},
		{`0.30000000000000004`, `0.30000000000000004`},
		{`1e15`, `1000000000000000.0`},
		{`1234567890123456.0`, `1234567890123456.0`},
		{`123456789012345.6`, `123456789012345.6`},
		{`1e16`, `1e16`},
		{`1.5e16`, `1.5e16`},
		{`12345678901234567.0`, `1.2345678901234568e16`},
		{`1e-5`, `0.00001`},
		{`0.000012345678901234567`, `0.000012345678901234568`},
		{`1e-6`, `1e-6`},
		{`1.5e-7`, `1.5e-7`},
		{`5e-324`, `5e-324`},
		{`1e-400`, `0.0`},
		{`-1e-400`, `-0.0`},
		{`1.7976931348623157e308`, `1.7976931348623157e308`},
		{`-2.2250738585072014e-308`, `-2.2250738585072014e-308`},
		{`1` + strings.Repeat("0", 308), `1e308`},
		{`0.` + strings.Repeat("0", 400) + `1e401`, `1.0`},
	} {
		got, err := bounds.AppendValue(nil, []byte(tt.in))
		if err != nil || string(got) != tt.want {
			t.Errorf("%s is written as %s, %v; want %s", tt.in, got, err, tt.want)
		}
		checkValue(t, []byte(tt.in))
	}
}

func TestValueThatCannotBeWrittenIsRejected(t *testing.T) {
	for in, want := range map[string]error{
		"1e309": bounds.ErrRange, "-1e400": bounds.ErrRange, "[1e99999999999]": bounds.ErrRange,
		"1" + strings.Repeat("0", 309): bounds.ErrRange,
		"\"\xff\"":                     bounds.ErrUTF8, "\"\xf0\x9f\x92\"": bounds.ErrUTF8,
		"\"\xed\xa0\x80\"": bounds.ErrUTF8,
		"{\"\xc0\x80\":1}": bounds.ErrUTF8, "\"\xf0\x9f\\n\x9a\x80\"": bounds.ErrUTF8,
	} {
		if n, err := bounds.ValueSize([]byte(in)); !errors.Is(err, want) || n != 0 {
			t.Errorf("ValueSize(%.20q) = %d, %v; want %v", in, n, err, want)
		}
		dst := []byte("kept")
		if got, err := bounds.AppendValue(dst, []byte(in)); !errors.Is(err, want) || string(got) != "kept" {
			t.Errorf("AppendValue(%.20q) = %.20q, %v; want %v and dst unchanged", in, got, err, want)
		}
		if _, err := bounds.Encode(json.RawMessage(in)); !errors.Is(err, want) {
			t.Errorf("Encode(%.20q): %v, want %v", in, err, want)
		}
	}
}

func TestDeepNestingIsMeasured(t *testing.T) {
	for _, in := range []string{
		strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000),
		strings.Repeat(`{"":`, 10_000) + "0" + strings.Repeat("}", 10_000),
	} {
		if n, err := bounds.ValueSize([]byte(in)); err != nil || n != len(in) {
			t.Errorf("got %d, %v; want %d", n, err, len(in))
		}
		checkValue(t, []byte(in))
	}
}

func TestValueFunctionsDoNotAllocate(t *testing.T) {
	raw := []byte(`{ "text": "` + strings.Repeat(`a\n\u00df\/ß `, 500) +
		`", "n": [1, 2.50, -1.25e-300, 12345678901234567890123] }`)
	dst := make([]byte, 0, 2*len(raw))
	if n := testing.AllocsPerRun(20, func() {
		if _, err := bounds.ValueSize(raw); err != nil {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("ValueSize: %v allocations, want 0", n)
	}
	if n := testing.AllocsPerRun(20, func() {
		if _, err := bounds.AppendValue(dst, raw); err != nil {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("AppendValue: %v allocations, want 0", n)
	}
}

func TestMeasuredValueIsWrittenValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := values(4).Draw(t, "v")
		indent := rapid.SampledFrom([]string{"", " ", "\t"}).Draw(t, "indent")
		raw, err := json.MarshalIndent(v, "", indent) // escapes < > & and U+2028, too
		if err != nil {
			t.Fatal(err)
		}
		checkValue(t, raw)
	})
}

func values(depth int) *rapid.Generator[any] {
	leaves := []*rapid.Generator[any]{
		rapid.Just[any](nil),
		rapid.Bool().AsAny(),
		rapid.Int64().AsAny(),
		rapid.Uint64().AsAny(),
		rapid.Float64().Filter(func(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }).AsAny(),
		texts().AsAny(),
	}
	if depth == 0 {
		return rapid.OneOf(leaves...)
	}
	return rapid.OneOf(append(leaves,
		rapid.SliceOfN(rapid.Deferred(func() *rapid.Generator[any] { return values(depth - 1) }), 0, 5).AsAny(),
		rapid.MapOfN(texts(), rapid.Deferred(func() *rapid.Generator[any] { return values(depth - 1) }), 0, 5).AsAny(),
	)...)
}

func FuzzValue(f *testing.F) {
	for _, seed := range []string{
		`{"b": 2.50, "c": [ ]}`, `"\ud83d\ude80\ud83d\u0041\/"`, `[-0, 1e400]`, `18446744073709551616`,
		"\"\xf0\x9f\\n\"", `{"a":{"a":[[]]},"a":"\u001F"}`, `[1e-7,1E+16,0.1]`, ` null `,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) { checkValue(t, raw) })
}

// checkValue checks the properties that hold for any input, and compares with
// encoding/json.
func checkValue(t rapid.TB, raw []byte) {
	t.Helper()
	before := bytes.Clone(raw)
	out, err := bounds.AppendValue(nil, raw)
	size, sizeErr := bounds.ValueSize(raw)
	if !bytes.Equal(raw, before) {
		t.Fatalf("%.200q was changed", before)
	}
	if size != len(out) || !errors.Is(sizeErr, err) {
		t.Fatalf("%.200q: ValueSize is %d, %v; AppendValue adds %d, %v", raw, size, sizeErr, len(out), err)
	}
	if !json.Valid(raw) {
		return // only valid JSON has a defined result
	}
	want, wantErr := decode(raw)
	if valid := wantErr == nil && utf8.Valid(raw); valid != (err == nil) {
		t.Fatalf("%.200q: got %v, encoding/json has %v", raw, err, wantErr)
	}
	if err != nil {
		return
	}
	if got, err := decode(out); err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%.200q: written as %.200q, which decodes to %v, %v; want %v", raw, out, got, err, want)
	}
	if again, err := bounds.AppendValue(nil, out); err != nil || !bytes.Equal(again, out) {
		t.Fatalf("%.200q: written as %.200q, and a second time as %.200q, %v", raw, out, again, err)
	}
}

// decode decodes raw with encoding/json. A number becomes an int64 or uint64 if
// it is one, else the bits of a float64, so that 1, 1.0 and -0 are different.
func decode(raw []byte) (any, error) {
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return nil, err // including numbers out of range, which UseNumber accepts
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return exact(v), nil
}

type floatBits uint64

func exact(v any) any {
	switch v := v.(type) {
	case json.Number:
		if i, err := strconv.ParseInt(string(v), 10, 64); err == nil && v != "-0" {
			return i
		}
		if u, err := strconv.ParseUint(string(v), 10, 64); err == nil {
			return u
		}
		f, err := v.Float64()
		if err != nil {
			return err
		}
		return floatBits(math.Float64bits(f))
	case []any:
		for i := range v {
			v[i] = exact(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = exact(v[k])
		}
	}
	return v
}

func FuzzFloat(f *testing.F) {
	for _, seed := range []float64{
		0, 1, 100, 1e15, 1e16, 1e-5, 1e-6, 1.5e-7, 123456.789, math.MaxFloat64, 5e-324, 1 << 53,
	} {
		f.Add(math.Float64bits(seed), uint8(3))
	}
	f.Fuzz(func(t *testing.T, u uint64, digits uint8) {
		x := math.Float64frombits(u)
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return
		}
		for _, literal := range []string{
			strconv.FormatFloat(x, 'e', int(digits%30), 64), // rounded, or with zeros
			strconv.FormatFloat(x, 'e', -1, 64),
		} {
			checkFloat(t, literal)
		}
	})
}

// checkFloat checks the format of a float by its text alone.
func checkFloat(t *testing.T, literal string) {
	t.Helper()
	want, err := strconv.ParseFloat(literal, 64)
	if err != nil {
		return // rounded up to infinity
	}
	out, err := bounds.AppendValue(nil, []byte(literal))
	got, parseErr := strconv.ParseFloat(string(out), 64)
	if err != nil || parseErr != nil || math.Float64bits(got) != math.Float64bits(want) {
		t.Fatalf("%s is written as %s, %v, which decodes to %v, %v", literal, out, err, got, parseErr)
	}
	mantissa, exponent, scientific := strings.Cut(strings.TrimPrefix(string(out), "-"), "e")
	size := math.Abs(want)
	if plain := size == 0 || 1e-5 <= size && size < 1e16; plain == scientific {
		t.Errorf("%s is written as %s", literal, out)
	}
	if scientific {
		if n, err := strconv.Atoi(exponent); err != nil || strconv.Itoa(n) != exponent {
			t.Errorf("%s is written as %s, with an unnecessary character in the exponent", literal, out)
		}
		if len(mantissa) > 1 && (mantissa[1] != '.' || strings.HasSuffix(mantissa, "0")) {
			t.Errorf("%s is written as %s, want one digit before the point and no trailing 0", literal, out)
		}
	} else if whole, fraction, ok := strings.Cut(mantissa, "."); !ok || whole == "" || fraction == "" ||
		len(whole) > 1 && whole[0] == '0' || len(fraction) > 1 && strings.HasSuffix(fraction, "0") {
		t.Errorf("%s is written as %s, want digits on both sides of the point and no unnecessary 0", literal, out)
	}
	shortest := strconv.FormatFloat(size, 'e', -1, 64)
	significant := strings.Trim(strings.Replace(mantissa, ".", "", 1), "0")
	shortestMantissa, _, _ := strings.Cut(shortest, "e")
	if significant != strings.Trim(strings.Replace(shortestMantissa, ".", "", 1), "0") {
		t.Errorf("%s is written as %s, want the digits of %s", literal, out, shortest)
	}
}
