package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// interleaved stores two ended runs, a and b, and an open one, c, whose entries alternate,
// and their events and records. It returns the events, in order.
func interleaved(t *testing.T) (*bus.Bus, []*nats.Msg) {
	t.Helper()
	_, b := serve(t)
	open := bustest.CorpusLog(t, "plan", 300)
	bustest.Interleave(t, b, map[string][]runs.Entry{
		"a": bustest.CorpusLog(t, "shell-fail", 300), "b": bustest.CorpusLog(t, "plan", 300), "c": open[:len(open)-1],
	}, "a", "b", "c")
	normalize(t, b)
	var events []*nats.Msg
	stream, err := b.PublicJetStream().Stream(t.Context(), b.Names.Events())
	if err != nil {
		t.Fatal(err)
	}
	for seq := uint64(1); seq <= stream.CachedInfo().State.LastSeq; seq++ {
		m, err := stream.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		header := nats.Header{bus.HeaderPos: m.Header.Values(bus.HeaderPos)}
		events = append(events, &nats.Msg{Subject: m.Subject, Header: header, Data: m.Data})
	}
	return b, events
}

// replaceEvents stores other events in EVENTS, from sequence 1 on.
func replaceEvents(t *testing.T, b *bus.Bus, events []*nats.Msg) {
	t.Helper()
	bustest.Remake(t, b, b.PublicJetStream(), b.Names.Events())
	for _, m := range events {
		if _, err := b.PublicJetStream().PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
}

// of returns the indexes of the events of a run.
func of(events []*nats.Msg, run string) (at []int) {
	for i, m := range events {
		if strings.Contains(m.Subject, ".codex."+run+".") {
			at = append(at, i)
		}
	}
	return at
}

// moved returns a copy of an event from another entry of RAW.
func moved(m *nats.Msg, raw uint64) *nats.Msg {
	pos, _ := bus.ParsePos(m.Header.Get(bus.HeaderPos))
	pos.Raw = raw
	header := nats.Header{bus.HeaderPos: {string(bus.AppendPos(nil, pos))}}
	return &nats.Msg{Subject: m.Subject, Header: header, Data: m.Data}
}

func TestRebuildSaysHowTheEventsOfARunDiffer(t *testing.T) {
	t.Parallel()
	b, events := interleaved(t)
	last := bustest.LastSeq(t, b.JetStream(), b.Raw())
	a, c := of(events, "a"), of(events, "c")
	if len(a) < 6 || len(c) < 6 || a[len(a)-1]-a[0] < len(a)+6 {
		t.Fatalf("a has %d events, c %d, not interleaved", len(a), len(c))
	}
	event := func(n, at int) []string {
		return []string{fmt.Sprintf("run a: event %d (stream sequence %d) differs", n, at+1)}
	}
	other := func(at int) *nats.Msg {
		return &nats.Msg{Subject: events[at].Subject, Header: events[at].Header, Data: []byte("{}")}
	}
	for name, test := range map[string]struct {
		change func([]*nats.Msg) []*nats.Msg
		want   []string
	}{
		"nothing": {func(e []*nats.Msg) []*nats.Msg { return e }, nil},
		"another body": {func(e []*nats.Msg) []*nats.Msg {
			e[a[3]] = other(a[3])
			return e
		}, event(4, a[3])},
		"another body of the first": {func(e []*nats.Msg) []*nats.Msg {
			e[a[0]] = other(a[0])
			return e
		}, event(1, a[0])},
		"another kind": {func(e []*nats.Msg) []*nats.Msg {
			m := *e[a[3]]
			m.Subject = b.EventSubject("codex", "a", "odd")
			e[a[3]] = &m
			return e
		}, event(4, a[3])},
		"of another run": {func(e []*nats.Msg) []*nats.Msg {
			m := *e[a[3]]
			m.Subject = strings.Replace(m.Subject, ".a.", ".b.", 1)
			e[a[3]] = &m
			return e
		}, []string{event(4, a[4])[0], fmt.Sprintf("run b: event %d (stream sequence %d) differs",
			len(of(events[:a[3]], "b"))+1, a[3]+1)}},
		"one missing": {func(e []*nats.Msg) []*nats.Msg { return slices.Delete(e, a[3], a[3]+1) }, event(4, a[4]-1)},
		"the last missing": {func(e []*nats.Msg) []*nats.Msg { return slices.Delete(e, a[len(a)-1], a[len(a)-1]+1) },
			[]string{"run a: 1 events are missing"}},
		"the last of the open run missing": {
			func(e []*nats.Msg) []*nats.Msg { return slices.Delete(e, c[len(c)-1], c[len(c)-1]+1) },
			[]string{"run c: 1 events are missing"}},
		"all missing": {func(e []*nats.Msg) []*nats.Msg {
			return slices.DeleteFunc(e, func(m *nats.Msg) bool { return strings.Contains(m.Subject, ".a.") })
		}, []string{fmt.Sprintf("run a: %d events are missing", len(a))}},
		"one twice":    {func(e []*nats.Msg) []*nats.Msg { return slices.Insert(e, a[3], e[a[3]]) }, event(5, a[3]+1)},
		"one too many": {func(e []*nats.Msg) []*nats.Msg { return append(e, e[a[0]]) }, []string{"run a: 1 events too many"}},
		"a later one of an ended run": {func(e []*nats.Msg) []*nats.Msg { return append(e, moved(e[a[0]], last+1)) },
			[]string{"run a: 1 events too many"}},
		"a later one of the open run": {func(e []*nats.Msg) []*nats.Msg { return append(e, moved(e[c[1]], last+1)) }, nil},
		"one of an unknown run": {func(e []*nats.Msg) []*nats.Msg {
			return append(e, bustest.NewEvent(b, "x", 1, nil))
		}, nil},
		"another order": {func(e []*nats.Msg) []*nats.Msg {
			e[a[3]], e[a[4]] = e[a[4]], e[a[3]]
			return e
		}, event(4, a[3])},
		"the oldest expired": {func(e []*nats.Msg) []*nats.Msg { return e[a[2]:] }, nil},
		"the oldest expired, one missing": {func(e []*nats.Msg) []*nats.Msg {
			return slices.Delete(e, a[4], a[4]+1)[a[2]:]
		}, event(3, a[5]-1-a[2])},
	} {
		for _, limit := range []int{0, maxSuspects}[:2/fixture.Every(2)] { // 0: all runs are compared one by one
			replaceEvents(t, b, test.change(slices.Clone(events)))
			r, err := rebuild(t.Context(), newNormalizer(b), limit)
			if slices.Sort(r.Differences); err != nil || !slices.Equal(r.Differences, test.want) || r.Runs != 3 {
				t.Errorf("%s, limit %d: %+v, %v\nwant %q", name, limit, r, err, test.want)
			}
			if name == "nothing" && r.Events != len(events) {
				t.Errorf("%d events compared, want %d", r.Events, len(events))
			}
		}
	}
}

// More runs than fit into memory differ: neither the runs of the normalizer nor the list of
// suspects has room for them.
func TestRebuildOfMoreRunsThanItsMemoryHoldsFindsAll(t *testing.T) {
	t.Parallel()
	_, b := serve(t)
	logs, order := map[string][]runs.Entry{}, []string{}
	for i := range 12 {
		id := fmt.Sprintf("run-%02d", i)
		logs[id], order = bustest.CorpusLog(t, "hello", 200), append(order, id)
	}
	bustest.Interleave(t, b, logs, order...)
	normalize(t, b)
	events, err := b.PublicJetStream().Stream(t.Context(), b.Names.Events())
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range order[:8] {
		subject := b.EventSubject("codex", id, normalizer.CompletionToken)
		if err := events.Purge(t.Context(), jetstream.WithPurgeSubject(subject)); err != nil {
			t.Fatal(err)
		}
	}
	n := newNormalizer(b)
	n.maxRuns = 2
	r, err := rebuild(t.Context(), n, 3)
	if err != nil || len(r.Differences) != 8 || r.Runs != 12 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestRebuildIsResumedAfterAFailure(t *testing.T) {
	t.Parallel()
	b, events := interleaved(t)
	replaceEvents(t, b, slices.Delete(events, of(events, "a")[3], of(events, "a")[3]+1))
	derived, deaths := 0, 0
	n := newNormalizer(b)
	n.die = func(uint64) bool {
		if derived++; derived == 9 || derived == 21 {
			deaths++
			return true
		}
		return false
	}
	r, err := rebuild(t.Context(), n, maxSuspects)
	if err != nil || len(r.Differences) != 1 || !strings.HasPrefix(r.Differences[0], "run a: event 4 ") || deaths != 2 {
		t.Errorf("%+v, %v, after %d failures", r, err, deaths)
	}
}

func TestRebuildThatIsInterruptedLeavesNothing(t *testing.T) {
	t.Parallel()
	b, _ := interleaved(t)
	ctx, cancel := context.WithCancel(t.Context())
	n := newNormalizer(b)
	n.die = func(uint64) bool { cancel(); return false }
	if _, err := rebuild(ctx, n, maxSuspects); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if left := temporary(t, b); len(left) > 0 {
		t.Errorf("%s were left", left)
	}
}

// Another command removes its streams, because a run is forgotten.
func TestRebuildWhoseStreamsAreRemovedSaysSo(t *testing.T) {
	t.Parallel()
	b, _ := interleaved(t)
	n := newNormalizer(b)
	n.die = func(uint64) bool {
		if err := b.RemoveScratch(t.Context(), time.Time{}); err != nil {
			t.Error(err)
		}
		return false
	}
	if _, err := rebuild(t.Context(), n, maxSuspects); !errors.Is(err, errRemoved) {
		t.Errorf("got %v", err)
	}
}

// temporary returns the names of the streams of rebuilds.
func temporary(t *testing.T, b *bus.Bus) (names []string) {
	t.Helper()
	for _, js := range []jetstream.JetStream{b.JetStream(), b.PublicJetStream()} {
		for name := range js.StreamNames(t.Context()).Name() {
			if strings.Contains(strings.ToLower(name), "rebuild") {
				names = append(names, name)
			}
		}
	}
	return names
}

func TestStreamsOfAKilledRebuildAreRemovedOnALaterDay(t *testing.T) {
	t.Parallel()
	b, _ := interleaved(t)
	if _, _, err := b.Scratch(t.Context(), b.RebuildNames(time.Now())); err != nil {
		t.Fatal(err)
	}
	made := temporary(t, b)
	if r, err := rebuild(t.Context(), newNormalizer(b), maxSuspects); err != nil || len(r.Differences) > 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if left := temporary(t, b); len(left) == 0 || len(left) != len(made) { // of one that may be running
		t.Errorf("left %q of %q", left, made)
	}
	if err := b.RemoveScratch(t.Context(), time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if left := temporary(t, b); len(left) > 0 {
		t.Errorf("%q were left", left)
	}
	if r, err := rebuild(t.Context(), newNormalizer(b), maxSuspects); err != nil || len(r.Differences) > 0 || r.Runs != 3 {
		t.Errorf("%+v, %v", r, err)
	}
}

// The streams of a linesman whose prefix looks like that of a rebuild are not temporary.
func TestStreamsOfAnotherPrefixAreNotRemoved(t *testing.T) {
	t.Parallel()
	_, b := serve(t)
	if _, _, err := b.Scratch(t.Context(), bus.Names{Prefix: b.Prefix + "_rebuild_test"}); err != nil {
		t.Fatal(err)
	}
	made := temporary(t, b)
	if err := b.RemoveScratch(t.Context(), time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if left := temporary(t, b); len(left) == 0 || len(left) != len(made) {
		t.Errorf("left %q of %q", left, made)
	}
}

func TestRunThatEndsDuringARebuildIsNoDifference(t *testing.T) {
	t.Parallel()
	b, _ := interleaved(t)
	log := bustest.CorpusLog(t, "plan", 300)
	n, once := newNormalizer(b), sync.Once{}
	n.die = func(uint64) bool {
		once.Do(func() {
			l, err := b.OpenLog(t.Context(), "codex", "c", runs.Mark{})
			if err == nil {
				err = l.Append(t.Context(), log[len(log)-1])
			}
			if err != nil {
				t.Error(err)
			}
			normalize(t, b)
		})
		return false
	}
	r, err := rebuild(t.Context(), n, maxSuspects)
	if err != nil || len(r.Differences) > 0 || r.Runs != 3 || !bustest.Recorded(t, b, "c").State.Final() {
		t.Errorf("%+v, %v", r, err)
	}
}
