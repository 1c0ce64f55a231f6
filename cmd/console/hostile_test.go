package console

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode"

	"pgregory.net/rapid"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

// Whatever strings an answer holds, what is printed moves no cursor, and no
// text of an agent begins a line.
func TestNoAnswerMovesTheCursor(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := func(label string) string {
			moving := rapid.RuneFrom(nil, unicode.Cc, unicode.Bidi_Control, unicode.Zl, unicode.Zp)
			return rapid.OneOf(rapid.String(), rapid.StringOfN(moving, 0, 20, -1)).Draw(t, label)
		}
		message, err := json.Marshal(text("message"))
		if err != nil {
			t.Fatal(err)
		}
		final, now := "final "+text("final"), api.TimeOf(time.Now())
		result := &api.Result{
			Run: &api.Run{
				Summary: runs.Summary{
					ID: text("id"), Attributes: runs.Attributes{Agent: text("agent"), Thread: text("thread"), Title: text("title"),
						Labels: runs.LabelsOf(map[string]string{text("key"): text("value")}), Dir: text("dir"),
						Model: text("running")}, State: runs.State(text("state")), Reason: text("reason"),
					EndedAt: now, Version: text("version"),
					Tokens: &runs.Spend{}, Unseen: true,
				}, Detail: &api.Detail{
					Sentence: text("summary"), Models: []api.ModelUsage{{Name: text("model")}},
					Drift:     &runs.Drift{Things: []runs.Thing{{What: runs.What(text("what")), Name: text("unknown")}}},
					FinalText: &final, FinalBytes: 1 << 20,
					Files: &api.Files{Modified: []string{text("file")}}, Tests: &api.Tests{Names: []string{text("test")}},
					Error: &api.ErrorContext{
						Message: text("error"), Locations: []runs.Location{{File: text("at")}}, Suggestions: []string{text("try")},
					},
					Cloud: &api.Cloud{URL: text("url"), FilesChanged: rapid.Int().Draw(t, "changed")},
				},
			},
			Output: api.Output{Stdout: text("stdout"), Stderr: text("stderr"), Truncated: true},
			Events: &api.RecentEvents{Included: true, Items: []json.RawMessage{
				json.RawMessage(`{"kind":"Status","message":` + string(message) + `}`),
			}},
		}
		working := &api.Run{
			Summary: runs.Summary{
				ID: text("task"), State: runs.StateWorking, StartedAt: now, Activity: text("activity"),
				Worker: text("worker"), WorkerLost: rapid.Bool().Draw(t, "lost"),
				Attributes: runs.Attributes{Title: text("task title"), Dir: text("task dir"),
					Labels: runs.LabelsOf(map[string]string{text("k"): text("v")})},
				Doing:    &runs.Doing{Phase: runs.Phase(text("phase")), Tool: text("tool")},
				Progress: &runs.Todo{Done: rapid.Int().Draw(t, "done"), Total: rapid.Int().Draw(t, "total")},
			}, Detail: &api.Detail{Cloud: &api.Cloud{URL: text("page")},
				Drift: &runs.Drift{Things: []runs.Thing{{Name: text("unknown")}}}},
		}
		ended := &api.Run{Summary: runs.Summary{ID: text("ended"), State: runs.StateFailed, Reason: text("why"),
			EndedAt: now}}
		all := &api.Overview{
			Working: []*api.Run{working}, Ended: []*api.Run{ended},
			Queued: []*api.Run{{Summary: runs.Summary{ID: text("queued"), State: runs.StateQueued}}},
		}
		width := rapid.IntRange(40, 200).Draw(t, "width")
		for _, terminal := range []bool{false, true} {
			var list, out bytes.Buffer
			if err := renderTo(&list, terminal, false, width).Overview(all); err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(list.String()) {
				if n := cells(strings.TrimSuffix(line, "\n")); terminal && n >= width {
					t.Errorf("%d cells on a terminal of %d: %q", n, width, line)
				}
			}
			on := renderTo(&out, terminal, false, 80)
			err := errors.Join(on.Result(result, ResultOptions{}), on.Overview(all), on.Run(working), on.Run(ended),
				on.Run(result.Run))
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(out.String()) {
				if bad := strings.TrimSuffix(line, "\n"); Safe(bad) != bad {
					t.Errorf("terminal %v: %q", terminal, line)
				}
				if strings.HasPrefix(line, "final") {
					t.Errorf("terminal %v: the agent's text begins a line: %q", terminal, line)
				}
			}
		}
	})
}

// A diff keeps its tabs, and a carriage return at the end of a line, where no terminal prints it.
func TestNoDiffMovesTheCursor(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		moving := rapid.RuneFrom(nil, unicode.Cc, unicode.Bidi_Control, unicode.Zl, unicode.Zp)
		text := func(label string) string {
			return rapid.OneOf(rapid.String(), rapid.StringOfN(moving, 0, 20, -1)).Draw(t, label)
		}
		d := &api.Diff{
			Changes: &api.Changes{Files: 1}, Patch: text("patch"), Files: []runs.DiffFile{
				{Path: text("path"), From: text("from"), Kind: text("kind")},
			},
		}
		for _, terminal := range []bool{false, true} {
			var out bytes.Buffer
			if err := renderTo(&out, terminal, false, 80).Diff(d); err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(out.String()) {
				bad := strings.TrimSuffix(line, "\n")
				if !terminal {
					bad = strings.ReplaceAll(strings.TrimSuffix(bad, "\r"), "\t", "")
				}
				if Safe(bad) != bad {
					t.Errorf("terminal %v: %q", terminal, line)
				}
			}
		}
	})
}
