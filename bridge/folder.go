package bridge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	"go.uber.org/zap"
)

// Why an attendance ends before there is an answer.
var (
	errReplaced  = errors.New("another request has taken its place")
	errWithdrawn = errors.New("the request was withdrawn")
	errOvertaken = errors.New("somebody else has answered the request")
	errMoved     = errors.New("the directory is another one")
)

// folder watches one directory. Its maps belong to the goroutine of run; each
// request that is being done has one more goroutine, its attendance.
type folder struct {
	*Bridge
	path    string
	journal *journal
	log     *zap.Logger

	place  *place // nil: the directory is not there
	active map[string]*attendance
	done   chan finished
	wait   sync.WaitGroup

	foreign map[string]bool      // names that are left alone, which was said; at most 2*maxNames
	unready map[string]*unready  // files that are no requests yet
	gone    map[string]time.Time // by request id: since when its file is missing
	later   map[string]time.Time // by name: not before, for something went wrong
}

// attendance is a request that is being done.
type attendance struct {
	id      string
	version version
	stop    context.CancelCauseFunc
}

// finished says that an attendance has ended.
type finished struct {
	name string
	err  error
}

// unready is a file that may still be written.
type unready struct {
	version version
	since   time.Time // unchanged
}

func newFolder(b *Bridge, path string, j *journal) *folder {
	return &folder{
		Bridge: b, path: path, journal: j, log: b.log.With(zap.String("dir", path)),
		active: map[string]*attendance{}, done: make(chan finished, b.cfg.MaxAtOnce),
		foreign: map[string]bool{}, unready: map[string]*unready{}, gone: map[string]time.Time{}, later: map[string]time.Time{},
	}
}

// open opens the directory if it is not open.
func (f *folder) open() error {
	if f.place != nil {
		return nil
	}
	p, err := openPlace(f.path)
	if err != nil {
		return err
	}
	f.place = p
	if err := f.recover(); err != nil {
		f.log.Warn("what an earlier bridge left cannot be put in order", zap.Error(err))
	}
	return nil
}

func (f *folder) close() {
	if f.place != nil {
		f.place.close()
		f.place = nil
	}
}

// run looks at the directory whenever something happens in it, and from time
// to time, until ctx ends.
func (f *folder) run(ctx context.Context) error {
	defer func() {
		f.stopAll(context.Canceled)
		f.wait.Wait()
	}()
	poll := time.NewTicker(f.cfg.Poll)
	defer poll.Stop()
	// A watch is a hint: it may come late or, where the system has no more
	// watches to give, never. So the ticker stays.
	var events chan fsnotify.Event
	var faults chan error
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		f.log.Warn("no news of files: looking from time to time only", zap.Error(err))
	} else {
		defer watcher.Close()
		events, faults = watcher.Events, watcher.Errors
	}
	for {
		ready, err := f.reopen()
		if err != nil {
			return err
		}
		if ready {
			if watcher != nil { // adding again is cheap, and needed for a directory that was replaced
				_ = watcher.Add(f.path)
			}
			if err := f.scan(ctx, time.Now()); err != nil {
				f.log.Warn("the directory cannot be looked at", zap.Error(err))
			}
		}
		if err := f.news(ctx, poll.C, events, faults); err != nil {
			return nil
		}
	}
}

// news waits until there is reason to look again. The error is ctx's.
func (f *folder) news(ctx context.Context, poll <-chan time.Time, events <-chan fsnotify.Event, faults <-chan error) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-poll:
			return nil
		case err := <-faults: // events were lost
			f.log.Debug("the watch has a fault", zap.Error(err))
			return nil
		case e := <-events:
			if base := filepath.Base(e.Name); isRequest(base) || isResponse(base) {
				return nil
			}
		case end := <-f.done:
			delete(f.active, end.name)
			if end.err != nil {
				f.later[end.name] = time.Now().Add(f.cfg.Retry)
				f.log.Warn("a request is tried again", zap.String("file", end.name), zap.Error(end.err))
			}
			return nil
		}
	}
}

// reopen opens the directory once it is there, and lets go of one that is no
// longer what its path leads to.
func (f *folder) reopen() (ready bool, err error) {
	if f.place != nil && !f.place.at(f.path) {
		f.stopAll(errMoved)
		if len(f.active) > 0 { // they work in it still
			return false, nil
		}
		f.log.Warn("the directory is gone, or another one")
		f.close()
	}
	switch err := f.open(); {
	case errors.Is(err, errBusy):
		return false, fmt.Errorf("directory %s: %w", f.path, err)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		f.log.Warn("the directory cannot be opened", zap.Error(err))
	}
	return f.place != nil, nil
}

func (f *folder) stopAll(why error) {
	for _, a := range f.active {
		a.stop(why)
	}
}

