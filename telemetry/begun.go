package telemetry

import (
	"maps"
	"slices"
)

// maxBegun is how many runs an exporter remembers for the next one.
const maxBegun = 256

// begun are the runs that have had no line yet, but events: a live run has those of its process. Of all other runs an
// event of the first line is the first one, if it is not known otherwise.
type begun struct {
	runs map[string]bool
	any  bool // there may be others, of before this exporter
	more bool // there are others: too many
}

// begunOf returns those that are stored with a position.
func begunOf(p position) begun {
	b := begun{runs: map[string]bool{}, any: p.Begun == nil && p.Seq > 0}
	for _, run := range p.Begun {
		b.runs[run] = true
	}
	return b
}

// has reports whether a run may be one of them.
func (b *begun) has(run string) bool { return b.any || b.more || b.runs[run] }

// note notes whether a run is one of them.
func (b *begun) note(run string, is bool) {
	switch {
	case !is:
		delete(b.runs, run)
	case len(b.runs) < maxBegun:
		b.runs[run] = true
	default:
		b.more = true
	}
}

// stored returns them for a position.
func (b *begun) stored() []string {
	if b.more {
		return nil
	}
	return slices.AppendSeq([]string{}, maps.Keys(b.runs))
}
