package daemon

import (
	"fmt"
	"hash/fnv"

	"github.com/linesman/linesman/daemon/detail"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/runs"
)

// details are [detail.Folds] with the present setting scrub.
func (c Config) details() func(agent, run string, from *runs.SavedFold) (responder.DetailFold, error) {
	return func(agent, run string, from *runs.SavedFold) (responder.DetailFold, error) {
		return detail.Folds(c.backends(), int(c.Settings.MaxLineBytes), c.foldsBy(), c.prompt())(agent, run, from)
	}
}

// foldsBy identifies this program, and the settings on which what it derives depends.
func (c Config) foldsBy() string {
	h := fnv.New32a()
	fmt.Fprint(h, BuildOf(c.Version), c.Settings.MaxLineBytes, c.scrubs())
	return fmt.Sprintf("%x", h.Sum32())
}

// prompt returns the function that finds the prompt in a command line of a known agent, nil
// if the table has none.
func (c Config) prompt() func(argv []string) string {
	if t, ok := any(c.Agents).(interface{ Prompt(argv []string) string }); ok {
		return t.Prompt
	}
	return nil
}
