package rest_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/servicetest"
)

// frame is a server-sent event, or a comment.
type frame struct{ id, event, data, comment string }

// frames reads server-sent events until each returns false or there are no more.
func frames(t *testing.T, body io.Reader, each func(frame) bool) {
	t.Helper()
	lines := bufio.NewReader(body)
	var f frame
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch name {
		case "id":
			f.id = value
		case "event":
			f.event = value
		case "data":
			f.data += value
		case "":
			if value != "" {
				f.comment = value
			} else if f != (frame{}) {
				if !each(f) {
					return
				}
				f = frame{}
			}
		case "retry":
		default:
			t.Errorf("a line %q", line)
		}
	}
}

// stream opens a stream of events behind one, by header or query.
func (s *stage) stream(ctx context.Context, run, after string, byHeader bool) *http.Response {
	s.T.Helper()
	return s.streamOf(ctx, run+"/events", after, byHeader)
}

// streamOf is stream for another path below the runs.
func (s *stage) streamOf(ctx context.Context, of, after string, byHeader bool) *http.Response {
	s.T.Helper()
	path, header := "/v1/runs/"+of, []string{"Accept", "text/event-stream"}
	switch {
	case after == "":
	case byHeader:
		header = append(header, "Last-Event-ID", after)
		path += "?after=0" // an EventSource asks the same again; the header says more
	default:
		path += "?after=" + after
	}
	answer := s.open(ctx, "GET", path, "", header...)
	if got := answer.Header.Get("Content-Type"); answer.StatusCode == 200 && got != "text/event-stream" {
		s.T.Errorf("a stream as %q", got)
	}
	return answer
}

func (s *stage) pages(run string, limit int) (all []api.Event) {
	s.T.Helper()
	for after := uint64(0); ; {
		var page api.EventPage
		s.want(200, "GET", fmt.Sprintf("/v1/runs/%s/events?after=%d&limit=%d", run, after, limit), "").read(s.T, &page)
		all, after = append(all, page.Events...), page.Next
		if page.Done {
			return all
		}
		if len(page.Events) == 0 {
			s.T.Fatalf("a page of %s without events, and not the last", run)
		}
	}
}

func TestStreamCutAnywhereGoesOnWithoutGapOrRepeat(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.play("other", "failed", 1)
	s.play("one", "shell-ok", 0)
	var want []frame
	for _, e := range s.pages("one", 3) {
		want = append(want, frame{id: strconv.FormatUint(e.Seq, 10), event: e.Kind, data: string(e.Body)})
	}
	if len(want) < 8 || want[len(want)-1].event != "completion" {
		t.Fatalf("%d events", len(want))
	}
	// Cut once at every event, both ways.
	for cut := range want {
		for _, byHeader := range []bool{false, true} {
			got := s.cutAt(t, "one/events", []int{cut + 1}, byHeader)
			if !slices.Equal(got, want) {
				t.Fatalf("cut behind event %d: %d events, want %d", cut, len(got), len(want))
			}
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		cuts := rapid.SliceOfN(rapid.IntRange(1, 4), 1, 6).Draw(rt, "cuts")
		if got := s.cutAt(t, "one/events", cuts, rapid.Bool().Draw(rt, "by header")); !slices.Equal(got, want) {
			rt.Errorf("cuts %v: %d events, want %d", cuts, len(got), len(want))
		}
	})
}

// cutAt reads a stream, and leaves and comes again after so many frames.
func (s *stage) cutAt(t *testing.T, of string, cuts []int, byHeader bool) (got []frame) {
	t.Helper()
	last := ""
	for {
		ctx, leave := context.WithCancel(t.Context())
		answer := s.streamOf(ctx, of, last, byHeader)
		if answer.StatusCode == http.StatusNoContent {
			_ = answer.Body.Close()
			leave()
			return got
		}
		n, left := 0, false
		frames(t, answer.Body, func(f frame) bool {
			got, last = append(got, f), f.id
			n++
			left = len(cuts) > 0 && n == cuts[0]
			return !left
		})
		leave()
		_ = answer.Body.Close()
		if !left {
			return got
		}
		cuts = cuts[1:]
	}
}

