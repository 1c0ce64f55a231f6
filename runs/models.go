package runs

import (
	"regexp"
	"strings"
)

// Model is what one model has used for a session, as the agent tells it.
type Model struct {
	Name string `json:"name"` // at most 64 bytes; "" if it is longer, or no name of a model
	Usage
	Cost *float64 `json:"cost_usd,omitempty"` // in US dollars; nil: not told
}

// MaxModels is the number of models that a run lists.
const MaxModels = 8

// foldModels replaces the models of the record by those of a line that has some: their
// counts are totals.
func (r *Record) foldModels(models []Model) {
	if len(models) == 0 {
		return
	}
	r.Models = make([]Model, min(len(models), MaxModels))
	for i := range r.Models {
		r.Models[i] = models[i]
		r.Models[i].Usage = models[i].plausible()
		name := &r.Models[i].Name
		if len(*name) > maxThing || !modelName.MatchString(*name) {
			*name = ""
		}
		*name = strings.Clone(*name) // do not keep the memory of the line
	}
}

// modelName matches the names of models: claude-sonnet-4-5, openai/gpt-5.1, claude-opus-4-5[1m].
var modelName = regexp.MustCompile(`^[a-z0-9]+(?:[.:/@-][a-z0-9]+)*(?:\[[a-z0-9]+\])?$`)
