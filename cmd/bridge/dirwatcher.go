package bridge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	"go.uber.org/zap"
)

// Causes that end the processing of a request without an answer.
var (
	errReplaced  = errors.New("another request has taken its place")
	errWithdrawn = errors.New("the request was withdrawn")
	errOvertaken = errors.New("another program has answered the request")
	errMoved     = errors.New("the directory was replaced")
)

// dirWatcher watches one directory and processes its requests. Only the
// goroutine of run uses the maps; each active request has a goroutine of its
// own.
type dirWatcher struct {
	*bridge
	path string // without symbolic links once the directory was there
	log  *zap.Logger

	dir     *lockedDir // nil: the directory is missing
	journal *journal   // nil until the directory was there
	active  map[string]*activeRequest
	done    chan finished
	wait    sync.WaitGroup
	ending  sync.Mutex // held while runs that timed out are being ended
	found   sync.Map   // by request id, of requests that are not done: the outcome that [dirWatcher.foundResponse] returns

	foreign      map[string]bool            // names of ignored files that were logged; at most 2*maxNames
	incomplete   map[string]*incompleteFile // files without a valid request
	missingSince map[string]time.Time       // by request id: since when the file is missing
	retryAt      map[string]time.Time       // by name: no attempt before, after an error
}

// activeRequest is a request that is being processed.
type activeRequest struct {
	id      string
	version version
	stop    context.CancelCauseFunc
}

// finished reports the end of an active request.
type finished struct {
	name string
	err  error
}

// incompleteFile is a file without a valid request, which may be incomplete.
type incompleteFile struct {
	version version
	since   time.Time // of the last change
}

func newDirWatcher(b *bridge, path string) *dirWatcher {
	return &dirWatcher{
		bridge: b, path: path, log: b.log.With(zap.String("dir", path)),
		active: map[string]*activeRequest{}, done: make(chan finished, b.cfg.MaxAtOnce),
		foreign: map[string]bool{}, incomplete: map[string]*incompleteFile{},
		missingSince: map[string]time.Time{}, retryAt: map[string]time.Time{},
	}
}

// open opens the directory, unless it is open, and the first time its journal, whose name is that of the directory
// without symbolic links: they are known only when it is there. The lock is that of the journal, too.
func (w *dirWatcher) open() error {
	if w.dir != nil {
		return nil
	}
	path, err := filepath.EvalSymlinks(w.path)
	if err != nil {
		return err
	}
	p, err := openLockedDir(path)
	if err != nil {
		return err
	}
	if w.journal == nil {
		j, err := openJournal(filepath.Join(w.cfg.State, digest(path)))
		if err != nil {
			p.close()
			return err
		}
		w.path, w.journal = path, j
	}
	w.dir = p
	if err := w.recover(); err != nil {
		w.log.Warn("cannot recover the files of an earlier bridge", zap.Error(err))
	}
	return nil
}

func (w *dirWatcher) close() {
	if w.dir != nil {
		w.dir.close()
		w.dir = nil
	}
}

// run scans the directory after each file notification, and at intervals,
// until ctx ends.
func (w *dirWatcher) run(ctx context.Context) error {
	ctx, end := context.WithCancel(ctx)
	defer func() {
		end()
		w.stopAll(context.Canceled)
		w.wait.Wait()
	}()
	poll := time.NewTicker(w.cfg.Poll)
	defer poll.Stop()
	// Notifications are hints: they may be late or, when the system has no watches
	// left, never come. So the directory is also polled.
	var events chan fsnotify.Event
	var watchErrors chan error
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		w.log.Warn("no file notifications, polling only", zap.Error(err))
	} else {
		defer watcher.Close()
		events, watchErrors = watcher.Events, watcher.Errors
	}
	for {
		ready, err := w.reopen()
		if err != nil {
			return err
		}
		if ready {
			if watcher != nil { // adding a directory again is cheap, and needed if it was replaced
				_ = watcher.Add(w.path)
			}
			if err := w.scan(ctx, time.Now()); err != nil {
				w.log.Warn("cannot read the directory", zap.Error(err))
			}
		}
		if err := w.waitForChange(ctx, poll.C, events, watchErrors); err != nil {
			return nil
		}
	}
}

