package bounds_test

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/linesman/linesman/bounds"
)

const rocket = "🚀" // four bytes

func TestDroppedAndSuffixMatchTheContract(t *testing.T) {
	if want := `{"dropped":{"reason":"oversize"}}`; bounds.Dropped != want {
		t.Errorf("got %s, want %s", bounds.Dropped, want)
	}
	if want := "\xe2\x80\xa6(truncated)"; bounds.Suffix != want {
		t.Errorf("the suffix is %q, want %q", bounds.Suffix, want)
	}
}

func TestTruncate(t *testing.T) {
	long := strings.Repeat("w", 100)
	for _, tt := range []struct {
		name  string
		in    string
		limit int
		want  string
	}{
		{"empty", "", 20, ""},
		{"empty, no room", "", 0, ""},
		{"exactly the limit", long[:20], 20, long[:20]},
		{"one over", long[:21], 20, long[:6] + bounds.Suffix},
		{"no straddling code point", "12345ß" + long, 20, "12345" + bounds.Suffix},
		{"code point ends at the cut", "1234ß" + long, 20, "1234ß" + bounds.Suffix},
		{"four bytes wide", "123" + rocket + long, 20, "123" + bounds.Suffix},
		{"first code point does not fit", rocket + long, 15, bounds.Suffix},
		{"room for one byte", long, 15, "w" + bounds.Suffix},
		{"room for the suffix alone", long, 14, "…"},
		{"fits though smaller than the suffix", "hello", 5, "hello"},
		{"3 bytes", long, 3, "…"},
		{"2 bytes", long, 2, ""},
		{"0 bytes", long, 0, ""},
		{"negative limit", long, -5, ""},
		{"not UTF-8", strings.Repeat("\x80", 100), 20, strings.Repeat("\x80", 6) + bounds.Suffix},
	} {
		if got := bounds.Truncate(tt.in, tt.limit); got != tt.want {
			t.Errorf("%s: Truncate(%.30q, %d) = %q, want %q", tt.name, tt.in, tt.limit, got, tt.want)
		}
	}
}

func TestCut(t *testing.T) {
	for _, tt := range []struct {
		in    string
		limit int
		want  int
	}{
		{"", 4, 0},
		{"", 0, 0},
		{"abc", 3, 3},
		{"abc", 2, 2},
		{"aß", 2, 1},
		{"aß", 3, 3},
		{"中中", 5, 3},
		{rocket + "a", 3, 4},
		{rocket + "a", 1, 4},
		{rocket + "a", 0, 4},
		{rocket + "a", -1, 4},
		{"a" + rocket, 4, 1},
		{"e\u0301x", 1, 1}, // a combining mark may start a part
		{"\x80\x80\x80\x80\x80\x80", 5, 5},
		{"\x80\x80\x80\x80\x80\x80", 3, 1},
	} {
		if got := bounds.Cut(tt.in, tt.limit); got != tt.want {
			t.Errorf("Cut(%q, %d) = %d, want %d", tt.in, tt.limit, got, tt.want)
		}
	}
}

func TestSplit(t *testing.T) {
	for _, tt := range []struct {
		in    string
		limit int
		want  []string
	}{
		{"", 4, []string{""}},
		{"", 0, []string{""}},
		{"abcd", 4, []string{"abcd"}},
		{"abcdefgh", 4, []string{"abcd", "efgh"}}, // no empty last part
		{"abcde", 4, []string{"abcd", "e"}},
		{"abc" + rocket + "d", 4, []string{"abc", rocket, "d"}},
		{"a" + rocket + rocket, 3, []string{"a", rocket, rocket}},
		{"aß" + rocket, 1, []string{"a", "ß", rocket}},
		{"aß", 0, []string{"a", "ß"}},
		{"\xf0\x9f\x9a", 2, []string{"\xf0", "\x9f\x9a"}}, // invalid UTF-8, no byte is lost
	} {
		if got := slices.Collect(bounds.Split(tt.in, tt.limit)); !slices.Equal(got, tt.want) {
			t.Errorf("Split(%q, %d) = %q, want %q", tt.in, tt.limit, got, tt.want)
		}
	}
}

func TestSplitStopsEarly(t *testing.T) {
	for part := range bounds.Split("abcdef", 2) {
		if part != "ab" {
			t.Fatalf("first part is %q, want ab", part)
		}
		break
	}
}

