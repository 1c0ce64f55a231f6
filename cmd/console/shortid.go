package console

import (
	"slices"
	"sort"
	"strings"

	"github.com/linesman/linesman/api"
)

// minShortID is how many characters of an id are shown at least, behind its type.
const minShortID = 6

// idTypes are the beginnings of ids that linesman generates.
var idTypes = []string{"T-local-", "T-cloud-"}

// shortIDs returns the shortest beginnings of the ids that tell the runs apart, without the
// type of the id. Other ids are whole.
func shortIDs(all []*api.Run) []string {
	sorted := make([]string, len(all))
	for i, run := range all {
		sorted[i] = run.ID
	}
	sort.Strings(sorted)
	short := make([]string, len(all))
	for i, run := range all {
		short[i] = Word(shortID(run.ID, sorted))
	}
	return short
}

func shortID(id string, sorted []string) string {
	kind := ""
	for _, one := range idTypes {
		if strings.HasPrefix(id, one) {
			kind = one
		}
	}
	if kind == "" {
		return id
	}
	n := len(kind) + minShortID
	at, _ := slices.BinarySearch(sorted, id)
	for _, k := range []int{at - 1, at + 1} { // neighbours have the longest common beginnings
		if k >= 0 && k < len(sorted) && sorted[k] != id {
			n = max(n, common(id, sorted[k])+1)
		}
	}
	return id[len(kind):min(n, len(id))]
}

// common is the length of the common beginning of two texts, in bytes.
func common(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}
