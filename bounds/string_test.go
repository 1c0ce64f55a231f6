package bounds_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/linesman/linesman/bounds"
)

func TestAppendStringWritesAsSerdeJSON(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"", `""`},
		{"plain", `"plain"`},
		{"\b\t\n\f\r", `"\b\t\n\f\r"`},
		{`"\/`, `"\"\\/"`},
		{"<a href='x'>&</a>", `"<a href='x'>&</a>"`},
		{"\u2028\u2029", "\"\u2028\u2029\""},
		{"\x7f", "\"\x7f\""},
		{"\u0080\u009f\u00a0", "\"\u0080\u009f\u00a0\""},
		{"ß中" + rocket, `"ß中` + rocket + `"`},
		{"\uFFFD", "\"\uFFFD\""},
		{"\xff", "\"\uFFFD\""},
		{"\xf0\x9f\x92", "\"\uFFFD\uFFFD\uFFFD\""},                     // one for each byte
		{"\xed\xa0\x80", "\"\uFFFD\uFFFD\uFFFD\""},                     // a surrogate
		{"a\xc0\n\x01ß\xe4\xb8", "\"a\uFFFD\\n\\u0001ß\uFFFD\uFFFD\""}, // next to escapes
	} {
		checkString(t, tt.in)
		if got := string(bounds.AppendString([]byte("> "), tt.in)); got != "> "+tt.want {
			t.Errorf("AppendString(%q) = %s, want %s", tt.in, got, tt.want)
		}
	}
}

func TestEveryControlCharacterIsEscapedAtEveryOffset(t *testing.T) {
	short := map[byte]string{'\b': `\b`, '\t': `\t`, '\n': `\n`, '\f': `\f`, '\r': `\r`, '"': `\"`, '\\': `\\`}
	for c := range byte(0x80) {
		want, escaped := short[c]
		switch {
		case escaped:
		case c < ' ':
			want = fmt.Sprintf(`\u%04x`, c)
		default:
			want = string(rune(c))
		}
		// Every offset in a word of eight bytes and in the bytes after the last
		// word, with every neighbour that could cause a carry or a borrow.
		for at := range 20 {
			for _, fill := range []string{"a", " ", "!", "\n", "\x00", "\"", "\x7f", "ß"} {
				in := strings.Repeat(fill, at) + string(rune(c)) + strings.Repeat(fill, 19-at)
				out := string(bounds.AppendString(nil, in))
				if n := len(bounds.AppendString(nil, fill)) - 2; out[1+at*n:][:len(want)] != want {
					t.Fatalf("%q: character %#02x at %d is written as %s, want %s there", in, c, at, out, want)
				}
				checkString(t, in)
			}
		}
	}
}

func TestStringFunctionsDoNotAllocate(t *testing.T) {
	long := strings.Repeat("text with ß and \"escapes\"\n\x01", 1000)
	raw, dst := []byte(long), make([]byte, 0, 100_000)
	var size int
	for name, f := range map[string]func(){
		"StringSize of a string":   func() { size = bounds.StringSize(long) },
		"StringSize of bytes":      func() { size = bounds.StringSize(raw) },
		"AppendString of a string": func() { size = len(bounds.AppendString(dst, long)) },
		"AppendString of bytes":    func() { size = len(bounds.AppendString(dst, raw)) },
	} {
		if n := testing.AllocsPerRun(20, f); n != 0 {
			t.Errorf("%s: %v allocations, want 0", name, n)
		}
		if size <= len(long) {
			t.Errorf("%s: %d, want more than %d", name, size, len(long))
		}
	}
}

func TestMeasuredStringIsWrittenString(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		checkString(t, texts().Draw(t, "s"))
	})
	rapid.Check(t, func(t *rapid.T) {
		checkString(t, string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")))
	})
}

func FuzzString(f *testing.F) {
	f.Add("")
	f.Add("plain text, eight by eight \n\t\"\\")
	f.Add("\x00\x1f\x7f\u0080\u2028" + rocket)
	f.Add("broken \xf0\x9f\x92 and \xed\xa0\x80")
	f.Fuzz(func(t *testing.T, s string) { checkString(t, s) })
}

// checkString checks the properties that hold for any string, and compares with
// encoding/json.
func checkString(t rapid.TB, s string) {
	t.Helper()
	out := bounds.AppendString(nil, s)
	if n := bounds.StringSize(s); n != len(out) {
		t.Fatalf("%q: StringSize is %d, AppendString adds %d", s, n, len(out))
	}
	if n, same := bounds.StringSize([]byte(s)), bounds.AppendString(nil, []byte(s)); n != len(out) ||
		string(same) != string(out) {
		t.Fatalf("%q: as bytes it has %d bytes and is %q, as a string %q", s, n, same, out)
	}
	var back string
	if err := json.Unmarshal(out, &back); err != nil || back != string([]rune(s)) {
		t.Fatalf("%q: written as %q, which decodes to %q, %v", s, out, back, err)
	}
	if value, err := bounds.AppendValue(nil, out); err != nil || string(value) != string(out) {
		t.Fatalf("%q: written as %q, which AppendValue writes as %q, %v", s, out, value, err)
	}
}
