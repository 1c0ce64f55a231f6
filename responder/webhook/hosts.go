package webhook

import (
	"math/rand/v2"
	"sync"
	"time"
)

// How much of the work one host can take up, however it behaves.
const (
	slots   = 32 // deliveries at a time
	perHost = 4  // of them to one host; one to a host that was out of reach

	maxAway  = time.Minute // that a host out of reach is left alone
	maxTurn  = time.Minute // that a delivery waits for its turn with a busy host
	maxHosts = 4096        // that are remembered; others are met anew each time
)

// hosts remembers how receivers behave, so that a slow one, or one that is not
// there, holds up nobody else.
type hosts struct {
	mu sync.Mutex
	of map[string]*host
}

type host struct {
	busy   int           // deliveries under way
	turned int           // about how many were turned away and will come again
	took   time.Duration // that one took, about
	fails  int           // times in a row that it was out of reach
	until  time.Time     // it is left alone
}

func newHosts() *hosts { return &hosts{of: map[string]*host{}} }

// enter asks whether a delivery to a host may begin now: else it says when to
// ask again. One that may begin must leave. Again says that it was turned away
// before, or has failed.
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
	most := perHost
	if at.fails > 0 {
		most = 1
	}
	if at.busy < most && !now.Before(at.until) {
		at.busy++
		return 0, true
	}
	turn := min(time.Duration(at.turned+1)*at.took/time.Duration(most), maxTurn)
	at.turned++
	return spread(max(at.until.Sub(now), 0) + max(turn, 100*time.Millisecond)), false
}

// leave says that a delivery has ended, how long it took, and whether the host
// could be reached.
func (h *hosts) leave(name string, took time.Duration, reached bool, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := h.of[name]
	if at == nil { // forgotten meanwhile: never while busy
		return
	}
	at.busy--
	at.took = (3*at.took + took) / 4
	if reached {
		at.fails, at.until = 0, time.Time{}
	} else {
		at.fails = min(at.fails+1, 30)
		at.until = now.Add(spread(min(time.Second<<(at.fails-1), maxAway)))
	}
	if at.busy == 0 && at.fails == 0 && at.turned == 0 {
		delete(h.of, name)
	}
}

// forget makes room: of hosts that nothing is under way to, those go that were
// not out of reach, or else all.
func (h *hosts) forget(now time.Time) {
	before := len(h.of)
	for name, at := range h.of {
		if at.busy == 0 && !now.Before(at.until) {
			delete(h.of, name)
		}
	}
	if len(h.of) < before {
		return
	}
	for name, at := range h.of {
		if at.busy == 0 {
			delete(h.of, name)
		}
	}
}

// spread is about d, so that what failed together does not come again together.
func spread(d time.Duration) time.Duration {
	return d + time.Duration(rand.Int64N(int64(d)/4+1))
}
