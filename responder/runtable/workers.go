package runtable

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/linesman/linesman/runs"
)

// maxWorkers bounds the number of remembered processes; at the bound, the one
// that was silent the longest is dropped.
const maxWorkers = 4096

// workers holds the last heartbeat of each worker. A worker is identified by
// its data directory; several processes may share it.
type workers struct {
	mu    sync.Mutex
	since time.Time         // since when heartbeats can be heard; zero: they cannot be stored
	beats map[string]Worker // by process id
}

// Worker is a process and its last heartbeat.
type Worker struct {
	runs.Heartbeat
	At time.Time
}

func newWorkers() *workers { return &workers{since: time.Now(), beats: map[string]Worker{}} }

// observe stores a heartbeat and its time by the server's clock. A heartbeat
// from before the watch began counts by that time; later ones count as of now.
func (w *workers) observe(b runs.Heartbeat, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if _, known := w.beats[b.ID]; known || at.After(now) {
		at = now
	}
	w.beats[b.ID] = Worker{b, at}
	if len(w.beats) > maxWorkers {
		oldest := b.ID
		for id, s := range w.beats {
			if s.At.Before(w.beats[oldest].At) {
				oldest = id
			}
		}
		delete(w.beats, oldest)
	}
}

// storable notes whether heartbeats can be stored. When they can be again, silence begins again.
func (w *workers) storable(can bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !can {
		w.since = time.Time{}
	} else if w.since.IsZero() {
		w.since = time.Now()
	}
}

func (w *workers) heardSince() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.since
}

// last returns the time of a worker's last heartbeat; zero: never.
func (w *workers) last(name string) (at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.beats {
		if s.Name == name && s.At.After(at) {
			at = s.At
		}
	}
	return at
}

// Workers returns the workers that take tasks and sent a heartbeat recently, by name.
func (r *Table) Workers() []Worker {
	r.workers.mu.Lock()
	defer r.workers.mu.Unlock()
	var all []Worker
	for _, s := range r.workers.beats {
		if s.Queue != "" && time.Since(s.At) <= r.cfg.LostAfter {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b Worker) int { return cmp.Compare(a.Name, b.Name) })
	return all
}
