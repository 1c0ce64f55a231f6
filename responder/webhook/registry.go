package webhook

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/linesman/linesman/runs"
)

// Protocols of registrations. Each protocol has a namespace of its own for
// their ids.
const (
	AdCP = "adcp"
	A2A  = "a2a"
)

// Schemes by which a receiver authenticates the sender. Without one, notifications of AdCP are signed by a [Key].
const (
	Bearer = "Bearer"
	HMAC   = "HMAC-SHA256"
)

// Registration is a subscription to the notifications of a run: the receiver
// and its credentials. Fields that are, or may be, secret are in no JSON and no
// text made from it.
type Registration struct {
	ID       string `json:"id"` // unique per run and protocol
	Run      string `json:"-"`
	Protocol string `json:"protocol"`
	By       string `json:"by,omitempty"` // the caller that stored it; "": not known

	URL         string `json:"-"` // its path is often a secret
	OperationID string `json:"operation_id,omitempty"`
	Token       string `json:"-"` // echoed in each notification; "": none
	Scheme      string `json:"scheme,omitempty"`
	Credentials string `json:"-"` // of the scheme

	Version string          `json:"version,omitempty"` // of A2A, of the request that stored it
	Tool    string          `json:"tool,omitempty"`    // the tool that was called
	Context json.RawMessage `json:"-"`                 // the caller's context, unchanged; nil: none
	Created int64           `json:"created"`           // Unix milliseconds
}

// ofAdCP reports whether AdCP's rules for the authentication hold.
func (r *Registration) ofAdCP() bool { return r.Protocol == AdCP || r.Tool != "" }

// signed reports whether its notifications are signed by a [Key].
func (r *Registration) signed() bool { return r.ofAdCP() && r.Scheme == "" }

// String names the registration.
func (r Registration) String() string { return r.Run + "/" + r.Protocol + "/" + r.ID }

// GoString is String.
func (r Registration) GoString() string { return r.String() }

// Limits of registrations.
const (
	maxRegistrations = 8         // registrations per run
	maxValue         = 512 << 10 // bytes of all registrations of a run
)

// How long registrations are kept: while a run is open, from their last change;
// and after the last notification of the run was created, for longer than
// delivery is attempted.
const (
	openTTL  = 7 * 24 * time.Hour
	endedTTL = maxGiveUp + 24*time.Hour
)

// Errors of registrations.
var (
	ErrUnknown = errors.New("there is no such registration")
	ErrTooMany = errors.New("the run has as many registrations as it can have")
	errForm    = errors.New("its registrations are not of the known form")
	ErrNoKey   = errors.New("without an authentication notifications are signed by RFC 9421, and there is no key for it")
)

// registrations stores registrations: one value per run, so that their number
// is bounded.
type registrations interface {
	// Get reads the value of a run and its revision, 0 if there is none.
	Get(ctx context.Context, run string) (value []byte, revision uint64, err error)
	// Put stores a value for ttl if the current revision is as given; 0: none.
	// It reports false if another process wrote meanwhile. Notified is passed to
	// watchers.
	Put(ctx context.Context, run string, value []byte, notified int, ttl time.Duration, revision uint64) (bool, error)
	// Watch calls each for every run that has a value, and for each change,
	// until ctx ends. A removed value has notified -1.
	Watch(ctx context.Context, each func(run string, notified int)) error
}

// Registry keeps the registrations of one protocol.
type Registry struct {
	store    registrations
	protocol string
	Rules
}

// Rules determine which registrations are accepted.
type Rules struct {
	Private bool        // also receivers on private networks, and ones without TLS
	Key     *Key        // signs notifications; nil: those that need it are not accepted
	Log     *zap.Logger // default: none
}

// NewRegistry returns the registry of a protocol.
func NewRegistry(store registrations, protocol string, rules Rules) *Registry {
	rules.Log = cmp.Or(rules.Log, zap.NewNop()).Named("push")
	return &Registry{store, protocol, rules}
}

// Check reports every invalid field of a registration, each as a
// [runs.FieldError] with the field names of AdCP and without values.
func (g *Registry) Check(r Registration) error {
	r.Protocol = g.protocol
	return r.check(g.Private)
}

// CanSign returns [ErrNoKey] for a registration whose notifications need a key, if there is none.
func (g *Registry) CanSign(r Registration) error {
	if r.Protocol = g.protocol; r.signed() && g.Key == nil {
		return ErrNoKey
	}
	return nil
}

