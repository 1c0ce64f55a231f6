package daemon

import (
	"slices"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/runs"
)

// Details returns folds with details of the runs of backends, and of any other agent
// kind. Prompt, which may be nil, returns the prompt in a command line.
func Details(all []normalizer.Backend, maxLine int, prompt func(argv []string) string,
) func(agent, run string) responder.DetailFold {
	return func(agent, run string) responder.DetailFold {
		b := normalizer.Opaque(agent)
		if i := slices.IndexFunc(all, func(b normalizer.Backend) bool { return b.Agent() == agent }); i >= 0 {
			b = all[i]
		}
		return detailFold{normalizer.NewDetailFold(b, run, maxLine, prompt)}
	}
}

// details are [Details] with the present setting scrub.
func (c Config) details() func(agent, run string) responder.DetailFold {
	return func(agent, run string) responder.DetailFold {
		return Details(c.backends(), int(c.Settings.MaxLineBytes), c.prompt())(agent, run)
	}
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
