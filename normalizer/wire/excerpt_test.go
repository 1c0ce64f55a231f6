package wire

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/normalizer/scan"
)

// A part of an undecoded string is a valid string.
func TestCutAndTailSplitNoEscapes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{"\n", "\\", "\\n", `"`, "é", "🚀", "\x01", "n",
			"u0041", "\u2028"})).Draw(t, "pieces"), "")
		raw := bounds.AppendString(nil, text)
		raw = raw[1 : len(raw)-1]
		n := rapid.IntRange(0, len(raw)+2).Draw(t, "bytes")
		first, last := raw[:cut(raw, n)], tail(raw, n)
		if len(first) > n || len(last) > n {
			t.Fatalf("%d and %d bytes of at most %d", len(first), len(last), n)
		}
		for _, part := range [][]byte{first, last} {
			var s scan.Scanner
			s.Reset([]byte(`"` + string(part) + `"`))
			s.Skip()
			if s.End() != scan.OK {
				t.Fatalf("%q is cut to %q", raw, part)
			}
		}
		begin, end := string(decode(nil, first, true)), string(decode(nil, last, true))
		if !strings.HasPrefix(text, begin) || !strings.HasSuffix(text, end) || end != "" &&
			text[len(text)-len(end)-1] != '\n' {
			t.Fatalf("%q is cut to %q and %q", text, begin, end)
		}
	})
}
