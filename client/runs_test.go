package client_test

import (
	"strings"
	"testing"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/runs"
)

func TestSubmittedAndCancelledRunsAreReturnedWhole(t *testing.T) {
	s := begin(t)
	c, ctx := connect(t, s, embedded.OperatorUser), t.Context()
	run, err := c.SubmitRun(ctx, api.Submission{Task: runs.Task{Prompt: "hold"}})
	if err != nil || run.ID == "" || run.Agent != api.DefaultAgent || run.Source != "queue" || run.State.Final() {
		t.Fatalf("got %+v, %v", run, err)
	}
	over, err := c.CancelRun(ctx, api.Cancel{Run: run.ID, Reason: "enough"})
	if err != nil || over.ID != run.ID || !over.CancelRequested || over.Detail == nil {
		t.Errorf("got %+v, %v", over, err)
	}
	if _, err := c.CancelRun(ctx, api.Cancel{Run: "none"}); code(err) != api.NotFound {
		t.Errorf("no run: %v", err)
	}
	if _, err := c.SubmitRun(ctx, api.Submission{Task: runs.Task{Prompt: " "}}); code(err) != api.Validation {
		t.Errorf("no prompt: %v", err)
	}
}

// A follower may come before its run.
func TestDetailsOfANewRunAreFollowed(t *testing.T) {
	s := begin(t)
	c, ctx := connect(t, s, embedded.OperatorUser), t.Context()
	kinds := make(chan string)
	go func() {
		var all []string
		for item, err := range c.FollowNewDetail(ctx, "later", "") {
			if err != nil {
				all = append(all, err.Error())
			} else if item.Kind != "detail" {
				all = append(all, item.Kind)
			}
		}
		kinds <- strings.Join(all, " ")
	}()
	if _, err := c.Status(ctx, "later"); code(err) != api.NotFound {
		t.Fatal(err)
	}
	if _, err := c.Submit(ctx, api.Submission{Run: "later", Task: runs.Task{Prompt: "Which files?"}}); err != nil {
		t.Fatal(err)
	}
	if got, want := <-kinds, "status status text_output status completion"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestEachSeesItemsOnce(t *testing.T) {
	items := func(yield func(int, error) bool) {
		_ = yield(1, nil) && yield(0, runs.ErrNoRun) && yield(2, nil) && yield(3, nil)
	}
	seen, n := 0, 0
	for _, err := range client.Each(items, func(i int) { seen += i }) {
		_ = err // one of them is an item, too
		if n++; n == 3 {
			break
		}
	}
	if seen != 3 || n != 3 {
		t.Errorf("saw %d of %d items, want the sum 3 of 3", seen, n)
	}
}
