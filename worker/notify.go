package worker

import (
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"
)

// notifier notifies many followers of changes of their files, with one watcher
// for all. The watcher runs while there is a watch. The zero value is ready to
// use.
//
// Notifications are hints: they may be late or, when the system has no watches
// left, never come. So all users poll as well.
type notifier struct {
	mu   sync.Mutex
	fs   *fsnotify.Watcher
	done chan struct{} // closed when dispatch has returned
	dirs map[string]int
	subs map[string]map[*watch]struct{} // by path
}

// watch is a subscription of one follower.
type watch struct {
	C   chan struct{} // holds one element after a change
	err error         // why there are no notifications; nil if there are

	exited atomic.Bool // the exit of an agent was written

	notifier *notifier
	paths    []string
}

// watch subscribes to changes of the paths, which need not exist.
func (n *notifier) watch(paths ...string) *watch {
	w := &watch{C: make(chan struct{}, 1), notifier: n, paths: paths}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.fs == nil {
		fs, err := fsnotify.NewWatcher()
		if err != nil {
			w.err, w.paths = err, nil
			return w
		}
		n.fs, n.done = fs, make(chan struct{})
		n.dirs, n.subs = make(map[string]int), make(map[string]map[*watch]struct{})
		go n.dispatch(fs, n.done)
	}
	for _, path := range paths {
		dir := filepath.Dir(path)
		// Adding a directory again is cheap, and needed if it was replaced.
		if err := n.fs.Add(dir); err != nil {
			w.err = err
		}
		n.dirs[dir]++
		if n.subs[path] == nil {
			n.subs[path] = make(map[*watch]struct{})
		}
		n.subs[path][w] = struct{}{}
	}
	return w
}

// close ends the subscription. After the last one the watcher is closed.
func (w *watch) close() {
	n := w.notifier
	n.mu.Lock()
	for _, path := range w.paths {
		delete(n.subs[path], w)
		if len(n.subs[path]) == 0 {
			delete(n.subs, path)
		}
		dir := filepath.Dir(path)
		if n.dirs[dir]--; n.dirs[dir] == 0 {
			delete(n.dirs, dir)
			_ = n.fs.Remove(dir) // fails when the directory is gone
		}
	}
	w.paths = nil
	var fs *fsnotify.Watcher
	done := n.done
	if len(n.subs) == 0 && n.fs != nil {
		fs, n.fs = n.fs, nil
	}
	n.mu.Unlock()
	if fs != nil {
		_ = fs.Close() // on an error the users still poll
		<-done
	}
}

// Changes that follow others are collected for groupTime, from groupRuns runs on: those that write a line now and then
// wake up together, and what they send and store shares its way. groupGap is a pause by which a group is over.
const (
	groupTime = 5 * time.Millisecond
	groupRuns = 8
	groupGap  = 100 * time.Microsecond
)

func (n *notifier) dispatch(fs *fsnotify.Watcher, done chan struct{}) {
	defer close(done)
	pause := time.NewTimer(0)
	defer pause.Stop()
	for n.next(fs, nil) {
		if !n.many() {
			continue
		}
		for pause.Reset(groupGap); n.next(fs, pause.C); pause.Reset(groupGap) {
		}
		time.Sleep(groupTime)
	}
}

// many reports whether there are so many runs that changes are passed on in groups.
func (n *notifier) many() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.dirs) >= groupRuns
}

// next passes on a change. It reports false when over is ready before there is one, or with the end of fs.
func (n *notifier) next(fs *fsnotify.Watcher, over <-chan time.Time) bool {
	select {
	case event, ok := <-fs.Events:
		if !ok {
			return false
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.fs != fs { // the paths belong to a newer watcher
			return true
		}
		for w := range n.subs[event.Name] {
			if filepath.Base(event.Name) == exitFile {
				w.exited.Store(true)
			}
			select {
			case w.C <- struct{}{}:
			default: // notified already
			}
		}
		return true
	case _, ok := <-fs.Errors:
		return ok // events were lost; polling finds the changes
	case <-over:
		return false
	}
}

// watch watches the files that the source of the run writes.
func (r *Run) watch() *watch {
	if r.dir.Spec.Part != nil { // an import waits for nothing
		return &watch{notifier: &r.w.files}
	}
	paths := []string{r.out.path, r.file(exitFile)}
	if r.dir.Spec.process() {
		paths = append(paths, r.err.path)
	}
	return r.w.watch(paths...)
}

// together returns the time until the last tenth of a second before a pause is over, if that is long: many runs that
// look after a silent agent then do so at once, and the process sleeps meanwhile.
func together(pause time.Duration, now time.Time) time.Duration {
	const tick = 100 * time.Millisecond
	if pause < 5*tick {
		return pause
	}
	return pause - time.Duration(now.Add(pause).UnixNano())%tick
}
