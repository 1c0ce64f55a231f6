package worker

import (
	"path/filepath"
	"sync"

	"github.com/fsnotify/fsnotify"
)

// notifier tells many followers of files that something happened to them, with
// one watcher for all. It runs while somebody watches. The zero value is ready.
//
// A watch is a hint: it may come late or, where the system has no more
// watches to give, never. So everybody polls too.
type notifier struct {
	mu   sync.Mutex
	fs   *fsnotify.Watcher
	done chan struct{} // closed when the dispatching of fs has ended
	dirs map[string]int
	subs map[string]map[*watch]struct{} // by path
}

// watch is one follower's view of a notifier.
type watch struct {
	C     chan struct{} // holds one element when something happened since
	blind error         // why nothing will come; nil when it will

	from  *notifier
	paths []string
}

// watch begins to watch for changes of the named entries of directories. The
// entries need not exist.
func (n *notifier) watch(paths ...string) *watch {
	w := &watch{C: make(chan struct{}, 1), from: n, paths: paths}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.fs == nil {
		fs, err := fsnotify.NewWatcher()
		if err != nil {
			w.blind, w.paths = err, nil
			return w
		}
		n.fs, n.done = fs, make(chan struct{})
		n.dirs, n.subs = make(map[string]int), make(map[string]map[*watch]struct{})
		go n.dispatch(fs, n.done)
	}
	for _, path := range paths {
		dir := filepath.Dir(path)
		// Adding again is cheap, and needed for a directory that was replaced.
		if err := n.fs.Add(dir); err != nil {
			w.blind = err
		}
		n.dirs[dir]++
		if n.subs[path] == nil {
			n.subs[path] = make(map[*watch]struct{})
		}
		n.subs[path][w] = struct{}{}
	}
	return w
}

// close ends w. After the last one nothing of the notifier runs any more.
func (w *watch) close() {
	n := w.from
	n.mu.Lock()
	for _, path := range w.paths {
		delete(n.subs[path], w)
		if len(n.subs[path]) == 0 {
			delete(n.subs, path)
		}
		dir := filepath.Dir(path)
		if n.dirs[dir]--; n.dirs[dir] == 0 {
			delete(n.dirs, dir)
			_ = n.fs.Remove(dir) // fails when the directory itself is gone
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
		_ = fs.Close() // nothing to do about it: the polls go on
		<-done
	}
}

func (n *notifier) dispatch(fs *fsnotify.Watcher, done chan struct{}) {
	defer close(done)
	for {
		select {
		case event, ok := <-fs.Events:
			if !ok {
				return
			}
			n.mu.Lock()
			if n.fs == fs { // else the paths are another watcher's
				for w := range n.subs[event.Name] {
					w.wake()
				}
			}
			n.mu.Unlock()
		case _, ok := <-fs.Errors:
			if !ok {
				return
			}
			// Events were lost; the polls will find what they were about.
		}
	}
}

func (w *watch) wake() {
	select {
	case w.C <- struct{}{}:
	default:
	}
}
