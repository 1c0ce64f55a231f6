package pipeline

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/linesman/linesman/agent/codex"
	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/telemetry/metrics"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// serve starts a server for the test, with its streams.
func serve(t testing.TB) (*embedded.Server, *bus.Bus) {
	t.Helper()
	return bustest.Serve(t, embedded.StartServer)
}

// normalize runs a normalizer until it has read all of RAW.
func normalize(t testing.TB, b *bus.Bus) {
	t.Helper()
	n := newNormalizer(b)
	n.Until = bustest.LastSeq(t, b.JetStream(), b.Raw())
	if err := n.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func newNormalizer(b *bus.Bus) *Normalizer {
	return &Normalizer{
		Bus:      b,
		Out:      b.Names,
		Backends: []normalizer.Backend{codex.Backend{}},
		Log:      zap.NewNop(),
		CutEvery: 20 * time.Millisecond,
		toList:   1,
		Metrics:  metrics.NewNormalizer(prometheus.NewRegistry(), []string{"codex"}, known.Agents),
	}
}

// records returns the stored run records, by run.
func records(t testing.TB, b *bus.Bus) map[string]string {
	t.Helper()
	kv, err := b.JetStream().KeyValue(t.Context(), b.Runs())
	if err != nil {
		t.Fatal(err)
	}
	keys, err := kv.ListKeys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for key := range keys.Keys() {
		e, err := kv.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		var v stored
		if err := json.Unmarshal(e.Value(), &v); err != nil {
			t.Fatal(err)
		}
		out[key] = string(v.Record.JSON())
	}
	return out
}

func TestEventsAreTheFoldOfRaw(t *testing.T) {
	t.Parallel()
	_, b := serve(t)
	names, _ := filepath.Glob(filepath.Join(bustest.Corpus(t), "*.jsonl"))
	logs := map[string][]runs.Entry{}
	var order []string
	for _, name := range names {
		id := strings.TrimSuffix(filepath.Base(name), ".jsonl")
		logs[id] = bustest.CorpusLog(t, id, 300_000/7)
		order = append(order, id)
	}
	bustest.Interleave(t, b, logs, order...)
	normalize(t, b)

	perRun := map[string][]string{}
	for _, line := range bustest.Dump(t, b.PublicJetStream(), b.Events()) {
		f := strings.SplitN(line, " ", 7)
		subject := strings.Split(f[1], ".")
		run, token := subject[3], subject[4]
		perRun[run] = append(perRun[run], token+" "+f[6])
	}
	for id, log := range logs {
		fold := normalizer.NewFold(codex.Backend{}, id, 0)
		var want []string
		for i, e := range log {
			fold.Apply(uint64(i+1), e, func(m normalizer.Message) { want = append(want, m.Token+" "+string(m.Body)) })
		}
		bustest.Diff(t, id, perRun[id], want)
	}
	have := records(t, b)
	for _, id := range order {
		if !strings.Contains(have[id], `"ended_at":9000`) {
			t.Errorf("run %s: record %s", id, have[id])
		}
	}
}

// stopAt runs a normalizer that fails before it publishes the given event.
func stopAt(t testing.TB, b *bus.Bus, event uint64, change ...func(*Normalizer)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := termUntil(ctx, b, event, change...); !errors.Is(err, errDied) {
		t.Fatalf("stop at event %d: %v", event, err)
	}
}

// termUntil runs a normalizer that fails before it publishes the given event. One that loses its lease, on a busy
// machine, is followed by another.
func termUntil(ctx context.Context, b *bus.Bus, event uint64, change ...func(*Normalizer)) error {
	for end := time.Now().Add(fixture.Patience); ; {
		n := newNormalizer(b)
		n.die = func(next uint64) bool { return next == event }
		n.stall = fixture.Patience // a consumer is late
		for _, set := range change {
			set(n)
		}
		err := n.term(ctx, n.Log)
		if err == nil || !strings.Contains(err.Error(), "the lease was lost") || time.Now().After(end) {
			return err
		}
	}
}

func TestRestartAtEveryEvent(t *testing.T) {
	t.Parallel()
	logs := map[string][]runs.Entry{"a": bustest.CorpusLog(t, "shell-fail", 700), "b": bustest.CorpusLog(t, "plan", 333)}
	_, unbroken := serve(t)
	bustest.Interleave(t, unbroken, logs, "a", "b")
	normalize(t, unbroken)
	want := bustest.Dump(t, unbroken.PublicJetStream(), unbroken.Events())
	wantRuns := records(t, unbroken)
	if len(want) < 20 {
		t.Fatalf("only %d events", len(want))
	}

	_, b := serve(t)
	bustest.Interleave(t, b, logs, "a", "b")
	// A recreated EVENTS invalidates the records.
	fresh := func(t *testing.T) { bustest.Remake(t, b, b.PublicJetStream(), b.Events()) }
	check := func(t *testing.T, want []string) {
		t.Helper()
		normalize(t, b)
		bustest.Diff(t, "EVENTS", bustest.Dump(t, b.PublicJetStream(), b.Events()), want)
		have := records(t, b)
		for id, w := range wantRuns {
			if have[id] != w {
				t.Errorf("record of %s:\n got %s\nwant %s", id, have[id], w)
			}
		}
	}
	raw := bustest.LastSeq(t, b.JetStream(), b.Raw())
	for k := 0; k < len(want); k += fixture.Every(8) {
		event := uint64(k + 1)
		t.Run(fmt.Sprintf("recorded, then killed before event %d", event), func(t *testing.T) {
			for until := uint64(1); until <= raw; until++ {
				fresh(t)
				n := newNormalizer(b)
				n.Until = until // stop with a checkpoint
				if err := n.Run(t.Context()); err != nil {
					t.Fatal(err)
				}
				if bustest.LastSeq(t, b.PublicJetStream(), b.Events()) >= event {
					break
				}
				stopAt(t, b, event)
				check(t, want)
			}
		})
		t.Run(fmt.Sprintf("killed before event %d", event), func(t *testing.T) {
			fresh(t)
			stopAt(t, b, event)
			check(t, want)
		})
		t.Run(fmt.Sprintf("EVENTS purged at %d", event), func(t *testing.T) {
			fresh(t)
			stopAt(t, b, event)
			bustest.Purge(t, b.PublicJetStream(), b.Events())
			check(t, want[k:])
		})
		t.Run(fmt.Sprintf("EVENTS deleted at %d", event), func(t *testing.T) {
			fresh(t)
			stopAt(t, b, event)
			fresh(t)
			check(t, want)
		})
	}
}

func TestRawRecreated(t *testing.T) {
	t.Parallel()
	logs := map[string][]runs.Entry{"a": bustest.CorpusLog(t, "shell-fail", 700), "b": bustest.CorpusLog(t, "plan", 333)}
	_, unbroken := serve(t)
	bustest.Interleave(t, unbroken, logs, "a", "b")
	normalize(t, unbroken)
	want := bustest.Dump(t, unbroken.PublicJetStream(), unbroken.Events())
	for event := uint64(1); event <= uint64(len(want)); event += 3 * uint64(fixture.Every(3)) {
		_, b := serve(t)
		bustest.Interleave(t, b, logs, "a", "b")
		stopAt(t, b, event)
		bustest.Remake(t, b, b.JetStream(), b.Raw())
		bustest.Interleave(t, b, logs, "a", "b")
		normalize(t, b)
		bustest.Diff(t, fmt.Sprintf("RAW recreated at %d", event), bustest.Dump(t, b.PublicJetStream(), b.Events()), want)
		normalize(t, b)
		bustest.Diff(t, "and again", bustest.Dump(t, b.PublicJetStream(), b.Events()), want)
	}
}

// RAW and the checkpoint are lost together: the events are the same as with the checkpoint, also after a kill.
func TestRawRecreatedWithoutACheckpoint(t *testing.T) {
	t.Parallel()
	a, b := bustest.CorpusLog(t, "shell-fail", 700), bustest.CorpusLog(t, "plan", 333)
	var want []string
	for _, lost := range []bool{false, true} {
		_, s := serve(t)
		bustest.Interleave(t, s, map[string][]runs.Entry{"a": a[:len(a)-1]}, "a")
		normalize(t, s)
		had := bustest.LastSeq(t, s.PublicJetStream(), s.Events())
		bustest.Remake(t, s, s.JetStream(), s.Raw())
		if lost {
			bustest.Remake(t, s, s.JetStream(), bucket.Stream(s.State()))
		}
		bustest.Interleave(t, s, map[string][]runs.Entry{"a": a, "b": b}, "b", "a")
		if lost {
			stopAt(t, s, had+2)
		}
		normalize(t, s)
		got := bustest.Dump(t, s.PublicJetStream(), s.Events())
		if !lost {
			want = got
		}
		bustest.Diff(t, "without a checkpoint", got, want)
	}
}

// The records are purged while a run writes: they are derived again from its beginning.
func TestRecordOfAnOpenRunIsGone(t *testing.T) {
	t.Parallel()
	log := bustest.CorpusLog(t, "shell-fail", 700)
	t.Run("it writes", func(t *testing.T) { purgeBetween(t, log[:len(log)/2], log[len(log)/2:]) })
	t.Run("it is queued", func(t *testing.T) {
		queued := runs.Start{Source: "queue", Attributes: runs.Attributes{Title: "only of the queued entry"}}
		log[0].Body = runs.Encode(runs.Start{Source: "queue", Work: 7})
		purgeBetween(t, []runs.Entry{{Kind: runs.Queued, Time: 500, Body: runs.Encode(queued)}}, log)
	})
}

// purgeBetween compares a run whose record is purged between two parts of its log with one whose record is not.
func purgeBetween(t *testing.T, before, after []runs.Entry) {
	var want []string
	var wantRuns map[string]string
	for _, purged := range []bool{false, true} {
		_, b := serve(t)
		bustest.Interleave(t, b, map[string][]runs.Entry{"a": before}, "a")
		normalize(t, b)
		if purged {
			bustest.Purge(t, b.JetStream(), bucket.Stream(b.Runs()))
		}
		l, err := b.OpenLog(t.Context(), "codex", "a", runs.Mark{})
		if err == nil {
			for _, e := range after {
				err = cmp.Or(err, l.Append(t.Context(), e))
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		normalize(t, b)
		got, gotRuns := bustest.Dump(t, b.PublicJetStream(), b.Events()), records(t, b)
		if !purged {
			want, wantRuns = got, gotRuns
		}
		bustest.Diff(t, "events", got, want)
		if !maps.Equal(gotRuns, wantRuns) {
			t.Errorf("records %v, want %v", gotRuns, wantRuns)
		}
	}
}

func TestLineLongerThanMaxPayload(t *testing.T) {
	t.Parallel()
	_, b := serve(t)
	// One MiB of NUL bytes, as Codex prints it: six bytes each.
	line := []byte(`{"type":"item.completed","item":{"id":"item_0","type":"command_execution","aggregated_output":"` +
		strings.Repeat(`\u0000`, 1<<20) + `","exit_code":0,"status":"completed"}}` + "\n")
	l, err := b.OpenLog(t.Context(), "codex", "huge", runs.Mark{})
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; at < len(line); at += runs.MaxChunk {
		e := runs.Entry{Kind: runs.Out, Time: 1, Offset: int64(at), Body: line[at:min(at+runs.MaxChunk, len(line))]}
		if err := l.Append(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	normalize(t, b)
	events := bustest.Dump(t, b.PublicJetStream(), b.Events())
	if len(events) != 1 || !strings.Contains(events[0], `"stdout":1048576`) {
		t.Errorf("%d events: %.400s", len(events), events)
	}
	var raw bytes.Buffer
	s, _ := b.JetStream().Stream(t.Context(), b.Raw())
	for seq := uint64(1); seq <= s.CachedInfo().State.LastSeq; seq++ {
		m, err := s.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		raw.Write(m.Data)
	}
	if !bytes.Equal(raw.Bytes(), line) {
		t.Error("RAW does not hold the line as it was written")
	}
}
