package runtable

import (
	"context"
	"errors"

	"github.com/linesman/linesman/runs"
)

// Standing reads runs as answers show them: a task that was continued has the
// state of its newest continuation.
type Standing struct{ runs *Table }

// Standing returns the view of the table's runs. Run must be active.
func (r *Table) Standing() Standing { return Standing{r} }

// WatchRuns calls each with the row of every run, and then with each change,
// until ctx ends; then it returns nil. If changes arrive faster than each
// handles them, it gets the last one. Record is at least as new as the rows
// that each got.
func (s Standing) WatchRuns(ctx context.Context, each func(runs.Change)) error {
	t := s.runs.index
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

// Record reads the record of a run. It reports false if there is none.
func (s Standing) Record(ctx context.Context, run string) (*runs.Record, bool, error) {
	record, err := s.runs.Record(ctx, run)
	if errors.Is(err, runs.ErrNoRun) {
		return nil, false, nil
	}
	return record, err == nil, err
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