func TestStreamFollowsARunToItsCompletion(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	out := servicetest.Recording(t, "shell-ok.jsonl")
	l := s.Begin("codex", "live", runs.Start{Source: "run"}).OutIn(out[:len(out)/2], 300)
	s.Await("live", func(v runs.Header) bool { return v.State == runs.StateWorking })
	answer := s.stream(t.Context(), "live", "", false)
	defer answer.Body.Close()
	var got []frame
	frames(t, answer.Body, func(f frame) bool {
		if got = append(got, f); len(got) == 1 { // it is read while the run continues
			l.OutIn(out[len(out)/2:], 300).Exit(0)
		}
		return true
	})
	var want []frame
	for _, e := range s.pages("live", 1000) {
		want = append(want, frame{id: strconv.FormatUint(e.Seq, 10), event: e.Kind, data: string(e.Body)})
	}
	if !slices.Equal(got, want) || got[len(got)-1].event != "completion" {
		t.Errorf("%d events, want %d", len(got), len(want))
	}
}

func TestIdleStreamHasComments(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(c *config) { c.rest.Beat = 20 * time.Millisecond })
	s.Begin("codex", "quiet", runs.Start{Source: "run"})
	s.Await("quiet", func(v runs.Header) bool { return true })
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	answer := s.stream(ctx, "quiet", "", false)
	defer answer.Body.Close()
	beats := 0
	frames(t, answer.Body, func(f frame) bool {
		if f.comment != "" {
			beats++
		}
		return beats < 3
	})
	if beats != 3 {
		t.Errorf("%d comments", beats)
	}
}

// The time that a request may take to be read is none for its answer.
func TestStreamAndWaitOutliveTheTimeToReadARequest(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(c *config) { c.rest.Beat = 200 * time.Millisecond })
	s.Begin("codex", "quiet", runs.Start{Source: "run"})
	s.Await("quiet", func(v runs.Header) bool { return true })
	mux := http.NewServeMux()
	for _, r := range s.api.Routes() {
		mux.Handle(r.Pattern, r.Handler)
	}
	server := httptest.NewUnstartedServer(mux)
	server.Config.ReadTimeout = time.Second // for the header, too, which may be late
	server.Start()
	defer server.Close()
	s.url = server.URL
	ctx := t.Context()
	opened := func(path string, header ...string) (answer *http.Response, at time.Time) {
		t.Helper()
		fixture.Eventually(t, fixture.Patience, "no answer", func() bool { // the header was late
			var err error
			at = time.Now()
			answer, err = s.try(ctx, "GET", path, "", header...)
			return err == nil
		})
		if answer.StatusCode != 200 {
			t.Fatalf("%s: %d", path, answer.StatusCode)
		}
		return answer, at
	}
	answer, _ := opened("/v1/runs/quiet/events", "Accept", "text/event-stream")
	beats := 0
	frames(t, answer.Body, func(frame) bool { beats++; return beats < 8 })
	_ = answer.Body.Close()
	if beats != 8 {
		t.Errorf("the stream was cut after %d comments", beats)
	}
	answer, begin := opened("/v1/runs/quiet/wait?timeout=2")
	_ = answer.Body.Close()
	if took := time.Since(begin); took < 2*time.Second {
		t.Errorf("the wait was cut after %v", took)
	}
}

// A stream and a wait take a slot each while they last, and give it back.
func TestHeldRequestsAreBounded(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(c *config) { c.rest.Held = 2 })
	l := s.Begin("codex", "long", runs.Start{Source: "run"})
	s.Await("long", func(v runs.Header) bool { return true })
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	var open []*http.Response
	for range 2 {
		open = append(open, s.stream(ctx, "long", "", false))
	}
	s.want(503, "GET", "/v1/runs/long/events", "", "Accept", "text/event-stream")
	s.want(503, "GET", "/v1/runs/long/wait?timeout=5", "")
	s.want(200, "GET", "/v1/runs/long/wait?timeout=0", "") // this is no waiting
	s.want(200, "GET", "/v1/runs/long/events", "")         // a page takes no slot
	leave()
	for _, answer := range open {
		_ = answer.Body.Close()
	}
	end := time.After(fixture.Patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for status := 0; status != 200; { // the server sees that they left
		select {
		case <-tick.C:
			status = s.ask("GET", "/v1/runs/long/wait?timeout=1", "").status
		case <-end:
			t.Fatal("the slots are not given back")
		}
	}
	l.Exit(0)
}

