package responder_test

import (
	"context"
	"testing"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/runs"
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
