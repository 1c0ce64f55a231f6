package responder_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/bustest"
	"github.com/linesman/linesman/test/fixture/servicetest"
)

// countingService is a service that counts the entries that it reads.
func countingService(t *testing.T) (*servicetest.Streams, *counting) {
	t.Helper()
	c := &counting{}
	s := detailed(t, func(cfg *responder.Config) { c.Streams, cfg.Streams = cfg.Streams, c })
	return s, c
}

// long begins a run with a call, n entries of 8 KiB, of which every tenth has no item, and the result of the call.
func long(s *servicetest.Streams, id string, n int) *servicetest.Log {
	l := s.Begin("codex", id, runs.Start{Source: "run"}).Err([]byte("Reading the prompt\n"))
	call := func(event, status string) []byte {
		return fmt.Appendf(nil, `{"type":"item.%s","item":{"id":"call","type":"command_execution","command":"make all",`+
			`"aggregated_output":"","exit_code":null,"status":%q}}`+"\n", event, status)
	}
	l.Out(call("started", "in_progress"))
	text := bytes.Repeat([]byte("x"), 8<<10)
	for i := range n {
		if i%10 == 9 {
			l.Out(fmt.Appendf(nil, "%s\n", bytes.Repeat([]byte(" "), len(text))))
			continue
		}
		l.Out(fmt.Appendf(nil, `{"type":"item.completed","item":{"id":"item_%d","type":"agent_message","text":"%d %s"}}`+"\n",
			i, i, text))
	}
	return l.Out(call("completed", "completed"))
}

// interval is about how many such entries are between two saved folds.
const interval = 1 << 20 / (9 << 10)

// The last items of a log cost the same, however long it is; and so does what follows an item near its end.
func TestGrowthOfTheEndOfALog(t *testing.T) {
	t.Parallel()
	s, c := countingService(t)
	read := map[int][]int{}
	for _, n := range []int{5 * interval, 25 * interval} {
		id := fmt.Sprint("run-", n)
		long(s, id, n).Exit(1)
		all := details(t, s.Service, id, "", false)
		if c.entries < n {
			t.Fatalf("all of it is in %d entries", c.entries)
		}
		ask := func(q api.DetailRequest, want []api.DetailItem) {
			t.Helper()
			c.entries = 0
			q.Run = id
			p := page(t, s.Service, q, 1<<30)
			if !reflect.DeepEqual(p.Items, want) {
				t.Errorf("%+v: got %v, want %v", q, positions(p.Items), positions(want))
			}
			read[n] = append(read[n], c.entries)
		}
		for _, last := range []int{1, 5, interval, 3 * interval} {
			ask(api.DetailRequest{Last: last, Limit: 1000}, all[len(all)-last:])
		}
		near := len(all) - interval
		ask(api.DetailRequest{After: all[near].Pos, Limit: 1000}, all[near+1:])
		t.Logf("of %d entries, %v were read", n, read[n])
	}
	for i, most := range []int{2 * interval, 2 * interval, 5 * interval, 10 * interval, 4 * interval} {
		for n, entries := range read {
			if entries[i] > most+16 {
				t.Errorf("of %d entries %d were read, want at most about %d", n, entries[i], most)
			}
		}
	}
}

// Without saved folds, or with those of another program, the answer is the same.
func TestAnswerIsTheSameWithoutSavedFolds(t *testing.T) {
	t.Parallel()
	s, c := countingService(t)
	long(s, "one", 5*interval).Exit(0)
	q := api.DetailRequest{Run: "one", Last: 7}
	want := page(t, s.Service, q, 1<<20)
	if c.entries > 2*interval || len(want.Items) != 7 || !want.Done {
		t.Fatalf("%d entries for %d items", c.entries, len(want.Items))
	}
	other := serviceOf(t, s, func(cfg *responder.Config) {
		all := cfg.Details
		cfg.Details = func(agent, run string, from *runs.SavedFold) (responder.DetailFold, error) {
			if from != nil {
				from.By = "another"
			}
			return all(agent, run, from)
		}
	})
	if got := page(t, other, q, 1<<20); !reflect.DeepEqual(got, want) {
		t.Errorf("of another program: got %v", positions(got.Items))
	}
	forged := serviceOf(t, s, func(cfg *responder.Config) { cfg.Streams = countless{cfg.Streams} })
	many := api.DetailRequest{Run: "one", Last: 3 * interval, Limit: 1000}
	if a, b := page(t, forged, many, 1<<30), page(t, s.Service, many, 1<<30); !reflect.DeepEqual(a, b) {
		t.Errorf("with wrong counts: %d items, want %d", len(a.Items), len(b.Items))
	}
	bustest.Remake(t, s.Operator, s.Operator.JetStream(), bucket.Stream(s.Operator.Folds()))
	if got := page(t, s.Service, q, 1<<20); !reflect.DeepEqual(got, want) {
		t.Errorf("without: got %v", positions(got.Items))
	}
	if err := s.Operator.JetStream().DeleteStream(t.Context(), bucket.Stream(s.Operator.Folds())); err != nil {
		t.Fatal(err)
	}
	if got := page(t, s.Service, q, 1<<20); !reflect.DeepEqual(got, want) {
		t.Errorf("without the bucket: got %v", positions(got.Items))
	}
}

