package client_test

import (
	"testing"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/runs"
)

func TestRunsAreNamedFilteredAndSeen(t *testing.T) {
	t.Parallel()
	s := begin(t)
	c := connect(t, s, embedded.OperatorUser)
	var ids []string
	for _, ticket := range []string{"41", "42"} {
		done, err := c.Submit(t.Context(), api.Submission{
			Task: runs.Task{Attributes: runs.Attributes{Title: "Ticket " + ticket,
				Labels: runs.LabelsOf(map[string]string{"ticket": ticket})}, Prompt: "What is here?\nSay it."},
		})
		if err != nil {
			t.Fatal(err)
		}
		run, err := c.Wait(t.Context(), done.Run, nil)
		if err != nil || run.Title != "Ticket "+ticket || run.ID != done.Run {
			t.Fatalf("%+v: %v", run, err)
		}
		ids = append(ids, done.Run)
	}
	for ref, want := range map[string]string{
		"ticket=41": ids[0], "last": ids[1], ids[1]: ids[1], ids[0][len("T-local-"):]: ids[0], ids[1][:16]: ids[1],
	} {
		if got, err := c.Resolve(t.Context(), ref); err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", ref, got, err, want)
		}
	}
	if _, err := c.Resolve(t.Context(), "T-local-"); code(err) != api.Conflict || len(api.Known(err).Issues) != 2 {
		t.Errorf("several runs: %v", err)
	}
	if err := c.Seen(t.Context(), ids[0]); err != nil {
		t.Fatal(err)
	}
	page, err := c.List(t.Context(), api.List{Unseen: true})
	if err != nil || len(page.Runs) != 1 || page.Runs[0].ID != ids[1] || !page.Runs[0].Unseen {
		t.Errorf("unseen: %+v, %v", page, err)
	}
	if err := c.Seen(t.Context(), submit(t, c, "hold")); code(err) != api.NotEnded {
		t.Errorf("an open run: %v", err)
	}
	all, err := c.Overview(t.Context(), api.OverviewRequest{
		Labels: []string{"ticket=42"}, Agent: "codex", States: []runs.State{runs.StateCompleted},
		Until: api.TimeOf(time.Now().Add(time.Hour)),
	})
	if err != nil || len(all.Working)+len(all.Queued) != 0 || len(all.Ended) != 1 || all.Ended[0].ID != ids[1] {
		t.Errorf("overview: %+v, %v", all, err)
	}
	if _, err := c.Overview(t.Context(), api.OverviewRequest{Labels: []string{"x"}}); code(err) != api.Validation {
		t.Errorf("a label without a value: %v", err)
	}
	result, err := c.Results(t.Context(), api.ResultsRequest{Run: ids[1]})
	if err != nil || result.Run.ID != ids[1] || !result.Unseen || result.Detail == nil {
		t.Errorf("result: %+v, %v", result, err)
	}
}

func TestEventsOfAllRunsAreSelected(t *testing.T) {
	t.Parallel()
	s := begin(t)
	c := connect(t, s, embedded.OperatorUser)
	for _, team := range []string{"a", "b", "a"} {
		done, err := c.Submit(t.Context(),
			api.Submission{Task: runs.Task{Attributes: runs.Attributes{Labels: runs.LabelsOf(map[string]string{"team": team})},
				Prompt: "x"}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Wait(t.Context(), done.Run, nil); err != nil {
			t.Fatal(err)
		}
	}
	page, err := c.Events(t.Context(), api.EventsRequest{Labels: []string{"team=a"}, Kinds: []string{"text_output"}})
	if err != nil || len(page.Events) != 2 || page.Events[0].Run == page.Events[1].Run {
		t.Errorf("%+v, %v", page, err)
	}
	n := 0
	for e, err := range c.Follow(t.Context(), client.Filter{Labels: []string{"team=a"}}) {
		if err != nil || e.Run != page.Events[0].Run && e.Run != page.Events[1].Run {
			t.Fatalf("%+v, %v", e, err)
		}
		n++
	}
	whole, err := c.Events(t.Context(), api.EventsRequest{Labels: []string{"team=a"}})
	if err != nil || n == 0 || len(whole.Events) != n {
		t.Errorf("%d followed, %d in a page: %v", n, len(whole.Events), err)
	}
	rest, err := c.Events(t.Context(), api.EventsRequest{After: whole.Next})
	if err != nil || len(rest.Events) != 0 || rest.Next != whole.Next {
		t.Errorf("after the last: %+v, %v", rest, err)
	}
	for _, wrong := range []api.EventsRequest{{Kinds: []string{"x"}}, {Labels: []string{"x"}}, {Limit: -1}} {
		if _, err := c.Events(t.Context(), wrong); code(err) != api.Validation {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
}
