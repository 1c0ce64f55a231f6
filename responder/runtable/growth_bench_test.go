package runtable_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/runs"
)

// BenchmarkGrowthOfRuns measures 1,000, 10,000 and 100,000 runs: the time per run of a start,
// and of a list, which visits all of them; the time of a status; and the memory of a run. Each is compared
// with that of the fewest runs.
func BenchmarkGrowthOfRuns(b *testing.B) {
	for b.Loop() {
		first := map[string]float64{}
		for _, n := range []int{1_000, 10_000, 100_000} {
			report := func(name, unit string, v float64) {
				if first[name] == 0 {
					first[name] = v
					b.ReportMetric(v, name+"-"+unit)
					return
				}
				b.ReportMetric(v/first[name], fmt.Sprintf("%s-%dk/1k", name, n/1000))
			}
			manyRuns(b, n, report)
		}
	}
	b.ReportMetric(0, "ns/op")
}

func manyRuns(b *testing.B, n int, report func(name, unit string, v float64)) {
	o := newOffice(b, n)
	defer o.server.Stop()
	o.replay(b)
	heap := func() float64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	before := heap()
	began := time.Now()
	s, stop := o.responder(b)
	defer stop()
	report("start", "µs", time.Since(began).Seconds()*1e6/float64(n))
	report("memory", "B", (heap()-before)/float64(n))
	const times = 50
	var lists, states []float64
	for i := range times {
		began := time.Now()
		if p, err := s.List(api.List{}); err != nil || p.Next == "" {
			b.Fatalf("%d runs, %v", len(p.Runs), err)
		}
		lists = append(lists, time.Since(began).Seconds())
		began = time.Now()
		for range 100 {
			if _, ok := s.Get(runID(i * 7919 % n)); !ok {
				b.Fatal("no run")
			}
		}
		states = append(states, time.Since(began).Seconds()/100)
	}
	report("list", "ns", median(lists)*1e9/float64(n))
	report("status", "ns", median(states)*1e9)
}

// responder starts one, and returns it when it knows all runs.
func (o *office) responder(b testing.TB) (s *responder.Service, stop func()) {
	b.Helper()
	s = responder.New(responder.Config{Streams: o.bus, Queue: "default", LostAfter: time.Minute, Patience: time.Minute})
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	if err := s.Ready(ctx); err != nil {
		b.Fatal(err)
	}
	return s, func() {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
	}
}

// BenchmarkList measures pages of a list of 100,000 runs, without encoding: the CPU time of the first one, of one
// of a state, and of the count of all, which visits each.
func BenchmarkList(b *testing.B) {
	const n = 100_000
	s, stop := newOffice(b, n).responder(b)
	defer stop()
	took := map[string][]float64{}
	for b.Loop() {
		for name, q := range map[string]api.List{
			"": {}, "state-": {States: []runs.State{runs.StateCompleted}}, "none-": {States: []runs.State{runs.StateFailed}},
			"change-": {Order: api.ByChange},
		} {
			before := cpu(b)
			p, err := s.List(q)
			if err != nil || name != "none-" && len(p.Runs) != responder.DefaultPage {
				b.Fatalf("%d runs, %v", len(p.Runs), err)
			}
			took[name] = append(took[name], (cpu(b)-before).Seconds()*1e3)
		}
		before := cpu(b)
		if all, err := s.Count(api.List{}); err != nil || all != n {
			b.Fatalf("%d of %d runs, %v", all, n, err)
		}
		took["count-"] = append(took["count-"], (cpu(b)-before).Seconds()*1e3)
	}
	for name, all := range took {
		b.ReportMetric(median(all), name+"cpu-ms")
	}
	b.ReportMetric(0, "ns/op")
}
