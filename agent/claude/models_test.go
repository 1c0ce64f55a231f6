package claude_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/backendtest"
)

// The record has the models of the last result, by the known counters.
func TestModelsOfARecord(t *testing.T) {
	result := func(models string) string { return with(success, `"modelUsage":`+models) }
	const a = `"claude-a":{"inputTokens":1,"outputTokens":2,"cacheReadInputTokens":3,"cacheCreationInputTokens":4,` +
		`"thinkingTokens":5,"costUSD":0.5,"contextWindow":200000,"provider":"SECRET","SECRET":6}`
	var many []string
	for i := range runs.MaxModels + 1 {
		many = append(many, fmt.Sprintf(`"m%d":{"inputTokens":%d}`, i, i))
	}
	counts := func(in, out, read, written, thought int64) runs.Usage {
		return runs.Usage{Input: in, Output: out, CachedInput: read, CacheWriteInput: written, ReasoningOutput: thought}
	}
	known := runs.Model{Name: "claude-a", Usage: counts(1+3+4, 2, 3, 4, 5), Cost: new(0.5)}
	for _, c := range []struct {
		why   string
		lines []string
		want  []runs.Model
	}{
		{"all of a model", []string{result(`{` + a + `}`)}, []runs.Model{known}},
		{"of the last result", []string{result(`{"b":{"inputTokens":9}}`), result(`{` + a + `}`)}, []runs.Model{known}},
		{"a result without", []string{result(`{` + a + `}`), success, result(`{}`), result(`null`), result(`7`)},
			[]runs.Model{known}},
		{"a cost alone", []string{result(`{"b":{"costUSD":1}}`)}, []runs.Model{{Name: "b", Cost: new(1.0)}}},
		{"nothing known", []string{result(`{"b":{"SECRET":1},"c":2,"d":{},"e":{"inputTokens":"1","costUSD":-1}}`)}, nil},
		{"a failed result", []string{`{"type":"result","subtype":"error_max_turns","modelUsage":{` + a + `}}`},
			[]runs.Model{known}},
		{"no result", []string{with(start, `"modelUsage":{`+a+`}`)}, nil},
	} {
		_, fold := backendtest.Fold(backend, backendtest.Output([]byte(strings.Join(c.lines, "\n")+"\n")))
		if got := fold.Record.Models; !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", c.why, got, c.want)
		}
	}
	_, fold := backendtest.Fold(backend, backendtest.Output([]byte(result(`{`+strings.Join(many, ",")+`}`)+"\n")))
	if got := fold.Record.Models; len(got) != runs.MaxModels || got[7].Name != "m7" || got[7].Input != 7 {
		t.Errorf("of many: %+v", got)
	}
}
