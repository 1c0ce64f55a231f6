package webhook

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/runs"
)

// outboxMeta is the metadata of a notification in the outbox, beside its body.
type outboxMeta struct {
	Protocol string     `json:"protocol"`
	ID       string     `json:"id"`
	State    runs.State `json:"state"` // of which it is, see [entry.key]
	Type     string     `json:"type"`
}

var (
	errFull  = errors.New("the outbox is full")
	errShare = errors.New("the outbox has no space for a receiver that does not take its notifications")
	errMoved = errors.New("its registrations changed meanwhile")
)

// plan creates notifications until ctx ends. It examines a run after a change
// of the run or of its registrations, and compares the two: the result does not
// depend on what it, or a previous leader, saw before.
func (p *Pusher) plan(ctx context.Context) error {
	a := newAgenda()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.cfg.Registrations.Watch(ctx, a.registered) })
	group.Go(func() error {
		return p.cfg.Runs.WatchRuns(ctx, func(c runs.Change) {
			if c.Run.ID != "" && !c.Removed {
				a.advanced(c.Run.ID, progress(c.Run.State))
				a.waits(&c.Run)
			}
		})
	})
	group.Go(func() error {
		tick := time.NewTicker(3 * p.hosts.pace) // failed notifications are created again
		defer tick.Stop()
		full, logged := false, false
		for {
			run, ok := "", false
			if !full { // else nothing is examined before the next tick
				run, ok = a.next()
			}
			if !ok {
				news := a.news
				if full {
					news = nil
				}
				select {
				case <-ctx.Done():
					return nil
				case <-news:
				case <-tick.C:
					full = false
					a.retry()
				}
				continue
			}
			err := p.advance(ctx, run)
			switch {
			case ctx.Err() != nil:
				return nil
			case errors.Is(err, errFull), errors.Is(err, errShare):
				full = errors.Is(err, errFull)
				if first := a.fail(run); first && !logged {
					logged = true
					p.log.Warn("notifications cannot be made now", zap.String("run", run), zap.Error(err))
				}
			case err != nil:
				if a.fail(run) { // log it once
					p.log.Warn("a notification cannot be made now", zap.String("run", run), zap.Error(err))
				}
			default:
				logged = a.done(run) && logged
			}
		}
	})
	return group.Wait()
}

// progress is how much there is to notify of for a run in a state.
func progress(s runs.State) int {
	switch {
	case s.Final():
		return notifiedEnd
	case s == runs.StateInputRequired:
		return notifiedWaiting
	case s == runs.StateWorking:
		return notifiedWorking
	}
	return notifiedNone
}

