package acp_test

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/linesman/linesman/agent/acp"
	"github.com/linesman/linesman/agent/claude"
	"github.com/linesman/linesman/agent/codex"
	"github.com/linesman/linesman/agent/gemini"
	"github.com/linesman/linesman/agent/opencode"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/backendtest"
)

// backends are those of the recorded agents, by the beginning of the name of a recording.
var backends = map[string]normalizer.Backend{
	"claude": claude.Backend{}, "codex": codex.Backend{}, "gemini": gemini.Backend{}, "opencode": opencode.Backend{},
	"copilot": acp.Backend{Kind: "copilot", Live: &acp.Agent{
		Tokens: acp.PerProcess, Silent: true, ExitCode: []string{"rawOutput", "contents", "exitCode"},
	}},
	"qwen": acp.Backend{Kind: "qwen", Live: &acp.Agent{
		Tokens: acp.PerRequest, ExitCode: []string{"rawOutput", "exitCode"}, ToolName: []string{"_meta", "toolName"},
	}},
	"kimi":  acp.Backend{Kind: "kimi", Live: &acp.Agent{ToolName: []string{"title"}}},
	"cline": acp.Backend{Kind: "cline", Live: &acp.Agent{}},
}

// recording is a recorded conversation.
type recording struct {
	name    string
	backend normalizer.Backend
	log     []runs.Entry
}

// recordings returns the recorded conversations as the entries that a worker makes of them.
func recordings(t testing.TB) (all []recording) {
	files, err := filepath.Glob("testdata/recordings/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings, %v", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".jsonl")
		agent, _, _ := strings.Cut(name, "-")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, recording{name, backends[agent], backendtest.Entries(t, text)})
	}
	return all
}

// shown are the members whose text may be in events or controls the mapping.
var shown = []string{
	"jsonrpc", "id", "method", "params.sessionId", "result.sessionId", "params.requestId",
	"params.update.sessionUpdate", "params.update.content.type", "params.update.content.text", "params.update.messageId",
	"params.update.toolCallId", "params.update.kind", "params.update.status", "params.update.name",
	"params.update.content[].type", "params.update._meta.claudeCode.toolName", "params.update._meta.toolName",
	"params.update.currentModeId", "params.update.configOptions[].id", "params.update.configOptions[].currentValue",
	"params.update.entries[].status", "params.update.cost.currency", "result.configOptions[].id",
	"result.configOptions[].currentValue", "result.modes.currentModeId", "result.models.currentModelId",
	"params.toolCall.toolCallId", "params.toolCall.kind", "params.toolCall.status", "params.toolCall._meta.toolName",
	"params.options[].kind", "params.options[].optionId", "result.outcome.outcome", "result.outcome.optionId",
	"params.modeId", "result.stopReason", "error.message", "error.data.details", "result.agentInfo.version",
	"params.update.title", // of some agents the name of a tool; where it is not, see the goldens
}

// recorded are those whose text may be in the record.
var recorded = []string{
	"params.update.rawInput.command", "params.toolCall.title", "params.toolCall.rawInput.command",
	"params.update.content[].content.text", "params.update.rawOutput", "params.update.rawOutput.output",
	"params.update.rawOutput.content", "params.update.locations[].path", "params.update.content[].path",
	"params.update._meta.terminal_output_delta.data", "params.update._meta.claudeCode.toolResponse.stdout",
}

func TestRecordings(t *testing.T) {
	for _, r := range recordings(t) {
		t.Run(r.name, func(t *testing.T) {
			backendtest.RunLive(t, backendtest.Suite{
				Backend: r.backend, Golden: "testdata/golden", Shown: shown, Recorded: recorded, Checks: 3,
			}, backendtest.Conversation{Name: r.name, Log: r.log})
		})
	}
}

