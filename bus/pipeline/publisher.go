package pipeline

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/telemetry/metrics"
)

const (
	publishWindow = 4096             // maximum number of events in flight
	publishBytes  = 16 << 20         // bytes of their bodies, or one event; a server's queue for a stream takes 128 MiB
	groupBurst    = 8                // entries that are read together from which on it is used
	burstAt       = 64               // events in flight above which fast ingest is used, if the server supports it
	ackTimeout    = 10 * time.Second // after it the event counts as lost, and the term ends
)

// publisher stores events, many in flight. Each one names the expected last sequence:
// if one is lost, the server refuses all later ones, so there are no gaps and no
// duplicates. Only if another program's event takes the sequence of a refused one the
// server accepts those behind it; they do not count as stored. After the first failure
// nothing more is published.
//
// At a low rate each event is published individually, with its own acknowledgement. A
// burst is published by fast ingest, where the server acknowledges hundreds of events
// at a time; it ends with the burst, or with the next cut.
//
// Its methods are for one goroutine, except stored.
type publisher struct {
	js      jetstream.JetStream
	metrics *metrics.Normalizer // nil: nothing is counted
	next    uint64              // sequence of the next event
	window  chan struct{}       // one element per event in flight, except those of a burst
	broken  chan error          // the first failure

	canBurst bool
	bursting bool
	burst    jetstreamext.FastPublisher // nil: none is open
	begun    uint64                     // sequence of its first event
	bytes    int                        // bytes of its bodies
	reused   *envelope                  // of its messages: fast ingest does not keep them

	mu       sync.Mutex
	inFlight int               // bytes of the bodies in window
	released chan struct{}     // signals that inFlight decreased
	acked    uint64            // all events up to this sequence are stored
	early    map[uint64]uint64 // last by first sequence of what is stored behind an event that is not, or not yet
	waiting  chan struct{}     // closed when acked reaches target, or with the first failure
	target   uint64
	failure  error // the first
}

func newPublisher(b *bus.Bus, next uint64, canBurst bool) (*publisher, error) {
	p := &publisher{
		next: next, acked: next - 1, canBurst: canBurst, reused: newEnvelope(),
		window: make(chan struct{}, publishWindow), broken: make(chan error, 1), released: make(chan struct{}, 1),
		early: map[uint64]uint64{},
	}
	js, err := jetstream.New(
		b.PublicJetStream().Conn(),
		jetstream.WithPublishAsyncMaxPending(2*publishWindow),
		jetstream.WithPublishAsyncTimeout(ackTimeout),
		jetstream.WithDefaultTimeout(ackTimeout),
		jetstream.WithPublishAsyncAckHandler(func(_ jetstream.JetStream, m *nats.Msg, ack *jetstream.PubAck) {
			p.release(m)
			p.ack(ack.Sequence, ack.Sequence)
		}),
		jetstream.WithPublishAsyncErrHandler(func(_ jetstream.JetStream, m *nats.Msg, err error) {
			p.release(m)
			p.fail(err)
		}),
	)
	if err != nil {
		return nil, fmt.Errorf("publish events: %w", err)
	}
	p.js = js
	return p, nil
}

// publish sends one event. It waits while too many are in flight.
func (p *publisher) publish(ctx context.Context, subject string, m normalizer.Message) error {
	if p.canBurst && !p.bursting && len(p.window) >= burstAt {
		p.bursting = true
	}
	msg := p.message(subject, m)
	var err error
	if p.bursting {
		err = p.fast(ctx, msg)
	} else {
		err = p.single(ctx, msg)
	}
	if err != nil {
		return fmt.Errorf("publish events: %w", err)
	}
	p.next++
	return nil
}

// envelope is the message of an event with the values of its headers.
type envelope struct {
	nats.Msg
	values [2]string
}

func newEnvelope() *envelope {
	e := new(envelope)
	e.Header = nats.Header{bus.HeaderPos: e.values[0:1:1], jetstream.ExpectedLastSeqHeader: e.values[1:2:2]}
	return e
}

// message returns the message of the next event. In a burst it is valid until the next
// call.
func (p *publisher) message(subject string, m normalizer.Message) *nats.Msg {
	e := p.reused
	if !p.bursting {
		e = newEnvelope()
	}
	var buf [96]byte
	b := bus.AppendPos(buf[:0], m.Pos)
	n := len(b)
	text := string(strconv.AppendUint(b, p.next-1, 10)) // one allocation for both
	e.values = [2]string{text[:n], text[n:]}
	e.Subject, e.Data = subject, m.Body
	return &e.Msg
}

