package watch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/internal/files"
)

// Limits of the outbox.
const (
	maxPending  = 256    // notices that are not delivered; beyond, see [outbox.holding] and [outbox.ended]
	maxReported = 10_000 // ids that are remembered; at the limit nothing more about open runs and the day is reported
)

// stateFormat is the format of state files.
const stateFormat = 1

// state is all that a watcher must know after a restart.
type state struct {
	Format   int              `json:"format"`
	After    uint64           `json:"after"`            // sequence of the last completion that was handled; 0: none
	Raw      uint64           `json:"raw"`              // its sequence in the raw log
	Time     int64            `json:"time"`             // of it; Unix milliseconds
	At       int64            `json:"at"`               // when it was handled, or the first start; Unix milliseconds
	Day      string           `json:"day,omitempty"`    // date of Before
	Before   map[string]int64 `json:"before,omitempty"` // see [day.Before]
	Reported []string         `json:"reported"`         // ids of notices about open runs and the day, the oldest first
	Over     []string         `json:"over,omitempty"`   // runs in Reported that have ended
	Late     []string         `json:"late,omitempty"`   // runs whose completion was handled, and whose record had no end
	Seen     map[string]seen  `json:"seen,omitempty"`   // open runs, if any may be cancelled
	Pending  []notice         `json:"pending"`          // the oldest first
}

// end is a completion in EVENTS.
type end struct {
	seq, raw uint64
	time     int64 // Unix milliseconds
}

func endOf(e client.Event) end { return end{e.Seq, e.Raw, e.Time.UnixMilli()} }

// covers reports whether an event is not after the end, which may be one of another stream.
func (e end) covers(v client.Event) bool { return v.Raw <= e.raw && v.Time.UnixMilli() <= e.time }

// outbox holds notices until they are delivered, and the state of a watcher.
type outbox struct {
	path string   // of the state file; "": none
	lock *os.File // beside it; nil: none
	log  *zap.Logger

	mu       sync.Mutex
	state    state
	reading  end                 // the completion that is being handled
	unsaved  bool                // the file is older than the state
	failed   error               // why it could not be written last time
	attempts map[string]*attempt // by id of a pending notice
	changed  chan struct{}       // has an element after a change

	deliver func(context.Context) error // makes room where nothing else delivers; nil: something does
}

// attempt is the progress of the delivery of a notice.
type attempt struct {
	busy   bool
	urgent bool // it cancels a run, and was not tried
	next   time.Time
	failed int
}

// openOutbox reads the state file, if there is one. Only one watcher may use it.
func openOutbox(path string, now time.Time, log *zap.Logger) (*outbox, error) {
	o := &outbox{path: path, log: log, attempts: map[string]*attempt{}, changed: make(chan struct{}, 1)}
	o.state = state{Format: stateFormat, At: now.UnixMilli()}
	if path == "" {
		return o, nil
	}
	lock, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("state file: %w", err)
	}
	if err := files.TryLock(lock); err != nil {
		_ = lock.Close()
		if errors.Is(err, files.ErrLocked) {
			err = errors.New("another `linesman watch` uses it")
		}
		return nil, fmt.Errorf("state file %s: %w", path, err)
	}
	o.lock = lock
	body, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = o.write() // so that the first restart knows when the watcher started
	case err != nil:
	case json.Unmarshal(body, &o.state) != nil, o.state.Format != stateFormat:
		err = errors.New("it is not a state file of this version; remove it to begin now")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("state file %s: %w", path, err), o.close())
	}
	return o, nil
}

// close saves what is not saved, and releases the state file.
func (o *outbox) close() error {
	if o.flush(); o.lock == nil {
		return o.failed
	}
	return errors.Join(o.failed, files.Close(o.lock))
}

// save is called with mu held. A file that cannot be written is tried again by flush: until
// then it has an older state, and after a restart more is reported again.
func (o *outbox) save() {
	err := o.write()
	o.unsaved = err != nil
	if err != nil && o.failed == nil {
		o.log.Warn("the state file cannot be written", zap.Error(err))
	}
	o.failed = err
}

