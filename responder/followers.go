package responder

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

// Limits of what streams share.
const (
	maxRings  = 64 << 20              // bytes of all rings; one has half of them at most
	keepRing  = 30 * time.Second      // after the last event a ring is emptied
	groupTime = 20 * time.Millisecond // events within it are one group, unless it has
	maxGroup  = 64 << 10              // bytes
	lingering = 10 * time.Second      // of a follower after its last stream
)

// followers are the readings of events that streams share, one for each selection and form that is in use.
//
//	EVENTS ──▶ follower ──▶ group ──▶ ring ──▶ stream, at its own position ──▶ client
//	   └───────────────────────────────────────▶ as long as that is not in the ring
//
// The one rule: what follows a position is read from one place at a time, the ring or the stream of events; so there is
// neither a gap nor a repeat where a stream changes from one to the other.
type followers struct {
	mu  sync.Mutex
	max int             // bytes of all rings
	ctx context.Context // that of the service; nil: it does not run
	all map[followed]*follower
	run sync.WaitGroup
}

// followed says which followers are the same.
type followed struct {
	form               string
	agent, run, tokens string
	made               int64
}

// follower reads the events of a selection, once for all of its streams.
type follower struct {
	key  followed
	run  bool // of one run, whose completion ends it
	stop context.CancelFunc

	// Under the lock of followers:
	streams int
	leaving *time.Timer // ends it

	mu      sync.RWMutex
	ring    frameRing
	room    int // bytes of the ring
	group   []*frame
	size    int           // bytes of the group
	timer   *time.Timer   // completes the group; nil: there is none
	aging   *time.Timer   // empties the ring
	grouped time.Time     // when the last group was complete
	news    chan struct{} // is closed with the next group
	over    bool          // there are no more
	err     error         // why
}

// begin allows followers until ctx ends; end ends them, and waits for them.
func (a *followers) begin(ctx context.Context) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ctx, a.all = ctx, map[followed]*follower{}
}

func (a *followers) end() {
	a.mu.Lock()
	a.ctx = nil
	for _, f := range a.all {
		f.stop()
	}
	a.mu.Unlock()
	a.run.Wait()
}

// join returns the follower whose ring has all that comes after a position, for a stream that calls leave later. If
// there is no follower, it starts one, provided that the stream has read everything up to the position. nil: the
// stream must read on before.
func (a *followers) join(of runs.Selection, form string, pos uint64, read bool, reading follow) (*follower, error) {
	key := followed{form, of.Agent, of.Run, strings.Join(slices.Sorted(slices.Values(of.Tokens)), ","), of.Made}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ctx == nil || a.ctx.Err() != nil {
		return nil, unavailable("the responder stops", nil)
	}
	f := a.all[key]
	switch {
	case f != nil && !f.has(pos), f == nil && !read:
		return nil, nil
	case f == nil:
		ctx, stop := context.WithCancel(a.ctx)
		f = &follower{key: key, run: of.Run != "", stop: stop, ring: frameRing{floor: pos}, news: make(chan struct{})}
		a.all[key] = f
		a.share()
		of.After = pos
		a.run.Go(func() {
			defer stop()
			err := reading(ctx, of, f)
			a.mu.Lock()
			a.remove(f)
			a.mu.Unlock()
			f.finish(err)
		})
	}
	f.streams++
	if f.leaving != nil {
		f.leaving.Stop()
	}
	return f, nil
}

// leave is the end of a stream's part. A follower without a stream ends after a while.
func (a *followers) leave(f *follower) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if f.streams--; f.streams > 0 || a.all[f.key] != f {
		return
	}
	f.leaving = time.AfterFunc(lingering, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if f.streams == 0 {
			a.remove(f)
			f.stop()
		}
	})
}

// remove takes a follower out of the table, so that no stream joins it. The caller holds the lock.
func (a *followers) remove(f *follower) {
	if f.leaving != nil {
		f.leaving.Stop()
	}
	if a.all[f.key] == f {
		delete(a.all, f.key)
		a.share()
	}
}

// share gives each ring its share of the room. The lock is held.
func (a *followers) share() {
	for _, f := range a.all {
		f.mu.Lock()
		f.room = a.max / max(len(a.all), 2)
		f.ring.trim(f.room)
		f.mu.Unlock()
	}
}

// clear empties all rings.
func (a *followers) clear() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, f := range a.all {
		f.empty()
	}
}

// has reports whether the ring has all that comes after a position.
func (f *follower) has(pos uint64) bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return pos >= f.ring.floor
}

func (f *follower) empty() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ring.trim(0)
}

// add adds the next event. The first one after a pause is a group by itself.
func (f *follower) add(e *frame) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.group = append(f.group, e)
	f.size += e.size()
	switch wait := groupTime - time.Since(f.grouped); {
	case wait <= 0, f.size >= maxGroup:
		f.publish()
	case f.timer == nil:
		f.timer = time.AfterFunc(wait, func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.publish()
		})
	}
}

// publish passes a group on. The lock is held.
func (f *follower) publish() {
	if f.timer != nil {
		f.timer.Stop()
		f.timer = nil
	}
	if f.aging == nil {
		f.aging = time.AfterFunc(keepRing, f.empty)
	}
	f.aging.Reset(keepRing)
	f.ring.add(f.group)
	f.ring.trim(f.room)
	f.group, f.size, f.grouped = nil, 0, time.Now()
	close(f.news)
	f.news = make(chan struct{})
}

// finish says that no more events come, and why.
func (f *follower) finish(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over, f.err = true, err
	f.publish()
	f.aging.Stop()
}

// after appends the frames after a position to dst, about maxGroup bytes of them; has is false if the ring lacks some.
// If there are none now, news is closed when there may be; over: there will be none, because of err.
func (f *follower) after(pos uint64, dst []*frame) (frames []*frame, news <-chan struct{}, has, over bool, err error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	frames, has = f.ring.after(pos, maxGroup, dst)
	return frames, f.news, has, f.over, f.err
}

// follow is the reading of a follower.
type follow func(ctx context.Context, of runs.Selection, f *follower) error

// shared is the reading of frames for all streams of a selection.
func (s *Service) shared(encode func(api.Event) ([]byte, error)) follow {
	return func(ctx context.Context, of runs.Selection, f *follower) error {
		err := s.cfg.Streams.EachEvent(ctx, of, func(e runs.Event) error {
			next, err := s.framed(e, encode)
			if err != nil {
				return err
			}
			f.add(next)
			if f.run && e.Token == api.Completion {
				return errEnough
			}
			return nil
		})
		switch {
		case errors.Is(err, errEnough):
			return nil
		case ctx.Err() != nil, err == nil:
			return unavailable("the responder stops", err)
		}
		return s.readFailed(err)
	}
}

// framed is an event as it is written.
func (s *Service) framed(e runs.Event, encode func(api.Event) ([]byte, error)) (*frame, error) {
	item := eventOf(e)
	item.Meaning = s.meaning(e.Agent, e.Token, e.Body)
	b, err := encode(item)
	e.Body = nil
	return &frame{e, b}, err
}

// readFailed explains why events cannot be read.
func (s *Service) readFailed(err error) error {
	if errors.Is(err, runs.ErrReplaced) {
		return recreated()
	}
	return s.explain("read events", err)
}
