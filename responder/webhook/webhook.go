// Package webhook tells callers what becomes of runs: it sends notifications to
// the addresses that they registered (webhooks), at least once, in any order.
//
//	Registry ──▶ bucket of registrations ─┐
//	                RUNS (rows) ──────────┴▶ plan ──▶ outbox ──▶ deliver ──▶ receiver
//	                                    (whoever leads)   (every responder)
//
// A notification is made once, by one comparison: how far the run is, and how
// much the registration was told. Its key and its bytes follow from the run's
// record, so one that is made again after a kill is the same; it leaves the
// outbox when a receiver has answered 2xx, or will not have it, or its time is
// over.
//
// The one rule: what a caller registered as a secret goes to the receiver it
// was registered for and nowhere else, and no connection is made to an address
// that was not checked.
package webhook

import (
	"context"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/linesman/linesman/runs"
)

// MaxGiveUp is the longest that a notification may be tried.
const MaxGiveUp = 72 * time.Hour

// MaxBody bounds the body of a notification, in bytes.
const MaxBody = 512 << 10

// Encoder makes the bodies of a protocol's notifications.
type Encoder interface {
	// Encode says that a run has come to the state of its record. What it
	// returns may depend on nothing but its arguments and what the streams hold
	// for good, so that one that is made again is the same. The key is unique
	// to the notification, [A-Za-z0-9_]{44}. A body longer than MaxBody is not
	// sent.
	Encode(ctx context.Context, r Registration, record *runs.Record, key string) (Body, error)
}

// Body is what is sent. Who may send it is shown by the headers that follow
// from the registration.
type Body struct {
	Type  string // media type
	Bytes []byte
}

// Runs tells how runs stand.
type Runs interface {
	WatchRuns(ctx context.Context, each func(runs.Change)) error
	Record(ctx context.Context, run string) (*runs.Record, bool, error)
}

// Outbox holds notifications until they are delivered.
type Outbox interface {
	// Add puts in a notification, unless it is there already, or was a moment
	// ago. It reports false where the outbox is full.
	Add(ctx context.Context, n Notice) (bool, error)
	// Deliver calls handle with every notification until ctx ends, at most so
	// many at a time; those that are with another process are left out. One for
	// which handle returns 0 is done with; others come again after so long, or
	// when this process is gone. Handle's own ctx lasts somewhat longer.
	Deliver(ctx context.Context, slots int, handle func(context.Context, Notice) (again time.Duration)) error
	// Lead calls f while nobody else does, again and again until ctx ends.
	Lead(ctx context.Context, f func(context.Context) error) error
}

// Notice is a notification in the outbox: plain values, which a bus need not
// understand. It is an alias, so that a bus can name the type without knowing
// this package.
type Notice = struct {
	Run, Key string
	About    string // what it is of; one line of printable ASCII, at most 1 KiB
	Body     []byte

	// Only of one that is delivered.
	At    time.Time // when it was put in
	Times int       // how often it was given out, this time counted
}

// Config is what a [Pusher] needs.
type Config struct {
	Registrations Registrations
	Outbox        Outbox
	Runs          Runs
	Encoders      map[string]Encoder // by protocol

	Private bool          // receivers on private networks, and ones without TLS, are called too
	GiveUp  time.Duration // a notification this old is not tried again; at most MaxGiveUp, default 24 h
	Log     *zap.Logger   // default: none
}

// Pusher makes and delivers notifications.
type Pusher struct {
	cfg     Config
	log     *zap.Logger
	carrier *carrier
	hosts   *hosts
	counts  counts
}

// New returns a pusher. It does nothing before Run.
func New(cfg Config) *Pusher {
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	if cfg.GiveUp <= 0 {
		cfg.GiveUp = 24 * time.Hour
	}
	cfg.GiveUp = min(cfg.GiveUp, MaxGiveUp)
	return &Pusher{cfg: cfg, log: cfg.Log.Named("push"), carrier: newCarrier(cfg.Private), hosts: newHosts()}
}

// Run works until ctx ends: then it returns nil. Any number of processes may
// run one: all deliver, and one of them makes the notifications.
func (p *Pusher) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.cfg.Outbox.Lead(ctx, p.plan) })
	group.Go(func() error { return p.cfg.Outbox.Deliver(ctx, slots, p.deliver) })
	return group.Wait()
}
