package bus

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/runs"
)

// Bounds of what is kept for notifications. A full bucket refuses new
// registrations, and so the calls that bring them; from a full outbox nothing
// is lost, for what does not fit is put in once something was delivered.
const (
	MaxPushBytes = 64 << 20 // bytes of registrations
	MaxNotices   = 10_000   // notifications that wait for their receivers

	maxNoticeBytes = 128 << 20          // bytes of them
	noticeAge      = 4 * 24 * time.Hour // longer than any is tried
	noticeWait     = 30 * time.Second   // for the process that delivers one; then another gets it
	deliverer      = "push"             // the durable consumer of all of them
	aboutLimit     = 1024
)

// PushLease is the key of the lease for making notifications.
const PushLease = "push"

// Headers of registrations and notifications.
const (
	headerNotified = "Linesman-Told"
	headerAbout    = "Linesman-About"
)

// Push is the bucket of registrations for notifications, one value a run, and
// the outbox.
type Push struct {
	bus *Bus
}

// PushStore is what a bus keeps for notifications.
func (b *Bus) PushStore() *Push { return &Push{b} }

// Get reads the value of a run and its revision. Nil and 0: there is none.
func (p *Push) Get(ctx context.Context, run string) (value []byte, revision uint64, err error) {
	e, err := get(ctx, p.bus.js, p.bus.Push(), run)
	if e.Deleted {
		e.Value = nil
	}
	return e.Value, e.Revision, err
}

// Put stores a value for so long. It replaces the one of a revision, 0 being
// none. Nil removes it. It reports false, and stores nothing, where somebody
// else wrote meanwhile.
func (p *Push) Put(ctx context.Context, run string, value []byte, notified int, ttl time.Duration, revision uint64) (bool, error) {
	store := bucket.New(p.bus.js, p.bus.Push())
	var err error
	if value == nil {
		_, err = store.Delete(ctx, run, bucket.If(revision), bucket.For(ttl))
	} else {
		_, err = store.Put(ctx, run, value, nats.Header{headerNotified: {strconv.Itoa(notified)}}, bucket.If(revision), bucket.For(ttl))
	}
	switch {
	case bucket.Moved(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("bucket %s: write: %w", p.bus.Push(), err)
	}
	return true, nil
}

// Watch calls each for every run that has a value, and for what changes, until
// ctx ends; then it returns nil. A run whose value was removed has notified -1; of
// one whose time is over nothing is said. It reads no value.
func (p *Push) Watch(ctx context.Context, each func(run string, notified int)) error {
	all := bucket.Watch{Keys: ">", HeadersOnly: true, Log: p.bus.log}
	return bucket.New(p.bus.js, p.bus.Push()).Watch(ctx, all, func(e bucket.Entry, _ bool) {
		notified, err := strconv.Atoi(e.Header.Get(headerNotified))
		if err != nil || e.Deleted {
			notified = -1
		}
		each(e.Key, notified)
	}, nil)
}

// Lead calls f while no other process does, with a context that ends when that
// is no longer sure, again and again until ctx ends; then it returns nil.
func (p *Push) Lead(ctx context.Context, f func(context.Context) error) error {
	for {
		err := p.bus.WithLease(ctx, PushLease, f)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			p.bus.log.Warn("webhook notifications are not created", zap.String("why", p.bus.Explain(err)))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(leaseTTL):
		}
	}
}

// notice is a notification in the outbox. The type has no name outside, so
// that whoever makes them can have the same one without this package.
type notice = struct {
	Run, Key string
	About    string
	Body     []byte
	At       time.Time
	Times    int
}

