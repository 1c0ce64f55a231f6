package v36

import (
	"encoding/json"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder"
)

// outputData is what an agent printed, or why it is left out.
type outputData struct {
	Included  bool    `json:"included"`
	Reason    string  `json:"reason,omitempty"`
	Stdout    *string `json:"stdout,omitempty"`
	Stderr    *string `json:"stderr,omitempty"`
	Truncated bool    `json:"truncated"`
	MaxBytes  int     `json:"max_bytes"`
	Original  int64   `json:"original_size,omitempty"` // bytes of both streams, where one is cut
}

// outputOf is the output of a result.
func outputOf(r *responder.Result) outputData {
	o := r.Output
	switch o.Omitted {
	case "":
		return outputData{
			Included: true, Stdout: &o.Stdout, Stderr: &o.Stderr, Truncated: o.Truncated, MaxBytes: o.MaxBytes, Original: o.Size,
		}
	case api.Expired:
		return outputData{Reason: "The output is no longer kept"}
	case api.NoDiff:
		return outputData{Reason: "There is no diff of the task"}
	}
	if responder.IsCloud(r.Record.Row()) {
		return outputData{Reason: "Output excluded by default (use include_output=true for the diff)"}
	}
	return outputData{Reason: "Output excluded by default (use include_output=true)"}
}

// partialResults is the end of the output of a task that timed out.
type partialResults struct {
	Events []json.RawMessage `json:"last_events"`
	Output string            `json:"last_output"`
}

func (d outputData) markdown(p *page) {
	if !d.Included {
		p.gap()
		p.line(d.Reason)
		return
	}
	for _, s := range []struct {
		name string
		text *string
	}{{"stdout", d.Stdout}, {"stderr", d.Stderr}} {
		if s.text != nil && *s.text != "" {
			p.block(s.name, "", *s.text)
		}
	}
	if d.Truncated {
		p.line("(cut: " + number(d.Original) + " bytes in all)")
	}
}
