// Package idempotency makes sure that a request with an idempotency key is
// carried out only once. It owns the entries that record such requests and the
// hash that compares them. It does not know what a request does.
//
//	request ──▶ Hash ──▶ Requests.Begin ──▶ Claim: carry it out, or return its outcome
//
// The one rule: the entry is written before the request is carried out.
package idempotency

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/internal/lazy"
)

// Store keeps one entry for each key. If several writers read the same revision,
// the first to write wins.
type Store interface {
	// Get reads an entry. A missing entry has revision 0.
	Get(ctx context.Context, key string) (value []byte, revision uint64, err error)
	// Put replaces the given revision of an entry, for ttl, and returns the new
	// revision. It reports false if another writer was first.
	Put(ctx context.Context, key string, value []byte, ttl time.Duration, revision uint64) (uint64, bool, error)
}

// defaultTTL is how long the outcome of a request is kept. The contract
// allows one hour to seven days.
const defaultTTL = 24 * time.Hour

// maxOutcome is the largest outcome that is kept, in bytes.
const maxOutcome = 64 << 10

// MaxKey is the maximum length of an idempotency key, in bytes.
const MaxKey = 255

// KeyForm is the form of an idempotency key.
var KeyForm = lazy.Regexp(`^[A-Za-z0-9_.:-]{16,255}$`)

// Requests makes sure that a request with a key is carried out once, even if it
// is sent several times and to several responders.
//
// An entry is written before the request is carried out, with the run id that
// it will have. If the process is killed at any point after that, the responder
// that gets the retry finds the id and can look up the run. An entry is kept for
// twice the TTL: in the second half, the key is answered as expired.
type Requests struct {
	Store Store
	TTL   time.Duration // 0: defaultTTL
	Share int           // entries that one caller may have in the store; 0: defaultShare

	shares shares
}

func (r *Requests) ttl() time.Duration { return cmp.Or(r.TTL, defaultTTL) }

// Request is a request that must be carried out once.
type Request struct {
	Caller string // keys of different callers are independent
	Key    string // see [KeyForm]
	Hash   string // see [Hash]
	Run    string // id of the run that it creates; "": it creates none

	// Lease is the longest time that the request can take. After it, the
	// process that claimed the request is taken to have failed.
	Lease time.Duration
}

// entry is the stored state of a request. Times are Unix milliseconds.
type entry struct {
	Hash    string          `json:"hash"`
	Run     string          `json:"run,omitempty"`
	Until   int64           `json:"until"`             // end of the lease; 0: not claimed
	Free    bool            `json:"free,omitempty"`    // not carried out: the key can be used again
	Outcome json.RawMessage `json:"outcome,omitempty"` // it was carried out
	Expires int64           `json:"expires"`
}

// claim is a request that its holder must carry out, or that has an outcome.
type claim struct {
	// Outcome is the stored outcome of a request that was carried out before:
	// then there is nothing to do.
	Outcome json.RawMessage
	// Run is the run id to use: that of the first attempt.
	Run string
	// Again reports that an earlier attempt did not finish: it may have carried
	// out the request.
	Again bool

	requests *Requests
	caller   string
	counted  bool // the entry is counted in the caller's share
	key      string
	revision uint64
	entry    entry
}

// ErrNotStored reports that a request may have no entry: there was none, or one without an outcome.
var ErrNotStored = errors.New("it cannot be remembered")

