package rest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/servicetest"
)

const textLine = `{"type":"item.completed","item":{"id":"item_0","type":"agent_message","text":"hello"}}` + "\n"

// Streams begin, leave, come again and lag while events are stored, with a ring that has all, one that is overtaken all
// the time, and none: each of them has what a plain read has, in order, once.
func TestStreamsThatShareHaveWhatIsStored(t *testing.T) {
	t.Parallel()
	for _, ring := range []int{0, 40 << 10, 1} {
		t.Run(strconv.Itoa(ring), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, func(c *config) { c.service.Rings = ring })
			names := []string{"T-0", "T-1", "T-2", "T-3"}
			var logs []*servicetest.Log
			for i, id := range names {
				logs = append(logs, s.Begin("codex", id, runs.Start{Source: "run",
					Attributes: runs.Attributes{Labels: runs.LabelsOf(map[string]string{"team": "ab"[i%2 : i%2+1]})}}))
			}
			for _, id := range names {
				s.Await(id, func(runs.Header) bool { return true })
			}
			rounds := 60 / fixture.Every(6)
			ended := make(chan struct{})
			go func() {
				for range rounds {
					for _, l := range logs {
						l.OutIn([]byte(strings.Repeat(textLine, 1+rand.IntN(40))), 400+rand.IntN(2000))
					}
				}
				for _, l := range logs {
					l.Exit(1)
				}
				close(ended)
			}()
			type selection struct {
				path string
				of   func(bus.Stored) bool
			}
			selections := []selection{
				{"events?", func(bus.Stored) bool { return true }},
				{"events?agent=codex", func(bus.Stored) bool { return true }},
				{"events?kind=completion", func(e bus.Stored) bool { return e.Token == "completion" }},
				{"events?kind=text_output&kind=completion", func(e bus.Stored) bool { return e.Token == "text_output" || e.Token == "completion" }},
				{"events?label=team%3Da", func(e bus.Stored) bool { return e.Run == "T-0" || e.Run == "T-2" }},
				{"events?run=T-1", func(e bus.Stored) bool { return e.Run == "T-1" }},
				{"events?run=T-1&kind=completion", func(e bus.Stored) bool { return e.Run == "T-1" && e.Token == "completion" }},
				{"runs/T-3/events?", func(e bus.Stored) bool { return e.Run == "T-3" }},
			}
			got := make([][]uint64, 3*len(selections)/fixture.Every(2))
			want := make([][]uint64, len(selections))
			known := make(chan struct{}) // want is whole
			var all sync.WaitGroup
			for i := range got {
				all.Go(func() {
					of := selections[i%len(selections)]
					got[i] = s.followIn(t, of.path, (i+i/len(selections))%3, func() uint64 {
						<-known
						w := want[i%len(selections)]
						return w[len(w)-1]
					})
				})
			}
			<-ended
			if err := s.Operator.Read(t.Context(), runs.Selection{}, func(e bus.Stored) error {
				for i, of := range selections {
					if of.of(e) {
						want[i] = append(want[i], e.Seq)
					}
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			close(known)
			all.Wait()
			for i := range got {
				of := i % len(selections)
				if !slices.Equal(got[i], want[of]) {
					t.Errorf("%s, client %d: %d events, want %d", selections[of].path, i, len(got[i]), len(want[of]))
				}
			}
		})
	}
}

// followIn reads a stream up to the event that last returns: at once (0), in pieces (1), or in pieces and slowly (2).
func (s *stage) followIn(t *testing.T, path string, how int, last func() uint64) (seqs []uint64) {
	var at atomic.Uint64
	done, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		defer cancel()
		for seen := uint64(0); done.Err() == nil && at.Load() < last(); seen = at.Load() {
			if !fixture.Poll(fixture.Patience, func() bool { return done.Err() != nil || at.Load() > seen }) {
				return // nothing comes any more
			}
		}
	}()
	for done.Err() == nil {
		ctx, leave := context.WithCancel(done)
		answer, err := s.try(ctx, "GET", "/v1/"+path, "", "Accept", "text/event-stream",
			"Last-Event-ID", fmt.Sprint(at.Load()))
		if err != nil {
			leave()
			break
		}
		if answer.StatusCode != http.StatusOK {
			leave()
			_ = answer.Body.Close()
			if answer.StatusCode != http.StatusNoContent {
				t.Errorf("%s: %s", path, answer.Status)
			}
			return seqs
		}
		left := 1 + rand.IntN(400)
		frames(t, answer.Body, func(f frame) bool {
			if f.id == "" {
				return true
			}
			seq, err := strconv.ParseUint(f.id, 10, 64)
			if err != nil || seq <= at.Load() {
				t.Errorf("%s: event %s after %d: %v", path, f.id, at.Load(), err)
			}
			seqs = append(seqs, seq)
			at.Store(seq)
			left--
			if how == 2 && left%50 == 0 {
				time.Sleep(time.Duration(rand.IntN(60)) * time.Millisecond)
			}
			return how == 0 || left > 0
		})
		leave()
		_ = answer.Body.Close()
	}
	return seqs
}