// waitForChange waits for a reason to scan again. The error is that of ctx.
func (w *dirWatcher) waitForChange(
	ctx context.Context, poll <-chan time.Time, events <-chan fsnotify.Event, watchErrors <-chan error,
) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-poll:
			return nil
		case err := <-watchErrors: // events were lost
			w.log.Debug("file notifications were lost", zap.Error(err))
			return nil
		case e := <-events:
			if base := filepath.Base(e.Name); isRequest(base) || isResponse(base) {
				return nil
			}
		case end := <-w.done:
			if end.err == nil {
				w.found.Delete(w.active[end.name].id)
			}
			delete(w.active, end.name)
			if end.err != nil {
				w.retryAt[end.name] = time.Now().Add(w.cfg.Retry)
				w.log.Warn("request failed, retrying", zap.String("file", end.name), zap.Error(end.err))
			}
			return nil
		}
	}
}

// reopen opens the directory when it exists, and closes one that was removed
// or replaced.
func (w *dirWatcher) reopen() (ready bool, err error) {
	if w.dir != nil && !w.dir.isAt(w.path) {
		w.stopAll(errMoved)
		if len(w.active) > 0 { // their goroutines still use it
			return false, nil
		}
		w.log.Warn("the directory was removed or replaced")
		w.close()
	}
	switch err := w.open(); {
	case errors.Is(err, errBusy), errors.Is(err, errState):
		return false, fmt.Errorf("directory %s: %w", w.path, err)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		w.log.Warn("cannot open the directory", zap.Error(err))
	}
	return w.dir != nil, nil
}

func (w *dirWatcher) stopAll(why error) {
	for _, a := range w.active {
		a.stop(why)
	}
}

// scan examines all requests in the directory, and abandons those whose file
// is missing.
func (w *dirWatcher) scan(ctx context.Context, now time.Time) error {
	present := map[string]bool{}
	names, err := w.dir.names(maxNames, isRequest, func(name, why string) {
		if len(present) < maxNames {
			present[name] = true
			w.ignore(name, why)
		}
	})
	if err != nil {
		return err
	}
	for _, name := range names {
		present[name] = true
		w.examine(ctx, name, now)
	}
	maps.DeleteFunc(w.foreign, func(name string, _ bool) bool { return !present[name] })
	maps.DeleteFunc(w.incomplete, func(name string, _ *incompleteFile) bool { return !present[name] })
	maps.DeleteFunc(w.retryAt, func(_ string, until time.Time) bool { return now.After(until) })
	w.stopAnswered()
	w.abandonMissing(ctx, present, now)
	w.endLeft(ctx)
	return nil
}

// stopAnswered stops active requests that have a response. If the response is
// their own, they are done anyway.
func (w *dirWatcher) stopAnswered() {
	for name, a := range w.active {
		if _, found := w.foundResponse(name, a.id); found {
			a.stop(errOvertaken)
		}
	}
}

// examine reads one request file and starts to process it.
func (w *dirWatcher) examine(ctx context.Context, name string, now time.Time) {
	a := w.active[name]
	v, err := w.dir.stat(name)
	if err == nil && a != nil && a.version == v || w.retryAt[name].After(now) {
		return
	}
	var b []byte
	if err == nil {
		b, v, err = w.dir.read(name, maxRequest)
	}
	switch foreign, ok := errors.AsType[*foreignError](err); {
	case errors.Is(err, fs.ErrNotExist):
		return
	case ok: // changed since the directory was listed
		w.ignore(name, foreign.why)
		return
	case err != nil:
		w.retryAt[name] = now.Add(w.cfg.Retry)
		w.log.Warn("cannot read a request", zap.String("file", name), zap.Error(err))
		return
	}
	r, err := parseRequest(b)
	if err != nil {
		w.awaitComplete(name, v, err, now)
		return
	}
	delete(w.incomplete, name)
	delete(w.foreign, name)
	switch {
	case a != nil && a.id == r.ID: // rewritten: the first prompt counts
		a.version = v
	case a != nil:
		a.stop(errReplaced)
	case len(w.active) < w.cfg.MaxAtOnce && !w.isActive(r.ID) && !w.superseded(ctx, name, r.ID):
		w.start(ctx, name, r.ID, v, func(ctx context.Context) error { return w.process(ctx, name, r) })
	}
}

