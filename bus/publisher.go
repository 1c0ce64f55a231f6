package bus

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/normalizer"
)

const (
	publishWindow = 4096             // events in flight; at it the normalizer waits
	ackTimeout    = 10 * time.Second // then the event counts as lost, and the term ends
)

// publisher stores events, many in flight. Each one names the sequence that
// must come before it: if one is lost the server refuses all behind it, so
// there is never a gap and never a duplicate. After the first failure nothing
// more is published.
type publisher struct {
	js     jetstream.JetStream
	next   uint64        // sequence that the next event gets
	window chan struct{} // one for each event in flight
	broken chan error    // the first failure

	mu      sync.Mutex
	acked   uint64        // sequence that was stored last
	waiting chan struct{} // closed when acked reaches target
	target  uint64
	failed  bool
}

func newPublisher(b *Bus, next uint64) (*publisher, error) {
	p := &publisher{next: next, acked: next - 1, window: make(chan struct{}, publishWindow), broken: make(chan error, 1)}
	js, err := jetstream.New(b.public,
		jetstream.WithPublishAsyncMaxPending(2*publishWindow), jetstream.WithPublishAsyncTimeout(ackTimeout),
		jetstream.WithPublishAsyncAckHandler(func(_ jetstream.JetStream, _ *nats.Msg, ack *jetstream.PubAck) { p.ack(ack.Sequence) }),
		jetstream.WithPublishAsyncErrHandler(func(_ jetstream.JetStream, _ *nats.Msg, err error) { p.fail(err) }))
	if err != nil {
		return nil, fmt.Errorf("publish events: %w", err)
	}
	p.js = js
	return p, nil
}

// publish sends one event. It waits while the window is full.
func (p *publisher) publish(ctx context.Context, subject string, m normalizer.Message) error {
	select {
	case p.window <- struct{}{}:
	default:
		select {
		case p.window <- struct{}{}:
		case err := <-p.broken:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	// One backing array for both headers' values, one string for their bytes.
	var buf [96]byte
	b := appendPos(buf[:0], m.Pos)
	n := len(b)
	text := string(strconv.AppendUint(b, p.next-1, 10))
	values := [2]string{text[:n], text[n:]}
	_, err := p.js.PublishMsgAsync(&nats.Msg{
		Subject: subject,
		Header:  nats.Header{HeaderPos: values[0:1:1], headerLastSeq: values[1:2:2]},
		Data:    m.Body,
	})
	if err != nil {
		return fmt.Errorf("publish events: %w", err)
	}
	p.next++
	return nil
}

func (p *publisher) ack(seq uint64) {
	<-p.window
	p.mu.Lock()
	defer p.mu.Unlock()
	p.acked = max(p.acked, seq)
	if p.waiting != nil && p.acked >= p.target {
		close(p.waiting)
		p.waiting = nil
	}
}

func (p *publisher) fail(err error) {
	<-p.window
	p.mu.Lock()
	first := !p.failed
	p.failed = true
	p.mu.Unlock()
	if first {
		p.broken <- fmt.Errorf("publish events: %w", err)
	}
}

// idle reports whether nothing is in flight.
func (p *publisher) idle() bool { return len(p.window) == 0 }

// stored waits until all events up to sequence seq are stored. One waits at a time.
func (p *publisher) stored(ctx context.Context, seq uint64) error {
	p.mu.Lock()
	if p.acked >= seq {
		p.mu.Unlock()
		return nil
	}
	wait := make(chan struct{})
	p.waiting, p.target = wait, seq
	p.mu.Unlock()
	select {
	case <-wait:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(2 * ackTimeout):
		return errors.New("publish events: no acknowledgement")
	}
}

// close waits until what is in flight is stored or refused: only then can
// the stream's last event be believed.
func (p *publisher) close() {
	select {
	case <-p.js.PublishAsyncComplete():
	case <-time.After(ackTimeout + time.Second):
	}
	p.js.CleanupPublisher()
}