// advance creates the missing notifications of a run's registrations. If the
// process is killed after it filled the outbox and before it stored that, the
// next leader creates the same notification again: the outbox deduplicates it,
// or the receiver knows its key.
func (p *Pusher) advance(ctx context.Context, run string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	list, revision, err := read(ctx, p.cfg.Registrations, run)
	if err != nil || len(list) == 0 {
		return err
	}
	record, err := p.cfg.Runs.Record(ctx, run)
	if errors.Is(err, runs.ErrNoRun) { // not recorded yet, or removed
		return nil
	}
	if err != nil {
		return err
	}
	changed := false
	var errs []error
	for i := range list {
		more, err := p.notify(ctx, &list[i], record)
		changed = changed || more
		errs = append(errs, err)
	}
	if changed {
		ok, err := write(ctx, p.cfg.Registrations, run, list, revision)
		if err == nil && !ok {
			err = errMoved
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// notify creates the missing notifications of a registration, and reports whether there
// was one: of the state, of each open question that people are asked, or of the turn after which the run waits for a
// message.
func (p *Pusher) notify(ctx context.Context, e *entry, record *runs.Record) (changed bool, err error) {
	now := progress(record.State)
	if h := record.Header(); len(h.Questions) == 0 {
		about, turn := record.State, e.Turn
		if h.AwaitsMessage() {
			number := strconv.Itoa(h.Turn)
			about, turn = about+" turn "+runs.State(number), ordinal(number)
		}
		if e.Notified >= now && turn <= e.Turn {
			return false, nil
		}
		if err := p.enqueue(ctx, e, record, about); err != nil {
			return false, err
		}
		e.Notified, e.Turn = now, turn
		return true, nil
	}
	for _, q := range record.Live.Questions { // in the order of their numbers
		if !q.People || ordinal(q.ID) <= e.Asked {
			continue
		}
		one, live := *record, *record.Live
		live.Questions, one.Live = []runs.Asked{q}, &live
		if err := p.enqueue(ctx, e, &one, record.State+" "+runs.State(q.ID)); err != nil {
			return changed, err
		}
		e.Notified, e.Asked, changed = now, ordinal(q.ID), true
	}
	return changed, nil
}

// enqueue adds one notification to the outbox, about a state as in [entry.key].
func (p *Pusher) enqueue(ctx context.Context, e *entry, record *runs.Record, about runs.State) error {
	encoder := p.cfg.Encoders[e.Protocol]
	if encoder == nil {
		return fmt.Errorf("no encoder for protocol %s", e.Protocol)
	}
	if host := hostOf(e.Registration.URL); p.hosts.lags(host, time.Now()) && p.crowded(ctx) {
		return fmt.Errorf("%w: %s", errShare, host)
	}
	key := e.key(about)
	body, err := encoder.Encode(ctx, e.Registration, record, key)
	if err != nil {
		return err
	}
	if len(body.Bytes) > MaxBody {
		p.log.Error("a notification is too long and is not sent", zap.String("run", e.Run), zap.Int("bytes", len(body.Bytes)))
		return nil
	}
	meta, err := bounds.Encode(outboxMeta{e.Protocol, e.ID, about, body.Type}) // an id at most doubles
	if err != nil {
		return err
	}
	ok, err := p.cfg.Outbox.Add(ctx, notice{Run: e.Run, Key: key, About: string(meta), Body: body.Bytes})
	switch {
	case err != nil:
		return err
	case !ok:
		return errFull
	}
	return nil
}

// agenda lists the runs to examine. It holds at most the runs that have
// registrations.
type agenda struct {
	mu     sync.Mutex
	open   map[string]openRun
	due    map[string]bool
	failed map[string]bool // to be retried
	news   chan struct{}
	swept  time.Time
}

// openRun is a run with a registration that was not notified of its end.
type openRun struct {
	progress int       // the lowest progress of its registrations
	until    time.Time // when its registrations expire, unless they change
	asked    string    // newest question for which it was listed, as [ordinal] returns it
	turn     string    // and the newest turn
}

func newAgenda() *agenda {
	return &agenda{open: map[string]openRun{}, due: map[string]bool{}, failed: map[string]bool{},
		news: make(chan struct{}, 1), swept: time.Now()}
}

// registered handles a change of the registrations of a run.
func (a *agenda) registered(run string, progress int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if progress < 0 || progress >= notifiedEnd {
		delete(a.open, run)
		delete(a.failed, run)
		return
	}
	a.open[run] = openRun{progress, time.Now().Add(openTTL), a.open[run].asked, a.open[run].turn}
	a.add(run) // the run may have made progress before
}

// advanced handles a change of a run.
func (a *agenda) advanced(run string, progress int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if known, there := a.open[run]; there && progress > known.progress {
		a.add(run)
	}
}

// waits handles that a run asks people, or waits for a message.
func (a *agenda) waits(run *runs.Header) {
	a.mu.Lock()
	defer a.mu.Unlock()
	known, there := a.open[run.ID]
	if !there {
		return
	}
	before := known
	for _, question := range run.Questions {
		known.asked = max(known.asked, ordinal(question))
	}
	if run.AwaitsMessage() {
		known.turn = max(known.turn, ordinal(strconv.Itoa(run.Turn)))
	}
	if known != before {
		a.open[run.ID] = known
		a.add(run.ID)
	}
}

func (a *agenda) add(run string) {
	a.due[run] = true
	select {
	case a.news <- struct{}{}:
	default:
	}
}

func (a *agenda) next() (run string, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for run = range a.due {
		delete(a.due, run)
		return run, true
	}
	return "", false
}

// fail schedules a retry of a run, and reports whether it is the first one.
func (a *agenda) fail(run string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	first := !a.failed[run]
	a.failed[run] = true
	return first
}

// done removes a run, and reports whether others have failed.
func (a *agenda) done(run string) (others bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.failed, run)
	return len(a.failed) > 0
}

// maxRetried is the maximum number of runs that are examined again at a time.
const maxRetried = 500

// retry lists failed runs again, any of them, and occasionally drops the expired ones.
func (a *agenda) retry() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now := time.Now(); now.Sub(a.swept) > time.Hour {
		a.swept = now
		for run, o := range a.open {
			if now.After(o.until) {
				delete(a.open, run)
				delete(a.failed, run)
			}
		}
	}
	for run := range a.failed {
		if len(a.due) >= maxRetried {
			return
		}
		a.add(run)
	}
}