// A stream whose events are recreated is cut, whether it follows a run or all of them; and what it asks for again is
// there, or the stream ends before it.
func TestStreamOfEventsThatAreRecreatedIsCut(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	l := s.Begin("codex", "one", runs.Start{Source: "run"}).Out([]byte(strings.Repeat(textLine, 5)))
	s.Await("one", func(runs.Header) bool { return true })
	paths := []string{"events?", "events?kind=text_output", "runs/one/events?"}
	cut := make(chan string, len(paths))
	var seen sync.WaitGroup
	seen.Add(len(paths))
	for _, path := range paths {
		answer := s.open(t.Context(), "GET", "/v1/"+path, "", "Accept", "text/event-stream")
		go func() {
			defer answer.Body.Close()
			n := 0
			frames(t, answer.Body, func(f frame) bool {
				if f.event == "text_output" {
					if n++; n == 6 {
						seen.Done()
					}
				}
				return true
			})
			cut <- path
		}()
	}
	l.Out([]byte(textLine)) // they follow it
	seen.Wait()
	if err := s.Operator.PublicJetStream().DeleteStream(t.Context(), s.Operator.Names.Events()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Operator.Ensure(t.Context(), bus.DefaultLimits()); err != nil {
		t.Fatal(err)
	}
	late := time.After(fixture.Patience)
	for range paths {
		select {
		case <-cut:
		case <-late:
			t.Fatal("a stream is not cut")
		}
	}
	fixture.Eventually(t, fixture.Patience, "the events are not derived again", func() bool {
		end, err := s.Bus.EventsEnd(t.Context(), "", "")
		return err == nil && end.Last >= 6
	})
	s.want(409, "GET", "/v1/events?after=1000", "", "Accept", "text/event-stream")
	n := 0
	answer := s.open(t.Context(), "GET", "/v1/events", "", "Accept", "text/event-stream")
	defer answer.Body.Close()
	frames(t, answer.Body, func(f frame) bool {
		if f.event == "text_output" {
			n++
		}
		return n < 6
	})
	if n != 6 {
		t.Errorf("%d events after it", n)
	}
}

// What the responder asks and gets over NATS does not grow with the number of streams that have the same selection.
func TestGrowthOfStreams(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/v1/events", "/v1/events?kind=text_output&kind=error", "/v1/events?label=team%3Da",
		"/v1/runs/one/events"} {
		var messages []uint64
		for _, streams := range []int{1, 50} {
			s := newStage(t, nil)
			l := s.Begin("codex", "one", runs.Start{Source: "run",
				Attributes: runs.Attributes{Labels: runs.LabelsOf(map[string]string{"team": "a"})}})
			s.Await("one", func(runs.Header) bool { return true })
			got := make(chan struct{}, 1000)
			ctx, leave := context.WithCancel(t.Context())
			var all sync.WaitGroup
			for range streams {
				answer := s.open(ctx, "GET", path, "", "Accept", "text/event-stream")
				all.Go(func() {
					defer answer.Body.Close()
					frames(t, answer.Body, func(f frame) bool {
						if f.event == "text_output" {
							got <- struct{}{}
						}
						return true
					})
				})
			}
			write := func(lines int) {
				for range lines {
					l.Out([]byte(textLine))
					for range streams {
						<-got
					}
				}
			}
			write(3) // all follow
			conn := s.Bus.PublicJetStream().Conn()
			least := uint64(math.MaxUint64)
			for range 3 { // on a busy machine some are sent again
				before := conn.Stats()
				write(10)
				after := conn.Stats()
				least = min(least, after.InMsgs-before.InMsgs+after.OutMsgs-before.OutMsgs)
			}
			messages = append(messages, least)
			leave()
			all.Wait()
		}
		t.Logf("%s: %d and %d messages", path, messages[0], messages[1])
		if messages[1] > 2*messages[0]+60 {
			t.Errorf("%s: %d messages for a stream, %d for 50", path, messages[0], messages[1])
		}
	}
}

