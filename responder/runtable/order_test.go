package runtable

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/linesman/linesman/runs"
)

// model is a table of which all rows are known, with what a walk must be.
type model struct {
	*index
	rng    *rand.Rand
	rows   map[string]runs.Header
	packed map[string]*entry // rows, as the table keeps them
	rev    uint64
}

func (m *model) pick(of ...string) string { return of[m.rng.IntN(len(of))] }

func (m *model) step() {
	m.rev++
	id := fmt.Sprint("r", m.rng.IntN(300))
	if m.rng.IntN(5) == 0 {
		m.change(runs.Change{Run: runs.Header{Summary: runs.Summary{ID: id}}, Revision: m.rev, Removed: true}, time.Now())
		delete(m.rows, id)
		delete(m.packed, id)
		return
	}
	h := runs.Header{Summary: runs.Summary{ID: id}}
	h.State = runs.State(m.pick("queued", "working", "input-required", "completed", "failed", "timeout"))
	h.QueuedAt, h.StartedAt = runs.Time(m.rng.IntN(50)), runs.Time(m.rng.IntN(50))
	if h.State.Final() {
		h.EndedAt = runs.Time(m.rng.IntN(50))
	}
	h.Thread, h.Asked = m.pick("", "t1", "T1", "t2"), m.rng.IntN(3) == 0
	h.Dir = m.pick("", "/a", "/b/", "/b")
	h.Labels = runs.LabelsOf(map[string]string{"x": m.pick("1", "2 &", ""), "y": m.pick("ä", "z")})
	m.change(runs.Change{Run: h, Revision: m.rev}, time.Now())
	m.rows[id], m.packed[id] = h, &entry{row: commons{}.rowOf(&h)}
}

// newest is the newest run of a thread that fits.
func (m *model) newest(thread string, fits func(runs.Header) bool) (id string) {
	var newest runs.Header
	for _, h := range m.rows {
		if thread != "" && strings.EqualFold(h.Thread, thread) && fits(h) &&
			(newest.ID == "" || byAge(m.packed[h.ID], m.packed[newest.ID]) > 0) {
			newest = h
		}
	}
	return newest.ID
}

// checkThreads compares the newest runs of threads with those of all rows.
func (m *model) checkThreads(t *testing.T) {
	t.Helper()
	for _, thread := range []string{"", "t1", "T2", "t3"} {
		for _, told := range []bool{false, true} {
			got, _ := m.ofThread(thread, told)
			if want := m.newest(thread, func(h runs.Header) bool { return !told || !h.Asked }); got.ID != want {
				t.Fatalf("thread %q, told %t: %q, want %q", thread, told, got.ID, want)
			}
		}
	}
}

// check compares a walk with a sort of all rows.
func (m *model) check(t *testing.T, changed bool, a Among, after *Point) {
	t.Helper()
	fits := func(h runs.Header) bool {
		return (len(a.States) == 0 || slices.Contains(a.States, h.State)) &&
			(!a.Sessions || m.newest(h.Thread, func(h runs.Header) bool { return !h.Asked || !h.State.Final() }) == h.ID) &&
			(a.Dir == "" || h.Dir != "" && dirKey(h.Dir) == dirKey(a.Dir)) &&
			!slices.ContainsFunc(a.Labels, func(l [2]string) bool { return !h.Labels.Has(l[0], l[1]) })
	}
	var want, got []Point
	for _, h := range m.rows {
		if p := PointOf(changed, h); fits(h) && (after == nil || after.Compare(p) < 0) {
			want = append(want, p)
		}
	}
	slices.SortFunc(want, Point.Compare)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.walk(changed, a, after, func(e *entry) bool {
		if h := e.header(); fits(h) {
			got = append(got, PointOf(changed, h))
		}
		return true
	})
	if !slices.Equal(got, want) {
		t.Fatalf("changed %t, among %+v, after %+v: %v, want %v", changed, a, after, got, want)
	}
}

// Whatever happens to runs, a walk has those that fit, in their order.
func TestWalksAreSortsOfAllRuns(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		m := &model{newIndex(), rand.New(rand.NewPCG(seed, 5)), map[string]runs.Header{}, map[string]*entry{}, 0}
		m.watching = seed > 0 // else it is being filled
		for n := range 2000 {
			if m.step(); n%100 > 0 {
				continue
			}
			if m.watching {
				m.checkThreads(t)
			}
			for range 20 {
				var a Among
				for range m.rng.IntN(3) {
					a.States = append(a.States, runs.State(m.pick("queued", "working", "completed", "failed", "cancelled")))
				}
				if m.rng.IntN(3) == 0 {
					a.Labels = append(a.Labels, [2]string{m.pick("x", "y"), m.pick("1", "2 &", "ä", "none")})
				}
				a.Sessions = m.rng.IntN(4) == 0
				a.Dir = m.pick("", "", "/a", "/b", "/c")
				var after *Point
				if m.rng.IntN(2) == 0 {
					after = &Point{runs.Time(m.rng.IntN(50)), fmt.Sprint("r", m.rng.IntN(300))}
				}
				m.check(t, m.rng.IntN(2) == 0, a, after)
			}
		}
		o := &m.orders
		if m.watching && (len(o.having) > 20 || o.created.Len() != len(m.rows) || o.changed.Len() != len(m.rows)) {
			t.Errorf("%d rows, %d and %d in orders, %d sets", len(m.rows), o.created.Len(), o.changed.Len(),
				len(o.having))
		}
	}
}
