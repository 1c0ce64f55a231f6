package bus

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/bus/reader"
	"github.com/linesman/linesman/internal/delivery"
	"github.com/linesman/linesman/runs"
)

// Limits of what is stored for notifications. A full bucket refuses new registrations,
// and the calls with them. If the outbox is full, notifications are added after others
// were delivered.
const (
	maxPushBytes = 64 << 20 // bytes of registrations
	maxNotices   = 10_000   // undelivered notifications

	maxNoticeBytes = 128 << 20          // bytes of notifications
	noticeAge      = 4 * 24 * time.Hour // longer than delivery is retried
	noticeWait     = 30 * time.Second   // the time to deliver one; then it is redelivered to another process
	deliverer      = "push"             // the durable consumer of all processes
	aboutLimit     = 1024
)

// PushLease is the key of the lease for creating notifications.
const PushLease = "push"

// Headers of registrations and notifications.
const (
	headerNotified = "Linesman-Told"
	headerAbout    = "Linesman-About"
)

// pushStore stores registrations for notifications, one value per run, and the outbox.
type pushStore struct {
	bus *Bus
}

// PushStore returns the store of registrations and notifications.
func (b *Bus) PushStore() *pushStore { return &pushStore{b} }

// Get returns the value of a run and its revision; nil and 0: there is none.
func (p *pushStore) Get(ctx context.Context, run string) (value []byte, revision uint64, err error) {
	e, err := p.bus.get(ctx, p.bus.Push(), run)
	if e.Deleted {
		e.Value = nil
	}
	return e.Value, e.Revision, err
}

// Put stores a value for a time. It replaces the one with the given revision, 0 being
// none. A nil value removes it. If the entry has another revision, Put returns false
// and stores nothing.
func (p *pushStore) Put(ctx context.Context, run string, value []byte, notified int, ttl time.Duration,
	revision uint64) (bool, error) {
	store, options := bucket.New(p.bus.js, p.bus.Push()), []jetstream.PublishOpt{bucket.If(revision), bucket.For(ttl)}
	var err error
	if value == nil {
		_, err = store.Delete(ctx, run, options...)
	} else {
		_, err = store.Put(ctx, run, value, nats.Header{headerNotified: {strconv.Itoa(notified)}}, options...)
	}
	return p.bus.wrote(p.bus.Push(), err)
}

// Watch calls each for every run that has a value, then for every change, until ctx
// ends; then it returns nil. For a removed value notified is -1; expired values are not
// reported. It reads no values.
func (p *pushStore) Watch(ctx context.Context, each func(run string, notified int)) error {
	return bucket.New(p.bus.js, p.bus.Push()).Watch(ctx, ">", true, p.bus.log, func(e bucket.Entry, _ bool) {
		notified, err := strconv.Atoi(e.Header.Get(headerNotified))
		if err != nil || e.Deleted {
			notified = -1
		}
		each(e.Key, notified)
	}, nil)
}

// Lead calls f while it holds the lease for creating notifications, repeatedly, until
// ctx ends; then it returns nil. The context of f ends when the lease is lost.
func (p *pushStore) Lead(ctx context.Context, f func(context.Context) error) error {
	return p.bus.lead(ctx, PushLease, "webhook notifications are not created",
		"webhook notifications are created again", f)
}

// notice is a notification in the outbox. The alias of an unnamed type lets other
// packages declare the same type without importing this one.
type notice = struct {
	Run, Key string
	About    string
	Body     []byte
	At       time.Time
	Times    int
}

// Add adds a notification to the outbox, unless its key is there, or was within the
// last two minutes. It returns false if the outbox is full.
func (p *pushStore) Add(ctx context.Context, n notice) (bool, error) {
	if len(n.About) > aboutLimit {
		return false, fmt.Errorf("run %s: the description of a notification has %d bytes, the limit is %d", n.Run,
			len(n.About), aboutLimit)
	}
	m := nats.NewMsg(p.bus.PushSubject(n.Run, n.Key))
	m.Data = n.Body
	m.Header.Set(headerAbout, n.About)
	_, err := p.bus.js.PublishMsg(ctx, m, jetstream.WithMsgID(n.Key), jetstream.WithExpectStream(p.bus.Outbox()))
	switch err = refused(err); {
	case err == nil, errors.Is(err, runs.ErrKnownRun):
		return true, nil
	case errors.Is(err, runs.ErrQueueFull):
		return false, nil
	}
	return false, fmt.Errorf("run %s: add a notification to the outbox: %w", n.Run, err)
}

