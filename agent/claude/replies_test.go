package claude_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/linesman/linesman/agent/claude"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/backendtest"
)

// ended returns the record of an imported log.
func ended(t *testing.T, log string) *runs.Record {
	t.Helper()
	_, fold := backendtest.Fold(claude.Backend{}, backendtest.Output([]byte(log)))
	r := fold.Record
	r.End(runs.Exit{Reason: runs.ReasonEOF}, 1)
	return r
}

// Claude Code of 2.1.20 logs neither why a message has ended nor what it has used at its end.
func TestLogsWithoutReasons(t *testing.T) {
	for folder, want := range map[string]struct{ turns, messages int64 }{"tools": {1, 7}, "resume": {2, 2}} {
		files, err := filepath.Glob("../../test/corpus/claude-sessions/2.1.20-" + folder + "/*.jsonl")
		if err != nil || len(files) != 1 {
			t.Fatal(files, err)
		}
		log, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		r := ended(t, string(log))
		if s := r.Spent(); r.State != runs.StateCompleted || r.TurnsDone != want.turns || r.TurnsBad != 0 || s.Total == nil ||
			s.Total.Input != 1200*want.messages || s.Total.Output != want.messages || !s.Partial || r.FinalText == nil {
			t.Errorf("%s: %s", folder, r.JSON())
		}
	}
}

func TestMessagesOfALogAreCountedOnce(t *testing.T) {
	const (
		typed = `"type":"user","promptSource":"typed","message":{"role":"user","content":"Go."}`
		old   = `"type":"user","message":{"role":"user","content":"Go."}`
		stop  = `"type":"user","message":{"role":"user","content":[{"type":"text","text":"[Request interrupted by user]"}]}`
		text  = `{"type":"text","text":"So."}`
		call  = `{"type":"tool_use","id":"t","name":"Bash","input":{"command":"ls"}}`
		none  = "null"
		tool  = `"tool_use"`
		ends  = `"end_turn"`
	)
	side := strings.Replace(reply("s", ends, text), `"isSidechain":false`, `"isSidechain":true`, 1)
	for name, c := range map[string]struct {
		lines    []string
		messages int64 // each has one token of input, and two of output
		partial  bool
		state    runs.State
		final    string
	}{
		"blocks": {[]string{logged(typed), reply("a", tool, text), reply("a", tool, call), reply("b", ends, text)},
			2, false, runs.StateCompleted, "So."},
		"the reason comes last": {
			[]string{logged(typed), reply("a", none, text), reply("a", tool, call), reply("b", ends, text)},
			2, false, runs.StateCompleted, "So."},
		"an interrupted message": {
			[]string{logged(typed), reply("a", none, text), logged(stop), logged(typed), reply("b", ends, text)},
			2, true, runs.StateCompleted, "So."},
		"killed in a message": {[]string{logged(typed), reply("a", none, text)}, 1, false, runs.StateFailed, ""},
		"two writers": {[]string{logged(typed), reply("a", tool, text), reply("b", tool, text), reply("a", tool, call),
			reply("b", tool, call), reply("a", tool, call), reply("c", ends, text)}, 3, false, runs.StateCompleted, "So."},
		"no reasons": {[]string{logged(old), reply("a", none, text)}, 1, false, runs.StateCompleted, "So."},
		"no reasons, a call": {[]string{logged(old), reply("a", none, text), reply("a", none, call)},
			1, false, runs.StateFailed, ""},
		"no reasons, interrupted": {[]string{logged(old), reply("a", none, text), logged(stop)},
			1, true, runs.StateFailed, "So."},
		"sub-agent in the log": {[]string{logged(old), side, reply("a", ends, text)}, 1, true, runs.StateCompleted, "So."},
	} {
		r := ended(t, strings.Join(c.lines, "\n")+"\n")
		final := ""
		if r.FinalText != nil {
			final = *r.FinalText
		}
		if s := r.Spent(); s.Total == nil || s.Total.Input != c.messages || s.Total.Output != 2*c.messages ||
			s.Partial != c.partial || r.State != c.state || final != c.final {
			t.Errorf("%s: %q %s", name, final, r.JSON())
		}
	}
}
