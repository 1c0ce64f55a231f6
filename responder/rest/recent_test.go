package rest_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/servicetest"
)

// A stream of the recent runs and the pages behind it have each run once, the newest first.
func TestRecentRunsAndThePagesBehindThemAreTheList(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	var want []string
	for i := range 12 {
		id := fmt.Sprintf("run-%02d", i)
		s.ended(id, time.Duration(12-i)*time.Hour, runs.Start{Source: "run"})
		s.Await(id, servicetest.Ended)
		want = append([]string{id}, want...)
	}
	s.Begin("codex", "open", runs.Start{Source: "run"})
	s.Await("open", func(v runs.Header) bool { return v.State == runs.StateWorking })

	for _, n := range []int{5, 12, 1000} {
		stream, err := s.Service.FollowRuns(api.List{Recent: n}, "")
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		var synced *api.Synced
		stop := errors.New("enough")
		err = stream.Each(t.Context(), func(batch []api.RunChange) error {
			for _, c := range batch {
				if c.Synced != nil {
					synced = c.Synced
					return stop
				}
				got = append(got, c.Run.ID)
			}
			return nil
		})
		if !errors.Is(err, stop) || got[0] != "open" || !slices.Equal(got[1:], want[:min(n, 12)]) ||
			(synced.Next != "") != (n < 12) {
			t.Fatalf("the newest %d: %q, %+v, %v", n, got, synced, err)
		}
		got = got[1:]
		for cursor := synced.Next; cursor != ""; {
			var page api.RunPage
			s.want(200, "GET", "/v1/runs?order=changed&limit=3&cursor="+cursor, "").read(t, &page)
			for _, r := range page.Runs {
				got = append(got, r.ID)
			}
			cursor = page.Next
		}
		if got = slices.DeleteFunc(got, func(id string) bool { return id == "open" }); !slices.Equal(got, want) {
			t.Errorf("the newest %d and the pages behind: %q", n, got)
		}
	}
	for _, wrong := range []string{"recent=5", "order=title", "order="} {
		s.want(400, "GET", "/v1/runs?"+wrong, "")
	}
	s.want(400, "GET", "/v1/runs?recent=1001", "", "Accept", "text/event-stream")
	s.want(400, "GET", "/v1/runs?order=changed", "", "Accept", "text/event-stream")
}

// A run that ends while a stream of recent runs sends them is sent once before they are complete.
func TestRunThatEndsMeanwhileIsSentOnce(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.ended("earlier", time.Hour, runs.Start{Source: "run"})
	open := s.Begin("codex", "open", runs.Start{Source: "run"})
	s.Await("open", servicetest.Working)
	s.Await("earlier", servicetest.Ended)
	stream, err := s.Service.FollowRuns(api.List{Recent: 9}, "")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	synced, stop := false, errors.New("enough")
	err = stream.Each(t.Context(), func(batch []api.RunChange) error {
		for _, c := range batch {
			if synced = synced || c.Synced != nil; c.Synced == nil {
				got = append(got, c.Run.ID+" "+string(c.Run.State))
			}
		}
		switch {
		case len(got) == 1:
			open.Exit(0)
			s.Await("open", servicetest.Ended)
		case synced && len(got) == 3:
			return stop
		}
		return nil
	})
	want := []string{"open working", "earlier failed", "open failed"}
	if !errors.Is(err, stop) || !slices.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
}