// Deliver calls handle with the notifications of the outbox, with at most slots
// concurrent calls, until ctx ends; then it returns nil. If handle returns 0 the
// notification is removed, otherwise it is redelivered after that time, to any process.
// When ctx ends, running calls have five more seconds, by their own context.
func (p *pushStore) Deliver(ctx context.Context, slots int, handle func(context.Context, notice) time.Duration) error {
	return delivery.Run(ctx, slots, p.next(), func(ctx context.Context, m jetstream.Msg) error {
		p.handleOne(ctx, m, handle)
		return nil
	})
}

// next returns a function that waits for the next message, whatever happens to the consumer.
func (p *pushStore) next() func(context.Context) (jetstream.Msg, bool) {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = 100*time.Millisecond, 5*time.Second
	out := reader.Outage{Log: p.bus.log, Began: "cannot read the outbox", Ended: "the outbox is read again"}
	var consumer jetstream.Consumer
	return func(ctx context.Context) (m jetstream.Msg, ok bool) {
		for {
			var err error
			if consumer == nil {
				if consumer, err = p.consumer(ctx); err == nil {
					out.Over()
				}
			}
			if err == nil {
				m, err = fetchOne(ctx, consumer)
			}
			switch {
			case m != nil:
				pause.Reset()
				return m, true
			case ctx.Err() != nil:
				return nil, false
			case err == nil:
				continue
			}
			consumer = nil
			if p.bus.Connected() && !errors.Is(err, jetstream.ErrNoHeartbeat) { // else that is logged
				out.Failed(p.bus.Explain(err))
			}
			if reader.Sleep(ctx, pause.NextBackOff()) != nil {
				return nil, false
			}
		}
	}
}

// consumer returns that of all processes.
func (p *pushStore) consumer(ctx context.Context) (jetstream.Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return p.bus.js.CreateOrUpdateConsumer(ctx, p.bus.Outbox(), jetstream.ConsumerConfig{
		Durable: deliverer, Description: "the responders, which deliver notifications",
		// Notifications that wait for a retry count as pending: an unreachable receiver
		// must not block the others.
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: noticeWait, MaxAckPending: maxNotices, MaxDeliver: -1,
	})
}

// handleOne calls handle with one message, and acknowledges or delays it. If the
// acknowledgement is lost, the message is redelivered.
func (p *pushStore) handleOne(
	ctx context.Context, m jetstream.Msg, handle func(context.Context, notice) time.Duration,
) {
	meta, err := m.Metadata()
	if err != nil {
		return // it is redelivered
	}
	run, key, _ := strings.Cut(strings.TrimPrefix(m.Subject(), p.bus.pushPrefix()), ".")
	again := handle(ctx, notice{
		Run:   run,
		Key:   key,
		About: m.Headers().Get(headerAbout),
		Body:  m.Data(),
		At:    meta.Timestamp,
		Times: int(min(meta.NumDelivered, 1<<30)),
	})
	if again > 0 {
		err = m.NakWithDelay(again)
	} else {
		acked, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		err = m.DoubleAck(acked)
	}
	if err != nil {
		p.bus.log.Warn("a notification will be redelivered: its acknowledgement failed", zap.String("run", run),
			zap.String("why", p.bus.Explain(err)))
	}
}

// Crowded reports whether more than three quarters of the outbox are in use.
func (p *pushStore) Crowded(ctx context.Context) (bool, error) {
	s, err := p.bus.Stream(ctx, p.bus.Outbox())
	if err != nil {
		return false, err
	}
	now, most := s.CachedInfo().State, s.CachedInfo().Config
	return now.Msgs > uint64(most.MaxMsgs)/4*3 || now.Bytes > uint64(most.MaxBytes)/4*3, nil
}

// Waiting returns the number of undelivered notifications.
func (p *pushStore) Waiting(ctx context.Context) (int, error) {
	s, err := p.bus.Stream(ctx, p.bus.Outbox())
	if err != nil {
		return 0, err
	}
	return int(s.CachedInfo().State.Msgs), nil
}