// Begin claims a request at a time. The error is an [*api.Error] where the key
// cannot be used now: KeyConflict, KeyInFlight, KeyExpired or RateLimited. Any
// other error means that the store cannot be used, ErrNotStored that it cannot be written; then the request
// must not be carried out, unless it is known in another way, too.
func (r *Requests) Begin(ctx context.Context, q Request, now time.Time) (*claim, error) {
	key := storeKey(q)
	for range 3 { // another writer was first each time
		value, revision, err := r.Store.Get(ctx, key)
		if err != nil {
			return nil, fmt.Errorf("request: %w", err)
		}
		c := &claim{Run: q.Run, requests: r, caller: q.Caller, key: key, revision: revision}
		c.entry = entry{Hash: q.Hash, Run: q.Run, Until: now.Add(q.Lease).UnixMilli(), Expires: now.Add(r.ttl()).UnixMilli()}
		if revision != 0 {
			var e entry
			if err := json.Unmarshal(value, &e); err != nil {
				return nil, errors.New("request: its entry is not of the known form")
			}
			if err := e.admits(q, now); err != nil {
				return nil, err
			}
			if e.Outcome != nil {
				return &claim{Outcome: e.Outcome, Run: e.Run}, nil
			}
			if !e.Free {
				c.Again, c.Run, c.entry.Run, c.entry.Expires = true, e.Run, e.Run, e.Expires
			}
		}
		if !c.Again {
			if wait := r.shares.take(q.Caller, cmp.Or(r.Share, defaultShare), 2*r.ttl(), now); wait > 0 {
				return nil, rateLimited(wait)
			}
			c.counted = true
		}
		ok, err := c.put(ctx, now)
		if ok {
			return c, nil
		}
		if err != nil { // the entry may have been stored
			return nil, fmt.Errorf("request: %w: %w", ErrNotStored, err)
		}
		c.giveBack()
	}
	return nil, inFlight(time.Second)
}

// Begun reports whether a request was begun before with this key, and returns its outcome; nil: none is stored, it has
// expired, or the request was another one.
func (r *Requests) Begun(ctx context.Context, q Request, now time.Time) (outcome json.RawMessage, begun bool,
	err error) {
	value, revision, err := r.Store.Get(ctx, storeKey(q))
	if err != nil || revision == 0 {
		return nil, false, err
	}
	var e entry
	if err := json.Unmarshal(value, &e); err != nil || e.Free {
		return nil, false, err
	}
	if e.admits(q, now) != nil {
		return nil, true, nil
	}
	return e.Outcome, true, nil
}

// RunOf returns the run of the request that was begun with a key, whatever its hash; "": there is none.
func (r *Requests) RunOf(ctx context.Context, q Request) (string, error) {
	value, revision, err := r.Store.Get(ctx, storeKey(q))
	if err != nil || revision == 0 {
		return "", err
	}
	var e entry
	if err := json.Unmarshal(value, &e); err != nil || e.Free {
		return "", err
	}
	return e.Run, nil
}

// admits reports why q can neither be carried out nor be answered with the
// outcome of the entry.
func (e *entry) admits(q Request, now time.Time) error {
	if e.Free {
		return nil
	}
	switch at := now.UnixMilli(); {
	case e.Hash != q.Hash:
		return &api.Error{Code: api.KeyConflict, Field: api.FieldKey,
			Message: "the idempotency key belongs to another request: use a new one"}
	case at >= e.Expires:
		return &api.Error{Code: api.KeyExpired, Field: api.FieldKey, Message: "the idempotency key has expired",
			Suggestion: "Check whether the task exists, then use a new key"}
	case e.Outcome == nil && at < e.Until:
		return inFlight(time.Duration(e.Until-at) * time.Millisecond)
	}
	return nil
}

func inFlight(left time.Duration) *api.Error {
	const longest = 5 * time.Second // most requests finish much sooner than their lease
	return &api.Error{Code: api.KeyInFlight, Field: api.FieldKey, Message: "the same request is being carried out",
		RetryAfter: wholeSeconds(left, longest), Retryable: true}
}

func rateLimited(wait time.Duration) *api.Error {
	return &api.Error{Code: api.RateLimited, Field: api.FieldKey,
		Message: "too many requests with an idempotency key: each is stored for some time, and the caller " +
			"has used its share",
		RetryAfter: wholeSeconds(wait, time.Hour), Retryable: true}
}

// wholeSeconds rounds d up to seconds, from one second to longest.
func wholeSeconds(d, longest time.Duration) time.Duration {
	return min(max((d+time.Second-1).Truncate(time.Second), time.Second), longest)
}

// Finish stores the outcome of the request, at most maxOutcome bytes of JSON.
func (c *claim) Finish(ctx context.Context, outcome json.RawMessage, now time.Time) error {
	if len(outcome) > maxOutcome {
		return fmt.Errorf("request: an outcome of at most %d bytes is kept, this has %d", maxOutcome, len(outcome))
	}
	c.entry.Outcome, c.entry.Until = outcome, 0
	if c.counted {
		c.requests.shares.add(c.caller, float64(len(outcome)/entryBytes))
	}
	return c.end(ctx, now)
}

