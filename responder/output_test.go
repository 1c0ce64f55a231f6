package responder

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/linesman/linesman/runs"
)

// TestAnyOutputIsCutToItsBudget cuts streams as the bus hands them out: all of
// it, or both ends at any byte.
func TestAnyOutputIsCutToItsBudget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.OneOf(
			rapid.Map(rapid.StringN(0, 400, -1), func(s string) []byte { return []byte(s) }),
			rapid.SliceOfN(rapid.Byte(), 0, 400),
		).Draw(t, "all")
		most := rapid.IntRange(16, 300).Draw(t, "most")
		x := runs.Excerpt{Head: all, Size: int64(len(all))}
		if len(all) > most && rapid.Bool().Draw(t, "ends only") {
			x.Head, x.Tail = all[:most/2], all[len(all)-most/2:]
		}
		s, cut := excerpt(x, most)
		if !utf8.ValidString(s) {
			t.Fatalf("no UTF-8: %q", s)
		}
		if kept := strings.Replace(s, marker, "", 1); cut && len(kept) > most || !cut && len(s) > most {
			t.Fatalf("%d bytes of at most %d", len(s), most)
		}
		if cut && utf8.Valid(all) && !strings.ContainsRune(string(all), utf8.RuneError) &&
			strings.ContainsRune(s, utf8.RuneError) {
			t.Fatalf("a character was parted: %q", s)
		}
		if cut != (s == "" && len(all) > 0 || strings.Contains(s, marker)) && !strings.Contains(string(all), marker) {
			t.Fatalf("cut %v, and %q", cut, s)
		}
	})
}
