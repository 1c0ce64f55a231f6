package runtable

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/runs"
)

// A task of as many runs as one can have is followed, and read at the start,
// in a moment: nobody else's request waits for it.
func TestTaskOfManyRunsBlocksTheTableBriefly(t *testing.T) {
	const task = "task"
	rows := []runs.Header{{Summary: runs.Summary{
		ID: task, State: runs.StateInputRequired, StartedAt: 1, EndedAt: 2, Seq: 1,
	}}}
	for n := 2; n <= runs.MaxLinks; n++ {
		id, err := runs.LinkID(task, n)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, runs.Header{Summary: runs.Summary{ID: id, Continues: task, State: runs.StateInputRequired,
			StartedAt: runs.Time(n),
			EndedAt:   runs.Time(n + 1), Seq: uint64(n)}})
	}
	last := len(rows) - 1
	for order, at := range map[string]func(i int) int{
		"the first one first": func(i int) int { return i },
		"the last one first":  func(i int) int { return last - i },
		"mixed":               func(i int) int { return i * 7 % len(rows) },
	} {
		t.Run(order, func(t *testing.T) {
			table, begun, before := newIndex(), time.Now(), processor(t)
			for told := range 2 { // as their runs begin, and end
				for i := range rows {
					table.change(runs.Change{Run: rows[at(i)], Revision: uint64(told*len(rows) + i + 1), Last: i == last}, begun)
				}
			}
			if used := processor(t) - before; used > 10*time.Second { // of its own: the machine may have others to serve
				t.Errorf("it took %s", used)
			}
			for i, row := range rows {
				want := rows[last].ID
				if i == last {
					want = ""
				}
				if shown := table.get(row.ID).header(); shown.ContinuedBy != want || shown.EndedAt != rows[last].EndedAt {
					t.Fatalf("%s is shown as %+v", row.ID, shown)
				}
			}
			for i := range rows[1:] { // the newest one goes first
				table.change(runs.Change{Run: runs.Header{Summary: runs.Summary{ID: rows[last-i].ID}}, Revision: 1 << 20,
					Removed: true}, begun)
			}
			if shown := table.get(task).header(); shown.ContinuedBy != "" || shown.EndedAt != rows[0].EndedAt ||
				len(table.continuations) != 0 {
				t.Errorf("the task alone is shown as %+v; %d tasks have links", shown, len(table.continuations))
			}
		})
	}
}

// processor is how long this process has had a processor.
func processor(t *testing.T) time.Duration {
	t.Helper()
	var use unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &use); err != nil {
		t.Fatal(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}
