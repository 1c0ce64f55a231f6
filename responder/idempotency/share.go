package idempotency

import (
	"sync"
	"time"
)

// DefaultShare is how many entries one caller may have in the store, as one
// process counts: there is room for about twice as many. One with a long
// outcome counts for several.
const (
	DefaultShare = 100_000
	entryBytes   = 640 // of one, with a short outcome
)

// maxCallers bounds for how many callers shares are counted. Beyond it those
// with nothing left to count are forgotten, and then all.
const maxCallers = 4096

// shares count what callers have stored, so that none of them can fill the
// store and lock out the others. A caller may store half of its share at once;
// the other half comes over the time that entries are kept. What is counted
// does not survive a restart, what is stored does: the bound of the store is
// the one that holds.
type shares struct {
	mu   sync.Mutex
	used map[string]used
}

// used is how much of its first half a caller has used up at a time.
type used struct {
	entries float64
	at      time.Time
}

// take counts an entry. It reports for how long a caller that has none left is
// to wait, 0 for one that has.
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

// add counts an entry for more, or for less where nothing came of it. Who has
// no more left by that waits the longer.
func (s *shares) add(caller string, entries float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if u, known := s.used[caller]; known {
		u.entries = max(u.entries+entries, 0)
		s.used[caller] = u
	}
}

// now is what a caller has used up by now.
func (s *shares) now(caller string, half float64, kept time.Duration, now time.Time) used {
	u := s.used[caller]
	if passed := now.Sub(u.at); passed > 0 {
		u.entries, u.at = max(u.entries-half*passed.Seconds()/kept.Seconds(), 0), now
	}
	return u
}