// Add puts a notification into the outbox; one with a key that is there, or was
// within the last two minutes, is not stored twice. It reports false where the
// outbox is full.
func (p *Push) Add(ctx context.Context, n notice) (bool, error) {
	if len(n.About) > aboutLimit {
		return false, fmt.Errorf("run %s: what a notification is of takes %d bytes, and may take %d", n.Run, len(n.About), aboutLimit)
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
	return false, fmt.Errorf("run %s: put a notification into the outbox: %w", n.Run, err)
}

// Deliver calls handle with the notifications of the outbox, at most so many
// at a time, until ctx ends; then it returns nil. One for which handle returns
// 0 goes; another one comes again after so long, to whoever asks. When ctx has
// ended what is under way has five seconds left, by handle's own context.
func (p *Push) Deliver(ctx context.Context, slots int, handle func(context.Context, notice) time.Duration) error {
	const grace = 5 * time.Second
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(grace, stop) })()
	var under sync.WaitGroup
	defer under.Wait()
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = 100*time.Millisecond, 5*time.Second
	free := make(chan struct{}, slots)
	said := false
	for {
		err := p.deliver(ctx, free, func(m jetstream.Msg) {
			pause.Reset()
			said = false
			under.Go(func() {
				defer func() { <-free }()
				p.hand(working, m, handle)
			})
		})
		if ctx.Err() != nil {
			return nil
		}
		if !said {
			said = true
			p.bus.log.Warn("the outbox is out of reach", zap.String("why", p.bus.Explain(err)))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause.NextBackOff()):
		}
	}
}

// deliver gives out messages, each once there is a free slot, until something
// breaks.
func (p *Push) deliver(ctx context.Context, free chan struct{}, give func(jetstream.Msg)) error {
	soon, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	consumer, err := p.bus.js.CreateOrUpdateConsumer(soon, p.bus.Outbox(), jetstream.ConsumerConfig{
		Durable: deliverer, Description: "the responders, which deliver notifications",
		// One that waits to be tried again counts as pending: no receiver that
		// is away may keep the others from theirs.
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: noticeWait, MaxAckPending: MaxNotices, MaxDeliver: -1,
	})
	if err != nil {
		return err
	}
	for {
		select { // first a slot: nothing waits here with its time running
		case <-ctx.Done():
			return nil
		case free <- struct{}{}:
		}
		m, err := one(ctx, consumer)
		if m == nil || err != nil {
			<-free
			if err != nil || ctx.Err() != nil {
				return err
			}
			continue
		}
		give(m)
	}
}

// one waits for a message, for some time: none is nil.
func one(ctx context.Context, consumer jetstream.Consumer) (jetstream.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	batch, err := consumer.Fetch(1, jetstream.FetchContext(ctx))
	if err != nil {
		return nil, err
	}
	for m := range batch.Messages() {
		return m, nil
	}
	if err := batch.Error(); err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) && !errors.Is(err, jetstream.ErrNoMessages) {
		return nil, err
	}
	return nil, nil
}

// hand has one message handled, and says to the server what becomes of it. If
// that is lost it comes again.
func (p *Push) hand(ctx context.Context, m jetstream.Msg, handle func(context.Context, notice) time.Duration) {
	meta, err := m.Metadata()
	if err != nil {
		return // it comes again
	}
	run, key, _ := strings.Cut(strings.TrimPrefix(m.Subject(), p.bus.pushPrefix()), ".")
	again := handle(ctx, notice{
		Run: run, Key: key, About: m.Headers().Get(headerAbout), Body: m.Data(), At: meta.Timestamp, Times: int(min(meta.NumDelivered, 1<<30)),
	})
	if again > 0 {
		err = m.NakWithDelay(again)
	} else {
		acked, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		err = m.DoubleAck(acked)
	}
	if err != nil {
		p.bus.log.Warn("a notification comes again, whatever became of it", zap.String("run", run), zap.String("why", p.bus.Explain(err)))
	}
}

// Waiting is how many notifications wait for their receivers.
func (p *Push) Waiting(ctx context.Context) (int, error) {
	s, err := p.bus.js.Stream(ctx, p.bus.Outbox())
	if err != nil {
		return 0, fmt.Errorf("stream %s: %w", p.bus.Outbox(), err)
	}
	return int(s.CachedInfo().State.Msgs), nil
}
