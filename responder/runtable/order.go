package runtable

import (
	"cmp"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/tidwall/btree"

	"github.com/linesman/linesman/runs"
)

// Point is the place of a run in an order: by a time, the newest first, and among runs of one millisecond by their
// ids, the last first.
type Point struct {
	At  runs.Time
	Run string
}

// PointOf is the place of a run by its creation, or by when it entered its state.
func PointOf(changed bool, h runs.Header) Point {
	if changed {
		return Point{h.ChangedAt(), h.ID}
	}
	return Point{h.CreatedAt(), h.ID}
}

// Compare is negative if p comes before another point, which is older.
func (p Point) Compare(other Point) int {
	if p.At != other.At {
		return cmp.Compare(other.At, p.At)
	}
	return cmp.Compare(other.Run, p.Run)
}

// Among restricts a walk to runs that have all of these; its zero value is no restriction.
type Among struct {
	States []runs.State // any of them
	Labels [][2]string
	Dir    string
	// Sessions are the newest runs of their threads, without those that ended before they had it. A walk leaves out
	// all others.
	Sessions bool
}

// Open are the runs that have not ended.
var Open = Among{States: []runs.State{runs.StateQueued, runs.StateWorking, runs.StateInputRequired}}

// tree is a set of runs in an order. Its entries do not change: another one takes their place.
type tree = btree.BTreeG[*entry]

func newTree(changed bool) *tree {
	less := func(a, b *entry) bool { return a.point(changed).Compare(b.point(changed)) < 0 }
	return btree.NewBTreeGOptions(less, btree.Options{NoLocks: true})
}

// entryAt is an entry at a point of each order.
func entryAt(p Point) *entry {
	h := runs.Header{Summary: runs.Summary{ID: p.Run, State: runs.StateQueued, QueuedAt: p.At}}
	return &entry{row: commons{}.rowOf(&h)}
}

// orders are the runs in their orders, and those of them that have something in common by their creation. They are
// for pages of lists, whose cost is that of the page. They are made when they are needed first: to sort all runs once
// takes a fraction of adding one after another at the start.
type orders struct {
	created, changed *tree            // nil: not made yet
	having           map[string]*tree // by what they have: see keys
	threads          *threads         // nil: not made yet
}

func (o *orders) make(rows map[string]*entry) {
	o.created, o.changed, o.having = newTree(false), newTree(true), map[string]*tree{}
	all := slices.Collect(maps.Values(rows))
	for _, e := range inOrder(true, all) {
		o.changed.Load(e)
	}
	for _, e := range inOrder(false, all) {
		o.created.Load(e)
		o.has(e, (*tree).Load)
	}
}

// inOrder sorts rows. Their points are made once: a comparison of headers copies both.
func inOrder(changed bool, rows []*entry) []*entry {
	type placed struct {
		Point
		*entry
	}
	places := make([]placed, len(rows))
	for i, e := range rows {
		places[i] = placed{e.point(changed), e}
	}
	slices.SortFunc(places, func(a, b placed) int { return a.Point.Compare(b.Point) })
	for i, p := range places {
		rows[i] = p.entry
	}
	return rows
}

// Keys of what runs have.
func stateKey(s runs.State) string { return "state " + string(s) }
func dirKey(dir string) string     { return "dir " + path.Clean(dir) }
func labelKey(text string) string  { return "label " + text }

// keys calls each with what a run has. Most runs are completed: they are found among all.
func keys(r *row, each func(key string)) {
	if state := r.state(); state != runs.StateCompleted {
		each(stateKey(state))
	}
	if dir := r.common.dir; dir != "" {
		each(dirKey(dir))
	}
	for text, rest := "", r.own(textLabels); rest != ""; {
		text, rest, _ = strings.Cut(rest, "&")
		each(labelKey(text))
	}
}

// has puts an entry into the sets of what it has.
func (o *orders) has(e *entry, put func(*tree, *entry) (*entry, bool)) {
	keys(&e.row, func(key string) {
		have := o.having[key]
		if have == nil {
			have = newTree(false)
			o.having[key] = have
		}
		put(have, e)
	})
}

func (o *orders) add(e *entry) {
	if o.created == nil {
		return
	}
	o.created.Set(e)
	o.changed.Set(e)
	o.has(e, (*tree).Set)
	if o.threads != nil {
		o.threads.add(e)
	}
}

