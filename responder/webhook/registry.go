package webhook

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/linesman/linesman/runs"
)

// Protocols of registrations. Each has its own names for them.
const (
	AdCP = "adcp"
	A2A  = "a2a"
)

// Schemes by which a receiver knows who calls.
const (
	Bearer = "Bearer"
	HMAC   = "HMAC-SHA256"
)

// Registration says where, and how, a caller wants to be told of a run. What
// is secret in it, or may be, is in no JSON that is made of it, nor in its text.
type Registration struct {
	ID       string `json:"id"` // unique among those of the run and the protocol
	Run      string `json:"-"`
	Protocol string `json:"protocol"`

	URL         string `json:"-"` // the path of one is often a secret
	OperationID string `json:"operation_id,omitempty"`
	Token       string `json:"-"` // comes back with each notification; "": none
	Scheme      string `json:"scheme,omitempty"`
	Credentials string `json:"-"` // of the scheme

	Tool    string          `json:"tool,omitempty"` // that was called
	Context json.RawMessage `json:"-"`              // of the caller, as it was written; nil: none
	Created int64           `json:"created"`        // Unix milliseconds
}

// String names the registration.
func (r Registration) String() string { return r.Run + "/" + r.Protocol + "/" + r.ID }

// GoString is String.
func (r Registration) GoString() string { return r.String() }

// Limits of registrations.
const (
	MaxRegistrations = 8         // a run
	maxValue         = 512 << 10 // bytes of all registrations of a run
)

// How long registrations are kept: while a run has not ended, from their last
// change; and after the last notification of it was made, which is longer than
// one is ever tried.
const (
	openTTL  = 7 * 24 * time.Hour
	endedTTL = MaxGiveUp + 24*time.Hour
)

// What goes wrong with registrations.
var (
	ErrUnknown = errors.New("there is no such registration")
	ErrTooMany = errors.New("the run has as many registrations as it can have")
)

// Registrations is where registrations are kept: one value a run, so that
// their number has a bound that holds.
type Registrations interface {
	// Get reads the value of a run and its revision, 0 where there is none.
	Get(ctx context.Context, run string) (value []byte, revision uint64, err error)
	// Put stores a value for so long in place of that of a revision, nil being
	// none. It reports false where somebody else wrote meanwhile. Told is shown
	// to who watches.
	Put(ctx context.Context, run string, value []byte, told int, ttl time.Duration, revision uint64) (bool, error)
	// Watch calls each for every run that has a value, and for each change,
	// until ctx ends. A run whose value went has told -1.
	Watch(ctx context.Context, each func(run string, told int)) error
}

// Registry keeps the registrations of one protocol.
type Registry struct {
	store    Registrations
	protocol string
	private  bool
}

// NewRegistry returns the registry of a protocol. Private lets in receivers on
// private networks, and ones without TLS.
func NewRegistry(store Registrations, protocol string, private bool) *Registry {
	return &Registry{store, protocol, private}
}

// Check reports everything that is wrong with a registration, each a
// [runs.FieldError] by the names of AdCP that quotes no value.
func (g *Registry) Check(r Registration) error {
	r.Protocol = g.protocol
	return r.check(g.private)
}

// Put keeps a registration of a run, which need not be there yet: write it
// before the run is submitted, and nothing that becomes of the run is missed.
// One of the same ID is replaced; what was told already is not told again. A
// run that has ended is told of all the same. Errors: those of Check, and
// [ErrTooMany].
func (g *Registry) Put(ctx context.Context, r Registration) error {
	if err := g.Check(r); err != nil {
		return err
	}
	r.Protocol = g.protocol
	if r.Created == 0 {
		r.Created = time.Now().UnixMilli()
	}
	return change(ctx, g.store, r.Run, func(list []entry) ([]entry, error) {
		if i := g.find(list, r.ID); i >= 0 {
			r.Created = list[i].Created
			list[i].Registration = r
			return list, nil
		}
		if len(list) >= MaxRegistrations {
			return nil, ErrTooMany
		}
		return append(list, entry{Registration: r, Seed: seed()}), nil
	})
}

// Get returns a registration of a run. The error is [ErrUnknown] for none.
func (g *Registry) Get(ctx context.Context, run, id string) (Registration, error) {
	list, _, err := read(ctx, g.store, run)
	if err != nil {
		return Registration{}, err
	}
	i := g.find(list, id)
	if i < 0 {
		return Registration{}, ErrUnknown
	}
	return list[i].Registration, nil
}

