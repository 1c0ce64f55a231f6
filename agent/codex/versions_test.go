package codex_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/linesman/linesman/agent/codex"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/backendtest"
)

// Each line that a recorded version of Codex printed is understood; the exceptions are
// listed with the reason.
func TestRecordedVersionsAreUnderstood(t *testing.T) {
	files, err := filepath.Glob("../../test/corpus/codex-versions/*/*.jsonl")
	if err != nil || len(files) < 100 {
		t.Fatalf("%d recordings, %v", len(files), err)
	}
	for _, file := range files {
		version := filepath.Base(filepath.Dir(file))
		out, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		messages, fold := backendtest.Fold(codex.Backend{}, backendtest.Output(out))
		backendtest.Check(t, "codex", messages)
		r := fold.Record
		name := version + "/" + strings.TrimSuffix(filepath.Base(file), ".jsonl")
		if version == "0.36.0" { // another protocol: one event says so
			if r.Malformed != 0 || len(messages) > 1 {
				t.Errorf("%s: %d malformed lines, %d events; want one event for all", name, r.Malformed, len(messages))
			}
			continue
		}
		if r.Malformed != 0 || r.Unknown != 0 {
			t.Errorf("%s: of %d lines %d are malformed, %d unknown", name, r.Lines, r.Malformed, r.Unknown)
		}
	}
}

// What versions did differently, and a run record that takes it for the same.
func TestDifferencesOfVersionsInTheRecord(t *testing.T) {
	record := func(version, name string, code int) *runs.Record {
		t.Helper()
		out, err := os.ReadFile("../../test/corpus/codex-versions/" + version + "/" + name + ".jsonl")
		if err != nil {
			t.Fatal(err)
		}
		log := append(backendtest.Output(out), runs.Entry{
			Kind: runs.Exited, Time: 3_000, Body: runs.Encode(runs.Exit{Reason: runs.ReasonExited, Code: &code}),
		})
		_, fold := backendtest.Fold(codex.Backend{}, log)
		return fold.Record
	}
	if r := record("0.42.0-experimental", "hello", 0); r.Thread == "" || r.FinalText == nil {
		t.Errorf("0.42 with its own names: %s", r.JSON())
	}
	if r := record("0.101.0", "sigint", 0); r.State != runs.StateFailed || r.Reason != "no terminal event" {
		t.Errorf("ended by SIGINT with exit code 0: %s", r.JSON())
	}
	r := record("0.101.0", "subagent", 0)
	if r.Steps.Turns != 1 || r.TurnsDone != 1 || r.FinalText == nil || *r.FinalText != "The sub-agent counted twice." {
		t.Errorf("a sub-agent among the lines of its parent: %s", r.JSON())
	}
}
