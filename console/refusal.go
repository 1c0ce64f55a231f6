package console

import (
	"errors"
	"io"
	"slices"

	"github.com/linesman/linesman/api"
)

// Refusal prints why linesman refused a request as JSON, on one line: the [api.Error] in the
// tree of err, with the id of its run under the key that all answers use. It prints nothing
// for any other error, and for a request that got no answer.
func Refusal(w io.Writer, err error) error {
	var e *api.Error
	if !errors.As(err, &e) || e.Err != nil {
		return nil
	}
	return PrintJSON(w, struct {
		Run string `json:"run,omitempty"`
		*api.Error
	}{e.Run, e})
}

// Close returns those of candidates that a person may have meant by word: one or two letters
// are wrong, missing, too many or exchanged, or it is the beginning of one. Of a short word
// less may be wrong.
func Close(word string, candidates []string) (close []string) {
	most := min((len(word)-1)/2, 2)
	for _, c := range candidates {
		if distance(word, c) <= most || len(word) > 2 && len(c) > len(word) && c[:len(word)] == word {
			close = append(close, c)
		}
	}
	return close
}

// distance is the number of bytes to insert, remove, replace or exchange with the next one,
// to make b of a (optimal string alignment).
func distance(a, b string) int {
	before, last := []int(nil), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row := []int{i + 1}
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			d := min(row[j]+1, last[j+1]+1, last[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				d = min(d, before[j-1]+1)
			}
			row = append(row, d)
		}
		before, last = last, row
	}
	return last[len(b)]
}

// RunsJSON is an overview as it is printed for programs.
func RunsJSON(all *api.Overview) any {
	return struct {
		Runs   []*api.Run `json:"runs"`
		Counts api.Counts `json:"counts"`
	}{append([]*api.Run{}, slices.Concat(all.Working, all.Queued, all.Ended)...), all.Counts}
}
