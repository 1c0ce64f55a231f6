package runs_test

import (
	"strings"
	"testing"

	"github.com/linesman/linesman/runs"
)

// The owner sees the names that programs give to things. What can be data has no name.
func TestNameOfAnUnknownThingIsAnIdentifier(t *testing.T) {
	for name, want := range map[string]bool{
		"turn.paused": true, "item/image_2": true, "usage.cacheReadTokens": true, "modelUsage.costUSD": true,
		"part.sessionID": true, "ephemeral_1h_input_tokens": true, "x-y": true,
		strings.Repeat("a", 64): true, strings.Repeat("a", 65): false,
		"": false, "a b": false, "Hello": false, "sk-ant-API03-x": false, "/home/me": false, "a\nb": false, "é": false,
		"x_AKIAIOSFODNN7EXAMPLE": false, "toolu_01AbCDeF": false, "me@example.com": false, "a.": false, "7": false,
	} {
		r := runs.NewRecord("r", "codex")
		first := r.Line(runs.Facts{Drift: []runs.Unknown{{What: runs.DriftField, Name: name}}}, 1)
		if len(first) != 1 || len(first[0].Hash) != 12 || (first[0].Name == name) != want && name != "" ||
			!want && first[0].Name != "" {
			t.Errorf("%q: %+v", name, first)
		}
	}
}

func TestVersionOfAnAgent(t *testing.T) {
	for v, want := range map[string]bool{
		"0.169.0": true, "2.1.330": true, "1.18": true, "0.42.0-alpha.7": true, "1.2.3-beta": true, "1.2.3.4": true,
		"": false, "1": false, "v1.2.3": false, "1.2.3 (Claude Code)": false, "1.2.3-SECRET": false, "1.2.3\n": false,
		"123456789.0": false,
	} {
		if err := runs.CheckVersion(v); (err == nil) != want {
			t.Errorf("%q: %v", v, err)
		}
	}
}
