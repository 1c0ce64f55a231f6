package runtable

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/linesman/linesman/runs"
)

// index holds a row for every run that has a record, and notifies those waiting
// for a run. It is bounded by the run bucket, which it mirrors.
type index struct {
	mu            sync.Mutex
	began         time.Time
	rows          map[string]*entry
	continuations map[string][]string // by task: the runs that continue it
	working       map[string]*entry
	queues        map[string][]*entry // the queued ones, by queue and place
	moves         uint64              // changes of queues
	rebuilding    bool                // the run bucket was recreated: some entries are stale
	watching      bool                // the initial values were read: changes are new
	orders        orders
	commons       commons
	finals        map[runs.State]int // number of the others by state
	ended         map[kind]int       // the same by kind
	revision      uint64             // the newest of the run bucket
	seq           uint64
	at            time.Time // when the last change arrived
	news          map[string]map[chan struct{}]bool
	watchers      map[*watcher]bool
	changes       changes
	waitReason    string        // why the table is not filled yet; "" if not known
	filled        chan struct{} // closed once the initial values were read
	full          sync.Once
}

// kind is what a snapshot can select ended runs by without looking at each.
type kind struct{ agent, source string }

type entry struct {
	row                      // as answers show it
	recorded   *row          // if that differs: see continuations.go
	revision   uint64        // 0: not recorded yet, submitted by this process
	lastChange time.Duration // since the index began; 0: before the watch did
}

func newIndex() *index {
	return &index{
		began: time.Now(),
		rows:  map[string]*entry{}, continuations: map[string][]string{}, working: map[string]*entry{},
		queues: map[string][]*entry{}, commons: commons{}, finals: map[runs.State]int{},
		ended: map[kind]int{},
		news:  map[string]map[chan struct{}]bool{}, watchers: map[*watcher]bool{}, filled: make(chan struct{}),
	}
}

// change applies a change of the run bucket.
func (t *index) change(c runs.Change, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waitReason = c.Waits; c.Waits != "" {
		return
	}
	t.at = now
	if c.Replaced {
		t.rebuilding, t.revision = true, 0
		for _, e := range t.rows {
			e.revision, e.stale = 0, true
		}
	}
	t.revision = max(t.revision, c.Revision)
	if c.Run.ID != "" {
		have := t.rows[c.Run.ID]
		switch {
		case have != nil && have.revision >= c.Revision && !have.stale: // repeated
		case c.Removed:
			t.remove(c.Run.ID)
		default:
			notified := t.watching && (have == nil || c.Revision > have.revision && !have.stale)
			t.store(c.Run, c.Revision)
			if notified {
				t.rows[c.Run.ID].lastChange = now.Sub(t.began)
			}
		}
	}
	if c.Last {
		if t.rebuilding {
			t.rebuilding = false
			for id, e := range t.rows {
				if e.stale {
					t.remove(id)
				}
			}
		}
		t.watching = true
		t.full.Do(func() { close(t.filled) })
	}
}

// reason says why the table is not filled yet; "": unknown.
func (t *index) reason() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.waitReason
}

// submitted adds a run that has no record yet.
func (t *index) submitted(row runs.Header) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.rows[row.ID] == nil {
		t.store(row, 0)
	}
}

func (t *index) store(row runs.Header, revision uint64) {
	t.seq = max(t.seq, row.Seq)
	if row.Continues != "" {
		t.addContinuation(row)
	}
	t.show(t.resolve(&entry{row: t.commons.rowOf(&row), revision: revision}))
	if row.Continues != "" {
		t.refresh(row.Continues, row.ID)
	}
}

// show stores an entry, in place of the run's previous one.
func (t *index) show(e *entry) {
	id := e.id()
	if have := t.rows[id]; have != nil {
		t.drop(have)
	}
	t.rows[id] = e
	t.orders.add(e)
	switch c := e.common; {
	case c.state.Final():
		t.finals[c.state]++
		t.ended[kind{c.agent, c.source}]++
	case c.state == runs.StateQueued:
		queue := t.queues[c.queue]
		t.queues[c.queue] = slices.Insert(queue, place(queue, e), e)
		t.moves++
	default:
		t.working[id] = e
	}
	t.notify(id)
}

