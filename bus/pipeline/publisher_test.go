package pipeline

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// A burst reuses its message, and single events do not: each event is stored with its
// own headers and body nevertheless.
func TestEventsOfBurstsAndSingleOnesHaveTheirOwnHeaders(t *testing.T) {
	t.Parallel()
	_, b := serve(t)
	p, err := newPublisher(b, 1, true)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	const events = 400
	bursts := 0
	for i := range events {
		m := normalizer.Message{Pos: normalizer.Pos{Raw: uint64(i + 1), Line: 7}, Body: fmt.Appendf(nil, "{%d}", i+1)}
		if err := p.publish(t.Context(), b.EventSubject("codex", fmt.Sprintf("r-%d", i%3), "status"), m); err != nil {
			t.Fatal(err)
		}
		if i%100 == 50 { // what follows is single again
			if p.bursting {
				bursts++
			}
			if err := p.quiet(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if i%100 == 0 { // a trickle becomes a burst
			p.bursting = true
		}
	}
	if bursts == 0 {
		t.Error("there was no burst")
	}
	if err := p.quiet(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.stored(t.Context(), events); err != nil {
		t.Fatal(err)
	}
	stream, err := b.PublicJetStream().Stream(t.Context(), b.Names.Events())
	if err != nil {
		t.Fatal(err)
	}
	for i := range events {
		m, err := stream.GetMsg(t.Context(), uint64(i+1))
		if err != nil {
			t.Fatal(err)
		}
		pos, _ := bus.ParsePos(m.Header.Get(bus.HeaderPos))
		subject := b.EventSubject("codex", fmt.Sprintf("r-%d", i%3), "status")
		if pos.Raw != uint64(i+1) || m.Header.Get(jetstream.ExpectedLastSeqHeader) != strconv.Itoa(i) ||
			string(m.Data) != fmt.Sprintf("{%d}", i+1) || m.Subject != subject {
			t.Fatalf("event %d: %s %v %s", i+1, m.Subject, m.Header, m.Data)
		}
	}
}

// 1. A normalizer is paused in the middle of a burst, which the server keeps open for
// ten seconds. 2. Another one takes over, and stores an event. 3. The first one returns.
//
// Fast ingest excludes no other writers between the messages of a batch: without a fence
// on each of them the server would store the rest of the burst.
func TestBurstOfANormalizerThatWasPausedIsRefused(t *testing.T) {
	t.Parallel()
	_, b := serve(t)
	publish := func(p *publisher) error {
		return p.publish(t.Context(), b.EventSubject("codex", "x", "status"),
			normalizer.Message{Pos: normalizer.Pos{Raw: p.next}, Body: []byte("{}")})
	}
	open := func(next uint64) *publisher {
		p, err := newPublisher(b, next, true)
		if err != nil {
			t.Fatal(err)
		}
		p.bursting = true
		return p
	}
	paused := open(1)
	defer paused.close()
	for range 3 {
		if err := publish(paused); err != nil {
			t.Fatal(err)
		}
	}
	bustest.Until(t, "the burst is not stored", func() bool {
		return bustest.LastSeq(t, b.PublicJetStream(), b.Names.Events()) == 3
	})
	other := open(4)
	defer other.close()
	if err := publish(other); err != nil {
		t.Fatal(err)
	}
	if err := other.settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := publish(paused); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-paused.broken:
		if err == nil {
			t.Error("refused without an error")
		}
	case <-time.After(fixture.Patience):
		t.Error("the rest of the burst is not refused")
	}
	if last := bustest.LastSeq(t, b.PublicJetStream(), b.Names.Events()); last != 4 {
		t.Errorf("%d events", last)
	}
}

// Another program's event takes the sequence of one of ours, which is refused, and the fence of the
// next one of ours matches: no cut may cover that one, as the one before it is missing.
func TestEventsBehindARefusedOneAreNotCovered(t *testing.T) {
	t.Parallel()
	for _, burst := range []bool{false, true} {
		t.Run(fmt.Sprintf("fast ingest %v", burst), func(t *testing.T) {
			t.Parallel()
			_, b := serve(t)
			p, err := newPublisher(b, 1, burst)
			if err != nil {
				t.Fatal(err)
			}
			defer p.close()
			subject := b.EventSubject("codex", "x", "status")
			publish := func() {
				t.Helper()
				m := normalizer.Message{Pos: normalizer.Pos{Raw: p.next}, Body: []byte("{}")}
				if err := p.publish(t.Context(), subject, m); err != nil {
					t.Fatal(err)
				}
			}
			publish()
			if err := p.stored(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			if _, err := b.PublicJetStream().Publish(t.Context(), subject, []byte("{}")); err != nil {
				t.Fatal(err)
			}
			publish() // is refused
			p.bursting = burst
			publish()
			publish()
			settled := p.quiet(t.Context())
			bustest.Until(t, "the later ones are not stored", func() bool {
				return bustest.LastSeq(t, b.PublicJetStream(), b.Names.Events()) == 4
			})
			for covers := uint64(2); covers <= 4; covers++ {
				if err := p.stored(t.Context(), covers); err == nil {
					t.Errorf("a cut may cover %d events (burst: %v)", covers, settled)
				}
			}
		})
	}
}
