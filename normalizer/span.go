package normalizer

import (
	"slices"

	"github.com/linesman/linesman/runs"
)

// Limits of the spans that are known of stderr.
const (
	maxSpans  = 12
	spanBytes = maxStderr / 4 // a span that has more does not grow
	nearSpan  = 32            // entries of RAW up to the next span that are rather read than left out
)

// Weight returns how much was folded: the bytes of all streams, and a KiB for each entry.
func (f *Fold) Weight() int64 {
	return f.state.Entries<<10 + f.Record.Bytes + f.Record.ErrBytes + f.state.In.Offset
}

// Again returns where the end of stderr is in the raw log. A fold of [RestoreDetailFold] has the
// details of a fold from the beginning if these entries are applied to it first.
func (f *Fold) Again() []runs.Span { return f.state.Stderr }

// locate notes that the entry at seq has n new bytes of stderr. Of too many spans the two with
// the fewest entries between them become one.
func (s *saved) locate(seq uint64, n int64) {
	all := s.Stderr
	if last := len(all) - 1; last >= 0 && seq-all[last].To <= nearSpan && all[last].Bytes < spanBytes {
		all[last].To, all[last].Bytes = seq, all[last].Bytes+n
	} else {
		all = append(all, runs.Span{From: seq, To: seq, Bytes: n})
	}
	var behind int64
	for i := len(all) - 1; i > 0; i-- {
		if behind += all[i].Bytes; behind >= maxStderr {
			all = slices.Delete(all, 0, i)
			break
		}
	}
	if len(all) > maxSpans {
		at := 1
		for i := 2; i < len(all); i++ {
			if all[i].From-all[i-1].To < all[at].From-all[at-1].To {
				at = i
			}
		}
		all[at-1].To, all[at-1].Bytes = all[at].To, all[at-1].Bytes+all[at].Bytes
		all = slices.Delete(all, at, at+1)
	}
	s.Stderr = all
}
