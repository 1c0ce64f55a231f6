package external

import (
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/normalizer/scan"
	"github.com/linesman/linesman/runs"
)

// Detail implements [normalizer.Detailer]: the question.
func (dialect) Detail(raw []byte, out *normalizer.Details) {
	var typ, prompt scan.Value
	_ = scan.Fields(raw, map[string]*scan.Value{"type": &typ, "prompt": &prompt}) // was scanned before
	if typ.Equal(runs.TypeQuestion) && len(out.Events()) > 0 {
		out.At(0).Prompt = runs.Whole(prompt.Text())
	}
}
