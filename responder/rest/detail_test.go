package rest_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/servicetest"
)

// items are the details of a run, in pages.
func (s *stage) items(run, query string) (all []frame) {
	s.T.Helper()
	for after := ""; ; {
		var page api.DetailPage
		got := s.want(200, "GET", "/v1/runs/"+run+"/detail?"+query+after, "")
		got.read(s.T, &page)
		var raw struct{ Items []json.RawMessage }
		got.read(s.T, &raw)
		for i, item := range page.Items {
			all = append(all, frame{id: item.Pos, event: item.Kind, data: string(raw.Items[i])})
		}
		if page.Done {
			return all
		}
		if after = "&after=" + page.Next; len(page.Items) == 0 {
			s.T.Fatalf("a page of %s without items, and not the last", run)
		}
	}
}

// Wherever a client leaves a stream of details and comes again, it has each item once, the
// same as in pages.
func TestStreamOfDetailsResumesWithoutGapOrRepeat(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.play("other", "failed", 1)
	s.play("one", "shell-ok", 0)
	want := s.items("one", "limit=3")
	if len(want) < 8 || want[len(want)-1].event != api.Completion {
		t.Fatalf("%d items", len(want))
	}
	for cut := range want {
		for _, byHeader := range []bool{false, true} {
			if got := s.cutAt(t, "one/detail", []int{cut + 1}, byHeader); !slices.Equal(got, want) {
				t.Fatalf("cut behind item %d: %d items, want %d", cut, len(got), len(want))
			}
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		cuts := rapid.SliceOfN(rapid.IntRange(1, 4), 1, 6).Draw(rt, "cuts")
		if got := s.cutAt(t, "one/detail", cuts, rapid.Bool().Draw(rt, "by header")); !slices.Equal(got, want) {
			rt.Errorf("cuts %v: %d items, want %d", cuts, len(got), len(want))
		}
	})

	// The header of an EventSource counts, and not the query that it repeats.
	third := want[2].id
	for _, query := range []string{"", "?last=1", "?after=" + want[0].id} {
		answer := s.open(t.Context(), "GET", "/v1/runs/one/detail"+query, "", "Accept", "text/event-stream",
			"Last-Event-ID", third)
		var got []frame
		frames(t, answer.Body, func(f frame) bool { got = append(got, f); return true })
		_ = answer.Body.Close()
		if !slices.Equal(got, want[3:]) {
			t.Errorf("with the header and %q: %d items, want %d", query, len(got), len(want)-3)
		}
	}
	answer := s.open(t.Context(), "GET", "/v1/runs/one/detail?last=2", "", "Accept", "text/event-stream")
	var got []frame
	frames(t, answer.Body, func(f frame) bool { got = append(got, f); return true })
	_ = answer.Body.Close()
	if !slices.Equal(got, want[len(want)-2:]) {
		t.Errorf("the newest two are %v", got)
	}
	if r := s.want(400, "GET", "/v1/runs/one/detail", "", "Last-Event-ID", "5"); !strings.Contains(string(r.body),
		`"field":"Last-Event-ID"`) {
		t.Errorf("a wrong header: %s", r.body)
	}
}

// A stream of details follows a run from before its start to its completion, has comments
// meanwhile, and takes a slot.
func TestStreamOfDetailsFollowsARun(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(c *config) { c.rest.Beat, c.service.Folds = 20*time.Millisecond, 1 })
	queued := s.want(202, "POST", "/v1/runs", `{"task":"go","workingDir":"/srv"}`)
	var run api.Run
	queued.read(t, &run)
	answer := s.streamOf(t.Context(), run.ID+"/detail", "", false)
	defer answer.Body.Close()
	s.want(503, "GET", "/v1/runs/"+run.ID+"/detail", "")
	s.want(503, "GET", "/v1/runs/"+run.ID+"/detail", "", "Accept", "text/event-stream")
	out := servicetest.Recording(t, "shell-ok.jsonl")
	var got []frame
	var l *servicetest.Log
	frames(t, answer.Body, func(f frame) bool {
		switch {
		case f.comment != "" && l == nil:
			l = s.Begin("codex", run.ID, runs.Start{Source: "queue"}).OutIn(out[:len(out)/2], 300)
		case f.event != "" && l != nil:
			if got = append(got, f); f.event != "detail" && len(out) > 0 { // it is read while the run continues
				l.OutIn(out[len(out)/2:], 300).Exit(0)
				out = nil
			}
		case f.event != "":
			got = append(got, f)
		}
		return true
	})
	if want := s.items(run.ID, "limit=1000"); !slices.Equal(got, want) || got[len(got)-1].event != api.Completion {
		t.Errorf("%d items, want %d", len(got), len(want))
	}
}

// A client that leaves gives its slots back.
func TestALeftStreamOfDetailsGivesItsSlotBack(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(c *config) { c.service.Folds = 1 })
	s.Begin("codex", "long", runs.Start{Source: "run"})
	s.Await("long", func(runs.Header) bool { return true })
	ctx, leave := context.WithCancel(t.Context())
	answer := s.streamOf(ctx, "long/detail", "", false)
	leave()
	_ = answer.Body.Close()
	end := time.After(fixture.Patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for status := 0; status != http.StatusOK; {
		select {
		case <-tick.C:
			status = s.ask("GET", "/v1/runs/long/detail", "").status
		case <-end:
			t.Fatal("the slot is not given back")
		}
	}
}
