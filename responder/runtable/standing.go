package runtable

import (
	"context"
	"errors"

	"github.com/linesman/linesman/runs"
)

// Standing tells how runs stand as answers show them: a run whose task was gone
// on with stands as the newest of its links.
type Standing struct{ runs *Table }

// Standing is how the runs of the responder's table stand. Its Run must be at
// work meanwhile.
func (r *Table) Standing() Standing { return Standing{r} }

// WatchRuns calls each with the row of every run, and then with what changes,
// until ctx ends; then it returns nil. Of changes that come faster than each
// takes them the last one is told. What Record says is as new as what each was
// told, or newer.
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

// Record reads the record of a run. It reports false where there is none.
func (s Standing) Record(ctx context.Context, run string) (*runs.Record, bool, error) {
	record, err := s.runs.Record(ctx, run)
	if errors.Is(err, runs.ErrNoRun) {
		return nil, false, nil
	}
	return record, err == nil, err
}

// watcher is somebody who is told of every run. It holds the ids of those of
// which there is news, each once: no more than the table has, and those that
// went meanwhile.
type watcher struct {
	ids    []string // in the order of the first news
	listed map[string]bool
	news   chan struct{}
}

// watch makes a watcher, for which all runs are news.
func (t *index) watch() *watcher {
	w := &watcher{listed: map[string]bool{}, news: make(chan struct{}, 1)}
	t.mu.Lock()
	defer t.mu.Unlock()
	for id := range t.rows {
		w.tell(id)
	}
	t.watchers[w] = true
	return w
}

func (t *index) unwatch(w *watcher) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.watchers, w)
}

// drain takes the ids of which there is news.
func (t *index) drain(w *watcher) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	ids := w.ids
	w.ids, w.listed = nil, map[string]bool{}
	return ids
}

// tell says to a watcher that there is news of a run.
func (w *watcher) tell(id string) {
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
