package responder_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/servicetest"
)

// detailed makes a service with details, over streams of its own.
func detailed(t *testing.T, change func(*responder.Config)) *servicetest.Streams {
	t.Helper()
	s := servicetest.New(t)
	s.Service = serviceOf(t, s, change)
	return s
}

// serviceOf is one more service of the same streams.
func serviceOf(t *testing.T, s *servicetest.Streams, change func(*responder.Config)) *responder.Service {
	t.Helper()
	cfg := responder.Config{
		Streams: s.Bus, Queue: bus.DefaultQueue, LostAfter: time.Hour, Details: servicetest.Details(),
		Patience: fixture.Patience,
	}
	if change != nil {
		change(&cfg)
	}
	service := responder.New(cfg)
	servicetest.During(t, "responder", service.Run)
	if err := service.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return service
}

// details are all details of a run behind a position.
func details(t *testing.T, s *responder.Service, run, after string, follow bool) (all []api.DetailItem) {
	t.Helper()
	err := s.Detail(t.Context(), run, after, follow, func(i api.DetailItem) error {
		all = append(all, i)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func positions(all []api.DetailItem) (pos []string) {
	for _, i := range all {
		pos = append(pos, i.Pos)
	}
	return pos
}

// same compares items.
func same(t *testing.T, what string, got, want []api.DetailItem) {
	t.Helper()
	text := func(all []api.DetailItem) string {
		b, err := json.MarshalIndent(append([]api.DetailItem{}, all...), "", " ")
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if g, w := text(got), text(want); g != w {
		t.Errorf("%s:\ngot  %v\nwant %v", what, positions(got), positions(want))
	}
}

func page(t *testing.T, s *responder.Service, q api.DetailRequest, most int) api.DetailPage {
	t.Helper()
	p, err := s.DetailPage(t.Context(), q, most)
	if err != nil {
		t.Fatalf("%+v: %v", q, err)
	}
	return p
}

// The details of a run contain its events, each once and as it is stored, with the number of
// its line.
func TestDetailsContainTheEvents(t *testing.T) {
	t.Parallel()
	s := detailed(t, nil)
	s.Begin("codex", "one", runs.Start{Source: "run"}).OutIn(servicetest.Recording(t, "shell-ok.jsonl"), 200).Exit(0)
	s.Begin("strange_agent", "opaque", runs.Start{Source: "run"}).Out([]byte("{\"a\":1}\nx\n{}")).Exit(3)
	s.Begin("codex", "failed", runs.Start{Source: "run"}).Out([]byte(`{"type":"turn.started"}`)).
		Err([]byte("bad\n")).Exit(1)
	for _, run := range []string{"one", "opaque", "failed"} {
		events, err := s.Service.Events(t.Context(), run, 0, 1000, 1<<20)
		if err != nil || !events.Done {
			t.Fatalf("events of %s: %v", run, err)
		}
		var want, got []string
		for _, e := range events.Events {
			want = append(want, e.Kind+" "+string(e.Body))
		}
		all := details(t, s.Service, run, "", false)
		for _, i := range all {
			if i.Kind != "detail" {
				got = append(got, i.Kind+" "+string(i.Event))
			}
			if i.Kind == "text_output" && i.Line == 0 || i.At == 0 || i.Part == 0 {
				t.Errorf("%s: an item without its origin: %+v", run, i)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %d items, want %d\n%s", run, len(got), len(want), strings.Join(got, "\n"))
		}
		if last := all[len(all)-1]; last.Kind != api.Completion || !strings.HasSuffix(last.Pos, ".end") {
			t.Errorf("%s: the last item is %+v", run, last)
		}
	}
}

// Pages of any size, from any item on, by the service that gave the page before or by
// another one, are all items, each once.
func TestPagesOfDetailsHaveEachItemOnce(t *testing.T) {
	t.Parallel()
	s := detailed(t, nil)
	other := serviceOf(t, s, nil)
	s.Begin("codex", "one", runs.Start{Source: "run"}).OutIn(servicetest.Recording(t, "shell-ok.jsonl"), 200).Exit(0)
	want := details(t, s.Service, "one", "", false)
	if len(want) < 8 {
		t.Fatalf("only %d items", len(want))
	}
	for i := range want {
		same(t, "after "+want[i].Pos, details(t, other, "one", want[i].Pos, true), want[i+1:])
	}
	for _, limit := range []int{1, 2, 3, 7, 1000} {
		for _, most := range []int{1, 600, 1 << 20} {
			for _, services := range [][]*responder.Service{{s.Service}, {s.Service, other}} {
				var got []api.DetailItem
				for q, n := (api.DetailRequest{Run: "one", Limit: limit}), 0; ; n++ {
					p := page(t, services[n%len(services)], q, most)
					if len(p.Items) > limit || p.Omitted != "" {
						t.Fatalf("%d items of at most %d, omitted %q", len(p.Items), limit, p.Omitted)
					}
					if got, q.After = append(got, p.Items...), p.Next; p.Done {
						break
					}
					if len(p.Items) == 0 {
						t.Fatal("a page without items, and not the last")
					}
				}
				same(t, fmt.Sprintf("pages of %d items and %d bytes by %d services", limit, most, len(services)), got, want)
			}
		}
	}
	end := want[len(want)-1].Pos
	if p := page(t, s.Service, api.DetailRequest{Run: "one", After: end}, 1); !p.Done || len(p.Items) > 0 {
		t.Errorf("behind the completion: %+v", p)
	}
	for _, last := range []int{1, 3, len(want), 1000} {
		p := page(t, s.Service, api.DetailRequest{Run: "one", Last: last, Limit: 1000}, 1<<20)
		same(t, fmt.Sprint("last ", last), p.Items, want[max(len(want)-last, 0):])
		if !p.Done {
			t.Errorf("the newest %d items are not the last ones", last)
		}
		p = page(t, s.Service, api.DetailRequest{Run: "one", Last: 3, Limit: 2}, 1<<20)
		if q := page(t, other, api.DetailRequest{Run: "one", After: p.Next}, 1<<20); p.Done || !q.Done {
			t.Error("the newest items on two pages")
		} else {
			same(t, "on two pages", append(p.Items, q.Items...), want[len(want)-3:])
		}
	}
}

// A queued run has details once it has started. A page waits for them, a follower gets all
// to the completion.
func TestDetailsOfARunThatIsQueuedAndThenWorksAreFollowed(t *testing.T) {
	t.Parallel()
	s := detailed(t, nil)
	task, err := s.Service.Submit(t.Context(), api.Submission{Task: runs.Task{Prompt: "x"}})
	if err != nil {
		t.Fatal(err)
	}
	if p := page(t, s.Service, api.DetailRequest{Run: task.Run, Wait: 1}, 1<<20); p.Done || len(eventsOf(p.Items)) > 0 {
		t.Errorf("a queued run: %+v", p)
	}
	followed := make(chan []api.DetailItem, 1)
	go func() {
		var all []api.DetailItem
		err := s.Service.Detail(t.Context(), task.Run, "", true, func(i api.DetailItem) error {
			all = append(all, i)
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		followed <- all
	}()
	paged := make(chan []api.DetailItem, 1)
	go func() {
		var all []api.DetailItem
		for q := (api.DetailRequest{Run: task.Run, Wait: 60, Limit: 2}); ; {
			p, err := s.Service.DetailPage(t.Context(), q, 1<<20)
			if err != nil {
				t.Error(err)
				break
			}
			if all, q.After = append(all, p.Items...), p.Next; p.Done {
				break
			}
		}
		paged <- all
	}()
	l := s.Begin("codex", task.Run, runs.Start{Source: "queue"})
	l.OutIn(servicetest.Recording(t, "shell-ok.jsonl"), 300).Exit(0)
	want := details(t, s.Service, task.Run, "", false)
	if len(want) == 0 || want[len(want)-1].Kind != api.Completion {
		t.Fatalf("%d items", len(want))
	}
	same(t, "followed", <-followed, want)
	same(t, "paged", <-paged, want)
}

func eventsOf(all []api.DetailItem) []api.DetailItem {
	return slices.DeleteFunc(slices.Clone(all), func(i api.DetailItem) bool { return i.Kind == "detail" })
}

// A task that was cancelled before it started has its completion.
func TestDetailsOfACancelledTaskEnd(t *testing.T) {
	t.Parallel()
	s := detailed(t, nil)
	task, err := s.Service.Submit(t.Context(), api.Submission{Task: runs.Task{Prompt: "x"}})
	if err == nil {
		_, err = s.Service.Cancel(t.Context(), api.Cancel{Run: task.Run})
	}
	if err != nil {
		t.Fatal(err)
	}
	all := details(t, s.Service, task.Run, "", true)
	if len(all) == 0 || all[len(all)-1].Kind != api.Completion {
		t.Errorf("%+v", all)
	}
}

// RAW has lost the beginning of a log, and then all of it: the details say so, and have what
// is left.
func TestDetailsOfAnExpiredLogAreThoseThatAreLeft(t *testing.T) {
	t.Parallel()
	s := detailed(t, nil)
	s.Begin("codex", "one", runs.Start{Source: "run"}).OutIn(servicetest.Recording(t, "shell-ok.jsonl"), 200).Exit(0)
	all := details(t, s.Service, "one", "", false)
	raw, err := s.Operator.JetStream().Stream(t.Context(), s.Operator.Raw())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(raw.DeleteMsg(t.Context(), 1), raw.DeleteMsg(t.Context(), 2)); err != nil {
		t.Fatal(err)
	}
	p := page(t, s.Service, api.DetailRequest{Run: "one", Limit: 1000}, 1<<20)
	if p.Omitted != api.Expired || !p.Done || len(p.Items) < 2 || p.Items[len(p.Items)-1].Pos != all[len(all)-1].Pos {
		t.Errorf("with a part of the log: omitted %q, done %t, %d items", p.Omitted, p.Done, len(p.Items))
	}
	if err := raw.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	p = page(t, s.Service, api.DetailRequest{Run: "one", Wait: 60}, 1<<20)
	if p.Omitted != api.Expired || !p.Done || len(p.Items) > 0 {
		t.Errorf("without a log: %+v", p)
	}
}

// What is wrong with a request is an error of a code, and so is one too many.
func TestRequestsForDetailsThatFail(t *testing.T) {
	t.Parallel()
	s := detailed(t, func(c *responder.Config) { c.Folds = 2 })
	s.Begin("codex", "one", runs.Start{Source: "run"}).OutIn(servicetest.Recording(t, "shell-ok.jsonl"), 700)
	s.Await("one", servicetest.Working)
	for after, want := range map[string]api.Code{
		"x": api.Validation, "1": api.Validation, "0.1": api.Validation, "1.0": api.Validation, "1.1.1": api.Validation,
		"-1.1": api.Validation, "1.99999999999": api.Validation, "1.1.end.end": api.Validation,
		strings.Repeat("0", 70) + "1.1": api.Validation,
		"18446744073709551615.1":        api.Conflict, "999999.1": api.Conflict, "999999.1.end": api.Conflict,
	} {
		_, err := s.Service.DetailPage(t.Context(), api.DetailRequest{Run: "one", After: after}, 1)
		quoted := err != nil && len(after) > 5 && strings.Contains(err.Error(), after)
		if !api.Is(err, want) || api.Known(err).Field != api.FieldAfter || quoted {
			t.Errorf("after %q: %v, want %s", after, err, want)
		}
	}
	for _, run := range []string{"none", "../one", ""} {
		if _, err := s.Service.DetailPage(t.Context(), api.DetailRequest{Run: run}, 1); !api.Is(err, api.NotFound) {
			t.Errorf("run %q: %v", run, err)
		}
	}
	for _, q := range []api.DetailRequest{{Limit: -1}, {Limit: 1001}, {Last: 1001}, {Last: -1}, {Wait: 61}, {Wait: -1}} {
		if !api.Is(q.Valid(), api.Validation) {
			t.Errorf("%+v is accepted", q)
		}
	}
	without := serviceOf(t, s, func(c *responder.Config) { c.Details = nil })
	if _, err := without.DetailPage(t.Context(), api.DetailRequest{Run: "one"}, 1); !api.Is(err, api.Unsupported) {
		t.Errorf("a service without details: %v", err)
	}

	// Two are open; the third is refused until one of them is closed.
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	open, ended := make(chan struct{}, 2), make(chan error, 2)
	for range 2 {
		first := true
		go func() {
			ended <- s.Service.Detail(ctx, "one", "", true, func(api.DetailItem) error {
				if first {
					open <- struct{}{}
				}
				first = false
				return nil
			})
		}()
	}
	<-open
	<-open
	if _, err := s.Service.DetailPage(t.Context(), api.DetailRequest{Run: "one"}, 1); !api.Is(err, api.TooMany) {
		t.Errorf("with all slots taken: %v", err)
	}
	leave()
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	page(t, s.Service, api.DetailRequest{Run: "one"}, 1)
	enough := errors.New("enough")
	err := s.Service.Detail(t.Context(), "one", "", true, func(api.DetailItem) error { return enough })
	if !errors.Is(err, enough) {
		t.Errorf("got %v, want the error of the handler", err)
	}
}

// counting counts the entries that are read.
type counting struct {
	responder.Streams
	entries int
}

func (c *counting) Entries(ctx context.Context, agent, run string, from uint64, follow bool,
	each func(seq uint64, e runs.Entry) error) error {
	return c.Streams.Entries(ctx, agent, run, from, follow, func(seq uint64, e runs.Entry) error {
		c.entries++
		return each(seq, e)
	})
}

// A service that gives one page after another reads each entry of the log once.
func TestPagesOfDetailsReadEachEntryOnce(t *testing.T) {
	t.Parallel()
	var c *counting
	s := detailed(t, func(cfg *responder.Config) {
		c = &counting{Streams: cfg.Streams}
		cfg.Streams = c
	})
	s.Begin("codex", "one", runs.Start{Source: "run"}).OutIn(servicetest.Recording(t, "shell-ok.jsonl"), 100).Exit(0)
	all := len(details(t, s.Service, "one", "", false))
	entries := c.entries
	c.entries = 0
	pages := 0
	for q := (api.DetailRequest{Run: "one", Limit: 1}); ; pages++ {
		p := page(t, s.Service, q, 1<<20)
		if q.After = p.Next; p.Done {
			break
		}
	}
	if pages < all-1 || c.entries != entries {
		t.Errorf("%d pages of %d items read %d of %d entries", pages, all, c.entries, entries)
	}
}

// halted gives one reading a few entries of the log, and then none until its time is over.
type halted struct {
	responder.Streams
	entries int      // before it halts; 0: it does not
	from    []uint64 // where readings began
}

func (h *halted) Entries(ctx context.Context, agent, run string, from uint64, follow bool,
	each func(seq uint64, e runs.Entry) error) error {
	h.from = append(h.from, from)
	left := h.entries
	h.entries = 0
	return h.Streams.Entries(ctx, agent, run, from, follow, func(seq uint64, e runs.Entry) error {
		if left == 1 {
			<-ctx.Done()
			return ctx.Err()
		}
		left--
		return each(seq, e)
	})
}

// A page that takes longer than one request may is read in several: the next one continues.
func TestReadingOfALongPageContinues(t *testing.T) {
	t.Parallel()
	h := &halted{}
	s := detailed(t, nil)
	s.Begin("codex", "one", runs.Start{Source: "run"}).OutIn(servicetest.Recording(t, "shell-ok.jsonl"), 3).Exit(0)
	want := details(t, s.Service, "one", "", false)
	brief := serviceOf(t, s, func(cfg *responder.Config) {
		h.Streams, cfg.Streams, cfg.PageTime = cfg.Streams, h, time.Second
	})
	h.entries = 6
	_, err := brief.DetailPage(t.Context(), api.DetailRequest{Run: "one"}, 1<<20)
	var e *api.Error
	if !errors.As(err, &e) || e.Code != api.Timeout || e.Limit != api.LimitWait || !e.Retryable {
		t.Fatalf("before the first item: %v", err)
	}
	var got []api.DetailItem
	h.entries = 100
	for q := (api.DetailRequest{Run: "one"}); ; {
		p, err := brief.DetailPage(t.Context(), q, 1<<20)
		if api.Is(err, api.Timeout) {
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		got = append(got, p.Items...)
		if q.After = p.Next; p.Done {
			break
		}
	}
	same(t, "read in several requests", got, want)
	if len(h.from) < 3 || !slices.IsSorted(h.from) || h.from[1] == 1 {
		t.Errorf("readings began at %d", h.from)
	}
}

// crowded counts the readings of logs at the same time.
type crowded struct {
	responder.Streams
	now, most atomic.Int32
}

func (c *crowded) Entries(ctx context.Context, agent, run string, from uint64, follow bool,
	each func(seq uint64, e runs.Entry) error) error {
	for n := c.now.Add(1); ; {
		if most := c.most.Load(); n <= most || c.most.CompareAndSwap(most, n) {
			break
		}
	}
	defer c.now.Add(-1)
	return c.Streams.Entries(ctx, agent, run, from, follow, each)
}

// A burst of requests for pages is served a few at a time, and each of them has an answer.
func TestPagesOfDetailsAreReadInTurns(t *testing.T) {
	t.Parallel()
	c := &crowded{}
	s := detailed(t, func(cfg *responder.Config) { c.Streams, cfg.Streams = cfg.Streams, c })
	s.Begin("codex", "one", runs.Start{Source: "run"}).OutIn(servicetest.Recording(t, "shell-ok.jsonl"), 100).Exit(0)
	want := len(details(t, s.Service, "one", "", false))
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			p, err := s.Service.DetailPage(t.Context(), api.DetailRequest{Run: "one", Last: i % 2 * 1000}, 1<<20)
			if err != nil || len(p.Items) != want {
				t.Errorf("got %d items, %v; want %d", len(p.Items), err, want)
			}
		})
	}
	all.Wait()
	if most := c.most.Load(); most > 8 {
		t.Errorf("%d readings at the same time, want at most 8", most)
	}
	waits, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Service.DetailPage(waits, api.DetailRequest{Run: "one"}, 1<<20); err == nil {
		t.Error("a request that is gone has an answer")
	}
}

// unread fails each reading of an output.
type unread struct{ responder.Streams }

func (unread) OutputAt(context.Context, string, string, runs.Kind, int64, int) (int64, []byte, error) {
	return 0, nil, errors.New("the log is read")
}

// The record of a run that has ended says how long its output is: behind its end nothing is looked for.
func TestNothingIsReadForOutputThatIsNotThere(t *testing.T) {
	t.Parallel()
	s := detailed(t, func(cfg *responder.Config) { cfg.Streams = unread{cfg.Streams} })
	s.Begin("codex", "one", runs.Start{Source: "run"}).Out([]byte("{}\n")).Exit(0)
	s.Await("one", servicetest.Ended)
	for _, q := range []api.OutputRequest{{Run: "one", Stderr: true, Limit: 9}, {Run: "one", Offset: 3, Limit: 9}} {
		p, err := s.Service.Output(t.Context(), q)
		if err != nil || len(p.Data) != 0 || p.Offset != q.Offset || p.Size != map[bool]int64{false: 3}[q.Stderr] {
			t.Errorf("%+v: %+v %v", q, p, err)
		}
	}
	if _, err := s.Service.Output(t.Context(), api.OutputRequest{Run: "one", Limit: 9}); err == nil {
		t.Error("what is there is not read")
	}
}