// texts generates strings in which code points of every length are frequent.
func texts() *rapid.Generator[string] {
	runes := rapid.OneOf(
		rapid.SampledFrom([]rune("aZ \"\\/\n\t\x00\x1f\x7f<&>ß\u0301中\u2028\u200d\uFFFD🚀")),
		rapid.Rune(),
	)
	return rapid.StringOfN(runes, 0, 200, -1)
}

func TestTruncatedTextIsTheLongestThatFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, limit := texts().Draw(t, "s"), rapid.IntRange(-2, 300).Draw(t, "limit")
		checkTruncate(t, s, limit)
	})
}

func TestSplitPartsAreMaximalAndConcatenateToInput(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, limit := texts().Draw(t, "s"), rapid.IntRange(-2, 40).Draw(t, "limit")
		checkSplit(t, s, limit)
	})
}

func FuzzTruncate(f *testing.F) {
	f.Add("", 0)
	f.Add("hello, bounded world", 19)
	f.Add(strings.Repeat("é", 40), 33)
	f.Add(rocket+rocket+rocket+rocket+rocket, 17)
	f.Add("\xf0\x9f\x9a"+strings.Repeat("\x80", 30), 16)
	f.Fuzz(func(t *testing.T, s string, limit int) { checkTruncate(t, s, limit) })
}

func FuzzSplit(f *testing.F) {
	f.Add("", 0)
	f.Add("abc"+rocket+"d", 4)
	f.Add("中文 text, ß", 3)
	f.Add("\xf0\x9f\x9a\x80\x80\x80\x80\x80", 5)
	f.Fuzz(func(t *testing.T, s string, limit int) { checkSplit(t, s, limit) })
}

func checkTruncate(t rapid.TB, s string, limit int) {
	t.Helper()
	got := bounds.Truncate(s, limit)
	if len(got) > max(limit, 0) {
		t.Fatalf("Truncate(%q, %d) has %d bytes", s, limit, len(got))
	}
	if again := bounds.Truncate(got, limit); again != got {
		t.Fatalf("Truncate(%q, %d) = %q, and a second time %q", s, limit, got, again)
	}
	if len(s) <= limit && got != s {
		t.Fatalf("Truncate(%q, %d) = %q, want s unchanged", s, limit, got)
	}
	if !utf8.ValidString(s) {
		return
	}
	if !utf8.ValidString(got) {
		t.Fatalf("Truncate(%q, %d) = %q, no longer UTF-8", s, limit, got)
	}
	if len(s) <= limit || limit <= len(bounds.Suffix) {
		return
	}
	kept, ok := strings.CutSuffix(got, bounds.Suffix)
	if !ok || !strings.HasPrefix(s, kept) {
		t.Fatalf("Truncate(%q, %d) = %q, want a prefix and the suffix", s, limit, got)
	}
	_, next := utf8.DecodeRuneInString(s[len(kept):])
	if len(got)+next <= limit {
		t.Fatalf("Truncate(%q, %d) = %q, with room for one more code point", s, limit, got)
	}
}

func checkSplit(t rapid.TB, s string, limit int) {
	t.Helper()
	parts := slices.Collect(bounds.Split(s, limit))
	if joined := strings.Join(parts, ""); joined != s {
		t.Fatalf("Split(%q, %d) joins to %q", s, limit, joined)
	}
	if s == "" && len(parts) != 1 {
		t.Fatalf("Split of \"\" has %d parts, want 1", len(parts))
	}
	for i, part := range parts {
		_, first := utf8.DecodeRuneInString(part)
		switch {
		case part == "" && s != "":
			t.Fatalf("Split(%q, %d): part %d is empty", s, limit, i)
		case len(part) > max(limit, 0) && len(part) != first:
			t.Fatalf("Split(%q, %d): part %d has %d bytes in more than one code point", s, limit, i, len(part))
		case !utf8.ValidString(s):
			continue
		case !utf8.ValidString(part):
			t.Fatalf("Split(%q, %d): part %d is %q, no longer UTF-8", s, limit, i, part)
		}
		if i+1 < len(parts) {
			if _, next := utf8.DecodeRuneInString(parts[i+1]); len(part)+next <= limit {
				t.Fatalf("Split(%q, %d): part %d has room for one more code point", s, limit, i)
			}
		}
	}
}
