package responder_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/servicetest"
)

// watched are streams of which a test counts and holds requests.
type watched struct {
	responder.Streams
	records atomic.Int64
	submits chan struct{}         // gets one for each submission, which then ends with its caller
	scan    func(sequence uint64) // is called for each of many events
}

func (w *watched) Record(ctx context.Context, run string) (*runs.Record, bool, error) {
	w.records.Add(1)
	return w.Streams.Record(ctx, run)
}

func (w *watched) Submit(ctx context.Context, queue string, t runs.QueuedTask, at int64) (work, raw uint64, err error) {
	if w.submits == nil {
		return w.Streams.Submit(ctx, queue, t, at)
	}
	w.submits <- struct{}{}
	<-ctx.Done()
	return 0, 0, ctx.Err()
}

func (w *watched) EachEvent(ctx context.Context, of runs.Selection, each func(runs.Event) error) error {
	if w.scan == nil {
		return w.Streams.EachEvent(ctx, of, each)
	}
	for i := uint64(1); i <= 100_000; i++ {
		w.scan(i)
		if err := each(runs.Event{Seq: i, Agent: "codex", Run: "gone", Token: "status"}); err != nil {
			return err
		}
	}
	return nil
}

func watch(t *testing.T) (*servicetest.Streams, *watched) {
	w := &watched{}
	return detailed(t, func(cfg *responder.Config) {
		w.Streams = cfg.Streams
		cfg.Streams = w
	}), w
}

// The run of a request that has ended is found without a request for each of the others.
func TestEndedRequestIsFoundInMemory(t *testing.T) {
	t.Parallel()
	s, w := watch(t)
	for i := range 5 {
		s.Begin(runs.AgentExternal, fmt.Sprint("r", i), runs.Start{Source: runs.SourceExternal,
			Attributes: runs.Attributes{Labels: runs.LabelsOf(map[string]string{"request_id": fmt.Sprint("q", i)})}}).
			End(runs.Exit{Reason: runs.ReasonEOF})
	}
	before := w.records.Load()
	if run, err := s.Service.RunOfRequest(t.Context(), "q0"); err != nil || run != "r0" {
		t.Errorf("%q, %v", run, err)
	}
	if _, err := s.Service.RunOfRequest(t.Context(), "q9"); !api.Is(err, api.NotFound) {
		t.Errorf("another one: %v", err)
	}
	if n := w.records.Load() - before; n != 0 {
		t.Errorf("%d records were read", n)
	}
}

// A client that pages through the events of a run, with a filter, until they are done ends: also after the completion.
func TestFilteredPageAfterTheCompletionIsDone(t *testing.T) {
	t.Parallel()
	s, _ := watch(t)
	s.Begin("codex", "r", runs.Start{Source: runs.SourceRun}).Out([]byte(textLine)).Exit(0)
	q := api.EventsRequest{Run: "r", Kinds: []string{api.Completion}}
	page, err := s.Service.AllEvents(t.Context(), q, 10, 1<<20)
	if err != nil || len(page.Events) != 1 || !page.Done {
		t.Fatalf("%+v, %v", page, err)
	}
	q.After = page.Next
	for _, q.Kinds = range [][]string{nil, {api.Completion}} {
		if page, err = s.Service.AllEvents(t.Context(), q, 10, 1<<20); err != nil || len(page.Events) != 0 || !page.Done {
			t.Errorf("after it, of %v: %+v, %v", q.Kinds, page, err)
		}
	}
}

// A session that waits until another has begun ends with its caller.
func TestSessionThatWaitsForAnotherEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	s, w := watch(t)
	w.submits = make(chan struct{}, 1)
	p := responder.Profile{Owner: "me", Name: "one", Attributes: runs.Attributes{Agent: "codex", Dir: "/srv"}, Live: true}
	q := api.Submission{Task: runs.Task{Attributes: p.Attributes, Prompt: "x", Live: true, Keep: true}}
	begin := func(ctx context.Context) <-chan error {
		done := make(chan error, 1)
		go func() {
			_, err := s.Service.Begin(ctx, p, q, []responder.Profile{p})
			done <- err
		}()
		return done
	}
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	first := begin(ctx)
	<-w.submits
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := <-begin(gone); !api.Is(err, api.Unavailable) {
		t.Errorf("it waits: %v", err)
	}
	leave()
	if err := <-first; err == nil {
		t.Error("the first one has begun")
	}
}

// A page that finds nothing ends soon if others wait for their turn.
func TestPageOfManyEventsEndsForOthers(t *testing.T) {
	t.Parallel()
	s, w := watch(t)
	const turns, soon = 6, 5000
	hold, held := make(chan struct{}), make(chan struct{}, turns)
	w.scan = func(i uint64) {
		if i == soon {
			select {
			case held <- struct{}{}:
				<-hold
			default:
			}
		}
	}
	ends := make(chan uint64, turns+1)
	page := func() {
		p, err := s.Service.AllEvents(t.Context(), api.EventsRequest{Labels: []string{"a=b"}}, 10, 1<<20)
		if err != nil || len(p.Events) != 0 {
			t.Errorf("%+v, %v", p, err)
		}
		ends <- p.Next
	}
	for range turns {
		go page()
	}
	fixture.Eventually(t, fixture.Patience, "all turns are taken", func() bool { return len(held) == turns })
	go page()
	fixture.Eventually(t, fixture.Patience, "one waits", func() bool { return s.Service.PagesThatWait() == 1 })
	hold <- struct{}{}
	if got := <-ends; got != soon {
		t.Errorf("a page ends after %d events while another waits", got)
	}
	if got := <-ends; got != 100_000 {
		t.Errorf("a page ends after %d events while none waits", got)
	}
	close(hold)
	for range turns - 1 {
		<-ends
	}
}
