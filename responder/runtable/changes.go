package runtable

import (
	"context"
	"errors"
	"strings"

	"github.com/linesman/linesman/runs"
)

// maxChanges is how many changes of runs a table remembers at least, once there were as many.
const maxChanges = 32 << 10

// changes are the ids of the runs that changed last, the oldest first, once for each change.
type changes struct {
	ids  []string
	last uint64        // the number of the last change; the first one ever has 1
	news chan struct{} // closed at the next change; nil: nothing waits for it
}

func (c *changes) add(id string) {
	if c.last++; len(c.ids) == 2*maxChanges {
		c.ids = append(c.ids[:0], c.ids[maxChanges:]...)
	}
	c.ids = append(c.ids, strings.Clone(id)) // it is a part of all texts of its row
	if c.news != nil {
		close(c.news)
		c.news = nil
	}
}

// after returns the runs that changed after a change, each once, and false if the changes
// since then are no longer known.
func (c *changes) after(n uint64) (ids []string, ok bool) {
	if n > c.last || c.last-n > uint64(len(c.ids)) {
		return nil, false
	}
	listed := map[string]bool{}
	for _, id := range c.ids[uint64(len(c.ids))-(c.last-n):] {
		if !listed[id] {
			listed[id] = true
			ids = append(ids, id)
		}
	}
	return ids, true
}

// touch marks runs as changed whose rows have not, but their views.
func (t *index) touch(ids ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, id := range ids {
		t.changes.add(id)
	}
}

// LastChange returns the number of the last change of a run, for [Table.ChangedAfter].
func (r *Table) LastChange() uint64 {
	r.index.mu.Lock()
	defer r.index.mu.Unlock()
	return r.index.changes.last
}

// ErrForgotten reports changes that are no longer known: there were too many since then.
var ErrForgotten = errors.New("the changes since then are not known")

// ChangedAfter returns the ids of the runs that have changed, or were removed, after a change
// of this table, each once, and the number of the last change among them. With none it waits
// for the next one, or the end of ctx, which is no error. Changes of a run's position in its
// queue, and of the silence of its worker, do not count. The error is [ErrForgotten].
func (r *Table) ChangedAfter(ctx context.Context, n uint64) (ids []string, last uint64, err error) {
	for {
		r.index.mu.Lock()
		ids, ok := r.index.changes.after(n)
		last := r.index.changes.last
		if r.index.changes.news == nil {
			r.index.changes.news = make(chan struct{})
		}
		news := r.index.changes.news
		r.index.mu.Unlock()
		switch {
		case !ok:
			return nil, n, ErrForgotten
		case len(ids) > 0:
			return ids, last, nil
		}
		select {
		case <-ctx.Done():
			return nil, n, nil
		case <-news:
		}
	}
}

// Moves returns a number that differs whenever the position of a queued run may differ.
func (r *Table) Moves() uint64 {
	r.index.mu.Lock()
	defer r.index.mu.Unlock()
	return r.index.moves
}

// Views returns the views of runs, without those that do not exist.
func (r *Table) Views(ids []string) []runs.Header {
	all := make([]runs.Header, 0, len(ids))
	for _, id := range ids {
		if v, ok := r.Get(id); ok {
			all = append(all, v)
		}
	}
	return all
}

// unseenChanged marks the runs as changed that are shown as unseen once the marks are known.
func (r *Table) unseenChanged() {
	r.index.mu.Lock()
	defer r.index.mu.Unlock()
	oldest := OldestUnseen()
	for id, e := range r.index.rows { // all: an order would have to be made first
		if e.endedAt >= oldest && r.Unseen(e.header()) {
			r.index.changes.add(id)
		}
	}
}
