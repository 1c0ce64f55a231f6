package pipeline

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/telemetry/metrics"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// step folds the next entries of RAW in a term of its own, and makes a cut for a part of an interval after every third.
// The term then ends as if it were killed. It returns the last stored checkpoint, and false at the end of RAW.
func step(t *testing.T, n *Normalizer, entries int, part float64) (c bus.Checkpoint, more bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s, err := n.open(ctx, n.Log)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	raw, err := n.Bus.JetStream().OrderedConsumer(ctx, n.Bus.Raw(), jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: s.last.Raw + 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	last := bustest.LastSeq(t, n.Bus.JetStream(), n.Bus.Raw())
	for i := range entries {
		if s.raw >= last {
			return s.last, false
		}
		m, err := raw.Next()
		if err == nil {
			err = s.entry(ctx, m)
		}
		if errors.Is(err, errDied) {
			return s.last, true
		}
		if err == nil && i%3 == 2 {
			if err = s.beginCut(ctx, part); err == nil {
				err = s.cutDone(<-s.cut)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		checkKnown(t, n.Bus, s.last)
		if c := s.last; c.Late > 0 && (c.Raw >= c.Late || c.Recorded() >= c.Late) {
			t.Fatalf("entry %d is in no record: %+v", c.Late, c)
		}
	}
	return s.last, true
}

// checkKnown checks that the run of each event up to the Known of a stored checkpoint has a record.
func checkKnown(t *testing.T, b *bus.Bus, c bus.Checkpoint) {
	t.Helper()
	have := map[string]bool{}
	err := b.Read(t.Context(), runs.Selection{}, func(e bus.Stored) error {
		if e.Seq <= c.Known {
			have[e.Run] = true
		}
		return nil
	})
	for run := range have {
		if _, ok, bad := b.Record(t.Context(), run); bad != nil || !ok {
			err = fmt.Errorf("run %s has events up to %d, and no record: %w", run, c.Known, bad)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A term has stored events of a run, and is killed before a cut: the next one does not know the run until it has read
// its entries again.
func TestRunsOfAKilledTermAreNotKnownBeforeTheyAreReadAgain(t *testing.T) {
	t.Parallel()
	_, b := serve(t)
	log := bustest.CorpusLog(t, "plan", 40)
	bustest.Interleave(t, b, map[string][]runs.Entry{"ra": log[:9]}, "ra")
	bustest.Interleave(t, b, map[string][]runs.Entry{"rz": log}, "rz")
	n := newNormalizer(b)
	step(t, n, 3, 1)
	s, err := n.open(t.Context(), n.Log)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := b.JetStream().OrderedConsumer(t.Context(), b.Raw(), jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: s.last.Raw + 1,
	})
	for last := bustest.LastSeq(t, b.JetStream(), b.Raw()); err == nil && s.raw < last; {
		var m jetstream.Msg
		if m, err = raw.Next(); err == nil {
			err = s.entry(t.Context(), m)
		}
	}
	if err == nil {
		err = s.events.settle(t.Context())
	}
	if err == nil {
		err = s.events.stored(t.Context(), s.events.next-1)
	}
	s.close()
	if err != nil {
		t.Fatal(err)
	}
	for more := true; more; {
		_, more = step(t, n, 60, 1) // which checks it
	}
	n.Until = bustest.LastSeq(t, b.JetStream(), b.Raw())
	if err := n.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s, err = n.open(t.Context(), n.Log); err != nil {
		t.Fatal(err)
	}
	c := s.last
	s.close()
	if last := bustest.LastSeq(t, b.PublicJetStream(), b.Events()); c.Known != last {
		t.Errorf("runs are known up to %d of %d", c.Known, last)
	}
	checkKnown(t, b, c)
}

// Many runs change, and few are recorded in each cut. Normalizers are killed after some entries, or in the middle of
// one. Events, records and counters are those of one that was not.
func TestRunsThatAreRecordedLateAreWhole(t *testing.T) {
	t.Parallel()
	logs := map[string][]runs.Entry{}
	for i, name := range []string{"shell-fail", "plan", "hello", "shell-fail", "plan", "hello", "plan", "plan"} {
		logs[fmt.Sprint("r", i)] = bustest.CorpusLog(t, name, 90+30*i)
	}
	order := slices.Sorted(maps.Keys(logs))
	work := func(b *bus.Bus, r *prometheus.Registry) *Normalizer {
		n := newNormalizer(b)
		n.Metrics = metrics.NewNormalizer(r, []string{"codex"}, known.Agents)
		return n
	}
	_, unbroken := serve(t)
	bustest.Interleave(t, unbroken, logs, order...)
	all := prometheus.NewRegistry()
	n := work(unbroken, all)
	n.Until = bustest.LastSeq(t, unbroken.JetStream(), unbroken.Raw())
	if err := n.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	want, wantRuns := bustest.Dump(t, unbroken.PublicJetStream(), unbroken.Events()), records(t, unbroken)

	for entries := 11; entries < 40; entries += 1 + fixture.Every(6) {
		_, b := serve(t)
		bustest.Interleave(t, b, logs, order...)
		r := prometheus.NewRegistry()
		m := metrics.NewNormalizer(r, []string{"codex"}, known.Agents)
		late, terms := 0, 0
		for more := true; more; terms++ {
			n := newNormalizer(b)
			n.Metrics, n.perCut = m, 1
			if terms%4 == 2 {
				n.die = func(next uint64) bool { return next%uint64(entries) == 0 }
			}
			var c bus.Checkpoint
			// Each term folds again what no record has, so it must get further than the one before.
			if c, more = step(t, n, entries+terms, []float64{1, 1, 0.5}[terms%3]); c.Late > 0 {
				late++
			}
		}
		n := newNormalizer(b)
		n.Metrics, n.Until = m, bustest.LastSeq(t, b.JetStream(), b.Raw())
		if err := n.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		what := fmt.Sprintf("killed after %d entries", entries)
		bustest.Diff(t, what, bustest.Dump(t, b.PublicJetStream(), b.Events()), want)
		if have := records(t, b); !maps.Equal(have, wantRuns) {
			t.Errorf("%s: records\n got %v\nwant %v", what, have, wantRuns)
		}
		if have := counters(t, r); !maps.Equal(have, counters(t, all)) {
			t.Errorf("%s: counted\n got %v\nwant %v", what, have, counters(t, all))
		}
		if late < terms/2 || terms < 3 {
			t.Errorf("%s: only %d of %d terms ended with records to come", what, late, terms)
		}
	}
}

// A normalizer is killed, and the next one while it reads again what EVENTS has. Then the events expire. No event is
// published again.
func TestEventsThatExpireBetweenTwoKillsDoNotComeAgain(t *testing.T) {
	t.Parallel()
	logs := map[string][]runs.Entry{}
	for i, name := range []string{"shell-fail", "plan", "plan"} {
		logs[fmt.Sprint("r", i)] = bustest.CorpusLog(t, name, 40)
	}
	order := slices.Sorted(maps.Keys(logs))
	for _, entries := range []int{3, 6} {
		_, b := serve(t)
		bustest.Interleave(t, b, logs, order...)
		n := newNormalizer(b)
		n.perCut = 1
		first, _ := step(t, n, 60, 1)
		second, _ := step(t, n, entries, 1)
		if first.Late == 0 || second.CutRaw < first.CutRaw || second.Recorded() > first.CutRaw {
			t.Errorf("after %d entries more: %+v after %+v", entries, second, first)
		}
		before := bustest.LastSeq(t, b.PublicJetStream(), b.Events())
		bustest.Purge(t, b.PublicJetStream(), b.Events())
		normalize(t, b)
		all := bustest.Dump(t, b.PublicJetStream(), b.Events())
		_, unbroken := serve(t)
		bustest.Interleave(t, unbroken, logs, order...)
		normalize(t, unbroken)
		want := bustest.Dump(t, unbroken.PublicJetStream(), unbroken.Events())
		bustest.Diff(t, fmt.Sprintf("after %d entries more", entries), all, want[before:])
	}
}

// A normalizer is killed when EVENTS has more than the checkpoint, and the next two after they have derived a part of
// that again. Before one of them, or after both, the events expire. No event is published again, and none is lost.
func TestExpiredEventsThatAreDerivedInPartDoNotComeAgain(t *testing.T) {
	t.Parallel()
	log := map[string][]runs.Entry{"r": bustest.CorpusLog(t, "plan", 40)}
	_, unbroken := serve(t)
	bustest.Interleave(t, unbroken, log, "r")
	normalize(t, unbroken)
	want := bustest.Dump(t, unbroken.PublicJetStream(), unbroken.Events())
	withoutCut := func(n *Normalizer) { n.CutEvery = time.Hour }
	for _, c := range []struct {
		expireAfter int  // terms
		entries     int  // that each of them reads
		more        bool // the last of them publishes an event, and is killed
		lost        bool // the checkpoint is lost before them, and what the record has of RAW expires
	}{
		{0, 1, false, false}, {0, 3, false, false}, {0, 6, false, false},
		{1, 1, false, false}, {1, 3, false, false}, {1, 6, false, false}, {2, 3, false, false}, {2, 6, false, false},
		{1, 3, true, false}, {2, 3, true, false}, {1, 3, false, true}, {2, 3, true, true},
	} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			_, b := serve(t)
			bustest.Interleave(t, b, log, "r")
			recorded, _ := step(t, newNormalizer(b), 6, 1)
			stopAt(t, b, uint64(len(want)-2), withoutCut)
			if c.lost {
				bustest.Remake(t, b, b.JetStream(), bucket.Stream(b.State()))
				raw, err := b.JetStream().Stream(t.Context(), b.Raw())
				if err == nil {
					err = raw.Purge(t.Context(), jetstream.WithPurgeSequence(recorded.Raw+1))
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			before := len(want) - 3
			for term := range 3 {
				if term == c.expireAfter {
					if c.more {
						before++
						stopAt(t, b, uint64(before+1), withoutCut)
					}
					bustest.Purge(t, b.PublicJetStream(), b.Events())
				}
				if term < 2 {
					step(t, newNormalizer(b), c.entries, 1)
				}
			}
			normalize(t, b)
			bustest.Diff(t, "EVENTS", bustest.Dump(t, b.PublicJetStream(), b.Events()), want[before:])
		})
	}
}

// Two runs work on a thread. The earlier one is folded again after a kill, and what the later one used stays what the
// next one begins with.
func TestUsageOfASharedThreadSurvivesAKill(t *testing.T) {
	t.Parallel()
	_, b := serve(t)
	at := map[string]int64{}
	write := func(run string, lines ...string) {
		t.Helper()
		l, err := b.OpenLog(t.Context(), "codex", run, runs.Mark{})
		for _, line := range lines {
			e := runs.Entry{Kind: runs.Out, Time: 1000 + at[run], Offset: at[run], Body: []byte(line + "\n")}
			at[run] += int64(len(e.Body))
			if err == nil {
				err = l.Append(t.Context(), e)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	const named = `{"type":"thread.started","thread_id":"01a1fd7c-2789-76b0-9824-e9d8eb68d25e"}`
	used := func(tokens int) string {
		return fmt.Sprintf(`{"type":"turn.completed","usage":{"input_tokens":%d,"cached_input_tokens":0,"output_tokens":0}}`,
			tokens)
	}
	// term folds all that is new, and is killed after a cut of what is due, or of all.
	term := func(part float64) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		n := newNormalizer(b)
		s, err := n.open(ctx, n.Log)
		if err != nil {
			t.Fatal(err)
		}
		defer s.close()
		raw, err := b.JetStream().OrderedConsumer(ctx, b.Raw(), jetstream.OrderedConsumerConfig{
			DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: s.last.Raw + 1,
		})
		for last := bustest.LastSeq(t, b.JetStream(), b.Raw()); err == nil && s.raw < last; {
			var m jetstream.Msg
			if m, err = raw.Next(); err == nil {
				err = s.entry(ctx, m)
			}
		}
		if err == nil {
			if err = s.beginCut(ctx, part); err == nil {
				err = s.cutDone(<-s.cut)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write("a", named, used(10))
	term(whole)
	write("a", used(30))
	write("b", named, used(100))
	term(0)
	term(0)
	write("c", named, used(150))
	term(whole)
	r, ok, err := b.Record(t.Context(), "c")
	if err != nil || !ok || r.Before == nil || r.Before.Input != 100 {
		t.Errorf("before the last run the thread had used %+v, want 100 (%v, %v)", r.Before, ok, err)
	}
}
