package webhook

import (
	"maps"
	"sync"
	"time"

	"github.com/linesman/linesman/internal/delivery"
)

// Limits of the work for one host.
const (
	slots   = 32 // concurrent deliveries
	perHost = 4  // of them to one host; one to a host that was unreachable

	maxAway  = time.Minute // longest pause for an unreachable host
	maxTurn  = time.Minute // longest wait of a delivery for a busy host
	maxHosts = 4096        // remembered hosts

	// behind is how long a host that refused a notification counts as one that takes none: until it gets it again.
	behind = 2 * maxPause
)

// hosts remembers how receivers behave, so that a slow or unreachable one does
// not delay the others.
type hosts struct {
	pace time.Duration // shortest pause after a failure
	mu   sync.Mutex
	of   map[string]*host
}

type host struct {
	busy   int           // deliveries in progress
	turned int           // approximate number of postponed deliveries
	took   time.Duration // approximate duration of a delivery
	fails  int           // consecutive failures to reach it
	until  time.Time     // no delivery before this time

	refused time.Time // the last time that it did not take a notification; zero: it took the last one
}

func newHosts() *hosts { return &hosts{pace: time.Second, of: map[string]*host{}} }

// enter reports whether a delivery to a host may begin now; if not, wait is the
// delay until the next attempt. A delivery that began must call leave. Again
// tells that the delivery was postponed before, or has failed.
func (h *hosts) enter(name string, again bool, now time.Time) (wait time.Duration, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := h.of[name]
	if at == nil {
		if len(h.of) >= maxHosts {
			h.forget(now)
		}
		at = &host{took: 50 * time.Millisecond}
		h.of[name] = at
	}
	if again && at.turned > 0 {
		at.turned--
	}
	limit := perHost
	if at.fails > 0 {
		limit = 1
	}
	if at.busy < limit && !now.Before(at.until) {
		at.busy++
		return 0, true
	}
	turn := min(time.Duration(at.turned+1)*at.took/time.Duration(limit), maxTurn)
	at.turned++
	return delivery.Spread(max(at.until.Sub(now), 0) + max(turn, 100*time.Millisecond)), false
}

// away reports whether a host was not reached the last time, and is not to be tried yet. Then the delivery is over, and
// has no turn any more. Again is as for enter.
func (h *hosts) away(name string, again bool, now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := h.of[name]
	if at == nil || at.fails == 0 || at.busy > 0 || !now.Before(at.until) {
		return false
	}
	if again && at.turned > 0 {
		at.turned--
	}
	return true
}

// leave ends a delivery, with its duration and whether the host was reachable.
func (h *hosts) leave(name string, took time.Duration, reached bool, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := h.of[name]
	if at == nil { // never dropped while busy
		return
	}
	at.busy--
	at.took = (3*at.took + took) / 4
	if reached {
		at.fails, at.until = 0, time.Time{}
	} else {
		at.fails = min(at.fails+1, 30)
		at.until = now.Add(delivery.Spread(min(h.pace<<(at.fails-1), maxAway)))
	}
	if at.busy == 0 && at.fails == 0 && at.turned == 0 && at.refused.IsZero() {
		delete(h.of, name)
	}
}

// took notes whether a host took a notification that is being delivered, or is to get it again.
func (h *hosts) took(name string, is bool, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if at := h.of[name]; at != nil && is {
		at.refused = time.Time{}
	} else if at != nil {
		at.refused = now
	}
}

// lags reports whether a host does not take its notifications, or is as busy with them as it may be.
func (h *hosts) lags(name string, now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := h.of[name]
	return at != nil && (at.busy >= perHost || now.Sub(at.refused) < behind)
}

// forget drops idle hosts: the reachable ones, or all if there are none.
func (h *hosts) forget(now time.Time) {
	before := len(h.of)
	maps.DeleteFunc(h.of, func(_ string, at *host) bool { return at.busy == 0 && !now.Before(at.until) })
	if len(h.of) == before {
		maps.DeleteFunc(h.of, func(_ string, at *host) bool { return at.busy == 0 })
	}
}
