// Package idempotency carries out a request with an idempotency key once. It
// owns the entries that remember such requests, and the hash that compares
// them; it does not know what a request does.
//
//	request ──▶ Hash ──▶ Requests.Begin ──▶ Claim: carry it out, or return its outcome
//
// The one rule: the entry is written before the request is carried out.
package idempotency

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/linesman/linesman/api"
)

// Store keeps one entry a key. Of several writers that saw the same revision
// the first wins.
type Store interface {
	// Get reads an entry; one that is not there has revision 0.
	Get(ctx context.Context, key string) (value []byte, revision uint64, err error)
	// Put stores an entry for ttl in place of that of a revision, and returns
	// its own. It reports false where somebody else wrote meanwhile.
	Put(ctx context.Context, key string, value []byte, ttl time.Duration, revision uint64) (uint64, bool, error)
}

// DefaultTTL is how long the outcome of a request is remembered. The contract
// allows one hour to seven days.
const DefaultTTL = 24 * time.Hour

// MaxOutcome bounds what is kept of a request's outcome, in bytes.
const MaxOutcome = 64 << 10

// KeyPattern is the form of an idempotency key, of at most MaxKey bytes.
const (
	KeyPattern = `^[A-Za-z0-9_.:-]{16,255}$`
	MaxKey     = 255
)

// Requests sees to it that a request with a key is carried out once, whoever
// it was sent to, and however often.
//
// An entry is written before the request is carried out, with the run id that
// it will have. Killed at any point after that, whoever is asked next finds the
// id, and so whether there is such a run. An entry lives for twice the TTL: in
// the second half the answer is that the key has expired.
type Requests struct {
	Store Store
	TTL   time.Duration // 0: DefaultTTL
	Share int           // entries that one caller may have in the store; 0: DefaultShare

	shares shares
}

func (r *Requests) ttl() time.Duration {
	if r.TTL == 0 {
		return DefaultTTL
	}
	return r.TTL
}

func (r *Requests) share() int {
	if r.Share == 0 {
		return DefaultShare
	}
	return r.Share
}

// Request is what is to be carried out once.
type Request struct {
	Caller string // who asks: keys of two callers have nothing to do with each other
	Key    string // see [KeyPattern]
	Hash   string // see [Hash]
	Run    string // the run id that it gets, if it makes a run; else ""

	// Lease is how long it takes at most to carry it out. After it, whoever had
	// it counts as gone.
	Lease time.Duration
}

// entry is what a store holds of a request. Times are Unix milliseconds.
type entry struct {
	Hash    string          `json:"hash"`
	Run     string          `json:"run,omitempty"`
	Until   int64           `json:"until"`             // somebody is at it until then; 0: nobody
	Free    bool            `json:"free,omitempty"`    // it was not carried out: the key is anybody's
	Outcome json.RawMessage `json:"outcome,omitempty"` // it was
	Expires int64           `json:"expires"`
}

// Claim is a request that the holder is to carry out, or that was.
type Claim struct {
	// Outcome is what came of the request, where it was carried out before:
	// then there is nothing to do.
	Outcome json.RawMessage
	// Run is the run id to carry it out with: that of the first attempt.
	Run string
	// Again says that somebody began before and did not come to an end: what
	// is asked for may have been done already.
	Again bool

	requests *Requests
	caller   string
	counted  bool // the entry is counted as the caller's
	key      string
	revision uint64
	entry    entry
}