// countless are streams with saved folds that do not count events.
type countless struct{ responder.Streams }

func (c countless) SavedFolds(ctx context.Context, agent, run string, before uint64,
	each func(runs.SavedFold) (bool, error)) error {
	return c.Streams.SavedFolds(ctx, agent, run, before, func(f runs.SavedFold) (bool, error) {
		f.Record.Events = nil
		return each(f)
	})
}

// A reader that begins at a saved fold follows new entries, and reports whether the beginning of the log is lost.
func TestReadingFromASavedFoldGoesOn(t *testing.T) {
	t.Parallel()
	s, c := countingService(t)
	l := long(s, "one", 5*interval)
	bustest.Until(t, "the folds are saved", func() bool {
		c.entries = 0
		p := page(t, s.Service, api.DetailRequest{Run: "one", Last: 1}, 1<<20)
		return c.entries < 2*interval && !p.Done && p.Omitted == ""
	})
	followed := make(chan []api.DetailItem)
	open, err := s.Service.OpenDetail(t.Context(), "one", "", 3)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	go func() {
		var all []api.DetailItem
		err := open.Each(t.Context(), true, func(i api.DetailItem) error {
			if all = append(all, i); len(all) == 3 {
				followed <- nil
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		followed <- all
	}()
	<-followed
	l.Err([]byte("It failed\n")).Exit(1)
	all := details(t, s.Service, "one", "", false)
	if got := <-followed; !reflect.DeepEqual(got, all[len(all)-5:]) {
		t.Errorf("got %v, want %v", positions(got), positions(all[len(all)-5:]))
	}
	const stderr = "Reading the prompt\nIt failed\n"
	if end := all[len(all)-1].Detail; end == nil || end.Stderr == nil || end.Stderr.Head != stderr {
		t.Errorf("the completion has %+v", end)
	}

	raw, err := s.Operator.Stream(t.Context(), s.Operator.Raw())
	if err == nil {
		err = raw.DeleteMsg(t.Context(), raw.CachedInfo().State.FirstSeq)
	}
	if err != nil {
		t.Fatal(err)
	}
	c.entries = 0
	p := page(t, s.Service, api.DetailRequest{Run: "one", Last: 3}, 1<<20)
	if p.Omitted != api.Expired || c.entries > 2*interval {
		t.Errorf("got %+v of %d entries", p.Omitted, c.entries)
	}
}

// BenchmarkEndOfALog measures the last 5 items of a run of 20,000 small lines, an entry each, and all of them.
func BenchmarkEndOfALog(b *testing.B) {
	s := servicetest.New(b)
	s.Service = responder.New(responder.Config{Streams: s.Bus, LostAfter: time.Hour, Details: servicetest.Details()})
	servicetest.During(b, "responder", s.Service.Run)
	if err := s.Service.Ready(b.Context()); err != nil {
		b.Fatal(err)
	}
	l := s.Begin("codex", "one", runs.Start{Source: "run"})
	for i := range 20_000 {
		l.Out(fmt.Appendf(nil, `{"type":"item.completed","item":{"id":"item_%d","type":"agent_message","text":"%d"}}`+"\n", i, i))
	}
	l.Exit(0)
	var whole, last []time.Duration
	for b.Loop() {
		began := time.Now()
		if err := s.Service.Detail(b.Context(), "one", "", false, func(api.DetailItem) error { return nil }); err != nil {
			b.Fatal(err)
		}
		whole = append(whole, time.Since(began))
		began = time.Now()
		p, err := s.Service.DetailPage(b.Context(), api.DetailRequest{Run: "one", Last: 5}, 1<<20)
		if err != nil || len(p.Items) != 5 {
			b.Fatal(err, errors.New(fmt.Sprint(len(p.Items))))
		}
		last = append(last, time.Since(began))
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(slices.Min(whole).Microseconds())/1000, "whole-ms")
	b.ReportMetric(float64(slices.Min(last).Microseconds())/1000, "last-ms")
	b.ReportMetric(float64(slices.Min(whole))/float64(slices.Min(last)), "whole/last")
}
