package responder_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// orphans are many events of a run that has no record any more.
type orphans struct {
	responder.Streams
	peeks int
}

func (o *orphans) EachEvent(_ context.Context, _ runs.Selection, each func(runs.Event) error) error {
	for i := range 1000 {
		if err := each(runs.Event{Seq: uint64(i + 1), Agent: "codex", Run: "gone", Token: "status"}); err != nil {
			return err
		}
	}
	return nil
}

func (o *orphans) Peek(ctx context.Context, run string) (runs.Header, error) {
	o.peeks++
	return o.Streams.Peek(ctx, run)
}

// A run without a record is looked up once for all of its events.
func TestLabelsOfARunWithoutARecordAreLookedUpOnce(t *testing.T) {
	t.Parallel()
	var o *orphans
	s := detailed(t, func(cfg *responder.Config) {
		o = &orphans{Streams: cfg.Streams}
		cfg.Streams = o
	})
	p, err := s.Service.AllEvents(t.Context(), api.EventsRequest{Labels: []string{"a=b"}}, 10, 1<<20)
	if err != nil || len(p.Events) != 0 || p.Next != 1000 || o.peeks != 1 {
		t.Errorf("%d events up to %d, %d requests, %v", len(p.Events), p.Next, o.peeks, err)
	}
}

const textLine = `{"type":"item.completed","item":{"id":"item_0","type":"agent_message","text":"hello"}}` + "\n"

// passed counts the events that a service reads.
type passed struct {
	responder.Streams
	events int
}

func (p *passed) EachEvent(ctx context.Context, of runs.Selection, each func(runs.Event) error) error {
	return p.Streams.EachEvent(ctx, of, func(e runs.Event) error {
		p.events++
		return each(e)
	})
}

// A page of a label reads the events of the runs that have it, however many others there are, from each position, and
// those of runs that begin later.
func TestGrowthOfALabel(t *testing.T) {
	t.Parallel()
	const lines = 120
	for _, others := range []int{20, 60} {
		var p *passed
		s := detailed(t, func(cfg *responder.Config) {
			p = &passed{Streams: cfg.Streams}
			cfg.Streams = p
		})
		store := func(first, n int) {
			for i := range n {
				team := "b"
				if i%10 == 3 && i < 40 {
					team = "a"
				}
				id := fmt.Sprint("r", first+i)
				s.Begin("codex", id, runs.Start{Source: "run", Attributes: runs.Attributes{
					Labels: runs.LabelsOf(map[string]string{"team": team})}}).
					Out([]byte(strings.Repeat(textLine, lines))).Exit(0)
				s.Await(id, func(v runs.Header) bool { return v.State.Final() })
			}
		}
		all := func(q api.EventsRequest, limit int) (got []api.Event) {
			t.Helper()
			for {
				page, err := s.Service.AllEvents(t.Context(), q, limit, 1<<20)
				if err != nil {
					t.Fatal(err)
				}
				if got = append(got, page.Events...); page.Next == q.After {
					return got
				}
				q.After = page.Next
			}
		}
		store(0, others)
		bustest.Until(t, "the checkpoint has all events", func() bool {
			covers, err := s.Service.Covers(t.Context())
			end, bad := p.EventsEnd(t.Context(), "", "")
			return err == nil && bad == nil && covers == end.Last
		})
		p.events = 0
		got := all(api.EventsRequest{Labels: []string{"team=a"}}, 1000)
		if want := len(got); want != min(others/10, 4)*(lines+1) || p.events > want {
			t.Errorf("%d events, want %d, and %d were read", want, min(others/10, 4)*(lines+1), p.events)
		}
		store(others, 20) // some of them are not in the checkpoint yet
		every := all(api.EventsRequest{}, 1000)
		team := map[string]bool{}
		for _, of := range []int{3, 13, 23, 33} {
			team[fmt.Sprint("r", of)] = of < others
		}
		team[fmt.Sprint("r", others+3)], team[fmt.Sprint("r", others+13)] = true, true
		for after := uint64(0); after < every[len(every)-1].Seq; after += uint64(len(every)) / 7 {
			for _, kinds := range [][]string{nil, {"text_output", "completion"}} {
				var want []uint64
				for _, e := range every {
					if e.Seq > after && team[e.Run] && (kinds == nil || slices.Contains(kinds, e.Kind)) {
						want = append(want, e.Seq)
					}
				}
				var have []uint64
				for _, e := range all(api.EventsRequest{Labels: []string{"team=a"}, Kinds: kinds, After: after}, 100) {
					have = append(have, e.Seq)
				}
				if !slices.Equal(have, want) {
					t.Errorf("after %d of %v: got %d events, want %d", after, kinds, len(have), len(want))
				}
			}
		}
	}
}
