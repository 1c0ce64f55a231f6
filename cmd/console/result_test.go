package console

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

// What an agent tells of itself reads the same for all agents, in a status and in a result.
func TestFactsOfAnAgent(t *testing.T) {
	thing := func(name string) runs.Thing { return runs.Thing{What: runs.DriftField, Name: name} }
	seven := []runs.Thing{thing("a"), thing("b"), thing("c"), thing("d"), thing("e"), thing("f"), thing("g")}
	for _, c := range []struct {
		why    string
		agent  string
		detail api.Detail
		status string // lines of a status
		result string // more lines of a result
	}{
		{"nothing told", "codex", api.Detail{}, "agent      codex\n", ""},
		{"a total of the thread", "codex", api.Detail{
			ThreadUsage: &api.Usage{Input: 5, Cached: 2, Output: 3},
			Usage:       &api.RunUsage{Own: &api.Usage{Input: 1}, Total: &api.Usage{Input: 1}},
			Drift:       &runs.Drift{Things: []runs.Thing{{What: runs.DriftType, Name: "x.new"}}, Count: 9},
		}, "agent      codex\nunknown    the output has 1 thing that linesman does not know: type x.new\n",
			"tokens     1 in (0 cached), 0 out\nthread used  5 in (2 cached), 3 out\n"},
		{"an agent that did not exit", "codex", api.Detail{Exit: &api.Exit{Reason: runs.ReasonFinished, Signal: 15}},
			"exit       the agent did not exit after its result, and was ended (limits.after_result)\n", ""},
		{"sub-agents that are not counted", "codex", api.Detail{
			ThreadUsage: &api.Usage{Input: 5}, Usage: &api.RunUsage{Total: &api.Usage{Input: 5}, Partial: true},
		}, "agent      codex\n", "tokens     at least 5 in (0 cached), 0 out\n"},
		{"a thread whose earlier turns are not known, with sub-agents", "codex", api.Detail{Usage: &api.RunUsage{
			Subagents: &api.Usage{Output: 2}, Total: &api.Usage{Input: 5}, Earlier: true,
		}}, "agent      codex\n", "tokens     at most 5 in (0 cached), 0 out\nsub-agents  0 in (0 cached), 2 out\n"},
		{"unknown names that are no identifiers", "codex", api.Detail{
			Drift: &runs.Drift{Things: []runs.Thing{thing("x"), {What: runs.DriftItem, Hash: "6a6dc5032f50"}}},
		}, "unknown    the output has 2 things that linesman does not know: field x, item 6a6dc5032f50\n", ""},
		{"a cost, and models", "claude_code", api.Detail{
			Usage: &api.RunUsage{Total: &api.Usage{Input: 7, Cached: 6, Output: 5}}, ThreadCost: new(2.0),
			Models: []api.ModelUsage{
				{Name: "claude-a", Usage: api.Usage{Input: 4, Output: 2}, Cost: new(1.2)}, {Name: "claude-b"}},
			Drift: &runs.Drift{Things: seven, Others: true},
		}, "agent      claude_code\nunknown    the output has more than 7 things that linesman does not know: " +
			"field a, field b, field c, field d, field e, …\n",
			"tokens     7 in (6 cached), 5 out\ncost       1.2500 USD\nthread cost  2.0000 USD\n" +
				"model      claude-a: 4 in (0 cached), 2 out, 1.2000 USD\nmodel      claude-b: 0 in (0 cached), 0 out\n"},
	} {
		run := &api.Run{Summary: runs.Summary{ID: "T-1", Attributes: runs.Attributes{Agent: c.agent},
			State: runs.StateCompleted}, Detail: &c.detail}
		if c.detail.ThreadCost != nil {
			run.Cost = new(1.25)
		}
		var status, result bytes.Buffer
		if err := renderTo(&status, false, false, 80).Run(run); err != nil {
			t.Fatal(err)
		}
		if err := renderTo(&result, false, false, 80).Result(&api.Result{Run: run}, ResultOptions{}); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(c.status) {
			if !strings.Contains(status.String(), line) || !strings.Contains(result.String(), line) {
				t.Errorf("%s: no line %q in\n%sor in\n%s", c.why, line, &status, &result)
			}
		}
		for _, name := range []string{"unknown", "cost", "model", "tokens"} {
			if want := strings.Count("\n"+c.status+c.result, "\n"+name); strings.Count(result.String(), "\n"+name) != want {
				t.Errorf("%s: not %d lines %s in\n%s", c.why, want, name, &result)
			}
		}
		if !strings.Contains(result.String(), c.result) {
			t.Errorf("%s: no\n%sin\n%s", c.why, c.result, &result)
		}
	}
}

// Of a failed run its reason is printed, what to try, and what the agent wrote for people: no
// lines for programs.
func TestResultOfAFailedRunIsForPeople(t *testing.T) {
	t.Parallel()
	jsonl := strings.Repeat(`{"type":"item.completed","item":{"text":"`+strings.Repeat("x", 100)+`"}}`+"\n", 20)
	x := &api.Result{
		Run: &api.Run{Summary: runs.Summary{ID: "T-1", Attributes: runs.Attributes{Agent: "codex"},
			State: runs.StateFailed, Reason: "exit status"},
			Detail: &api.Detail{
				Error: &api.ErrorContext{Message: "not logged in", Suggestions: []string{"Run codex login"}},
			}},
		Output: api.Output{
			Stdout: jsonl + "Not logged in\n" + jsonl,
			Stderr: strings.Repeat("noise\n", 50) + "[ERROR] at 5\nthe cause\n",
		},
	}
	var out, whole bytes.Buffer
	err := errors.Join(renderTo(&out, false, false, 80).Result(x, ResultOptions{}),
		renderTo(&whole, false, false, 80).Result(x, ResultOptions{WholeText: true}))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"reason     exit status\n", "error      not logged in\n", "try        Run codex login\n",
		"│ Not logged in\n", "│ the cause\n", "│ [ERROR] at 5\n", "linesman logs T-1;"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q", want)
		}
	}
	if out.Len() > 1000 || strings.Contains(out.String(), "{") {
		t.Errorf("it prints %d bytes:\n%s", out.Len(), &out)
	}
	if !strings.Contains(whole.String(), `│ {"type":"item.completed"`) {
		t.Errorf("with all of its output:\n%s", &whole)
	}
}