// unread is a client that reads nothing of an answer until it is released.
type unread struct {
	*httptest.ResponseRecorder
	writes chan<- struct{}
	until  <-chan struct{}
}

func (u unread) Write(b []byte) (int, error) {
	u.writes <- struct{}{}
	<-u.until
	return u.ResponseRecorder.Write(b)
}

// Clients that do not read large answers hold a share of the memory, and others get theirs.
func TestLargeAnswersThatAreNotReadAreBounded(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.Begin("codex", "long", runs.Start{Source: "run"}).OutIn(bytes.Repeat([]byte("x"), 300<<10), 60<<10).Exit(0)
	s.Await("long", servicetest.Ended)
	routes := http.NewServeMux()
	for _, r := range s.api.Routes() {
		routes.Handle(r.Pattern, r.Handler)
	}
	ask := func(w http.ResponseWriter, caller, limit string) {
		q := httptest.NewRequest("GET", "/v1/runs/long/output?limit="+limit, nil)
		routes.ServeHTTP(w, q.WithContext(responder.WithCaller(t.Context(), caller)))
	}
	writes, until := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	for range 48 { // three quarters of 64
		all.Go(func() { ask(unread{httptest.NewRecorder(), writes, until}, "slow", "300000") })
		<-writes
	}
	for _, c := range []struct {
		caller, limit string
		status        int
	}{{"slow", "300000", 503}, {"slow", "1000", 200}, {"other", "300000", 200}} {
		answer := httptest.NewRecorder()
		if ask(answer, c.caller, c.limit); answer.Code != c.status {
			t.Errorf("%+v: %d %.200s", c, answer.Code, answer.Body)
		}
	}
	close(until)
	all.Wait()
	answer := httptest.NewRecorder()
	if ask(answer, "slow", "300000"); answer.Code != 200 {
		t.Errorf("after all were read: %d", answer.Code)
	}
}

// While NATS is disconnected, requests are answered from memory or fail.
func TestDisconnectionIsReportedAtOnce(t *testing.T) {
	t.Parallel()
	s, canary := newStage(t, nil), fixture.StartCanary(t)
	s.play("done", "shell-ok", 0)
	s.Server.Stop()
	end := time.After(fixture.Patience)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for s.Bus.Connected() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatal("the connection lives on")
		}
	}
	begin := time.Now()
	s.want(200, "GET", "/v1/runs", "")
	for _, path := range []string{"", "/events", "/detail", "/output", "/wait"} {
		s.want(503, "GET", "/v1/runs/done"+path, "")
	}
	canary.Within("all requests were told that NATS is away", time.Since(begin), 3*time.Second)
}

func TestWaitEndsWithTheRunOrItsTime(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	l := s.Begin("codex", "one", runs.Start{Source: "run"})
	s.Await("one", func(v runs.Header) bool { return true })
	var r api.Run
	s.want(200, "GET", "/v1/runs/one/wait?timeout=1", "").read(t, &r)
	if r.State != runs.StateWorking {
		t.Errorf("state %s when the time is over", r.State)
	}
	answered := make(chan reply, 1)
	go func() { answered <- s.ask("GET", "/v1/runs/one/wait?timeout=3600", "") }()
	select {
	case got := <-answered:
		t.Fatalf("it does not wait: %s", got.body)
	default:
	}
	l.OutIn(servicetest.Recording(t, "shell-ok.jsonl"), 500).Exit(0)
	(<-answered).read(t, &r)
	if r.State != runs.StateCompleted || r.EndedAt == 0 || r.Detail == nil || r.FinalText == nil {
		t.Errorf("the end: %+v", r)
	}
}
