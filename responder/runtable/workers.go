package runtable

import (
	"sort"
	"sync"
	"time"

	"github.com/linesman/linesman/runs"
)

// mostWorkers bounds how many processes are remembered; at the bound those
// that were silent the longest are forgotten.
const mostWorkers = 4096

// workers remembers when each worker was last heard of. A worker is whoever
// has a data directory; it may be several processes at a time.
type workers struct {
	mu    sync.Mutex
	since time.Time
	said  map[string]sign // by the process's id
}

type sign struct {
	runs.Beat
	at time.Time
}

func newWorkers() *workers { return &workers{since: time.Now(), said: map[string]sign{}} }

// heard notes what a worker said at some time by the server's clock. What was
// said before we listened is as old as it claims; what comes now, is new.
func (w *workers) heard(b runs.Beat, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if _, known := w.said[b.ID]; known || at.After(now) {
		at = now
	}
	w.said[b.ID] = sign{b, at}
	if len(w.said) > mostWorkers {
		oldest := b.ID
		for id, s := range w.said {
			if s.at.Before(w.said[oldest].at) {
				oldest = id
			}
		}
		delete(w.said, oldest)
	}
}

// last is when a worker was last heard of; zero: never.
func (w *workers) last(name string) (at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.said {
		if s.Name == name && s.at.After(at) {
			at = s.at
		}
	}
	return at
}

// Worker is a worker that takes tasks and was heard of lately.
type Worker struct {
	runs.Beat
	At time.Time
}

// Workers are those that take tasks, by name.
func (r *Table) Workers() []Worker {
	r.workers.mu.Lock()
	defer r.workers.mu.Unlock()
	var all []Worker
	for _, s := range r.workers.said {
		if s.Queue != "" && time.Since(s.at) <= r.cfg.LostAfter {
			all = append(all, Worker{s.Beat, s.at})
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Name < all[j].Name })
	return all
}
