package v36

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

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
		if fence := longest(inside, '`'); inside != "" && strings.Count(inside, strings.Repeat("`", fence)) != 2 &&
			fence > 1 {
			t.Fatalf("code can be closed: %q", inside)
		}
		block := fenced(s, "")
		fence := block[:longest(block, '`')]
		if strings.Trim(fence, "`") != "" || strings.Count(block, fence) != 2 {
			t.Fatalf("a fence can be closed: %q", block)
		}
	})
}
