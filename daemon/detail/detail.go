// Package detail connects the folds of the normalizer, which know commands and
// outputs, with the responder, which asks for those of single runs.
package detail

import (
	"errors"
	"slices"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/runs"
)

// errForeign reports a saved fold that another program, or other settings, have derived.
var errForeign = errors.New("the saved fold is of another program or of other settings")

// Folds returns folds with details of the runs of backends, and of any other agent
// kind. Prompt, which may be nil, returns the prompt in a command line. By is that of the saved
// folds that can be continued.
func Folds(all []normalizer.Backend, maxLine int, by string, prompt func(argv []string) string,
) func(agent, run string, from *runs.SavedFold) (responder.DetailFold, error) {
	return func(agent, run string, from *runs.SavedFold) (responder.DetailFold, error) {
		b := normalizer.Opaque(agent)
		if i := slices.IndexFunc(all, func(b normalizer.Backend) bool { return b.Agent() == agent }); i >= 0 {
			b = all[i]
		}
		if from == nil {
			return fold{normalizer.NewDetailFold(b, run, maxLine, prompt)}, nil
		}
		if from.By != by {
			return nil, errForeign
		}
		f, err := normalizer.RestoreDetailFold(b, from.Record, from.State, maxLine, prompt)
		return fold{f}, err
	}
}

// fold gives the messages of a fold as items.
type fold struct{ *normalizer.Fold }

func (f fold) Apply(seq uint64, e runs.Entry, each func(api.DetailItem)) {
	f.Fold.Apply(seq, e, func(m normalizer.Message) {
		each(api.DetailItem{
			Line: m.Line, Part: m.Part, At: runs.Time(m.Time), Kind: m.Token, Event: m.Body, Detail: m.Detail,
		})
	})
}
