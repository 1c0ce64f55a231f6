package httpserver

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"
)

// shared stores values under keys for all servers of an installation: the hashes of tokens and
// of sign-in codes, and the key that seals cookies. A write names the revision of the value that
// it replaces, 0 being none.
type shared interface {
	// Get reads a value and its revision, 0 if there is none.
	Get(ctx context.Context, key string) (value []byte, revision uint64, err error)

	// Put stores a value for ttl, 0: until it is replaced. If the present one has another
	// revision, it returns false and stores nothing.
	Put(ctx context.Context, key string, value []byte, ttl time.Duration, revision uint64) (uint64, bool, error)
}

// The keys of [shared].
const (
	sharedTokens = "tokens" // a tokensFile
	sharedCodes  = "codes"  // a codeList
	sharedKey    = "key"    // a sealingKey
)

const maxShared = 900 << 10 // bytes of a value: less than the payload of a message may have

// Times of what a server has read of [shared].
const (
	sharedTime = time.Second            // how long it counts: a removed token is accepted for that long
	missTime   = 100 * time.Millisecond // between two reads because of unknown tokens
	retryTime  = 5 * time.Second        // after a read that failed
	staleTime  = 15 * time.Second       // after it nothing is accepted that could not be read again
	sharedWait = 2 * time.Second        // for one read
)

// sealingKey is the key of the cookies of all servers.
type sealingKey struct {
	Key string `json:"key"` // 256 random bits, in hex
}

// changeShared changes a value of a store. Of concurrent changes each is made once.
func changeShared[T any](ctx context.Context, store shared, key string, ttl time.Duration,
	change func(*T) error) error {
	for {
		now, revision, err := readShared[T](ctx, store, key)
		if err != nil {
			return err
		}
		if err := change(&now); err != nil {
			return err
		}
		value, err := json.Marshal(now)
		if err == nil && len(value) > maxShared {
			err = fmt.Errorf("more than %d bytes", maxShared)
		}
		if err != nil {
			return fmt.Errorf("shared %s: %w", key, err)
		}
		if _, ok, err := store.Put(ctx, key, value, ttl, revision); err != nil || ok {
			return err
		}
	}
}

func readShared[T any](ctx context.Context, store shared, key string) (now T, revision uint64, err error) {
	value, revision, err := store.Get(ctx, key)
	if err == nil && len(value) > 0 && json.Unmarshal(value, &now) != nil {
		err = fmt.Errorf("shared %s: the value is damaged; delete it", key)
	}
	return now, revision, err
}

// access is what a server has read of a [shared]. It reads when it is asked, so that an idle
// server costs nothing.
type access struct {
	log *zap.Logger

	mu     sync.Mutex
	store  shared    // nil: none
	read   time.Time // when the last read began
	tried  time.Time // or when a read began that failed
	missed time.Time // when it was read last because of an unknown token
	failed bool      // the last read
	byHash map[[sha256.Size]byte]caller
	key    []byte // empty until it was read
}

// use makes a server read a store. A store that cannot be read yet is read later.
func (a *access) use(ctx context.Context, store shared) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.store = store
	a.refresh(ctx, 0)
}

// shared returns the store, nil if there is none.
func (a *access) shared() shared {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.store
}

// of returns the caller whose token has this hash, without scopes if there is none. A token that
// is not known may be new, so the store is read for it; unknown tokens that arrive within missTime
// wait for one read. While it cannot be read, nothing is known of them.
func (a *access) of(ctx context.Context, hash [sha256.Size]byte) caller {
	arrived := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.store == nil {
		return caller{}
	}
	a.refresh(ctx, sharedTime)
	if _, known := a.byHash[hash]; !known && !a.failed && !a.tried.After(arrived) {
		if pause := missTime - time.Since(a.missed); pause > 0 {
			a.mu.Unlock()
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
			a.mu.Lock()
		}
		if !a.tried.After(arrived) {
			a.missed = time.Now()
			a.refresh(ctx, 0)
		}
	}
	who, known := a.byHash[hash]
	if a.stale() || a.failed && !known {
		return caller{unsure: true}
	}
	return who
}

// sealing returns the key of the cookies of all servers, empty if there is none, and whether it
// could be read lately.
func (a *access) sealing(ctx context.Context) (key []byte, sure bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.store == nil {
		return nil, true
	}
	a.refresh(ctx, sharedTime)
	return a.key, !a.stale()
}

func (a *access) stale() bool { return time.Since(a.read) > staleTime }

// refresh reads the store if what is known is older than age. Its errors are logged once, and
// what is known remains.
func (a *access) refresh(ctx context.Context, age time.Duration) {
	if a.failed {
		age = max(age, retryTime)
	}
	if !a.tried.IsZero() && time.Since(a.tried) < age {
		return
	}
	// The answer is for all requests, so one that is cancelled does not end it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sharedWait)
	defer cancel()
	a.tried = time.Now()
	byHash, key, err := readAccess(ctx, a.store)
	if err != nil {
		if !a.failed {
			a.log.Warn("shared tokens and sessions cannot be read", zap.Error(err))
		}
		a.failed = true
		return
	}
	if a.failed {
		a.log.Info("shared tokens and sessions are read again")
	}
	a.failed, a.read, a.byHash, a.key = false, a.tried, byHash, key
}

// readAccess reads the tokens, and the key, which it creates if there is none.
func readAccess(ctx context.Context, store shared) (map[[sha256.Size]byte]caller, []byte, error) {
	f, _, err := readShared[tokensFile](ctx, store, sharedTokens)
	if err != nil {
		return nil, nil, err
	}
	byHash, valid := f.callers()
	if !valid {
		return nil, nil, fmt.Errorf("shared %s: the value is damaged; delete it", sharedTokens)
	}
	for {
		sealing, revision, err := readShared[sealingKey](ctx, store, sharedKey)
		if err != nil {
			return nil, nil, err
		}
		if key, err := hex.DecodeString(sealing.Key); err == nil && len(key) == sha256.Size {
			return byHash, key, nil
		}
		secret := make([]byte, sha256.Size)
		rand.Read(secret) // never fails
		value, err := json.Marshal(sealingKey{hex.EncodeToString(secret)})
		if err != nil {
			return nil, nil, err
		}
		if _, _, err := store.Put(ctx, sharedKey, value, 0, revision); err != nil { // else it is read again
			return nil, nil, err
		}
	}
}