// ignore logs once that a file is ignored.
func (w *dirWatcher) ignore(name, why string) {
	if !w.foreign[name] {
		w.foreign[name] = true
		w.log.Warn("file ignored", zap.String("file", name), zap.String("why", why))
	}
}

// awaitComplete waits until a file holds a valid request. A file that has not
// changed for too long is moved aside.
func (w *dirWatcher) awaitComplete(name string, v version, why error, now time.Time) {
	u := w.incomplete[name]
	if u == nil || u.version != v {
		w.incomplete[name] = &incompleteFile{v, now}
		return
	}
	if now.Sub(u.since) < w.cfg.Patience {
		return
	}
	delete(w.incomplete, name)
	w.step("invalid")
	to, err := w.dir.quarantine(name, "bad", why.Error(), v, now)
	if errors.Is(err, errChanged) {
		return
	}
	if err != nil {
		w.retryAt[name] = now.Add(w.cfg.Patience)
		w.log.Warn("cannot move an invalid request aside", zap.String("file", name), zap.Error(err))
		return
	}
	w.log.Warn("moved an invalid request aside",
		zap.String("file", name), zap.String("to", to), zap.String("why", why.Error()))
}

// isActive reports whether a request with this id is being processed under any
// name.
func (w *dirWatcher) isActive(id string) bool {
	for _, a := range w.active {
		if a.id == id {
			return true
		}
	}
	return false
}

// superseded reports whether an older request of this name has no answer yet,
// and abandons that one first.
func (w *dirWatcher) superseded(ctx context.Context, name, id string) bool {
	for _, e := range w.journal.unanswered() {
		if e.Name == name && e.ID != id {
			w.start(ctx, name, e.ID, version{}, func(context.Context) error { return w.abandon(ctx, e, errReplaced) })
			return true
		}
	}
	return false
}

// abandonMissing abandons requests whose file is missing.
func (w *dirWatcher) abandonMissing(ctx context.Context, present map[string]bool, now time.Time) {
	open := map[string]bool{}
	for _, e := range w.journal.unanswered() {
		open[e.ID] = true
		if _, err := w.dir.root.Lstat(e.Name); present[e.Name] || !errors.Is(err, fs.ErrNotExist) {
			delete(w.missingSince, e.ID)
			continue
		}
		since, known := w.missingSince[e.ID]
		if !known {
			w.missingSince[e.ID] = now
			continue
		}
		if now.Sub(since) < w.cfg.Settle || w.retryAt[e.Name].After(now) {
			continue
		}
		if a := w.active[e.Name]; a != nil {
			a.stop(errWithdrawn)
		} else if len(w.active) < w.cfg.MaxAtOnce {
			// With the context of the scan: the next one stops what has no file, which is this.
			w.start(ctx, e.Name, e.ID, version{}, func(context.Context) error {
				if by, found := w.foundResponse(e.Name, e.ID); found {
					return w.yield(ctx, e, by)
				}
				return w.abandon(ctx, e, errWithdrawn)
			})
		}
	}
	maps.DeleteFunc(w.missingSince, func(id string, _ time.Time) bool { return !open[id] })
}

// start starts a goroutine that processes a request.
func (w *dirWatcher) start(ctx context.Context, name, id string, v version, do func(context.Context) error) {
	ctx, stop := context.WithCancelCause(ctx)
	w.active[name] = &activeRequest{id, v, stop}
	w.wait.Go(func() {
		defer stop(nil)
		err := do(ctx)
		w.done <- finished{name, err} // never blocks: the buffer has room for all active requests
	})
}
