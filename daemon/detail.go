package daemon

import (
	"errors"
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/runs"
)

// errForeignFold reports a saved fold that another program, or other settings, have derived.
var errForeignFold = errors.New("the saved fold is of another program or of other settings")

// Details returns folds with details of the runs of backends, and of any other agent
// kind. Prompt, which may be nil, returns the prompt in a command line. By is that of the saved
// folds that can be continued.
func Details(all []normalizer.Backend, maxLine int, by string, prompt func(argv []string) string,
) func(agent, run string, from *runs.SavedFold) (responder.DetailFold, error) {
	return func(agent, run string, from *runs.SavedFold) (responder.DetailFold, error) {
		b := normalizer.Opaque(agent)
		if i := slices.IndexFunc(all, func(b normalizer.Backend) bool { return b.Agent() == agent }); i >= 0 {
			b = all[i]
		}
		if from == nil {
			return detailFold{normalizer.NewDetailFold(b, run, maxLine, prompt)}, nil
		}
		if from.By != by {
			return nil, errForeignFold
		}
		f, err := normalizer.RestoreDetailFold(b, from.Record, from.State, maxLine, prompt)
		return detailFold{f}, err
	}
}

// details are [Details] with the present setting scrub.
func (c Config) details() func(agent, run string, from *runs.SavedFold) (responder.DetailFold, error) {
	return func(agent, run string, from *runs.SavedFold) (responder.DetailFold, error) {
		return Details(c.backends(), int(c.Settings.MaxLineBytes), c.foldsBy(), c.prompt())(agent, run, from)
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

// detailFold gives the messages of a fold as items.
type detailFold struct{ *normalizer.Fold }

func (f detailFold) Apply(seq uint64, e runs.Entry, each func(api.DetailItem)) {
	f.Fold.Apply(seq, e, func(m normalizer.Message) {
		each(api.DetailItem{
			Line: m.Line, Part: m.Part, At: runs.Time(m.Time), Kind: m.Token, Event: m.Body, Detail: m.Detail,
		})
	})
}