// Put stores a registration of a run, which need not exist yet: store it before
// the run is submitted, and no change of the run is missed. It replaces a
// registration with the same ID; notifications that were created are not
// created again. A run that has already ended is notified of, too. Errors:
// those of Check and CanSign, and [ErrTooMany].
func (g *Registry) Put(ctx context.Context, r Registration) error {
	if err := cmp.Or(g.Check(r), g.CanSign(r)); err != nil {
		return err
	}
	if r.Scheme == HMAC && r.Credentials == placeholder {
		g.Log.Warn("a webhook has the published placeholder of the AdCP SDK as its secret: anybody can sign with it",
			zap.String("run", r.Run), zap.String("host", hostOf(r.URL)))
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
		if len(list) >= maxRegistrations {
			return nil, ErrTooMany
		}
		return append(list, entry{Registration: r, Seed: seed(), Asked: ordinal(""), Turn: ordinal("")}), nil
	})
}

// Get returns a registration of a run. The error is [ErrUnknown] if there is
// none.
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

// List returns the registrations of a run, oldest first: at most
// maxRegistrations.
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

// Any reports whether a run has a registration, of whatever protocol.
func (g *Registry) Any(ctx context.Context, run string) (bool, error) {
	list, _, err := read(ctx, g.store, run)
	return len(list) > 0, err
}

// Delete removes a registration of a run. Its pending notifications are
// dropped. The error is [ErrUnknown] if there is none.
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

// Progress of a registration: the last state for which a notification was
// created. The numbers have one digit, so that a value does not grow when its
// bucket is full.
const (
	notifiedNone = iota
	notifiedWorking
	notifiedWaiting // awaiting an answer from outside; of a live run, see [entry.Asked] and Turn
	notifiedEnd
)

// entry is a registration as stored.
type entry struct {
	Registration
	URL         string `json:"url"`
	Token       string `json:"token,omitempty"`
	Credentials string `json:"credentials,omitempty"`
	Echo        string `json:"context,omitempty"` // Context as text, which keeps its bytes

	Seed     string `json:"seed"` // secret input of its keys, so that they cannot be guessed
	Notified int    `json:"told"`
	Asked    string `json:"asked"` // newest question of the run for which a notification was created, as [ordinal] returns it
	Turn     string `json:"turn"`  // the same, of the turns after which the run waits for a message
}

// ordinal returns the number of a question, or of a turn, for comparisons, with zeros before it, so that a
// value does not grow when its bucket is full.
func ordinal(number string) string {
	n, _ := strconv.Atoi(strings.TrimPrefix(number, "q"))
	return fmt.Sprintf("%06d", n)
}

// key is the idempotency key of the notification for a state of the run:
// deterministic. The state of a run that asks people has the question behind it, and of one that waits for a
// message the turn.
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

// read reads the registrations of a run. The error is errForm for a value that cannot be decoded.
func read(ctx context.Context, store registrations, run string) ([]entry, uint64, error) {
	if runs.CheckID(run) != nil {
		return nil, 0, nil // an invalid id has no registrations
	}
	raw, revision, err := store.Get(ctx, run)
	if err != nil || raw == nil {
		return nil, revision, err
	}
	var v value
	if err := json.Unmarshal(raw, &v); err != nil {
		return nil, revision, fmt.Errorf("run %s: %w", run, errForm)
	}
	for i := range v.Registrations {
		e := &v.Registrations[i]
		e.Registration.Run, e.Registration.URL, e.Registration.Token, e.Registration.Credentials = run, e.URL, e.Token,
			e.Credentials
		if e.Echo != "" {
			e.Registration.Context = json.RawMessage(e.Echo)
		}
	}
	return v.Registrations, revision, nil
}

// change applies f to the registrations of a run and stores the result.
func change(ctx context.Context, store registrations, run string, f func([]entry) ([]entry, error)) error {
	if err := runs.CheckID(run); err != nil {
		return err
	}
	const patience = 100 // attempts while other processes write
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

func write(ctx context.Context, store registrations, run string, list []entry, revision uint64) (bool, error) {
	if len(list) == 0 {
		return store.Put(ctx, run, nil, notifiedEnd, time.Minute, revision)
	}
	notified := notifiedEnd
	for i := range list {
		e := &list[i]
		e.URL, e.Token, e.Credentials, e.Echo = e.Registration.URL, e.Registration.Token, e.Registration.Credentials,
			string(e.Registration.Context)
		notified = min(notified, e.Notified)
	}
	raw, err := json.Marshal(value{list})
	if err != nil {
		return false, fmt.Errorf("run %s: encode its registrations: %w", run, err)
	}
	if len(raw) > maxValue {
		return false, ErrTooMany
	}
	ttl := openTTL
	if notified == notifiedEnd {
		ttl = endedTTL
	}
	return store.Put(ctx, run, raw, notified, ttl, revision)
}
