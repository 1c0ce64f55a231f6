package watch

import (
	"maps"
	"time"
)

// The times of a run are those of its publisher, whose clock may be hours late: a run is cancelled only for the time
// that watchers with this state file have seen.

// seen is a [sign] in a state file. Its times are Unix milliseconds.
type seen struct {
	Seq     uint64 `json:"seq"`
	Changed int64  `json:"changed"`
	First   int64  `json:"first_seen"`
}

// seenBefore returns what an earlier watcher has seen, as of now.
func seenBefore(all map[string]seen, now time.Time) activity {
	a := activity{}
	for run, s := range all { // the clock may have been set back
		changed, first := min(s.Changed, now.UnixMilli()), min(s.First, now.UnixMilli())
		a[run] = sign{s.Seq, time.UnixMilli(changed), time.UnixMilli(changed), time.UnixMilli(first)}
	}
	return a
}

// saw notes for the state file what was seen of the open runs, if any may be cancelled. It is saved when the runs are
// others, else now and then: what is lost with a watcher that is killed makes a cancel later, never earlier.
func (w *watcher) saw(now time.Time) {
	var all map[string]seen
	if len(w.cfg.Rules.CancelOn) > 0 && w.out.path != "" {
		all = make(map[string]seen, len(w.activity))
		for run, s := range w.activity {
			all[run] = seen{s.seq, s.changed.UnixMilli(), s.firstSeen.UnixMilli()}
		}
	}
	w.out.mu.Lock()
	defer w.out.mu.Unlock()
	same := func(a, b seen) bool { return a == b || now.Sub(w.sawAt) < w.cfg.Rules.StalledAfter/4 }
	if !maps.EqualFunc(all, w.out.state.Seen, same) {
		w.out.unsaved, w.sawAt = true, now
	}
	w.out.state.Seen = all
}

// slack is for how long a notice waits for the own clock to confirm a time: it sees a run later than its publisher.
const slack = time.Minute

// measured returns those of the notices about an open run that do not cancel it, or for a time that was seen; later
// looks add the others. What was seen for a much shorter time is reported before it cancels, too. Where nothing
// remembers what was seen, they cancel nothing.
func (w *watcher) measured(some []notice, now time.Time) (all []notice) {
	for _, n := range some {
		s, left := w.activity[n.Run], time.Duration(0)
		switch {
		case !n.Cancel:
		case n.Kind == kindStalled:
			left = w.cfg.Rules.StalledAfter - now.Sub(s.changed)
		case n.Budget.Unit == unitTime:
			left = time.Duration(n.Budget.Limit)*time.Second - now.Sub(s.firstSeen)
		}
		switch {
		case left <= 0:
		case w.out.deliver != nil && w.out.path == "":
			n.Cancel, n.Text = false, n.Text+"; it is not cancelled: that needs --state"
		case left > slack:
			n.ID, n.Cancel = n.ID+"/early", false
			n.Text += "; it is not cancelled yet: the watcher has not seen that for so long"
		default:
			continue
		}
		all = append(all, n)
	}
	return all
}