func (o *outbox) write() error {
	if o.path == "" {
		return nil
	}
	body, err := json.Marshal(o.state)
	if err != nil {
		return err
	}
	return files.Replace(o.path, ".watch-*", body)
}

// flush saves changes that were not urgent, or could not be saved.
func (o *outbox) flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.unsaved {
		o.save()
	}
}

// holding adds all notices of a look at the open runs and the day, unless they were reported before. Day and before are
// those of the state. While the outbox is full, only notices that cancel runs are added: the others are added by a
// later look, if they still hold. Where there is no later look it waits for room.
func (o *outbox) holding(
	ctx context.Context, all []notice, open map[string]bool, day string, before map[string]int64,
) error {
	for {
		if o.deliver != nil {
			if err := o.room(ctx); err != nil {
				return err
			}
		}
		if o.look(all, open, day, before) == 0 || o.deliver == nil {
			return nil
		}
	}
}

// look is [outbox.holding] without waiting; it returns how many notices were added. What was reported about a run is
// forgotten at the first look at which it has ended and is not open: a look that began before its end must not report
// it again.
func (o *outbox) look(all []notice, open map[string]bool, day string, before map[string]int64) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.state.Day != day || !maps.Equal(o.state.Before, before) {
		o.state.Day, o.state.Before, o.unsaved = day, maps.Clone(before), true
		o.state.Reported = slices.DeleteFunc(o.state.Reported, func(id string) bool {
			return isDay(id) && !strings.HasPrefix(id, day+"/")
		})
	}
	for _, run := range o.state.Over {
		if !open[run] {
			o.state.Reported = slices.DeleteFunc(o.state.Reported, ofRun(run))
			o.unsaved = true
		}
	}
	o.state.Over = slices.DeleteFunc(o.state.Over, func(run string) bool { return !open[run] })
	if len(o.state.Reported)+len(all) > maxReported { // runs whose end was not read, and questions of long ago
		o.state.Reported = slices.DeleteFunc(o.state.Reported, func(id string) bool {
			run, what, _ := strings.Cut(id, "/")
			closed := strings.HasPrefix(what, string(kindNeedsInput)+"/q") &&
				!slices.ContainsFunc(all, func(n notice) bool { return n.ID == id })
			return !isDay(id) && (!open[run] || closed)
		})
	}
	added := o.add(all, maxReported-len(o.state.Reported), maxPending)
	o.state.Reported = append(o.state.Reported, added...)
	if len(added) > 0 && len(o.state.Reported) == maxReported {
		o.log.Warn("too many conditions hold: further ones of open runs and of the day are not reported")
	}
	if len(added) > 0 { // else it is saved with the next notice, or by flush
		o.save()
	}
	return len(added)
}

// last returns the last completion that was handled.
func (o *outbox) last() end {
	o.mu.Lock()
	defer o.mu.Unlock()
	return end{o.state.After, o.state.Raw, o.state.Time}
}

// reads says which completion is handled next.
func (o *outbox) reads(e client.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.reading = endOf(e)
}

// ended adds the notices about the end of a run, whose completion has the sequence seq. It waits while the outbox
// is full.
func (o *outbox) ended(ctx context.Context, run string, all []notice, seq uint64, now time.Time) error {
	if err := o.room(ctx); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.handled(seq, now)
	o.over(run, all)
	return nil
}

// ofRun selects the ids of notices about a run.
func ofRun(run string) func(id string) bool {
	return func(id string) bool { return strings.HasPrefix(id, run+"/") }
}

// isDay reports whether an id is that of a notice about a day. A run whose id looks like a
// date is reported again at most.
func isDay(id string) bool {
	date, _, _ := strings.Cut(id, "/")
	_, err := time.Parse(time.DateOnly, date)
	return err == nil
}

