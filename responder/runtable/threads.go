package runtable

import (
	"cmp"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/tidwall/btree"

	"github.com/linesman/linesman/runs"
)

// threads are the runs of each thread, the newest last, by its id in lower case: ids are compared without regard to
// case, as UUIDs are. A session is the newest run of a thread, but none that ended before it had the thread.
type threads struct {
	runs     map[string][]*entry
	sessions *tree
	used     map[site]*tree // the sessions of an agent in a directory, the one that was used last first
}

// site is where an agent works.
type site struct{ agent, dir string }

func newThreads(all *tree) *threads {
	t := &threads{map[string][]*entry{}, newTree(false), map[site]*tree{}}
	all.Scan(func(e *entry) bool { t.add(e); return true })
	return t
}

// add and remove change the runs of a thread.
func (t *threads) add(e *entry) {
	t.change(e, func(all []*entry, at int, has bool) []*entry {
		if has {
			return all
		}
		return slices.Insert(all, at, e)
	})
}

func (t *threads) remove(e *entry) {
	t.change(e, func(all []*entry, at int, has bool) []*entry {
		if !has {
			return all
		}
		return slices.Delete(all, at, at+1)
	})
}

func (t *threads) change(e *entry, to func(all []*entry, at int, has bool) []*entry) {
	if e.thread() == "" {
		return
	}
	key := strings.ToLower(e.thread())
	all := t.runs[key]
	before := session(all)
	at, has := slices.BinarySearchFunc(all, e, func(a, b *entry) int { return byAge(a, b) })
	if all = to(all, at, has); len(all) > 0 {
		t.runs[key] = all
	} else {
		delete(t.runs, key)
	}
	if after := session(all); after != before {
		if before != nil {
			t.sessions.Delete(before)
			t.use(before, (*tree).Delete)
		}
		if after != nil {
			t.sessions.Set(after)
			t.use(after, (*tree).Set)
		}
	}
}

// use changes the sessions of the place of a run.
func (t *threads) use(e *entry, to func(*tree, *entry) (*entry, bool)) {
	if e.common.dir == "" {
		return
	}
	at := site{e.common.agent, path.Clean(e.common.dir)}
	some := t.used[at]
	if some == nil {
		some = btree.NewBTreeGOptions(func(a, b *entry) bool { return lastUse(a).Compare(lastUse(b)) < 0 },
			btree.Options{NoLocks: true})
		t.used[at] = some
	}
	if to(some, e); some.Len() == 0 {
		delete(t.used, at)
	}
}

// lastUse is where a run stands among the sessions of its place: by its end, or its last change if linesman follows
// it; one that linesman has not ended yet comes first.
func lastUse(e *entry) Point {
	switch {
	case e.state().Final():
		return e.point(true)
	case e.common.source == runs.SourceSession:
		return Point{cmp.Or(e.activeAt, e.changedAt()), e.id()}
	}
	return Point{math.MaxInt64, e.id()}
}

// lastOf returns the session of an agent in any of some directories that was used last, of those that fit.
func (t *index) lastOf(agent string, dirs []string, fits func(runs.Header) bool) (last runs.Header, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var found *entry
	for _, dir := range dirs {
		some := t.sorted(true).threads.used[site{agent, path.Clean(dir)}]
		if some == nil {
			continue
		}
		some.Scan(func(e *entry) bool {
			if !fits(e.header()) {
				return true
			}
			if found == nil || lastUse(e).Compare(lastUse(found)) < 0 {
				found = e
			}
			return false
		})
	}
	if found == nil {
		return last, false
	}
	return found.header(), true
}

// session is that of the runs of a thread, nil if there is none.
func session(all []*entry) *entry {
	for _, e := range slices.Backward(all) {
		if !e.common.asked || !e.state().Final() {
			return e
		}
	}
	return nil
}

// isSession reports whether a run is the session of its thread.
func (t *threads) isSession(e *entry) bool {
	return e.thread() != "" && session(t.runs[strings.ToLower(e.thread())]) == e
}

// byAge is the order of the runs of a thread, the newest last.
func byAge(a, b *entry) int {
	began := func(e *entry) runs.Time { return max(e.startedAt, e.queuedAt) }
	return cmp.Or(cmp.Compare(began(a), began(b)), cmp.Compare(a.id(), b.id()))
}

// ofThread returns the newest run of a thread; with told only one whose agent reported the
// thread, because a run that was asked to resume it may be of another agent.
func (t *index) ofThread(thread string, told bool) (newest runs.Header, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range slices.Backward(t.sorted(true).threads.runs[strings.ToLower(thread)]) {
		if !told || !e.common.asked {
			return e.header(), true
		}
	}
	return newest, false
}