// scan looks at every request in the directory, and for those that are gone.
func (f *folder) scan(ctx context.Context, now time.Time) error {
	names, foreign, err := f.place.requests()
	if err != nil {
		return err
	}
	there := make(map[string]bool, len(names)+len(foreign))
	for name, why := range foreign {
		there[name] = true
		f.leave(name, why)
	}
	for _, name := range names {
		there[name] = true
		f.look(ctx, name, now)
	}
	for name := range f.foreign {
		if !there[name] {
			delete(f.foreign, name)
		}
	}
	for name := range f.unready {
		if !there[name] {
			delete(f.unready, name)
		}
	}
	for name, until := range f.later {
		if now.After(until) {
			delete(f.later, name)
		}
	}
	f.overtaken()
	f.missing(ctx, there, now)
	return nil
}

// overtaken ends attendances whose request has a response by now, be it their
// own, with which they are done anyway.
func (f *folder) overtaken() {
	for name, a := range f.active {
		if f.responseID(name) == a.id {
			a.stop(errOvertaken)
		}
	}
}

// look looks at one request.
func (f *folder) look(ctx context.Context, name string, now time.Time) {
	a := f.active[name]
	v, err := f.place.stat(name)
	if err == nil && a != nil && a.version == v || f.later[name].After(now) {
		return
	}
	var b []byte
	if err == nil {
		b, v, err = f.place.read(name, MaxRequest)
	}
	var foreign *foreignError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return
	case errors.As(err, &foreign): // only just
		f.leave(name, foreign.why)
		return
	case err != nil:
		f.later[name] = now.Add(f.cfg.Retry)
		f.log.Warn("a request cannot be read", zap.String("file", name), zap.Error(err))
		return
	}
	r, err := ParseRequest(b)
	if err != nil {
		f.bear(name, v, err, now)
		return
	}
	delete(f.unready, name)
	delete(f.foreign, name)
	switch {
	case a != nil && a.id == r.ID: // written again: the first prompt holds
		a.version = v
	case a != nil:
		a.stop(errReplaced)
	case len(f.active) < f.cfg.MaxAtOnce && !f.attended(r.ID) && !f.superseded(ctx, name, r.ID):
		f.begin(ctx, name, r.ID, v, func(ctx context.Context) error { return f.attend(ctx, name, r) })
	}
}

// leave leaves a file alone, and says so once.
func (f *folder) leave(name, why string) {
	if !f.foreign[name] {
		f.foreign[name] = true
		f.log.Warn("not taken for a request", zap.String("file", name), zap.String("why", why))
	}
}

// bear waits for the end of a file that is no request yet. When it has not
// changed for too long it is moved aside.
func (f *folder) bear(name string, v version, why error, now time.Time) {
	u := f.unready[name]
	if u == nil || u.version != v {
		f.unready[name] = &unready{v, now}
		return
	}
	if now.Sub(u.since) < f.cfg.Patience {
		return
	}
	delete(f.unready, name)
	to, err := f.place.aside(name, "bad", why.Error(), now)
	if err != nil {
		f.later[name] = now.Add(f.cfg.Patience)
		f.log.Warn("a file that is no request cannot be moved aside", zap.String("file", name), zap.Error(err))
		return
	}
	f.log.Warn("moved a file aside that is no request", zap.String("file", name), zap.String("to", to), zap.String("why", why.Error()))
}

// attended reports whether a request id is being done under another name.
func (f *folder) attended(id string) bool {
	for _, a := range f.active {
		if a.id == id {
			return true
		}
	}
	return false
}

// superseded reports whether an older request of this name waits for its
// answer, and has it given up first.
func (f *folder) superseded(ctx context.Context, name, id string) bool {
	for _, e := range f.journal.open() {
		if e.Name == name && e.ID != id {
			f.begin(ctx, name, e.ID, version{}, func(context.Context) error { return f.release(ctx, e, errReplaced) })
			return true
		}
	}
	return false
}

// missing gives up requests whose file is gone.
func (f *folder) missing(ctx context.Context, there map[string]bool, now time.Time) {
	open := map[string]bool{}
	for _, e := range f.journal.open() {
		open[e.ID] = true
		if _, err := f.place.root.Lstat(e.Name); there[e.Name] || !errors.Is(err, fs.ErrNotExist) {
			delete(f.gone, e.ID)
			continue
		}
		since, known := f.gone[e.ID]
		if !known {
			f.gone[e.ID] = now
			continue
		}
		if now.Sub(since) < f.cfg.Settle || f.later[e.Name].After(now) {
			continue
		}
		if a := f.active[e.Name]; a != nil {
			a.stop(errWithdrawn)
		} else if len(f.active) < f.cfg.MaxAtOnce {
			f.begin(ctx, e.Name, e.ID, version{}, func(ctx context.Context) error {
				if f.responseID(e.Name) == e.ID {
					return f.yield(ctx, e)
				}
				return f.release(ctx, e, errWithdrawn)
			})
		}
	}
	for id := range f.gone {
		if !open[id] {
			delete(f.gone, id)
		}
	}
}

// begin starts an attendance.
func (f *folder) begin(ctx context.Context, name, id string, v version, do func(context.Context) error) {
	ctx, stop := context.WithCancelCause(ctx)
	f.active[name] = &attendance{id, v, stop}
	f.wait.Go(func() {
		defer stop(nil)
		err := do(ctx)
		f.done <- finished{name, err} // has room for all of them
	})
}