// After the last stream has left, the responder follows nothing.
func TestFollowerEndsAfterItsLastStream(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	l := s.Begin("codex", "one", runs.Start{Source: "run"})
	s.Await("one", func(runs.Header) bool { return true })
	conn := s.Bus.PublicJetStream().Conn()
	if _, err := s.Bus.EventsEnd(t.Context(), "", ""); err != nil { // which subscribes for answers
		t.Fatal(err)
	}
	idle := conn.NumSubscriptions()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	var open []*http.Response
	for _, path := range []string{"/v1/events", "/v1/events?kind=error", "/v1/runs/one/events"} {
		open = append(open, s.open(ctx, "GET", path, "", "Accept", "text/event-stream"))
	}
	l.Out([]byte(textLine))
	fixture.Eventually(t, fixture.Patience, "nothing is followed", func() bool {
		return conn.NumSubscriptions() >= idle+3
	})
	leave()
	for _, answer := range open {
		_ = answer.Body.Close()
	}
	fixture.Eventually(t, fixture.Patience, "it is still followed", func() bool { return conn.NumSubscriptions() <= idle })
}

// A client that reads nothing is disconnected after 30 s, and delays no other stream. It resumes with its last id.
func TestClientThatTakesNothingIsCut(t *testing.T) {
	t.Parallel()
	fixture.Long(t, "a client is cut after 30 s")
	s := newStage(t, func(c *config) { c.rest.Held = 2 })
	l := s.Begin("codex", "one", runs.Start{Source: "run"})
	s.Await("one", func(runs.Header) bool { return true })
	begun := time.Now()
	idle, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	_ = idle.(*net.TCPConn).SetReadBuffer(4 << 10)
	if _, err := fmt.Fprintf(idle, "GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n"+
		"Accept: text/event-stream\r\n\r\n", token); err != nil {
		t.Fatal(err)
	}
	const lines = 20_000
	read := make(chan []uint64)
	go func() { read <- s.followAllOf(t, lines) }()
	for range lines / 500 {
		l.Out([]byte(strings.Repeat(textLine, 500)))
	}
	if got := <-read; len(got) != lines {
		t.Errorf("the other stream has %d events", len(got))
	}
	fixture.Eventually(t, fixture.Patience, "the idle client still has its stream", func() bool {
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		for range 2 {
			answer := s.open(ctx, "GET", "/v1/events?after=1", "", "Accept", "text/event-stream")
			defer answer.Body.Close()
			if answer.StatusCode != http.StatusOK {
				return false
			}
		}
		return true
	})
	if took := time.Since(begun); took < 30*time.Second {
		t.Errorf("it was cut after %v", took)
	}
}

// followAllOf reads the stream of all events until it has so many texts.
func (s *stage) followAllOf(t *testing.T, texts int) (seqs []uint64) {
	answer := s.open(t.Context(), "GET", "/v1/events", "", "Accept", "text/event-stream")
	defer answer.Body.Close()
	frames(t, answer.Body, func(f frame) bool {
		var e api.Event
		if f.event == "text_output" && json.Unmarshal([]byte(f.data), &e) == nil {
			seqs = append(seqs, e.Seq)
		}
		return len(seqs) < texts
	})
	return seqs
}

// A thousand streams of two callers are held, and each has all events.
func TestThousandStreamsHaveAllEvents(t *testing.T) {
	t.Parallel()
	fixture.Long(t, "a thousand connections")
	s := newStage(t, nil)
	l := s.Begin("codex", "one", runs.Start{Source: "run"})
	s.Await("one", func(runs.Header) bool { return true })
	mux := http.NewServeMux()
	for _, r := range s.api.Routes() {
		mux.HandleFunc(r.Pattern, func(w http.ResponseWriter, q *http.Request) {
			r.Handler.ServeHTTP(w, q.WithContext(responder.WithCaller(q.Context(), q.Header.Get("Test-Caller"))))
		})
	}
	server := httptest.NewServer(mux)
	defer server.Close()
	s.url = server.URL
	const streams, lines = 1000, 2000
	counts := make([]int, streams)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	var all sync.WaitGroup
	for i := range streams {
		answer := s.open(ctx, "GET", []string{"/v1/events", "/v1/runs/one/events"}[i/2%2], "",
			"Accept", "text/event-stream", "Test-Caller", "ab"[i%2:i%2+1])
		if answer.StatusCode != http.StatusOK {
			t.Fatalf("stream %d: %s", i, answer.Status)
		}
		all.Go(func() {
			defer answer.Body.Close()
			frames(t, answer.Body, func(f frame) bool {
				if f.event == "text_output" {
					counts[i]++
				}
				return counts[i] < lines
			})
		})
	}
	for range lines / 20 {
		l.Out([]byte(strings.Repeat(textLine, 20)))
	}
	all.Wait()
	for i, n := range counts {
		if n != lines {
			t.Errorf("stream %d has %d events", i, n)
		}
	}
	leave()
}
