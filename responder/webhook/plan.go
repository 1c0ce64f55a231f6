package webhook

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/runs"
)

// about is what the outbox holds beside a body.
type about struct {
	Protocol string     `json:"protocol"`
	ID       string     `json:"id"`
	State    runs.State `json:"state"`
	Type     string     `json:"type"`
}

// replan is how long a run waits whose notification could not be made.
const replan = 3 * time.Second

var (
	errFull  = errors.New("the outbox is full")
	errMoved = errors.New("its registrations changed meanwhile")
)

// plan makes notifications until ctx ends. It looks at a run when there is
// news of it, or of its registrations, and compares the two: so it does not
// matter what it saw before, or who did this before it.
func (p *Pusher) plan(ctx context.Context) error {
	a := newAgenda()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.cfg.Registrations.Watch(ctx, a.registered) })
	group.Go(func() error {
		return p.cfg.Runs.WatchRuns(ctx, func(c runs.Change) {
			if c.Row.ID != "" && !c.Removed {
				a.stands(c.Row.ID, told(c.Row.State))
			}
		})
	})
	group.Go(func() error {
		tick := time.NewTicker(replan)
		defer tick.Stop()
		for {
			run, ok := a.next()
			if !ok {
				select {
				case <-ctx.Done():
					return nil
				case <-a.news:
				case <-tick.C:
					a.retry()
				}
				continue
			}
			err := p.advance(ctx, run)
			switch {
			case ctx.Err() != nil:
				return nil
			case err != nil:
				if a.fail(run) { // say it once
					p.log.Warn("a notification cannot be made now", zap.String("run", run), zap.Error(err))
				}
			default:
				a.done(run)
			}
		}
	})
	return group.Wait()
}

// told is how much there is to tell of a run in a state.
func told(s runs.State) int {
	switch {
	case s.Final():
		return toldEnd
	case s == runs.StateInputRequired:
		return toldWaiting
	case s == runs.StateWorking:
		return toldWorking
	}
	return toldNothing
}

// advance makes the notifications that a run's registrations lack. Killed
// between the outbox and the note that it was told, the next one makes the
// same again: the outbox takes it once, or the receiver knows its key.
func (p *Pusher) advance(ctx context.Context, run string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	list, revision, err := read(ctx, p.cfg.Registrations, run)
	if err != nil || len(list) == 0 {
		return err
	}
	record, ok, err := p.cfg.Runs.Record(ctx, run)
	if err != nil || !ok { // there is none yet, or none any more
		return err
	}
	now, changed := told(record.State), false
	var errs []error
	for i := range list {
		if e := &list[i]; e.Told < now {
			if err := p.tell(ctx, e, record); err != nil {
				errs = append(errs, err)
				continue
			}
			e.Told, changed = now, true
		}
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

// tell puts one notification into the outbox.
func (p *Pusher) tell(ctx context.Context, e *entry, record *runs.Record) error {
	encoder := p.cfg.Encoders[e.Protocol]
	if encoder == nil {
		return fmt.Errorf("nothing here speaks %s", e.Protocol)
	}
	key := e.key(record.State)
	body, err := encoder.Encode(ctx, e.Registration, record, key)
	if err != nil {
		return err
	}
	if len(body.Bytes) > MaxBody {
		p.counts.dropped.Add(1)
		p.log.Error("a notification is too long and is not sent", zap.String("run", e.Run), zap.Int("bytes", len(body.Bytes)))
		return nil
	}
	meta, err := bounds.Encode(about{e.Protocol, e.ID, record.State, body.Type}) // which lets an id take no more than twice its length
	if err != nil {
		return err
	}
	ok, err := p.cfg.Outbox.Add(ctx, Notice{Run: e.Run, Key: key, About: string(meta), Body: body.Bytes})
	switch {
	case err != nil:
		return err
	case !ok:
		return errFull
	}
	p.counts.made.Add(1)
	return nil
}

// agenda is which runs are to be looked at. It holds no more than the runs
// that have registrations.
type agenda struct {
	mu     sync.Mutex
	open   map[string]openRun
	due    []string
	listed map[string]bool // in due
	failed map[string]bool // to be tried again
	news   chan struct{}
	swept  time.Time
}

// openRun is a run with a registration that has not been told its end.
type openRun struct {
	told  int       // the least that one was told
	until time.Time // then its registrations are gone, unless there is news of them
}

func newAgenda() *agenda {
	return &agenda{open: map[string]openRun{}, listed: map[string]bool{}, failed: map[string]bool{}, news: make(chan struct{}, 1), swept: time.Now()}
}

// registered is news of the registrations of a run.
func (a *agenda) registered(run string, told int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if told < 0 || told >= toldEnd {
		delete(a.open, run)
		delete(a.failed, run)
		return
	}
	a.open[run] = openRun{told, time.Now().Add(openTTL)}
	a.add(run) // the run may have come that far before
}

// stands is news of a run.
func (a *agenda) stands(run string, told int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if known, there := a.open[run]; there && told > known.told {
		a.add(run)
	}
}

func (a *agenda) add(run string) {
	if a.listed[run] {
		return
	}
	a.listed[run] = true
	a.due = append(a.due, run)
	select {
	case a.news <- struct{}{}:
	default:
	}
}

func (a *agenda) next() (run string, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.due) == 0 {
		a.due = nil
		return "", false
	}
	run, a.due = a.due[0], a.due[1:]
	delete(a.listed, run)
	return run, true
}

// fail notes that a run is to be tried again, and reports whether it is the
// first time.
func (a *agenda) fail(run string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	first := !a.failed[run]
	a.failed[run] = true
	return first
}

func (a *agenda) done(run string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.failed, run)
}

// retry lists the runs that failed, and now and then forgets those whose time
// is over.
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
		a.add(run)
	}
}
