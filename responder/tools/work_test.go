package tools_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/runs"
)

// spoken is a fold whose lines of output are the items themselves.
type spoken struct{ done bool }

func (f *spoken) Apply(_ uint64, e runs.Entry, each func(api.DetailItem)) {
	f.done = e.Kind == runs.Exited
	for line := range bytes.Lines(e.Body) {
		var item api.DetailItem
		if e.Kind == runs.Out && json.Unmarshal(line, &item) == nil {
			each(item)
		}
	}
}

func (f *spoken) Done() bool { return f.done }
func (*spoken) Pending() int { return 0 }

func (*spoken) Again() []runs.Span { return nil }

// What a run did is in its results if the caller asks for its output, as data and on the page.
func TestResultsWithOutputSayWhatTheRunDid(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(c *responder.Config) {
		c.Details = func(string, string, *runs.SavedFold) (responder.DetailFold, error) { return new(spoken), nil }
	})
	line := func(at runs.Time, event string, d *runs.Detail) []byte {
		b, err := json.Marshal(api.DetailItem{At: at, Kind: "tool_call", Event: json.RawMessage(event), Detail: d})
		if err != nil {
			t.Fatal(err)
		}
		return append(b, '\n')
	}
	call := func(id, phase, exit string) string {
		return `{"data":{"tool":{"backend_item_id":"` + id + `","phase":"` + phase + `","exit_code":` + exit + `}}}`
	}
	out := bytes.Join([][]byte{
		line(1000, call("a", "start", "null"), &runs.Detail{Command: runs.Whole("make `test`\n# OWNED")}),
		line(3500, call("a", "complete", "2"), nil),
		line(4000, call("b", "complete", "null"), &runs.Detail{Files: []runs.FileDetail{
			{Path: "a`b\n# OWNED", Kind: "modified", Added: new(3), Removed: new(1), Diff: runs.Whole("THE-DIFF")},
		}}),
		line(5000, `{}`, &runs.Detail{Plan: []runs.PlanStep{{Text: "build *it*", State: "done"}}}),
	}, nil)
	s.Begin("codex", "T-1", runs.Start{Source: "run"}).Out(out).Exit(0)
	s.Begin("codex", "T-2", runs.Start{Source: "run"}).Out(out).Exit(1)
	for _, tool := range []string{"_codex_local_results", "_codex_local_wait"} {
		for format, envelope := range map[string][]byte{
			"json": ask(t, s.tools, tool, `{"task_id":"T-1","include_output":true,"format":"json"}`).Envelope,
			"adcp": envelope(t, s.tools, tool, "task_id", "T-1", "include_output", true).Envelope,
		} {
			want := `"activity_log":{"commands":[{"command":"make ` + "`test`" + `\n# OWNED","exit_code":2,"duration_ms":2500}],` +
				`"files":[{"path":"a` + "`" + `b\n# OWNED","kind":"modified","lines_added":3,"lines_removed":1}],` +
				`"plan":[{"text":"build *it*","state":"done"}]}`
			if !strings.Contains(string(envelope), want) {
				t.Errorf("%s, %s: %s\nwant %s in it", tool, format, envelope, want)
			}
		}
		page := ask(t, s.tools, tool, `{"task_id":"T-1","include_output":true}`).Text()
		for _, want := range []string{
			"### Commands\n\n- `` make `test` # OWNED ``: exit code 2, 2.5 s\n",
			"### Changes\n\n- modified `` a`b # OWNED `` (+3 -1)\n", "### Plan\n\n- done: build \\*it\\*\n",
		} {
			if !strings.Contains(page, want) {
				t.Errorf("%s: %q is not on the page:\n%s", tool, want, page)
			}
		}
		// Without include_output nothing of it, also of a failed run, which has its output.
		for _, args := range []string{
			`{"task_id":"T-1"}`, `{"task_id":"T-2"}`, `{"task_id":"T-2","include_output":false}`,
			`{"task_id":"T-2","format":"json"}`,
		} {
			a := ask(t, s.tools, tool, args)
			all := string(a.Envelope) + a.Text()
			if strings.Contains(all, "activity_log") || strings.Contains(all, "### Commands") {
				t.Errorf("%s %s: %s", tool, args, all)
			}
		}
	}
	failed := envelope(t, s.tools, "_codex_local_results", "task_id", "T-2").Envelope
	if strings.Contains(string(failed), "activity_log") {
		t.Errorf("adcp: %s", failed)
	}
	raw, err := s.jetstream(t).Stream(t.Context(), s.Operator.Raw())
	if err == nil {
		err = raw.Purge(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	a := ask(t, s.tools, "_codex_local_results", `{"task_id":"T-1","include_output":true}`)
	if a.Data["state"] != "completed" || strings.Contains(string(a.Envelope), "activity_log") {
		t.Errorf("without a raw log: %s", a.Envelope)
	}
}
