package runtable

import (
	"context"

	"github.com/linesman/linesman/runs"
)

// WatchRuns calls each with the row of every run as answers show it, and then with
// each change, until ctx ends; then it returns nil. If changes arrive faster than each
// handles them, it gets the last one. Record is at least as new as the rows
// that each got.
func (r *Table) WatchRuns(ctx context.Context, each func(runs.Change)) error {
	t := r.index
	w := t.watch()
	defer t.unwatch(w)
	for {
		for _, id := range t.drain(w) {
			row, revision, ok := t.get(id)
			row.ID = id
			each(runs.Change{Row: row, Revision: revision, Removed: !ok})
		}
		select {
		case <-ctx.Done():
			return nil
		case <-w.news:
		}
	}
}

// watcher is notified of changes of all runs. It holds the ids of changed runs,
// each once: at most those in the table, and those removed meanwhile.
type watcher struct {
	ids    []string // in the order of the first change
	listed map[string]bool
	news   chan struct{}
}

// watch returns a watcher for which all runs are changed.
func (t *index) watch() *watcher {
	w := &watcher{listed: map[string]bool{}, news: make(chan struct{}, 1)}
	t.mu.Lock()
	defer t.mu.Unlock()
	for id := range t.rows {
		w.notify(id)
	}
	t.watchers[w] = true
	return w
}

func (t *index) unwatch(w *watcher) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.watchers, w)
}

// drain takes the ids of the changed runs.
func (t *index) drain(w *watcher) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	ids := w.ids
	w.ids, w.listed = nil, map[string]bool{}
	return ids
}

// notify marks a run as changed.
func (w *watcher) notify(id string) {
	if w.listed[id] {
		return
	}
	w.listed[id] = true
	w.ids = append(w.ids, id)
	select {
	case w.news <- struct{}{}:
	default:
	}
}
