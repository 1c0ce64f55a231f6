package responder

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

// step is an item of a tool call.
func step(at runs.Time, id, phase, exit string, d *runs.Detail) api.DetailItem {
	return api.DetailItem{At: at, Kind: "tool_call", Detail: d, Event: fmt.Appendf(nil,
		`{"kind":"ToolCall","data":{"tool":{"backend_item_id":%q,"phase":%q,"exit_code":%s}}}`, id, phase, exit)}
}

func command(text string) *runs.Detail { return &runs.Detail{Command: runs.Whole(text)} }

func change(path, kind string, added, removed int) *runs.Detail {
	return &runs.Detail{Files: []runs.FileDetail{{
		Path: path, Kind: kind, Added: &added, Removed: &removed, Diff: runs.Whole("the diff"),
	}}}
}

func TestWorkIsWhatTheDetailsTell(t *testing.T) {
	for name, c := range map[string]struct {
		items []api.DetailItem
		want  string
	}{
		"nothing": {nil, `{"Commands":null,"Files":null,"Plan":null,"Unlisted":{"Commands":0,"Files":0},"Partial":false}`},
		"a command in two lines": {
			[]api.DetailItem{step(1000, "a", "start", "null", command("make")), step(3500, "a", "complete", "2", nil)},
			`{"Text":"make","ExitCode":2,"Took":2500}`,
		},
		"told in both lines": {
			[]api.DetailItem{step(1000, "a", "start", "null", command("make")), step(3500, "a", "fail", "0", command("make"))},
			`"Commands":[{"Text":"make","ExitCode":0,"Took":2500}]`,
		},
		"its exit code in the detail": {
			[]api.DetailItem{step(1000, "a", "complete", "null", &runs.Detail{Command: runs.Whole("ls"), ExitCode: new(1)})},
			`"Commands":[{"Text":"ls","ExitCode":1,"Took":null}]`,
		},
		"two at once": {
			[]api.DetailItem{
				step(1000, "a", "start", "null", command("one")), step(2000, "b", "start", "null", command("two")),
				step(4000, "a", "complete", "0", nil),
			},
			`"Commands":[{"Text":"one","ExitCode":0,"Took":3000},{"Text":"two","ExitCode":null,"Took":null}]`,
		},
		"the same id again": {
			[]api.DetailItem{
				step(1000, "a", "start", "null", command("one")), step(2000, "a", "complete", "0", nil),
				step(3000, "a", "start", "null", command("two")), step(4000, "a", "complete", "1", nil),
			},
			`[{"Text":"one","ExitCode":0,"Took":1000},{"Text":"two","ExitCode":1,"Took":1000}]`,
		},
		"a file told twice by one call, and changed by another": {
			[]api.DetailItem{
				step(1, "a", "start", "null", change("x", "added", 3, 0)),
				step(2, "a", "complete", "null", change("x", "added", 3, 0)),
				step(3, "b", "complete", "null", change("x", "modified", 2, 1)),
				step(4, "c", "fail", "null", change("y", "added", 1, 1)),
			},
			`"Files":[{"path":"x","kind":"added","added":5,"removed":1}]`,
		},
		"the newest plan": {
			[]api.DetailItem{
				{Detail: &runs.Detail{Plan: []runs.PlanStep{{Text: "a", State: "active"}}}},
				{Detail: &runs.Detail{Plan: []runs.PlanStep{{Text: "a", State: "done"}}}}, {Kind: "status"},
			},
			`"Plan":[{"text":"a","state":"done"}]`,
		},
	} {
		log := workLog{open: map[string]*openCommand{}, changed: map[string]int{}}
		for _, item := range c.items {
			log.add(item)
		}
		got, err := json.Marshal(log.work())
		if err != nil || !strings.Contains(string(got), c.want) {
			t.Errorf("%s: %s, %v; want %s in it", name, got, err, c.want)
		}
	}
}

func TestWorkIsBounded(t *testing.T) {
	log := workLog{open: map[string]*openCommand{}, changed: map[string]int{}}
	for i := range 2000 {
		id := fmt.Sprint(i)
		log.add(step(1, id, "start", "null", command(strings.Repeat("é", 4000)+id)))
		log.add(step(1, "f"+id, "complete", "null", change("file"+id, "added", 1, 0)))
	}
	w := log.work()
	if len(w.Commands) != maxCommands || len(w.Commands[0].Text) > maxCommand || w.Unlisted.Commands != 2000-maxCommands {
		t.Errorf("%d commands, %d unlisted", len(w.Commands), w.Unlisted.Commands)
	}
	if len(w.Files) != maxWorkFiles || w.Unlisted.Files != 2000-maxWorkFiles {
		t.Errorf("%d files, %d unlisted", len(w.Files), w.Unlisted.Files)
	}
	if len(log.open) > maxOpenCalls || len(log.changes) > maxWorkChanges {
		t.Errorf("%d open calls, %d changes in memory", len(log.open), len(log.changes))
	}
}
