package runtable

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/linesman/linesman/runs"
)

// away are streams without a connection.
type away struct{ Streams }

func (away) Since() time.Time { return time.Time{} }

// TestCountsAreThoseOfTheRows changes runs at random, also back, and compares the counts and the places
// in the queues with the rows.
func TestCountsAreThoseOfTheRows(t *testing.T) {
	t.Parallel()
	table := New(Config{Streams: away{}})
	if _, known := table.Counts(); known {
		t.Error("the counts are known before the table is read")
	}
	random := rand.New(rand.NewPCG(3, 4))
	states := []runs.State{runs.StateQueued, runs.StateWorking, runs.StateInputRequired, runs.StateCompleted,
		runs.StateFailed, runs.StateCancelled, runs.StateTimeout}
	now := time.Now()
	for i := range 5_000 {
		row := runs.Header{
			Summary: runs.Summary{
				ID: fmt.Sprintf("T-local-%d", random.IntN(200)), State: states[random.IntN(len(states))],
				QueuedAt: runs.Time(1 + random.IntN(1000)), EndedAt: runs.Time(random.IntN(1000)),
				Queue: "ab"[random.IntN(2):][:1],
			}, Work: uint64(random.IntN(1000)),
		}
		if row.State == runs.StateInputRequired {
			row.Questions = []string{"q1", "q2"}[:random.IntN(3)]
		}
		row.Agent, row.Source = "cd"[random.IntN(2):][:1], "ef"[random.IntN(2):][:1]
		if random.IntN(4) == 0 {
			row.Continues = fmt.Sprintf("T-local-%d", random.IntN(200))
		}
		table.index.change(runs.Change{
			Run: row, Revision: uint64(i + 1), Removed: random.IntN(5) == 0, Last: i == 0,
		}, now)
		if i%500 == 0 {
			table.index.expire(uint64(max(i-300, 0)))
		}
		have, known := table.Counts()
		if !known {
			t.Fatal("the table was read")
		}
		want, asked, ended, oldest := map[runs.State]int{}, 0, 0, runs.Time(0)
		for _, row := range table.index.rows {
			e := row.header()
			if want[e.State]++; e.State.Final() && e.Agent == "c" && e.Source == "f" {
				ended++
			}
			if row.recorded == nil {
				asked += len(e.Questions)
			}
			if e.State == runs.StateQueued && (oldest == 0 || e.QueuedAt < oldest) {
				oldest = e.QueuedAt
			}
		}
		maps.DeleteFunc(have.States, func(_ runs.State, n int) bool { return n == 0 })
		if !maps.Equal(have.States, want) || oldest != 0 && have.Oldest.UnixMilli() != int64(oldest) {
			t.Fatalf("after change %d: %v, oldest %v; want %v, %v", i, have.States, have.Oldest, want, oldest)
		}
		is := func(agent, source string) bool { return agent == "c" && source == "f" }
		if n := table.index.endedOf(is); n != ended || len(table.index.ended) > 4 {
			t.Fatalf("after change %d: %d ended, want %d; %v", i, n, ended, table.index.ended)
		}
		if have.Asked != asked {
			t.Fatalf("after change %d: %d questions, want %d", i, have.Asked, asked)
		}
		checkPlace(t, table, row.ID)
	}
}

// checkPlace compares the position of a run with the rows.
func checkPlace(t *testing.T, table *Table, id string) {
	t.Helper()
	e := table.index.rows[id]
	if e == nil || e.state() != runs.StateQueued {
		return
	}
	want := 0
	for _, other := range table.index.rows {
		if other.state() == runs.StateQueued && other.common.queue == e.common.queue && byPlace(other, e) < 0 {
			want++
		}
	}
	if v, _ := table.Get(id); v.Before() != want {
		t.Fatalf("%s is at %d, want %d", id, v.Before(), want)
	}
}
