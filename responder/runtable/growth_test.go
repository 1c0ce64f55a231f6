package runtable

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/linesman/linesman/runs"
)

// many is a table of so many runs that have ended, each of its thread, and of a few that have not.
func many(n int) *Table {
	r := New(Config{Streams: away{}})
	for i := range n {
		h := runs.Header{Summary: runs.Summary{ID: fmt.Sprintf("r%06d", i), State: runs.StateCompleted}}
		h.Agent, h.Thread, h.QueuedAt, h.EndedAt = "codex", fmt.Sprintf("t%06d", i), runs.Time(i+1), runs.Time(i+2)
		if i%(n/20) == 0 {
			h.State, h.EndedAt = runs.StateWorking, 0
		}
		h.Dir = fmt.Sprint("/srv/", i%10)
		h.Labels = runs.LabelsOf(map[string]string{"of": fmt.Sprint(i / 10)})
		r.index.change(runs.Change{Run: h, Revision: uint64(i + 1), Last: i == n-1}, time.Now())
	}
	return r
}

// TestGrowthOfReads counts the runs that reads of ten times the runs visit: it is those that they are about.
func TestGrowthOfReads(t *testing.T) {
	t.Parallel()
	visits := map[string][]int{}
	for _, n := range []int{1_000, 10_000} {
		r := many(n)
		seen := 0
		visit := func(most int) func(runs.Header) bool {
			seen = 0
			return func(runs.Header) bool { seen++; return seen < most }
		}
		count := func(name string) { visits[name] = append(visits[name], seen) }

		r.Walk(false, Among{}, nil, visit(100))
		count("a page")
		r.Walk(false, Open, nil, visit(n))
		count("open runs")
		r.Walk(true, Among{Labels: [][2]string{{"of", "7"}}}, nil, visit(n))
		count("runs of a label")
		r.Walk(false, Among{Sessions: true}, &Point{At: runs.Time(n / 2)}, visit(100))
		count("sessions")
		v, ok := r.LastOf("codex", []string{"/srv/1/", "/srv/2", "/none"}, func(runs.Header) bool { seen++; return true })
		if count("the last thread"); !ok || v.ID != fmt.Sprintf("r%06d", n-8) {
			t.Errorf("the last thread is that of %s", v.ID)
		}
		seen = 0
		of := func(agent, _ string) bool { seen++; return agent == "codex" }
		s := r.SnapshotOf(5, Among{}, of, nil)
		if count("an overview"); len(s.Ended) != 5 || len(s.Working) != 20 || s.Total != n-20 {
			t.Errorf("of %d runs %d of %d and %d", n, len(s.Ended), s.Total, len(s.Working))
		}
		s = r.SnapshotOf(5, Among{}, func(string, string) bool { seen++; return false }, nil)
		if count("an overview of none"); len(s.Ended) != 0 || s.Total != 0 {
			t.Errorf("%d of no runs", s.Total)
		}
		r.Snapshot(0, visit(n))
		count("no ended ones")
		thread := fmt.Sprintf("T%06d", n/3)
		if v, ok := r.Thread(thread); !ok || !strings.EqualFold(v.Thread, thread) {
			t.Errorf("thread %s: %s", thread, v.ID)
		}
	}
	for name, n := range visits {
		if n[1] > n[0]+2 {
			t.Errorf("%s: %d runs are visited, of ten times the runs %d", name, n[0], n[1])
		}
	}
}

// TestGrowthOfAStatus counts the memory that the status of a run takes, which depends on that run alone.
func TestGrowthOfAStatus(t *testing.T) {
	var took []float64
	for _, n := range []int{1_000, 10_000} {
		r, at := many(n), 0
		took = append(took, testing.AllocsPerRun(200, func() {
			at += 37
			if v, ok := r.Get(fmt.Sprintf("r%06d", at%n)); !ok || v.Agent != "codex" {
				t.Errorf("run %d: %+v", at%n, v)
			}
		}))
	}
	if took[1] > took[0]+1 {
		t.Errorf("%v allocations, of ten times the runs %v", took[0], took[1])
	}
}