func (t *index) remove(id string) {
	e := t.rows[id]
	if e == nil {
		return
	}
	t.drop(e)
	delete(t.rows, id)
	t.notify(id)
	if task := e.continues(); task != "" {
		t.removeContinuation(task, id)
		t.refresh(task, id)
	}
}

// drop removes an entry from the orders, and from the lists by state.
func (t *index) drop(e *entry) {
	t.orders.remove(e)
	c := e.common
	switch {
	case c.state == runs.StateQueued:
		queue := t.queues[c.queue]
		if at := place(queue, e); at < len(queue) && queue[at] == e {
			queue = slices.Delete(queue, at, at+1)
		}
		if t.queues[c.queue] = queue; len(queue) == 0 {
			delete(t.queues, c.queue)
		}
		t.moves++
		return
	case !c.state.Final():
		delete(t.working, e.id())
		return
	}
	t.finals[c.state]--
	of := kind{c.agent, c.source}
	if t.ended[of]--; t.ended[of] == 0 {
		delete(t.ended, of)
	}
}

// expire removes the runs whose records have expired: those with a revision
// below first.
func (t *index) expire(first uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, e := range t.rows {
		if e.revision != 0 && e.revision < first {
			t.remove(id)
		}
	}
}

// get returns a copy of an entry, nil if there is none.
func (t *index) get(id string) *entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	if have := t.rows[id]; have != nil {
		return new(*have)
	}
	return nil
}

// byPlace is the order of a queue.
func byPlace(a, b *entry) int {
	return cmp.Or(cmp.Compare(a.work, b.work), cmp.Compare(a.queuedAt, b.queuedAt), cmp.Compare(a.id(), b.id()))
}

// place returns the number of entries of a queue that are before e.
func place(queue []*entry, e *entry) int {
	n, _ := slices.BinarySearchFunc(queue, e, byPlace)
	return n
}

// position returns the number of runs of the same queue that are before this one.
func (t *index) position(r runs.Header) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return place(t.queues[r.Queue], &entry{row: commons{}.rowOf(&r)})
}

// waiting is the number of queued runs. It is called with mu held.
func (t *index) waiting() (n int) {
	for _, queue := range t.queues {
		n += len(queue)
	}
	return n
}

// open returns the runs that have not ended: the working ones by start, the
// queued ones by queue position.
func (t *index) open() (working, queued []runs.Header) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range t.working {
		working = append(working, e.header())
	}
	slices.SortFunc(working, func(a, b runs.Header) int {
		return cmp.Or(cmp.Compare(a.StartedAt, b.StartedAt), cmp.Compare(a.ID, b.ID))
	})
	waiting := slices.SortedFunc(func(yield func(*entry) bool) {
		for _, queue := range t.queues {
			for _, e := range queue {
				if !yield(e) {
					return
				}
			}
		}
	}, byPlace)
	for _, e := range waiting {
		queued = append(queued, e.header())
	}
	return working, queued
}

// recent calls each with the ended runs, last first, until it returns false.
func (t *index) recent(each func(e *entry) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.walk(true, Among{}, nil, func(e *entry) bool { return !e.state().Final() || each(e) })
}

// endedOf returns how many ended runs are of agents and sources that of accepts; nil: all.
func (t *index) endedOf(of func(agent, source string) bool) (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for k, some := range t.ended {
		if of == nil || of(k.agent, k.source) {
			n += some
		}
	}
	return n
}

// listen returns a channel that gets a value when a run changes.
func (t *index) listen(id string) (news <-chan struct{}, stop func()) {
	c := make(chan struct{}, 1)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.news[id] == nil {
		t.news[id] = map[chan struct{}]bool{}
	}
	t.news[id][c] = true
	return c, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if delete(t.news[id], c); len(t.news[id]) == 0 {
			delete(t.news, id)
		}
	}
}

func (t *index) notify(id string) {
	t.changes.add(id)
	for w := range t.watchers {
		w.notify(id)
	}
	for c := range t.news[id] {
		select {
		case c <- struct{}{}:
		default: // a notification is already pending
		}
	}
}

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
			c := runs.Change{Removed: true}
			if e := t.get(id); e != nil {
				c = runs.Change{Run: e.header(), Revision: e.revision}
			}
			c.Run.ID = id
			each(c)
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
