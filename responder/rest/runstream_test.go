package rest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/servicetest"
)

// follower is a client of a stream of runs, as docs/rest.md describes it.
type follower struct {
	*stage
	query string
	last  string            // id
	have  map[string]string // JSON by run
	fresh map[string]bool   // runs since the stream began; nil after synced
	whole int               // streams that began with all runs
}

func (s *stage) follow(query string) *follower {
	return &follower{stage: s, query: query, have: map[string]string{}}
}

// read opens the stream and reads frames until enough, which is asked after each, returns true.
func (f *follower) read(enough func(frame) bool) {
	f.T.Helper()
	ctx, cancel := context.WithTimeout(f.T.Context(), time.Minute)
	defer cancel()
	header := []string{"Accept", "text/event-stream"}
	if f.last != "" {
		header = append(header, "Last-Event-ID", f.last)
	}
	answer := f.open(ctx, "GET", "/v1/runs?"+f.query, "", header...)
	defer answer.Body.Close()
	if answer.StatusCode != 200 {
		f.T.Fatalf("status %d", answer.StatusCode)
	}
	f.fresh = map[string]bool{}
	frames(f.T.(*testing.T), answer.Body, func(x frame) bool {
		f.take(x)
		return !enough(x)
	})
	if ctx.Err() != nil {
		f.T.Fatalf("the stream of %q does not get there: %v", f.query, f.have)
	}
}

func (f *follower) take(x frame) {
	f.T.Helper()
	var one struct {
		Run     string
		Resumed bool
	}
	if x.data != "" {
		if err := json.Unmarshal([]byte(x.data), &one); err != nil {
			f.T.Fatalf("%s: %v", x.data, err)
		}
	}
	if x.id != "" {
		f.last = x.id
	}
	switch x.event {
	case "run":
		f.have[one.Run] = x.data
		if f.fresh != nil {
			f.fresh[one.Run] = true
		}
	case "gone":
		delete(f.have, one.Run)
	case "synced":
		if x.id == "" {
			f.T.Error("synced has no id")
		}
		if !one.Resumed {
			f.whole++
			for id := range f.have {
				if !f.fresh[id] {
					delete(f.have, id)
				}
			}
		}
		f.fresh = nil
	default:
		f.T.Errorf("an event %q", x.event)
	}
}

// listed returns the runs of all pages, as the stream has them.
func (s *stage) listed(query string) map[string]string {
	s.T.Helper()
	all := map[string]string{}
	for cursor := ""; ; {
		var page struct {
			Runs []json.RawMessage
			Next string
		}
		s.want(200, "GET", "/v1/runs?limit=100&"+query+cursor, "").read(s.T, &page)
		for _, raw := range page.Runs {
			var r api.Run
			if err := json.Unmarshal(raw, &r); err != nil {
				s.T.Fatal(err)
			}
			all[r.ID] = string(raw)
		}
		if page.Next == "" {
			return all
		}
		cursor = "&cursor=" + url.QueryEscape(page.Next)
	}
}

// same reports whether the follower has what the list has.
func (f *follower) same() bool {
	want := f.listed(f.query)
	if len(want) != len(f.have) {
		return false
	}
	for id, run := range want {
		if f.have[id] != run {
			return false
		}
	}
	return true
}

// restart replaces the service and its server, as another process does.
func (s *stage) restart() {
	s.Service = responder.New(responder.Config{Streams: s.Bus, Queue: bus.DefaultQueue, LostAfter: time.Minute,
		Patience: fixture.Patience})
	servicetest.During(s.T, "responder", s.Service.Run)
	if err := s.Service.Ready(s.T.Context()); err != nil {
		s.T.Fatal(err)
	}
	cfg := s.api.Config
	cfg.Service = s.Service
	s.serve(cfg)
}

// The stream is the list, at every moment: with and without a filter, wherever it is cut, with
// runs that come, change, end, are removed and are opened meanwhile, and across restarts.
func TestStreamOfRunsIsTheList(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	open := map[string]*servicetest.Log{}
	begin := func(i int) {
		id := fmt.Sprintf("T-%03d", i)
		open[id] = s.BeginAt([]string{"codex", "claude_code"}[i%2], id, time.Now().UnixMilli(), runs.Start{Source: "run",
			Attributes: runs.Attributes{Dir: "/srv/<script>\u2028&",
				Labels: runs.LabelsOf(map[string]string{"team": "ab"[i%2 : i%2+1]})}})
	}
	random := rand.New(rand.NewPCG(1, 2))
	const first = 200
	for i := range first {
		begin(i)
	}
	for id := range open {
		s.Await(id, servicetest.Working)
	}
	all, working, ofB := s.follow(""), s.follow("state=working"), s.follow("label="+url.QueryEscape("team=b"))
	followers := []*follower{all, working, ofB}
	for round := range 12 {
		for _, f := range followers { // cut somewhere, before or after the stream is synced
			left := 1 + random.IntN(300)
			f.read(func(x frame) bool {
				left--
				return left <= 0 || x.event == "synced"
			})
		}
		begin(first + round)
		n := 0
		for id, l := range open {
			switch n++; {
			case n < 6:
				l.Exit(n % 2)
				delete(open, id)
			case n < 12:
				l.Out(fmt.Appendf(nil, `{"type":"thread.started","thread_id":"0199a213-81c0-7800-8aa1-bbab2a035%03d"}`+"\n",
					round))
			}
		}
		switch round {
		case 3, 8:
			s.restart()
		case 5:
			_, err := s.Service.Cleanup(t.Context(), api.Cleanup{Stuck: time.Hour, Old: time.Nanosecond})
			if err != nil {
				t.Fatal(err)
			}
		case 7:
			for id, run := range s.listed("unseen=true") {
				if !strings.Contains(run, `"unseen":true`) {
					t.Errorf("%s: %s", id, run)
				}
				s.want(200, "PUT", "/v1/runs/"+id+"/seen", "")
			}
		}
	}
	for _, f := range followers {
		f.read(func(frame) bool { return f.fresh == nil && f.same() })
		if len(f.have) == 0 || f.whole < 1 || f.whole > 10 {
			t.Errorf("%q: %d runs, %d of 13 streams began with all runs", f.query, len(f.have), f.whole)
		}
	}
}

