package runtable

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/linesman/linesman/runs"
)

// unseenFor is how long after its end a run can be unseen. The marks are stored for longer.
const unseenFor = 7 * 24 * time.Hour

// ErrOpen reports a run that cannot be marked as seen because it has not ended.
var ErrOpen = errors.New("the run has not ended")

// seen holds the runs that their owners have opened. It has as many as the bucket that it
// mirrors, and those of the last minute.
type seen struct {
	mu    sync.Mutex
	known bool                 // the stored marks were read
	at    map[string]time.Time // by run: when the mark was stored
}

func newSeen() *seen { return &seen{at: map[string]time.Time{}} }

func (s *seen) begin(lost bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if lost {
		clear(s.at)
	}
}

func (s *seen) mark(run string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at[run] = at; at.IsZero() {
		delete(s.at, run)
	}
}

func (s *seen) filled() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = true
}

// expire forgets the marks of runs that are too old to be unseen.
func (s *seen) expire(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for run, at := range s.at {
		if now.Sub(at) > unseenFor+24*time.Hour {
			delete(s.at, run)
		}
	}
}

// has returns whether a run is marked; known is false while the marks cannot be read.
func (s *seen) has(run string) (marked, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, marked = s.at[run]
	return marked, s.known
}

// watchSeen reads the marks until ctx ends.
func (r *Table) watchSeen(ctx context.Context) error {
	mark := func(run string, at time.Time) {
		r.seen.mark(run, at)
		if _, known := r.seen.has(run); known {
			r.index.touch(run)
		}
	}
	return r.cfg.Streams.WatchSeen(ctx, r.seen.begin, mark, func() {
		r.seen.filled()
		r.unseenChanged()
	})
}

// OldestUnseen is when a run ended, at the earliest, that can be unseen now.
func OldestUnseen() runs.Time { return runs.Time(time.Now().Add(-unseenFor).UnixMilli()) }

// Unseen reports whether a run ended in the last 7 days and its owner has not opened it.
// It is false for a cancelled run, for a run of a task that a later run continues, and while
// the marks cannot be read.
func (r *Table) Unseen(row runs.Header) bool {
	if !row.State.Final() || row.State == runs.StateCancelled || row.ContinuedBy != "" ||
		time.Since(time.UnixMilli(int64(row.EndedAt))) > unseenFor {
		return false
	}
	marked, known := r.seen.has(row.ID)
	return known && !marked
}

// SetSeen marks a run as opened by its owner, and returns its view. A repetition stores
// nothing. The error is [ErrOpen] for a run that has not ended, and [runs.ErrNoRun] for an
// unknown run.
func (r *Table) SetSeen(ctx context.Context, run string) (runs.Header, error) {
	v, err := r.Look(ctx, run)
	switch {
	case err != nil:
		return v, err
	case !v.State.Final():
		return v, ErrOpen
	case !v.Unseen:
		if _, known := r.seen.has(run); known {
			return v, nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := r.cfg.Streams.SetSeen(ctx, run); err != nil {
		return v, err
	}
	r.seen.mark(run, time.Now())
	r.index.touch(run)
	v.Unseen = false
	return v, nil
}
