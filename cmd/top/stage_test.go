package top

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
)

var updateGolden = flag.Bool("update", false, "write the golden files")

// noon is the time of the tests.
const noon = 1_795_000_000_000 // 2026-11-18T11:06:40Z

func at(seconds int) runs.Time { return runs.Time(noon + 1000*seconds) }

// oneRun is a run that began a minute ago, with changes.
func oneRun(id string, state runs.State, change func(*api.Run)) *api.Run {
	run := &api.Run{
		Summary: runs.Summary{ID: id, Attributes: runs.Attributes{Agent: "codex", Title: "Fix the flaky test",
			Dir: "/home/dev/src/linesman"}, State: state, StartedAt: at(-60), ActiveAt: at(-5),
			Tokens: &runs.Spend{Input: 12_400, Output: 830}},
	}
	if state.Final() {
		run.EndedAt = at(-20)
	}
	if change != nil {
		change(run)
	}
	return run
}

// someRuns has a run of each group, texts that need care, and all columns.
func someRuns() []*api.Run {
	return []*api.Run{
		oneRun("T-local-0needs000000001", runs.StateInputRequired, func(r *api.Run) {
			r.Title, r.Agent = "Choose a database", "claude_code"
		}),
		oneRun("T-local-0work0000000001", runs.StateWorking, func(r *api.Run) {
			r.Doing = &runs.Doing{Phase: runs.RunningTool, Tool: "Bash", Since: at(-42)}
			r.Activity, r.Agent, r.Model = "Running go test ./...", "claude_code", "claude-sonnet-4-5"
			r.Progress = &runs.Todo{Done: 2, Total: 5}
			r.Labels = runs.LabelsOf(map[string]string{"ticket": "42", "team": "core"})
		}),
		oneRun("T-local-0work0000000002", runs.StateWorking, func(r *api.Run) {
			r.Title, r.StartedAt = "日本語のタイトルは幅が広い 👩‍👩‍👧 und e\u0301 🇩🇪", at(-3900)
			r.Doing, r.ActiveAt = &runs.Doing{Phase: runs.Thinking, Since: at(-300)}, at(-300)
		}),
		oneRun("T-local-0queue000000001", runs.StateQueued, func(r *api.Run) {
			r.Position, r.QueuedAt, r.StartedAt, r.Tokens = new(int), at(-7), 0, nil
		}),
		oneRun("T-local-0unseen00000001", runs.StateCompleted, func(r *api.Run) {
			r.Unseen, r.Progress = true, &runs.Todo{Done: 3, Total: 3}
		}),
		oneRun("T-local-0unseen00000002", runs.StateFailed, func(r *api.Run) {
			r.Unseen, r.Reason, r.EndedAt = true, "exit status", at(-25)
		}),
		oneRun("T-local-0failed00000001", runs.StateTimeout, func(r *api.Run) {
			r.Reason, r.EndedAt = "idle", at(-4000)
		}),
		oneRun("T-local-0lost0000000001", runs.StateWorking, func(r *api.Run) {
			r.WorkerLost, r.Worker = true, "build-7"
		}),
		oneRun("T-local-0ended000000001", runs.StateCompleted, func(r *api.Run) {
			r.Agent, r.EndedAt = "gemini_cli", at(-86_400*4)
		}),
		oneRun("T-local-0ended000000002", runs.StateCancelled, func(r *api.Run) {
			r.Agent, r.Title, r.EndedAt = "opencode", "evil \x1b[31m\u202etitle\u0007\nrow", at(-7300)
		}),
	}
}

// stage is a model with a terminal of some size, at noon.
func stage(width, height int, color bool) *model {
	m := newModel(nil, nil, color, time.UnixMilli(noon)) //nolint:staticcheck // no command of it is executed
	m.Update(tea.WindowSizeMsg{Width: width, Height: height})
	return m
}

// found is an update with runs.
func found(all ...*api.Run) updateMsg { return updateMsg{at: time.UnixMilli(noon), runs: all} }

// press types keys: names, or text.
func press(m *model, keys ...string) (last tea.Cmd) {
	special := map[string]rune{"enter": tea.KeyEnter, "esc": tea.KeyEscape, "up": tea.KeyUp, "down": tea.KeyDown,
		"backspace": tea.KeyBackspace, "end": tea.KeyEnd}
	for _, k := range keys {
		if code, is := special[k]; is {
			_, last = m.Update(tea.KeyPressMsg{Code: code})
			continue
		}
		for _, r := range k {
			_, last = m.Update(tea.KeyPressMsg{Code: r, Text: string(r)})
		}
	}
	return last
}

// screen is what the model shows.
func screen(m *model) string { return m.View().Content }

// checkGolden compares a screen, without its colours, with a file.
func checkGolden(t *testing.T, name, got string) {
	t.Helper()
	got = regexp.MustCompile(` +(\n|$)`).ReplaceAllString(sequences.ReplaceAllString(got, ""), "$1")
	file := filepath.Join("testdata", name+".golden")
	if *updateGolden {
		if err := os.WriteFile(file, []byte(got+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got+"\n" != string(want) {
		t.Errorf("%s differs (go test ./top -update writes it); got:\n%s", file, got)
	}
}

// sequences are what a screen may have beside graphic characters.
var sequences = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// checkSafe fails the test if a screen could do more than show text in its rows.
func checkSafe(t *testing.T, m *model) {
	t.Helper()
	for i, row := range strings.Split(screen(m), "\n") {
		plain := sequences.ReplaceAllString(row, "")
		if w := width(plain); w > m.width {
			t.Errorf("row %d has %d columns of %d: %q", i, w, m.width, plain)
		}
		for _, r := range plain {
			if r < ' ' || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
				t.Errorf("row %d has the character %U: %q", i, r, plain)
			}
		}
	}
}

// recorded returns the details of a recording of test/corpus, a second apart.
func recorded(t testing.TB, agent, name string) (all []api.DetailItem) {
	t.Helper()
	text, err := os.ReadFile(fixture.Path(t, "test", "corpus", agent, name+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	a, err := known.Agents.Named(agent)
	if err != nil {
		t.Fatal(err)
	}
	fold := normalizer.NewDetailFold(a.Backend, "T-local-1", 0, nil)
	seq, offset := uint64(0), int64(0)
	apply := func(e runs.Entry) {
		seq++
		e.Time = noon - 60_000 + 1000*int64(seq)
		fold.Apply(seq, e, func(m normalizer.Message) {
			all = append(all, api.DetailItem{
				Pos: fmt.Sprint(len(all)), Line: m.Line, Part: m.Part, At: runs.Time(m.Time), Kind: m.Token, Event: m.Body,
				Detail: m.Detail,
			})
		})
	}
	for line := range bytes.Lines(text) {
		apply(runs.Entry{Kind: runs.Out, Offset: offset, Body: line})
		offset += int64(len(line))
	}
	exit, err := json.Marshal(runs.Exit{Reason: runs.ReasonExited, Code: new(int)})
	if err != nil {
		t.Fatal(err)
	}
	apply(runs.Entry{Kind: runs.Exited, Body: exit})
	return all
}