// freeTTL is how long the entry of a released key is kept. It has the same
// meaning as no entry.
const freeTTL = 10 * time.Second

// Release frees the key: the request was not carried out.
func (c *claim) Release(ctx context.Context, now time.Time) error {
	c.entry.Free, c.entry.Until = true, 0
	c.giveBack()
	return c.end(ctx, now)
}

func (c *claim) giveBack() {
	if c.counted {
		c.counted = false
		c.requests.shares.add(c.caller, -1)
	}
}

// Leave ends the lease, so that a retry can start at once with the same run id.
// It is unknown whether the request was carried out.
func (c *claim) Leave(ctx context.Context, now time.Time) error {
	c.entry.Until = 0
	return c.end(ctx, now)
}

func (c *claim) end(ctx context.Context, now time.Time) error {
	ok, err := c.put(ctx, now)
	if err == nil && !ok {
		err = errors.New("another process has taken it over")
	}
	if err != nil {
		return fmt.Errorf("request: %w", err)
	}
	return nil
}

func (c *claim) put(ctx context.Context, now time.Time) (bool, error) {
	value, err := json.Marshal(c.entry)
	if err != nil {
		return false, err
	}
	left := time.UnixMilli(c.entry.Expires).Sub(now) + c.requests.ttl()
	if c.entry.Free {
		left = freeTTL
	}
	revision, ok, err := c.requests.Store.Put(ctx, c.key, value, left, c.revision)
	if ok {
		c.revision = revision
	}
	return ok, err
}

// storeKey is the key of an entry in the store: a hash, so that readers of the
// store do not learn the idempotency key.
func storeKey(q Request) string {
	sum := sha256.Sum256([]byte(q.Caller + "\x00" + q.Key))
	return hex.EncodeToString(sum[:])
}

// defaultShare is the number of entries that one caller may have in the store,
// counted by each process: the store has room for about twice as many. An entry
// with a long outcome counts as several.
const (
	defaultShare = 100_000
	entryBytes   = 640 // of an entry with a short outcome
)

// maxCallers is the largest number of callers that are counted. Beyond it,
// callers without a count are dropped first, and then all.
const maxCallers = 4096

// shares count what callers have stored, so that none of them can fill the
// store and lock out the others. A caller may store half of its share at once;
// the other half becomes free over the time that entries are kept. Counts do not
// survive a restart, entries do: the limit of the store is the firm one.
type shares struct {
	mu   sync.Mutex
	used map[string]used
}

// used is the part of its first half that a caller has used, at a time.
type used struct {
	entries float64
	at      time.Time
}

// take counts an entry. It returns how long a caller that has reached its share
// must wait, or 0.
func (s *shares) take(caller string, share int, kept time.Duration, now time.Time) (wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	half, each := float64(share)/2, kept/time.Duration((share+1)/2)
	u := s.now(caller, half, kept, now)
	if u.entries+1 > half {
		return max(time.Duration((u.entries+1-half)*float64(each)), time.Second)
	}
	u.entries++
	if s.used == nil {
		s.used = map[string]used{}
	}
	if _, known := s.used[caller]; !known && len(s.used) >= maxCallers {
		maps.DeleteFunc(s.used, func(name string, _ used) bool { return s.now(name, half, kept, now).entries == 0 })
		if len(s.used) >= maxCallers {
			clear(s.used)
		}
	}
	s.used[caller] = u
	return 0
}

// add counts more for an entry, or less if it has no outcome. A caller that
// exceeds its share by that waits longer.
func (s *shares) add(caller string, entries float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if u, known := s.used[caller]; known {
		u.entries = max(u.entries+entries, 0)
		s.used[caller] = u
	}
}

// now is what a caller has used at this time.
func (s *shares) now(caller string, half float64, kept time.Duration, now time.Time) used {
	u := s.used[caller]
	if passed := now.Sub(u.at); passed > 0 {
		u.entries, u.at = max(u.entries-half*passed.Seconds()/kept.Seconds(), 0), now
	}
	return u
}
