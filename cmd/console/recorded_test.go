package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
)

// recorded returns the details of a recording, one line every 700 ms.
func recorded(t *testing.T, agent, name string) (all []api.DetailItem) {
	t.Helper()
	read := func(ending string) []byte {
		text, err := os.ReadFile(filepath.Join("..", "..", "test", "corpus", agent, name+ending))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	a, ok := known.Agents.Find(agent)
	if !ok {
		t.Fatalf("no agent %s", agent)
	}
	fold := normalizer.NewDetailFold(a.Backend, "T-local-1", 0, nil)
	seq, offset := uint64(0), int64(0)
	apply := func(e runs.Entry) {
		seq++
		e.Time = scriptBegins + 700*int64(seq)
		fold.Apply(seq, e, func(m normalizer.Message) {
			all = append(all, api.DetailItem{
				Pos: fmt.Sprint(len(all)), Line: m.Line, Part: m.Part, At: runs.Time(m.Time), Kind: m.Token, Event: m.Body,
				Detail: m.Detail,
			})
		})
	}
	for line := range bytes.Lines(read(".jsonl")) {
		apply(runs.Entry{Kind: runs.Out, Offset: offset, Body: line})
		offset += int64(len(line))
	}
	if stderr, err := os.ReadFile(filepath.Join("..", "..", "test", "corpus", agent, name+".stderr")); err == nil {
		apply(runs.Entry{Kind: runs.ErrOut, Body: stderr})
	}
	code, err := strconv.Atoi(string(bytes.TrimSpace(read(".exit"))))
	if err != nil {
		t.Fatal(err)
	}
	exit, err := json.Marshal(runs.Exit{Reason: runs.ReasonExited, Code: &code})
	if err != nil {
		t.Fatal(err)
	}
	apply(runs.Entry{Kind: runs.Exited, Body: exit})
	return all
}

// What agents print is shown at a glance, whatever the width.
func TestRecordedRunsLookAsTheyDid(t *testing.T) {
	t.Parallel()
	for agent, names := range map[string][]string{
		"codex": {
			"plan", "patch", "shell-fail", "shell-parallel", "shell-unicode", "mcp", "search", "subagent", "bad-config",
		},
		"claude":   {"tools", "edit-fail", "subagent", "mcp", "http-529"},
		"gemini":   {"tools", "shell-fail", "mcp", "http-401"},
		"opencode": {"tools", "edit", "todo", "mcp", "subagent"},
	} {
		for _, width := range []int{40, 80, 200} {
			t.Run(fmt.Sprint(agent, width), func(t *testing.T) {
				var all bytes.Buffer
				for _, name := range names {
					var out bytes.Buffer
					l := timelineTo(&out, true, false, width, TimelineOptions{})
					l.run = &api.Run{Summary: runs.Summary{Attributes: runs.Attributes{Dir: "/home/dev/project"},
						State: runs.StateWorking}}
					printed(t, l, &out, recorded(t, agent, name))
					checkRows(t, out.String(), width)
					fmt.Fprintf(&all, "## %s\n%s", name, ourSequences.ReplaceAllString(out.String(), ""))
				}
				golden(t, filepath.Join("testdata", "recorded", fmt.Sprintf("%s.%d", agent, width)), all.String())
			})
		}
	}
}
