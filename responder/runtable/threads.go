package runtable

import (
	"cmp"
	"slices"
	"strings"

	"github.com/linesman/linesman/runs"
)

// threads are the runs of each thread, the newest last, by its id in lower case: ids are compared without regard to
// case, as UUIDs are. A session is the newest run of a thread, but none that ended before it had the thread.
type threads struct {
	runs     map[string][]*entry
	sessions *tree
}

func newThreads(all *tree) *threads {
	t := &threads{map[string][]*entry{}, newTree(false)}
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
	if e.Thread == "" {
		return
	}
	key := strings.ToLower(e.Thread)
	all := t.runs[key]
	before := session(all)
	at, has := slices.BinarySearchFunc(all, e, func(a, b *entry) int { return byAge(a.Header, b.Header) })
	if all = to(all, at, has); len(all) > 0 {
		t.runs[key] = all
	} else {
		delete(t.runs, key)
	}
	if after := session(all); after != before {
		if before != nil {
			t.sessions.Delete(before)
		}
		if after != nil {
			t.sessions.Set(after)
		}
	}
}

// session is that of the runs of a thread, nil if there is none.
func session(all []*entry) *entry {
	for _, e := range slices.Backward(all) {
		if !e.Asked || !e.State.Final() {
			return e
		}
	}
	return nil
}

// isSession reports whether a run is the session of its thread.
func (t *threads) isSession(e *entry) bool {
	return e.Thread != "" && session(t.runs[strings.ToLower(e.Thread)]) == e
}

// byAge is the order of the runs of a thread, the newest last.
func byAge(a, b runs.Header) int {
	began := func(r runs.Header) runs.Time { return max(r.StartedAt, r.QueuedAt) }
	return cmp.Or(cmp.Compare(began(a), began(b)), cmp.Compare(a.ID, b.ID))
}

// ofThread returns the newest run of a thread; with told only one whose agent reported the
// thread, because a run that was asked to resume it may be of another agent.
func (t *index) ofThread(thread string, told bool) (newest runs.Header, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range slices.Backward(t.sorted(true).threads.runs[strings.ToLower(thread)]) {
		if !told || !e.Asked {
			return e.Header, true
		}
	}
	return newest, false
}
