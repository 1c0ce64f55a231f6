package chaos

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/linesman/linesman/runs"
)

// talk is what one process of a live run was to get.
type talk struct {
	in   []byte
	lost bool // its end is unknown, or it wrote nothing: it may not have read all of its input, or not have been started
	why  runs.Reason
}

// untaken says at which process an agent that took in has taken other lines.
func untaken(all []talk, in []byte) string {
	for i, p := range all {
		after, ok := bytes.CutPrefix(in, p.in)
		if !ok {
			n := min(len(p.in), len(in))
			at := different(p.in[:n], in[:n])
			return fmt.Sprintf("process %d of %d, %q, from byte %d of %d", i+1, len(all), p.why, at, len(p.in))
		}
		in = after
	}
	return fmt.Sprintf("%d bytes more", len(in))
}

// took reports whether an agent that took in can have been these processes, one after another: each took all lines,
// or the first ones if it was lost.
func took(all []talk, in []byte) bool {
	if len(all) == 0 {
		return len(in) == 0
	}
	first, rest := all[0], all[1:]
	if after, ok := bytes.CutPrefix(in, first.in); ok && took(rest, after) {
		return true
	}
	if !first.lost {
		return false
	}
	lines := slices.Collect(bytes.Lines(first.in))
	for n := len(lines) - 1; n >= 0; n-- {
		if after, ok := bytes.CutPrefix(in, bytes.Join(lines[:n], nil)); ok && took(rest, after) {
			return true
		}
	}
	return false
}
