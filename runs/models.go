package runs

// Model is what one model has used for a session, as the agent tells it.
type Model struct {
	Name string `json:"name"` // redacted, printable, at most 64 bytes
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
		r.Models[i].Name = thingName(models[i].Name)
	}
}
