package runs

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// A matcher finds the first word at any offset, like a search for each word.
func TestMatcherFindsTheFirstWord(t *testing.T) {
	for name, m := range map[string]*matcher{
		"findings": findingWords, "errors": errorMarks, "weak": weakMarks, "secrets": secretWords, "names": nameMatcher,
		"scrub": scrubWords,
	} {
		pieces := append([]string{"x", "7", " ", "\n", "é", "tok", "FAI", "rror", "A"}, m.words...)
		for _, word := range m.words {
			pieces = append(pieces, strings.ToUpper(word), word[1:], word[:len(word)-1], strings.TrimSpace(word))
		}
		rapid.Check(t, func(t *rapid.T) {
			text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 6).Draw(t, "pieces"), "")
			searched := text
			if m.fold {
				searched = strings.ToLower(text)
			}
			want := -1
			for i := len(text) - 1; i >= 0; i-- {
				for _, word := range m.words {
					if strings.HasPrefix(searched[i:], word) && (word[0] != ' ' || i > 0 && isDigit(text[i-1])) {
						want = i
					}
				}
			}
			if got := index(m, text); got != want {
				t.Fatalf("%s: %q: %d, want %d", name, text, got, want)
			}
			if got := index(m, []byte(text)); got != want {
				t.Fatalf("%s: %q as bytes: %d, want %d", name, text, got, want)
			}
		})
	}
}
