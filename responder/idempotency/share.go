package idempotency

import (
	"sync"
	"time"
)

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
		for name := range s.used {
			if s.now(name, half, kept, now).entries == 0 {
				delete(s.used, name)
			}
		}
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
