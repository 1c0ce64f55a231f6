package runtable

import (
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/linesman/linesman/runs"
)

// table holds a row for every run that has a record, and tells those who wait
// for one of them. It is bounded by the run bucket, which it mirrors.
type index struct {
	mu       sync.Mutex
	rows     map[string]*entry
	links    map[string][]string // by task: the runs that go on with it
	working  map[string]*entry
	queued   map[string]*entry
	ended    []*entry // by end, but for the last few; gone ones too
	unsorted bool
	anew     bool // some entries are stale
	watching bool // what comes is news
	gone     int  // entries of ended that are no longer in rows
	seq      uint64
	at       time.Time // when the last news came
	news     map[string]map[chan struct{}]bool
	watchers map[*watcher]bool
	waits    string        // why the table is not filled yet, as far as is known
	filled   chan struct{} // closed once the table holds what there was at the start
	full     sync.Once
}

type entry struct {
	runs.Row           // as it is shown
	own      *runs.Row // as it came, where that is another: see links.go
	revision uint64    // 0: nobody has recorded it yet, it was submitted here
	gone     bool
	stale    bool // of a run table that is no more
	heard    time.Time
}

func newIndex() *index {
	return &index{
		rows: map[string]*entry{}, links: map[string][]string{}, working: map[string]*entry{}, queued: map[string]*entry{},
		news: map[string]map[chan struct{}]bool{}, watchers: map[*watcher]bool{}, filled: make(chan struct{}),
	}
}

// change takes in news.
func (t *index) change(c runs.Change, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waits = c.Waits; c.Waits != "" {
		return
	}
	t.at = now
	if c.Anew {
		t.anew = true
		for _, e := range t.rows {
			e.revision, e.stale = 0, true
		}
	}
	if c.Row.ID != "" {
		have := t.rows[c.Row.ID]
		switch {
		case have != nil && have.revision >= c.Revision && !have.stale: // told again
		case c.Removed:
			t.remove(c.Row.ID)
		default:
			told := t.watching && (have == nil || c.Revision > have.revision && !have.stale)
			t.put(c.Row, c.Revision)
			if told {
				t.rows[c.Row.ID].heard = now
			}
		}
	}
	if c.Last {
		if t.anew {
			t.anew = false
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

// unfilled is the error of a table that is not filled in time.
func (t *index) unfilled() *NotReadyError {
	t.mu.Lock()
	defer t.mu.Unlock()
	return &NotReadyError{t.waits}
}

// heard is when there was news of a run, by our clock; zero where there was
// none since we listen.
func (t *index) heard(id string) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.rows[id]; e != nil {
		return e.heard
	}
	return time.Time{}
}

// submitted shows a run whose record nobody has made yet.
func (t *index) submitted(row runs.Row) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.rows[row.ID] == nil {
		t.put(row, 0)
	}
}

func (t *index) put(row runs.Row, revision uint64) {
	t.seq = max(t.seq, row.Seq)
	if row.Continues != "" {
		t.link(row)
	}
	t.place(t.shown(&entry{Row: row, revision: revision}))
	if row.Continues != "" {
		t.follow(row.Continues, row.ID)
	}
}

// place shows an entry, in the place of the one that there was of its run.
func (t *index) place(e *entry) {
	if have := t.rows[e.ID]; have != nil {
		t.drop(have)
	}
	t.rows[e.ID] = e
	switch {
	case e.State.Final():
		if n := len(t.ended); n > 0 && t.ended[n-1].EndedAt > e.EndedAt {
			t.unsorted = true
		}
		t.ended = append(t.ended, e)
	case e.State == runs.StateQueued:
		t.queued[e.ID] = e
	default:
		t.working[e.ID] = e
	}
	t.tell(e.ID)
}

func began(r runs.Row) int64 { return max(r.StartedAt, r.QueuedAt) }

func (t *index) remove(id string) {
	e := t.rows[id]
	if e == nil {
		return
	}
	t.drop(e)
	delete(t.rows, id)
	t.tell(id)
	if task := e.Continues; task != "" {
		t.unlink(task, id)
		t.follow(task, id)
	}
}

// drop takes an entry out of the lists.
func (t *index) drop(e *entry) {
	delete(t.queued, e.ID)
	delete(t.working, e.ID)
	if !e.State.Final() {
		return
	}
	e.gone = true
	if t.gone++; t.gone > 1000 && t.gone > len(t.ended)/2 {
		t.ended = slices.DeleteFunc(t.ended, func(e *entry) bool { return e.gone })
		t.gone = 0
	}
}

// expire forgets the runs whose records have aged out: those before first.
func (t *index) expire(first uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, e := range t.rows {
		if e.revision != 0 && e.revision < first {
			t.remove(id)
		}
	}
}

func (t *index) get(id string) (runs.Row, uint64, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.rows[id]
	if e == nil {
		return runs.Row{}, 0, false
	}
	return e.Row, e.revision, true
}

// ofThread is the newest run of a thread.
func (t *index) ofThread(thread string) (newest runs.Row, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range t.rows {
		if e.Thread == thread && (!ok || less(began(newest), began(e.Row), newest.ID, e.ID)) {
			newest, ok = e.Row, true
		}
	}
	return newest, ok
}

// position is how many runs of the same queue wait before this one.
func (t *index) position(r runs.Row) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, e := range t.queued {
		if e.Queue == r.Queue && e.Work < r.Work {
			n++
		}
	}
	return n
}

// open is every run that has not ended: what works, by its beginning, and
// what waits, by its place in the queue.
func (t *index) open() (working, queued []runs.Row) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range t.working {
		working = append(working, e.Row)
	}
	for _, e := range t.queued {
		queued = append(queued, e.Row)
	}
	sort.Slice(working, func(i, j int) bool {
		return less(working[i].StartedAt, working[j].StartedAt, working[i].ID, working[j].ID)
	})
	sort.Slice(queued, func(i, j int) bool {
		a, b := queued[i], queued[j]
		if a.Work != b.Work {
			return a.Work < b.Work
		}
		return less(a.QueuedAt, b.QueuedAt, a.ID, b.ID)
	})
	return working, queued
}

func less(a, b int64, x, y string) bool { return a < b || a == b && x < y }

// recent lists runs that have ended, the last one first, until each returns
// false.
func (t *index) recent(each func(r runs.Row, revision uint64) bool) {
	t.mu.Lock()
	if t.unsorted {
		sort.SliceStable(t.ended, func(i, j int) bool {
			return less(t.ended[i].EndedAt, t.ended[j].EndedAt, t.ended[i].ID, t.ended[j].ID)
		})
		t.unsorted = false
	}
	defer t.mu.Unlock()
	for _, e := range slices.Backward(t.ended) {
		if !e.gone && !each(e.Row, e.revision) {
			return
		}
	}
}

func (t *index) endedCount() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.rows) - len(t.working) - len(t.queued)
}

// based is the newest sequence of RAW that the table has news of, and when
// the last news came.
func (t *index) based() (uint64, time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.seq, t.at
}

// listen returns a channel that gets a value when there is news of a run.
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

func (t *index) tell(id string) {
	for w := range t.watchers {
		w.tell(id)
	}
	for c := range t.news[id] {
		select {
		case c <- struct{}{}:
		default: // who listens has news already
		}
	}
}
