package corpus_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/linesman/linesman/test/bench/corpus"
)

// TestCorporaAreWhatTheyPromise: what is measured with them is worth no more
// than this.
func TestCorporaAreWhatTheyPromise(t *testing.T) {
	type within [2]int // least, most
	for _, c := range []struct {
		name                            string
		out                             []byte
		mean, median, percentile99, top within
	}{
		{"small", corpus.Small(20_000), within{238, 248}, within{220, 270}, within{300, 360}, within{300, 400}},
		{"mix", corpus.Mix(20_000), within{1750, 1900}, within{250, 275}, within{42_000, 55_000}, within{190_000, 220_000}},
	} {
		var sizes []int
		total, foreign := 0, 0
		for _, line := range corpus.Lines(c.out) {
			if !json.Valid(line) || !utf8.Valid(line) {
				t.Fatalf("%s: not JSON: %.200s", c.name, line)
			}
			if bytes.IndexFunc(line, func(r rune) bool { return r >= utf8.RuneSelf }) >= 0 {
				foreign++
			}
			sizes = append(sizes, len(line))
			total += len(line)
		}
		slices.Sort(sizes)
		n := len(sizes)
		for _, q := range []struct {
			what string
			got  int
			want within
		}{
			{"lines", n, within{20_000, 20_000}}, {"mean", total / n, c.mean}, {"median", sizes[n/2], c.median},
			{"percentile 99", sizes[n*99/100], c.percentile99}, {"longest", sizes[n-1], c.top},
			{"lines with other characters than ASCII, per mille", foreign * 1000 / n, within{220, 330}},
		} {
			t.Logf("%s: %s: %d", c.name, q.what, q.got)
			if q.got < q.want[0] || q.got > q.want[1] {
				t.Errorf("%s: %s: %d, want %d to %d", c.name, q.what, q.got, q.want[0], q.want[1])
			}
		}
	}
	if !bytes.Equal(corpus.Mix(100), corpus.Mix(100)) {
		t.Error("two calls give different bytes")
	}
}
