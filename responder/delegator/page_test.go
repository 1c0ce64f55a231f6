package delegator

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
		s, cut := show(x, most)
		if !utf8.ValidString(s) {
			t.Fatalf("no UTF-8: %q", s)
		}
		if kept := strings.Replace(s, marker, "", 1); cut && len(kept) > most || !cut && len(s) > most {
			t.Fatalf("%d bytes of at most %d", len(s), most)
		}
		if cut && utf8.Valid(all) && !strings.ContainsRune(string(all), utf8.RuneError) && strings.ContainsRune(s, utf8.RuneError) {
			t.Fatalf("a character was parted: %q", s)
		}
		if cut != (s == "" && len(all) > 0 || strings.Contains(s, marker)) && !strings.Contains(string(all), marker) {
			t.Fatalf("cut %v, and %q", cut, s)
		}
	})
}

func TestNothingBreaksOutOfItsMarks(t *testing.T) {
	text := rapid.OneOf(rapid.String(), rapid.StringMatching("[`~#\\[\\]()<>\n\r\\\\ a*|_]{0,40}"))
	rapid.Check(t, func(t *rapid.T) {
		s := text.Draw(t, "s")
		for name, got := range map[string]string{"plain": plain(s), "code": code(s), "link": link("https://x/" + s)} {
			if strings.ContainsAny(got, "\n\r") {
				t.Fatalf("%s: several lines: %q", name, got)
			}
		}
		inside := code(s)
		if fence := longest(inside, '`'); inside != "" && strings.Count(inside, strings.Repeat("`", fence)) != 2 && fence > 1 {
			t.Fatalf("code can be closed: %q", inside)
		}
		block := fenced(s, "")
		fence := block[:longest(block, '`')]
		if strings.Trim(fence, "`") != "" || strings.Count(block, fence) != 2 {
			t.Fatalf("a fence can be closed: %q", block)
		}
	})
}

func TestProgressNeverFallsAndIsToldWhenItChanges(t *testing.T) {
	var told []Progress
	tell := rising(func(p Progress) { told = append(told, p) })
	for _, p := range []Progress{{0, "a"}, {0, "a"}, {50, "b"}, {20, "b"}, {20, "c"}, {-1, "c"}, {100, "c"}} {
		tell(p.Percent, p.Message)
	}
	want := []Progress{{0, "a"}, {50, "b"}, {50, "c"}, {100, "c"}}
	if len(told) != len(want) {
		t.Fatalf("told %v", told)
	}
	for i := range want {
		if told[i] != want[i] {
			t.Errorf("told %v, want %v", told[i], want[i])
		}
	}
	rising(nil)(1, "nobody listens")
}