// List returns the registrations of a run, the oldest first: at most
// MaxRegistrations.
func (g *Registry) List(ctx context.Context, run string) ([]Registration, error) {
	list, _, err := read(ctx, g.store, run)
	if err != nil {
		return nil, err
	}
	var all []Registration
	for _, e := range list {
		if e.Protocol == g.protocol {
			all = append(all, e.Registration)
		}
	}
	slices.SortStableFunc(all, func(a, b Registration) int { return int(a.Created - b.Created) })
	return all, nil
}

// Delete removes a registration of a run. Notifications that wait for their
// receiver are not sent any more. The error is [ErrUnknown] for none.
func (g *Registry) Delete(ctx context.Context, run, id string) error {
	return change(ctx, g.store, run, func(list []entry) ([]entry, error) {
		i := g.find(list, id)
		if i < 0 {
			return nil, ErrUnknown
		}
		return slices.Delete(list, i, i+1), nil
	})
}

func (g *Registry) find(list []entry, id string) int { return find(list, g.protocol, id) }

func find(list []entry, protocol, id string) int {
	return slices.IndexFunc(list, func(e entry) bool { return e.Protocol == protocol && e.ID == id })
}

// How much of a run a registration was told: of fixed width, so that a value
// does not grow when its bucket is full.
const (
	toldNothing = iota
	toldWorking
	toldWaiting // for somebody outside
	toldEnd
)

// entry is a registration as it is kept.
type entry struct {
	Registration
	URL         string `json:"url"`
	Token       string `json:"token,omitempty"`
	Credentials string `json:"credentials,omitempty"`
	Echo        string `json:"context,omitempty"` // Context as text: so it stays byte for byte

	Seed string `json:"seed"` // what nobody can guess its keys without
	Told int    `json:"told"`
}

// key is the idempotency key of the notification that a run has come to a
// state: the same whenever it is made.
func (e *entry) key(state runs.State) string {
	mac := hmac.New(sha256.New, []byte(e.Seed))
	for _, s := range []string{e.Run, e.Protocol, e.ID, string(state)} {
		mac.Write([]byte(s))
		mac.Write([]byte{0})
	}
	return "whk_" + hex.EncodeToString(mac.Sum(nil)[:20])
}

func seed() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

type value struct {
	Registrations []entry `json:"registrations"`
}

// read reads the registrations of a run.
func read(ctx context.Context, store Registrations, run string) ([]entry, uint64, error) {
	if runs.CheckID(run) != nil {
		return nil, 0, nil // there can be none
	}
	raw, revision, err := store.Get(ctx, run)
	if err != nil || raw == nil {
		return nil, revision, err
	}
	var v value
	if err := json.Unmarshal(raw, &v); err != nil {
		return nil, revision, fmt.Errorf("run %s: its registrations are not of the known form", run)
	}
	for i := range v.Registrations {
		e := &v.Registrations[i]
		e.Registration.Run, e.Registration.URL, e.Registration.Token, e.Registration.Credentials = run, e.URL, e.Token, e.Credentials
		if e.Echo != "" {
			e.Registration.Context = json.RawMessage(e.Echo)
		}
	}
	return v.Registrations, revision, nil
}

// change stores what becomes of the registrations of a run.
func change(ctx context.Context, store Registrations, run string, f func([]entry) ([]entry, error)) error {
	if err := runs.CheckID(run); err != nil {
		return err
	}
	const patience = 100 // others who write meanwhile
	for range patience {
		list, revision, err := read(ctx, store, run)
		if err != nil {
			return err
		}
		if list, err = f(list); err != nil {
			return err
		}
		ok, err := write(ctx, store, run, list, revision)
		if ok || err != nil {
			return err
		}
	}
	return fmt.Errorf("run %s: its registrations change all the time", run)
}

func write(ctx context.Context, store Registrations, run string, list []entry, revision uint64) (bool, error) {
	if len(list) == 0 {
		return store.Put(ctx, run, nil, toldEnd, time.Minute, revision)
	}
	told := toldEnd
	for i := range list {
		e := &list[i]
		e.URL, e.Token, e.Credentials, e.Echo = e.Registration.URL, e.Registration.Token, e.Registration.Credentials, string(e.Registration.Context)
		told = min(told, e.Told)
	}
	raw, err := json.Marshal(value{list})
	if err != nil {
		return false, fmt.Errorf("run %s: encode its registrations: %w", run, err)
	}
	if len(raw) > maxValue {
		return false, ErrTooMany
	}
	ttl := openTTL
	if told == toldEnd {
		ttl = endedTTL
	}
	return store.Put(ctx, run, raw, told, ttl, revision)
}
