package client_test

import (
	"testing"

	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/runs"
)

// A task of each agent is submitted over NATS. A thread belongs to the agent of its runs: a
// submission that names no agent is of that one.
func TestTasksOfAllAgents(t *testing.T) {
	s := begin(t)
	c, ctx := connect(t, s, embedded.OperatorUser), t.Context()
	threads := map[string]string{"opencode": "ses_3aBcDeFgHiJkLmNoPqRsTuVwXy"}
	for i, short := range known.Agents.Names() {
		if threads[short] == "" {
			threads[short] = "0199a213-81c0-7800-8aa1-bbab2a03500" + string(rune('0'+i))
		}
	}
	for _, a := range known.Agents {
		thread := threads[a.Short]
		for _, q := range []api.Submission{{Task: runs.Task{Attributes: runs.Attributes{Agent: a.Short, Thread: thread}}},
			{Task: runs.Task{Attributes: runs.Attributes{Thread: thread}}}} {
			q.Prompt = "hold"
			done, err := c.Submit(ctx, q)
			if err != nil {
				t.Fatalf("%s: %v", a.Short, err)
			}
			if run, err := c.Status(ctx, done.Run); err != nil || run.Agent != a.Kind() || run.Thread != thread {
				t.Errorf("%+v: %+v, %v", q, run, err)
			}
		}
	}
	list, err := c.List(ctx, api.List{Agent: "gemini"})
	if err != nil || len(list.Runs) != 2 || list.Runs[0].Agent != "gemini_cli" {
		t.Errorf("of gemini are listed %+v, %v", list.Runs, err)
	}
}