// told are the tokens that the lines of the recordings tell, added by hand: input with that from a cache,
// input from a cache, output, reasoning.
var told = map[string][4]int64{
	"claude": {2400 + 1200, 2000 + 1000, 160 + 80, 0}, "claude-e2": {4 * 1200, 4 * 1000, 4 * 80, 0},
	"claude-e3": {3 * 1200, 3 * 1000, 3 * 80, 0}, "claude-e5": {2 * 1200, 2 * 1000, 2 * 80, 0},
	"claude-e7": {2400 + 1200 + 2400, 2000 + 1000 + 2000, 160 + 80 + 160, 0},
	"codex":     {3600 + 1200 + 1200, 3000 + 1000 + 1000, 240 + 80 + 80, 60 + 20 + 20},
	"codex-e2":  {4 * 1200, 4 * 1000, 4 * 80, 4 * 20}, "codex-e3": {2 * 1200, 2 * 1000, 2 * 80, 2 * 20},
	"codex-e5": {2 * 1200, 2 * 1000, 2 * 80, 2 * 20}, "codex-e7": {5 * 1200, 5 * 1000, 5 * 80, 5 * 20},
	"copilot": {4800, 4000, 320, 0}, "copilot-e2": {3600, 3000, 240, 0}, "copilot-e3": {2400, 2000, 160, 0},
	"copilot-e5": {1200 + 1200, 1000 + 1000, 80 + 80, 0}, "copilot-e7": {6000, 5000, 400, 0},
	"gemini": {2400 + 1200, 0, 160 + 80, 0}, "gemini-e2": {4 * 1200, 0, 4 * 80, 0}, "gemini-e3": {1200, 0, 80, 0},
	"gemini-e5": {1200, 0, 80, 0}, "gemini-e7": {2400 + 1200 + 2400, 0, 160 + 80 + 160, 0},
	"opencode": {2 * 1200, 2 * 1000, 2 * 80, 0}, "opencode-e2": {4 * 1200, 4 * 1000, 4 * 80, 0},
	"opencode-e3": {1200, 1000, 80, 0}, "opencode-e5": {2 * 1200, 2 * 1000, 2 * 80, 0},
	"opencode-e7": {3 * 1200, 3 * 1000, 3 * 80, 0},
	"qwen":        {4 * 1200, 4 * 1000, 4 * 80, 5}, "qwen-e2": {3 * 1200, 3 * 1000, 3 * 80, 0},
	"qwen-e3": {1200, 1000, 80, 0}, "qwen-e5": {2 * 1200, 2 * 1000, 2 * 80, 0}, "qwen-e7": {4 * 1200, 4 * 1000, 4 * 80, 0},
}

// costs are in US dollars: the last one of the session, without what it had before the run.
var costs = map[string]float64{
	"claude": 0.0084, "claude-e2": 0.0084, "claude-e3": 0.0063, "claude-e5": 0.0021, "claude-e7": 0.0126,
}

func TestTokensAreThoseOfTheLines(t *testing.T) {
	for _, r := range recordings(t) {
		_, fold := backendtest.Fold(r.backend, r.log)
		spent := fold.Record.Spent()
		want, ok := told[r.name]
		if (spent.Total != nil) != ok {
			t.Errorf("%s: %v", r.name, spent.Total)
			continue
		}
		if ok {
			u := spent.Total
			if got := [4]int64{u.Input, u.CachedInput, u.Output, u.ReasoningOutput}; got != want {
				t.Errorf("%s: %d, want %d", r.name, got, want)
			}
		}
		if atLeast := strings.HasPrefix(r.name, "opencode"); spent.Partial != atLeast {
			t.Errorf("%s: partial: %v", r.name, spent.Partial)
		}
		cost := 0.0
		if spent.Cost != nil {
			cost = *spent.Cost
		}
		if math.Abs(cost-costs[r.name]) > 1e-9 {
			t.Errorf("%s: cost %g, want %g", r.name, cost, costs[r.name])
		}
	}
}

// What the agents of all recordings were doing, one text for each change.
func TestDoingOfRecordings(t *testing.T) {
	var got bytes.Buffer
	for _, r := range recordings(t) {
		f := normalizer.NewFold(r.backend, "T-local-test", 0)
		var all []string
		for i, e := range r.log {
			f.Apply(uint64(i+1), e, func(normalizer.Message) {})
			text := strings.TrimSpace(string(f.Record.Doing.Phase) + " " + f.Record.Doing.Tool)
			if text = cmp.Or(text, "-"); len(all) == 0 || all[len(all)-1] != text {
				all = append(all, text)
			}
		}
		fmt.Fprintf(&got, "%s\n    %s\n    title %q, model %q\n", r.name, strings.Join(all, ", "), f.Record.Title,
			f.Record.Model)
	}
	const golden = "testdata/doing.golden"
	if flag.Lookup("update").Value.String() == "true" {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("what the agents were doing differs from %s, got:\n%s", golden, got.Bytes())
	}
}