func (p *publisher) single(ctx context.Context, m *nats.Msg) error {
	for !p.acquire(m) {
		select {
		case <-p.released:
		case err := <-p.broken:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	_, err := p.js.PublishMsgAsync(m)
	return err
}

// acquire adds m to the messages in flight, unless there are too many.
func (p *publisher) acquire(m *nats.Msg) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.inFlight > 0 && p.inFlight+len(m.Data) > publishBytes {
		return false
	}
	select {
	case p.window <- struct{}{}:
		p.inFlight += len(m.Data)
		return true
	default:
		return false
	}
}

func (p *publisher) release(m *nats.Msg) {
	p.mu.Lock()
	p.inFlight -= len(m.Data)
	<-p.window
	p.mu.Unlock()
	select {
	case p.released <- struct{}{}:
	default:
	}
}

func (p *publisher) fast(ctx context.Context, m *nats.Msg) error {
	if p.bytes += len(m.Data); p.burst != nil && p.bytes > publishBytes {
		if err := p.settle(ctx); err != nil {
			return err
		}
	}
	if p.burst == nil {
		burst, err := jetstreamext.NewFastPublisher(p.js,
			jetstreamext.FastPublishFlowControl{Flow: 500, MaxOutstandingAcks: 4, AckTimeout: ackTimeout},
			jetstreamext.WithFastPublisherErrorHandler(p.fail))
		if err != nil {
			return err
		}
		p.burst, p.bytes, p.begun = burst, len(m.Data), p.next
	}
	_, err := p.burst.AddMsg(m)
	return err
}

// settle ends a burst: it waits until all its events are stored.
func (p *publisher) settle(ctx context.Context) error {
	if p.burst == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, ackTimeout)
	defer cancel()
	burst := p.burst
	p.burst = nil
	ack, err := burst.Close(ctx)
	if err != nil {
		return fmt.Errorf("publish events: %w", err)
	}
	if ack.Sequence != p.next-1 {
		return fmt.Errorf("publish events: stored up to %d, want %d", ack.Sequence, p.next-1)
	}
	p.ack(p.begun, ack.Sequence)
	return nil
}

// group begins a group of events, of about n entries: one of several is a burst.
func (p *publisher) group(n int) { p.bursting = p.canBurst && n >= groupBurst }

// quiet ends a burst for good: what comes next is a trickle.
func (p *publisher) quiet(ctx context.Context) error {
	p.bursting = false
	return p.settle(ctx)
}

// ack notes that the server has stored the events from a sequence to another.
func (p *publisher) ack(from, to uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if from != p.acked+1 { // at most as many as are in flight
		p.early[from] = to
		return
	}
	for known := true; known; to, known = p.early[from] {
		delete(p.early, from)
		p.acked, from = to, to+1
	}
	if p.waiting != nil && p.acked >= p.target {
		close(p.waiting)
		p.waiting = nil
	}
}

func (p *publisher) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failure != nil {
		return
	}
	if bucket.Moved(err) {
		p.metrics.Refused("events")
	}
	p.failure = fmt.Errorf("publish events: %w", err)
	p.broken <- p.failure
	if p.waiting != nil {
		close(p.waiting)
		p.waiting = nil
	}
}

// unstored returns the number of events that are not acknowledged yet.
func (p *publisher) unstored() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return int(p.next - 1 - p.acked)
}

// idle reports whether nothing is in flight.
func (p *publisher) idle() bool { return len(p.window) == 0 && p.burst == nil }

// stored waits until all events up to sequence seq are stored, or publishing failed.
// Only one caller may wait at a time.
func (p *publisher) stored(ctx context.Context, seq uint64) error {
	p.mu.Lock()
	if p.acked >= seq || p.failure != nil {
		defer p.mu.Unlock()
		return p.reached(seq)
	}
	wait := make(chan struct{})
	p.waiting, p.target = wait, seq
	p.mu.Unlock()
	select {
	case <-wait:
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.reached(seq)
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(2 * ackTimeout):
		return errors.New("publish events: no acknowledgement")
	}
}

// reached returns why the events up to sequence seq are not all stored; nil if they
// are.
func (p *publisher) reached(seq uint64) error {
	if p.acked >= seq {
		return nil
	}
	return p.failure
}

// close waits until everything in flight is stored or refused: only then is the
// stream's last event final.
func (p *publisher) close() {
	ctx, cancel := context.WithTimeout(context.Background(), ackTimeout)
	defer cancel()
	if err := p.settle(ctx); err != nil {
		p.fail(err)
	}
	select {
	case <-p.js.PublishAsyncComplete():
	case <-ctx.Done():
	}
	p.js.CleanupPublisher()
}