// A change is sent once, in order, with an id; what is not in a list is gone.
func TestStreamOfRunsFollowsARun(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	old := s.Begin("codex", "T-old", runs.Start{Source: "run"})
	s.Await("T-old", servicetest.Working)
	answer := s.open(t.Context(), "GET", "/v1/runs?state=working", "", "Accept", "text/event-stream")
	if got := answer.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("as %q", got)
	}
	var run *servicetest.Log
	var got []string
	frames(t, answer.Body, func(x frame) bool {
		var one struct{ Run string }
		if err := json.Unmarshal([]byte(x.data), &one); err != nil {
			t.Fatal(err)
		}
		got = append(got, x.event+" "+one.Run)
		if hasID := x.id != ""; hasID != (len(got) > 1) {
			t.Errorf("%s: id %q", got[len(got)-1], x.id)
		}
		switch x.event + " " + one.Run {
		case "synced ":
			run = s.Begin("codex", "T-new", runs.Start{Source: "run"})
		case "run T-new":
			run.Exit(0)
		case "gone T-new":
			old.Exit(0)
		}
		return one.Run != "T-old" || x.event == "run"
	})
	_ = answer.Body.Close()
	got = slices.Compact(got) // a run may be sent more often than it was looked at
	if want := []string{"run T-old", "synced ", "run T-new", "gone T-new", "gone T-old"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for _, wrong := range []string{"limit=5", "cursor=x", "label=x", "state=no", "unknown=1"} {
		s.want(400, "GET", "/v1/runs?"+wrong, "", "Accept", "text/event-stream")
	}
	s.want(200, "HEAD", "/v1/runs", "", "Accept", "text/event-stream")
}

// The id of a stream with one filter does not resume a stream with another one.
func TestStreamOfRunsWithAnotherFilterBeginsAgain(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	for _, agent := range []string{"codex", "claude_code"} {
		s.Begin(agent, "T-"+agent, runs.Start{Source: "run"})
		s.Await("T-"+agent, servicetest.Working)
	}
	synced := func(x frame) bool { return x.event == "synced" }
	f := s.follow("agent=codex")
	f.read(synced)
	for _, query := range []string{"agent=claude_code", "", "agent=codex"} {
		f.query = query
		if f.read(synced); !f.same() {
			t.Errorf("%q: %v", query, f.have)
		}
	}
	if f.read(synced); f.whole != 4 {
		t.Errorf("%d streams began with all runs, want 4 of 5", f.whole)
	}
}

// What a run gets without an entry of its log is sent, too: its place in the queue.
func TestStreamOfRunsHasPlacesInTheQueue(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	for i := range 3 {
		s.want(202, "POST", "/v1/runs", fmt.Sprintf(`{"task":"%d","workingDir":"/srv"}`, i))
	}
	f := s.follow("state=queued")
	places := func() (all []int) {
		for _, run := range f.have {
			var r api.Run
			if err := json.Unmarshal([]byte(run), &r); err != nil {
				t.Fatal(err)
			}
			all = append(all, *r.Position)
		}
		slices.Sort(all)
		return all
	}
	f.read(func(x frame) bool {
		if x.event == "synced" {
			if got := places(); !slices.Equal(got, []int{0, 1, 2}) {
				t.Errorf("places %v", got)
			}
			for id, run := range f.have {
				if strings.Contains(run, `"position":0`) {
					s.want(200, "POST", "/v1/runs/"+id+"/cancel", "")
				}
			}
		}
		return slices.Equal(places(), []int{0, 1}) && f.same()
	})
}

// Streams of runs take the places of all streams.
func TestStreamsOfRunsAreLimited(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(c *config) { c.rest.Held = 4 })
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	for n, want := range []int{200, 200, 200, 503} {
		answer := s.open(ctx, "GET", "/v1/runs", "", "Accept", "text/event-stream")
		defer answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("stream %d: %d, want %d", n, answer.StatusCode, want)
		}
	}
}

// A stream that resumes sends them, too, of runs that have not changed since.
func TestResumedStreamOfRunsHasPlacesInTheQueue(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	for i := range 3 {
		s.want(202, "POST", "/v1/runs", fmt.Sprintf(`{"task":"%d","workingDir":"/srv"}`, i))
	}
	later := s.Begin("codex", "T-later", runs.Start{Source: "run"})
	s.Await("T-later", servicetest.Working)
	later.Exit(0)
	s.Await("T-later", servicetest.Ended) // the records of the three were stored before
	f := s.follow("state=queued")
	f.read(func(x frame) bool { return x.event == "synced" })
	for id, run := range f.have {
		if strings.Contains(run, `"position":0`) {
			s.want(200, "POST", "/v1/runs/"+id+"/cancel", "")
		}
	}
	f.read(func(frame) bool { return len(f.have) == 2 && f.same() })
	if f.whole != 1 {
		t.Errorf("%d streams began with all runs", f.whole)
	}
}
