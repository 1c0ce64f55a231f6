// Package webhook notifies callers of the progress of runs: it sends notifications to
// the URLs that they registered, at least once, in any order.
//
//	Registry ──▶ bucket of registrations ─┐
//	                RUNS (rows) ──────────┴▶ plan ──▶ outbox ──▶ deliver ──▶ receiver
//	                                    (the leader)      (every responder)
//
// A notification is created once, by one comparison: how far the run is, and how
// far its registration was notified. Its key and its bytes follow from the run's
// record, so one that is created again after a kill is the same; it leaves the
// outbox when a receiver has answered 2xx or refused it permanently, or when it
// is too old. The package does not define the bodies: that is the Encoder of
// each protocol.
//
// The one rule: what a caller registered as a secret goes to the receiver it
// was registered for and nowhere else, and no connection is made to an address
// that was not checked.
package webhook

import (
	"cmp"
	"context"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/linesman/linesman/runs"
)

// maxGiveUp is the longest time for which delivery may be attempted.
const maxGiveUp = 72 * time.Hour

// MaxBody bounds the body of a notification, in bytes.
const MaxBody = 512 << 10

// Encoder creates the bodies of a protocol's notifications.
type Encoder interface {
	// Encode renders the notification for the state of the run's record. Of a run
	// that asks people, the record has the one question that it is about; if it
	// waits for a message, the notification is about its turn. The
	// result may depend only on its arguments and on permanent data in the
	// streams, so that it can be created again byte for byte. The key is unique
	// to the notification, [A-Za-z0-9_]{44}. A body longer than MaxBody is not
	// sent.
	Encode(ctx context.Context, r Registration, record *runs.Record, key string) (Body, error)
}

// Body is the body of a request. Its authentication headers follow from the
// registration.
type Body struct {
	Type  string // media type
	Bytes []byte
}

// Runs reads the states of runs.
type Runs interface {
	WatchRuns(ctx context.Context, each func(runs.Change)) error
	// Record reads the record of a run, at least as new as the changes that were
	// reported. The error is [runs.ErrNoRun] if there is none.
	Record(ctx context.Context, run string) (*runs.Record, error)
}

// outbox holds notifications until they are delivered.
type outbox interface {
	// Add adds a notification, unless the same one is there or was a moment
	// ago. It reports false if the outbox is full.
	Add(ctx context.Context, n notice) (bool, error)
	// Crowded reports whether more than three quarters of the outbox are in use: the rest is for receivers that take
	// their notifications.
	Crowded(ctx context.Context) (bool, error)
	// Deliver calls handle with every notification until ctx ends, at most
	// slots at a time; notifications that another process handles are left out.
	// If handle returns 0, the notification is removed; otherwise it is
	// redelivered after that time, or when this process has ended. Handle's own
	// ctx lasts somewhat longer.
	Deliver(ctx context.Context, slots int, handle func(context.Context, notice) (again time.Duration)) error
	// Lead calls f while no other process leads, repeatedly until ctx ends.
	Lead(ctx context.Context, f func(context.Context) error) error
}

// notice is a notification in the outbox: plain values, which a bus need not
// understand. It is an alias, so that a bus can name the type without knowing
// this package.
type notice = struct {
	Run, Key string
	About    string // metadata; one line of printable ASCII, at most 1 KiB
	Body     []byte

	// Only of a delivered notification.
	At    time.Time // when it was added
	Times int       // number of deliveries, including this one
}

// Config configures a [Pusher].
type Config struct {
	Registrations registrations
	Outbox        outbox
	Runs          Runs
	Encoders      map[string]Encoder // by protocol

	Private bool          // also call receivers on private networks, and ones without TLS
	Key     *Key          // signs notifications without another authentication; nil: they wait
	GiveUp  time.Duration // a notification this old is given up; at most MaxGiveUp, default 24 h
	Log     *zap.Logger   // default: none

	// Attempted, if set, is called after each attempt to deliver a notification.
	Attempted func(Outcome, time.Duration)
}

// Outcome is the outcome of an attempt to deliver a notification.
type Outcome string

// The outcomes.
const (
	delivered Outcome = "delivered"
	failed    Outcome = "failed" // it will be tried again
	givenUp   Outcome = "given_up"
)

// Pusher creates and delivers notifications.
type Pusher struct {
	cfg    Config
	log    *zap.Logger
	sender *sender
	hosts  *hosts

	patience time.Duration // a notification this old is given up if the outbox is crowded
	mu       sync.Mutex
	crowd    time.Time // the last time that it was found crowded
}

// New returns a pusher. It is idle until Run.
func New(cfg Config) *Pusher {
	if cfg.Attempted == nil {
		cfg.Attempted = func(Outcome, time.Duration) {}
	}
	cfg.Log, cfg.GiveUp = cmp.Or(cfg.Log, zap.NewNop()), min(cmp.Or(cfg.GiveUp, 24*time.Hour), maxGiveUp)
	p := &Pusher{cfg: cfg, log: cfg.Log.Named("push"), sender: newSender(cfg.Private), hosts: newHosts(),
		patience: time.Hour}
	p.sender.key = cfg.Key
	return p
}

// Run creates and delivers notifications until ctx ends, then it returns nil.
// Any number of processes may run one: all deliver, and one of them creates the
// notifications.
func (p *Pusher) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.cfg.Outbox.Lead(ctx, p.plan) })
	group.Go(func() error { return p.cfg.Outbox.Deliver(ctx, slots, p.deliver) })
	return group.Wait()
}

// crowded reports whether the outbox is crowded, or was a moment ago.
func (p *Pusher) crowded(ctx context.Context) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); now.Sub(p.crowd) > p.hosts.pace {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		if is, err := p.cfg.Outbox.Crowded(ctx); err != nil || !is {
			return false
		}
		p.crowd = now
	}
	return true
}
