package worker

import (
	"errors"
	"os"
	"sync/atomic"
	"time"

	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/telemetry/metrics"
)

// sent is how much of the output of a run is in its raw log, for other goroutines.
type sent struct {
	known atomic.Bool
	to    atomic.Int64 // offset in the file
	end   atomic.Int64 // of the part that is read; 0: the end of the file
	held  atomic.Int64 // the end of the file when only an unfinished line was left
}

// set sets the offset in the raw log up to which it has the output. What is final waits for nothing.
func (t *sent) set(s *stream, at int64, final bool) {
	t.to.Store(at - s.segment.Base)
	held := int64(0)
	if !final {
		held = s.partialEnd - s.segment.Base
	}
	t.held.Store(held)
	if s.part != nil {
		t.end.Store(s.part.To)
	}
	t.known.Store(true)
}

// output returns the size of the output, and how much of it the raw log does not have: nothing if only an unfinished
// line is left.
func (r *Run) output() (size, unsent int64) {
	path := r.file(outFile)
	if !r.dir.Spec.process() {
		path = r.out.path
	}
	info, err := os.Stat(path)
	if err != nil { // there is none yet, or no more
		return 0, 0
	}
	size = info.Size()
	to, end := int64(0), size
	if part := r.sent.end.Load(); part != 0 {
		end = min(end, part)
	}
	if r.sent.known.Load() {
		to = r.sent.to.Load()
	} else if !r.dir.Spec.process() { // where it begins is not known yet
		to = end
	}
	if end <= r.sent.held.Load() {
		return size, 0
	}
	return size, max(end-to, 0)
}

// count counts a write to the raw log.
func (r *Run) count(entries []runs.Entry, took time.Duration, err error) {
	m := r.w.cfg.Metrics
	switch {
	case errors.Is(err, runs.ErrMoved):
		m.Refused()
	case err == nil:
		size := 0
		for _, e := range entries {
			if e.Kind == runs.Out || e.Kind == runs.ErrOut {
				size += len(e.Body)
			}
		}
		m.Appended(size, took.Seconds())
	}
}

// state returns what the worker does.
func (w *Worker) state() (s metrics.WorkerState) {
	w.mu.Lock()
	driven := make([]*Run, 0, len(w.driven))
	for _, r := range w.driven {
		driven = append(driven, r)
		switch {
		case r.doze.asleep:
			s.Asleep++
		case r.awake():
			s.Awake++
		}
		s.Messages += r.doze.queued
	}
	w.mu.Unlock()
	s.Runs, s.Slots = len(driven), int(w.slots.Load())
	for _, r := range driven {
		if r.dir.Spec.Source == runs.SourceQueue {
			s.Tasks++
		}
		size, unsent := r.output()
		if r.dir.Spec.File == nil {
			s.Spool += size
		}
		if s.Unsent += unsent; unsent > 0 {
			s.Waiting++
		}
	}
	return s
}
