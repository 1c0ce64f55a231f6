package watch

import (
	"maps"
	"time"
)

// The times of a run are those of its publisher, whose clock may be hours late: a run is cancelled only for the time
// that watchers with this state file have seen.

// seen is a [sign] in a state file. Its times are Unix milliseconds.
type seen struct {
	Seq   uint64 `json:"seq"`
	Own   int64  `json:"own"`
	First int64  `json:"first"`
}

// seenBefore returns what an earlier watcher has seen, as of now.
func seenBefore(all map[string]seen, now time.Time) activity {
	a := activity{}
	for run, s := range all {
		own, first := min(s.Own, now.UnixMilli()), min(s.First, now.UnixMilli()) // the clock may have been set back
		a[run] = sign{s.Seq, time.UnixMilli(own), time.UnixMilli(own), time.UnixMilli(first)}
	}
	return a
}

// saw stores what was seen of the open runs, if any may be cancelled.
func (w *watcher) saw() {
	var all map[string]seen
	if len(w.cfg.Rules.CancelOn) > 0 && w.out.path != "" {
		all = make(map[string]seen, len(w.activity))
		for run, s := range w.activity {
			all[run] = seen{s.seq, s.own.UnixMilli(), s.first.UnixMilli()}
		}
	}
	w.out.mu.Lock()
	defer w.out.mu.Unlock()
	if !maps.Equal(all, w.out.state.Seen) {
		w.out.state.Seen, w.out.unsaved = all, true
	}
}

// measured returns those of the notices about an open run that do not cancel it, or for a time that was seen; later
// looks add the others. Where nothing remembers what was seen, they cancel nothing.
func (w *watcher) measured(some []notice, now time.Time) (all []notice) {
	for _, n := range some {
		s, enough := w.activity[n.Run], true
		switch {
		case !n.Cancel:
		case n.Kind == kindStalled:
			enough = now.Sub(s.own) >= w.cfg.Rules.StalledAfter
		case n.Budget.Unit == unitTime:
			enough = now.Sub(s.first) >= time.Duration(n.Budget.Limit)*time.Second
		}
		if !enough && w.out.deliver != nil && w.out.path == "" {
			n.Cancel, n.Text, enough = false, n.Text+"; it is not cancelled: that needs --state", true
		}
		if enough {
			all = append(all, n)
		}
	}
	return all
}