func (o *orders) remove(e *entry) {
	if o.created == nil {
		return
	}
	o.created.Delete(e)
	o.changed.Delete(e)
	if o.threads != nil {
		o.threads.remove(e)
	}
	keys(&e.row, func(key string) {
		if have := o.having[key]; have != nil {
			if have.Delete(e); have.Len() == 0 {
				delete(o.having, key)
			}
		}
	})
}

// fewest returns the sets that have all runs that are among these: of what fewest runs have; nil: all runs.
func (o *orders) fewest(a Among) (sets []*tree, n int) {
	consider := func(keys ...string) {
		var some []*tree
		all := 0
		for _, key := range slices.Compact(slices.Sorted(slices.Values(keys))) {
			if have := o.having[key]; have != nil {
				some = append(some, have)
				all += have.Len()
			}
		}
		if sets == nil || all < n {
			sets, n = append([]*tree{}, some...), all
		}
	}
	if len(a.States) > 0 && !slices.Contains(a.States, runs.StateCompleted) {
		var keys []string
		for _, s := range a.States {
			keys = append(keys, stateKey(s))
		}
		consider(keys...)
	}
	for _, l := range a.Labels {
		consider(labelKey(url.QueryEscape(l[0]) + "=" + url.QueryEscape(l[1])))
	}
	if a.Dir != "" {
		consider(dirKey(a.Dir))
	}
	if a.Sessions && (sets == nil || o.threads.sessions.Len() < n) {
		sets, n = []*tree{o.threads.sessions}, o.threads.sessions.Len()
	}
	return sets, n
}

// maxSorted is how many runs are sorted for a walk, at most, instead of looking for them in the order of all.
const maxSorted = 4096

// sorted returns the orders, perhaps with the threads, which it makes when they are needed first.
func (t *index) sorted(threads bool) *orders {
	o := &t.orders
	if !t.watching { // it is being filled
		o = &orders{}
	}
	if o.created == nil {
		o.make(t.rows)
	}
	if threads && o.threads == nil {
		o.threads = newThreads(o.created)
	}
	return o
}

// walk calls each with the runs after a point of an order, until it returns false. It leaves out what cannot be among
// these, but not all of it. It is called with the lock of the index held.
func (t *index) walk(changed bool, a Among, after *Point, each func(*entry) bool) {
	o := t.sorted(a.Sessions)
	visit := func(e *entry) bool {
		if after != nil && e.point(changed).Compare(*after) <= 0 {
			return true
		}
		return a.Sessions && !o.threads.isSession(e) || each(e)
	}
	ascend := func(of *tree) {
		if after == nil {
			of.Scan(visit)
		} else {
			of.Ascend(entryAt(*after), visit)
		}
	}
	switch sets, n := o.fewest(a); {
	case len(sets) == 1 && !changed:
		ascend(sets[0])
	case sets != nil && n <= maxSorted:
		entries := make([]*entry, 0, n)
		for _, set := range sets {
			entries = append(entries, set.Items()...)
		}
		for _, e := range inOrder(changed, entries) {
			if !visit(e) {
				return
			}
		}
	case changed:
		ascend(o.changed)
	default:
		ascend(o.created)
	}
}

// atOnce is how many runs a walk visits, at most, before others may use the table.
const atOnce = maxSorted

// Walk calls each with the runs after a point, or all, the newest first, until it returns false. It leaves out runs
// that are not among these where that costs less: each has to look itself. After each 4,096 runs the table may change:
// a run that changes then is not visited again in the order of creation, and in that of changes perhaps not at all.
func (r *Table) Walk(changed bool, a Among, after *Point, each func(runs.Header) bool) {
	for more := true; more; {
		more = r.index.someOf(changed, a, &after, each)
	}
}

// someOf is a part of Walk. It moves the point to the last run that it visited, and reports whether there may be more.
func (t *index) someOf(changed bool, a Among, after **Point, each func(runs.Header) bool) (more bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	visited := 0
	t.walk(changed, a, *after, func(e *entry) bool {
		if !each(e.header()) {
			return false
		}
		if visited++; visited == atOnce {
			*after, more = new(e.point(changed)), true
		}
		return !more
	})
	return more
}