// Begin claims a request at a time. The error is an [*api.Error] where the key
// cannot be used now: KeyConflict, KeyInFlight, KeyExpired or RateLimited. Any
// other error means that the store cannot be used; then the request must not be
// carried out.
func (r *Requests) Begin(ctx context.Context, q Request, now time.Time) (*Claim, error) {
	key := storeKey(q)
	for range 3 { // each time somebody else was quicker
		value, revision, err := r.Store.Get(ctx, key)
		if err != nil {
			return nil, fmt.Errorf("request: %w", err)
		}
		c := &Claim{Run: q.Run, requests: r, caller: q.Caller, key: key, revision: revision}
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
				return &Claim{Outcome: e.Outcome, Run: e.Run}, nil
			}
			if !e.Free {
				c.Again, c.Run, c.entry.Run, c.entry.Expires = true, e.Run, e.Run, e.Expires
			}
		}
		if !c.Again {
			if wait := r.shares.take(q.Caller, r.share(), 2*r.ttl(), now); wait > 0 {
				return nil, rateLimited(wait)
			}
			c.counted = true
		}
		ok, err := c.put(ctx, now)
		if ok {
			return c, nil
		}
		if err != nil { // it may be stored
			return nil, fmt.Errorf("request: %w", err)
		}
		c.giveBack()
	}
	return nil, inFlight(time.Second)
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
			Suggestion: "Look whether the task is there, then use a new key"}
	case e.Outcome == nil && at < e.Until:
		return inFlight(time.Duration(e.Until-at) * time.Millisecond)
	}
	return nil
}

func inFlight(left time.Duration) *api.Error {
	const longest = 5 * time.Second // most requests end much sooner than their lease
	return &api.Error{Code: api.KeyInFlight, Field: api.FieldKey, Message: "the same request is being carried out",
		RetryAfter: wholeSeconds(left, longest), Retryable: true}
}

func rateLimited(wait time.Duration) *api.Error {
	return &api.Error{Code: api.RateLimited, Field: api.FieldKey,
		Message:    "too many requests with an idempotency key: they are remembered for some time, and the caller has its share",
		RetryAfter: wholeSeconds(wait, time.Hour), Retryable: true}
}

// wholeSeconds rounds d up to seconds, from one second to longest.
func wholeSeconds(d, longest time.Duration) time.Duration {
	return min(max((d+time.Second-1).Truncate(time.Second), time.Second), longest)
}

// Finish keeps what came of the request, at most MaxOutcome bytes of JSON.
func (c *Claim) Finish(ctx context.Context, outcome json.RawMessage, now time.Time) error {
	if len(outcome) > MaxOutcome {
		return fmt.Errorf("request: an outcome of at most %d bytes is kept, this has %d", MaxOutcome, len(outcome))
	}
	c.entry.Outcome, c.entry.Until = outcome, 0
	if c.counted {
		c.requests.shares.add(c.caller, float64(len(outcome)/entryBytes))
	}
	return c.end(ctx, now)
}

// freeTTL is how long the entry of a key that was given back is kept: it says
// no more than none.
const freeTTL = 10 * time.Second

// Release gives the key back: nothing was done.
func (c *Claim) Release(ctx context.Context, now time.Time) error {
	c.entry.Free, c.entry.Until = true, 0
	c.giveBack()
	return c.end(ctx, now)
}

func (c *Claim) giveBack() {
	if c.counted {
		c.counted = false
		c.requests.shares.add(c.caller, -1)
	}
}

// Leave lets the next one try at once, with the same run id: nobody knows
// whether something was done.
func (c *Claim) Leave(ctx context.Context, now time.Time) error {
	c.entry.Until = 0
	return c.end(ctx, now)
}

func (c *Claim) end(ctx context.Context, now time.Time) error {
	ok, err := c.put(ctx, now)
	if err != nil {
		return fmt.Errorf("request: %w", err)
	}
	if !ok {
		return errors.New("request: somebody else has taken it over")
	}
	return nil
}

func (c *Claim) put(ctx context.Context, now time.Time) (bool, error) {
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

// storeKey is where the entry of a request is kept: a hash, so that whoever
// reads the store learns no key.
func storeKey(q Request) string {
	sum := sha256.Sum256([]byte(q.Caller + "\x00" + q.Key))
	return hex.EncodeToString(sum[:])
}
