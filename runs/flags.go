package runs

import (
	"slices"
	"strings"
)

// OptionRefused is the text about a program that refused an option of the run which the caller had asked for.
const OptionRefused = "the agent's program refused an option of the run"

// reasonOption is the reason of a run that ended so.
const reasonOption = "option refused"

// Limits of [flags].
const (
	maxFlags = 4
	maxFlag  = 64 // bytes
)

// flags are flags of a command line, and whether the program has named one on stderr. Of stderr nothing else stays.
type flags struct {
	Names []string `json:"names"`
	Begun []int    `json:"begun"` // bytes of each flag with which stderr ends so far
	Named bool     `json:"named,omitempty"`
}

func flagsOf(names []string) *flags {
	bad := func(name string) bool {
		return !consists(name, maxFlag, func(c byte) bool { return c == '-' || 'a' <= c && c <= 'z' })
	}
	if len(names) == 0 || len(names) > maxFlags || slices.ContainsFunc(names, bad) {
		return nil
	}
	return &flags{Names: names, Begun: make([]int, len(names))}
}

// read reads the next bytes of stderr.
func (f *flags) read(text []byte) {
	for i, name := range f.Names[:min(len(f.Names), len(f.Begun))] {
		all := name[:min(max(f.Begun[i], 0), len(name))] + string(text)
		f.Named = f.Named || strings.Contains(all, name)
		n := min(len(all), len(name)-1)
		for !strings.HasSuffix(all, name[:n]) {
			n--
		}
		f.Begun[i] = n
	}
}

// refused reports whether the program has refused a flag: it has named one, and printed nothing on stdout.
func (r *Record) refused() bool {
	return r.Options != nil && r.Options.Named && r.Lines == r.Blank
}