// add adds notices that are neither reported nor pending, at most so many, and returns their ids. Where so many as full
// are pending, only those that cancel runs are added.
func (o *outbox) add(all []notice, most, full int) (ids []string) {
	for _, n := range all {
		if len(ids) >= most {
			break
		}
		if len(o.state.Pending) >= full && !n.Cancel {
			continue
		}
		pending := slices.ContainsFunc(o.state.Pending, func(p notice) bool { return p.ID == n.ID })
		if pending || slices.Contains(o.state.Reported, n.ID) || slices.Contains(ids, n.ID) {
			continue
		}
		o.state.Pending = append(o.state.Pending, n)
		ids = append(ids, n.ID)
	}
	if len(ids) > 0 {
		o.wake()
	}
	return ids
}

func (o *outbox) wake() {
	select {
	case o.changed <- struct{}{}:
	default:
	}
}

// room waits until the outbox is not full, or makes room.
func (o *outbox) room(ctx context.Context) error {
	for o.full() {
		wait := func(ctx context.Context) error { return sleep(ctx, time.Second) }
		if o.deliver != nil {
			wait = o.deliver
		}
		if err := wait(ctx); err != nil && (o.deliver == nil || o.full()) {
			return err
		}
	}
	return nil
}

func (o *outbox) full() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.state.Pending) >= maxPending
}

// next waits for a notice whose delivery may begin; false: ctx has ended.
func (o *outbox) next(ctx context.Context) (notice, bool) {
	for ctx.Err() == nil {
		n, wait, ok := o.take(time.Now())
		if ok {
			return n, true
		}
		var due <-chan time.Time // nil: only a change
		if wait > 0 {
			due = time.After(wait)
		}
		select {
		case <-ctx.Done():
		case <-o.changed:
		case <-due:
		}
	}
	return notice{}, false
}

// take returns a notice whose delivery may begin at now: one that cancels a run and was not tried yet, else the one
// that is due for the longest time, so that each has its turn. The notices of a run are delivered one after the other,
// but one that cancels the run waits for none. If there is none, wait is the time until the next one; 0: unknown.
func (o *outbox) take(now time.Time) (n notice, wait time.Duration, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	busy := map[string]bool{}
	for _, n := range o.state.Pending {
		if a := o.attempts[n.ID]; a != nil && a.busy && n.Run != "" {
			busy[n.Run] = true
		}
	}
	var best *attempt
	for _, p := range o.state.Pending {
		a := o.attempts[p.ID]
		switch {
		case a == nil:
			a = &attempt{urgent: p.Cancel}
			o.attempts[p.ID] = a
		case a.busy:
			continue
		}
		left := a.next.Sub(now)
		switch {
		case left > 0:
			wait = min(cmp.Or(wait, left), left)
		case (p.Cancel || !busy[p.Run]) && (best == nil || a.before(best)):
			n, best = p, a
		}
		if p.Run != "" {
			busy[p.Run] = true // a later one waits for this one
		}
	}
	if best == nil {
		return notice{}, wait, false
	}
	best.busy = true
	return n, 0, true
}

// before reports whether an attempt comes first of two that are due.
func (a *attempt) before(other *attempt) bool {
	if a.urgent != other.urgent {
		return a.urgent
	}
	return a.next.Before(other.next)
}

// done removes a notice that was delivered, or never will be.
func (o *outbox) done(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.attempts, id)
	o.state.Pending = slices.DeleteFunc(o.state.Pending, func(n notice) bool { return n.ID == id })
	o.wake()
	o.save()
}

// again ends an attempt that has failed: the next one comes after a pause, which depends on how many have failed.
func (o *outbox) again(id string, pause func(failed int) time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if a := o.attempts[id]; a != nil {
		a.failed++
		a.busy, a.urgent, a.next = false, false, time.Now().Add(pause(a.failed))
	}
	o.wake()
}

// pending returns the notices that are not delivered.
func (o *outbox) pending() []notice {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.state.Pending)
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
