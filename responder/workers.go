package responder

import (
	"sort"
	"sync"
	"time"

	"github.com/linesman/linesman/runs"
)

// mostWorkers bounds how many workers are remembered; at the bound those that
// were silent the longest are forgotten.
const mostWorkers = 4096

// workers remembers when each worker was last heard of.
type workers struct {
	mu    sync.Mutex
	since time.Time
	heat  map[string]sign
}

type sign struct {
	runs.Beat
	at time.Time
}

func newWorkers() *workers { return &workers{since: time.Now(), heat: map[string]sign{}} }

// heard notes what a worker said at some time by the server's clock. What was
// said before we listened is as old as it claims; what comes now, is new.
func (w *workers) heard(b runs.Beat, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if _, known := w.heat[b.Name]; known || at.After(now) {
		at = now
	}
	w.heat[b.Name] = sign{b, at}
	if len(w.heat) > mostWorkers {
		oldest := ""
		for name, s := range w.heat {
			if oldest == "" || s.at.Before(w.heat[oldest].at) {
				oldest = name
			}
		}
		delete(w.heat, oldest)
	}
}

// gone reports whether a worker has been silent for so long. Of one that was
// never heard of that can be said only after listening for so long.
func (w *workers) gone(name string, after time.Duration, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	at, ok := w.heat[name]
	if !ok {
		return now.Sub(w.since) > after
	}
	return now.Sub(at.at) > after
}

// last is when a worker was last heard of; zero: never.
func (w *workers) last(name string) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.heat[name].at
}

// Worker is a worker that was heard of lately.
type Worker struct {
	runs.Beat
	At time.Time
}

// Workers are those that are at work, by name.
func (r *Responder) Workers() []Worker {
	r.workers.mu.Lock()
	defer r.workers.mu.Unlock()
	var all []Worker
	for _, s := range r.workers.heat {
		if time.Since(s.at) <= r.cfg.LostAfter {
			all = append(all, Worker{s.Beat, s.at})
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Name < all[j].Name })
	return all
}
