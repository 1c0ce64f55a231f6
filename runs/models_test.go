package runs_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/linesman/linesman/runs"
)

// largestModels returns more models than a record lists, with the longest names and counts.
func largestModels() (all []runs.Model) {
	most := int64(1 << 53)
	for i := range runs.MaxModels + 2 {
		all = append(all, runs.Model{
			Name:  fmt.Sprint(i) + strings.Repeat("x", 63-i/10),
			Usage: runs.Usage{Input: most, CachedInput: most, CacheWriteInput: most, Output: most, ReasoningOutput: most},
			Cost:  new(1e9 / 3),
		})
	}
	return all
}

func TestModelsAreThoseOfTheLastLineWithSome(t *testing.T) {
	model := func(name string, n int64) runs.Model { return runs.Model{Name: name, Usage: runs.Usage{Input: n}} }
	r := runs.NewRecord("T-local-x", "claude_code")
	for _, line := range [][]runs.Model{nil, {model("a", 1), model("b", 2)}, nil, {model("b", 3)}, nil} {
		r.Line(runs.Facts{Models: line}, 1)
	}
	if want := []runs.Model{model("b", 3)}; !reflect.DeepEqual(r.Models, want) {
		t.Errorf("got %+v, want %+v", r.Models, want)
	}
}

func TestModelsAreBounded(t *testing.T) {
	r := runs.NewRecord("T-local-x", "claude_code")
	given := largestModels()
	given[0].Name = "claude-opus-4[1m]"
	given[1].Name = "é\n\x1b[0m " + strings.Repeat("x", 100)
	given[2].Name = "sk-proj-" + strings.Repeat("a1B2", 12)
	r.Line(runs.Facts{Models: given}, 1)
	if len(r.Models) != runs.MaxModels || r.Models[0].Name != given[0].Name || r.Models[7].Usage != given[7].Usage {
		t.Errorf("%+v", r.Models)
	}
	for _, m := range r.Models {
		if len(m.Name) > 64 || strings.ContainsAny(m.Name, "é\n\x1b\x00 ") || strings.Contains(m.Name, "a1B2") {
			t.Errorf("the name %q", m.Name)
		}
	}
}
