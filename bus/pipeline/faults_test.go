package pipeline

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/linesman/linesman/agent/codex"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/bustest"
)

func TestRawRecreatedAndKilledWhileCatchingUpDuplicatesNothing(t *testing.T) {
	t.Parallel()
	logs := map[string][]runs.Entry{"a": bustest.CorpusLog(t, "shell-fail", 700)}
	_, unbroken := serve(t)
	bustest.Interleave(t, unbroken, logs, "a")
	normalize(t, unbroken)
	want := bustest.Dump(t, unbroken.PublicJetStream(), unbroken.Names.Events())
	for until := uint64(1); until < uint64(len(logs["a"])); until++ {
		_, b := serve(t)
		bustest.Interleave(t, b, logs, "a")
		stopAt(t, b, uint64(len(want)-1)) // almost everything is published
		bustest.Remake(t, b, b.JetStream(), b.Raw())
		bustest.Interleave(t, b, logs, "a")
		n := newNormalizer(b)
		n.Until = until // and records the run there
		if err := n.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		normalize(t, b)
		bustest.Diff(t, fmt.Sprintf("recorded at %d", until), bustest.Dump(t, b.PublicJetStream(), b.Names.Events()), want)
	}
}

// A normalizer that reads again what EVENTS has records runs of which EVENTS has more. Then RAW is lost.
func TestRawRecreatedAfterAKillWhileReadingAgainDuplicatesNothing(t *testing.T) {
	t.Parallel()
	logs := map[string][]runs.Entry{"a": bustest.CorpusLog(t, "shell-fail", 700), "b": bustest.CorpusLog(t, "plan", 700)}
	_, unbroken := serve(t)
	bustest.Interleave(t, unbroken, logs, "a", "b")
	normalize(t, unbroken)
	want := bustest.Dump(t, unbroken.PublicJetStream(), unbroken.Names.Events())
	entries := bustest.LastSeq(t, unbroken.JetStream(), unbroken.Raw())
	for until := uint64(1); until < entries; until += uint64(fixture.Every(2)) {
		for _, terms := range [][]uint64{{until}, {max(until/2, 1), until}} {
			_, b := serve(t)
			bustest.Interleave(t, b, logs, "a", "b")
			stopAt(t, b, uint64(len(want)-1)) // almost everything is published
			for range 2 {
				for _, until := range terms {
					n := newNormalizer(b)
					n.Until = until // and records the runs there
					if err := n.Run(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				bustest.Remake(t, b, b.JetStream(), b.Raw())
				bustest.Interleave(t, b, logs, "a", "b")
			}
			normalize(t, b)
			what := fmt.Sprintf("recorded at %d", terms)
			bustest.Diff(t, what, bustest.Dump(t, b.PublicJetStream(), b.Names.Events()), want)
		}
	}
}

func TestStreamRemovedUnderARunningNormalizerChangesNoEvent(t *testing.T) {
	t.Parallel()
	log := bustest.CorpusLog(t, "shell-fail", 333)
	_, unbroken := serve(t)
	bustest.Interleave(t, unbroken, map[string][]runs.Entry{"a": log}, "a")
	normalize(t, unbroken)
	want := bustest.Dump(t, unbroken.PublicJetStream(), unbroken.Names.Events())
	for _, stream := range []string{bucket.Stream(unbroken.Runs()), bucket.Stream(unbroken.State()),
		bucket.Stream(unbroken.Threads())} {
		t.Run(stream, func(t *testing.T) {
			s, b := serve(t)
			startNormalizer(t, s)
			l, err := b.OpenLog(t.Context(), "codex", "a", runs.Mark{})
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range log[:len(log)/2] {
				if err := l.Append(t.Context(), e); err != nil {
					t.Fatal(err)
				}
			}
			bustest.Until(t, "no record", func() bool {
				r, ok, err := b.Record(t.Context(), "a")
				return err == nil && ok && r.Seq == uint64(len(log)/2)
			})
			if err := b.JetStream().DeleteStream(t.Context(), stream); err != nil {
				t.Fatal(err)
			}
			rest := log[len(log)/2:]
			if err := l.Append(t.Context(), rest[0]); err != nil {
				t.Fatal(err)
			}
			if stream != bucket.Stream(b.Threads()) { // its loss is detected when
				bustest.Until(t, "the stream does not come back", func() bool {
					_, err := b.JetStream().Stream(t.Context(), stream)
					return err == nil
				})
			}
			for _, e := range rest[1:] {
				if err := l.Append(t.Context(), e); err != nil {
					t.Fatal(err)
				}
			}
			bustest.Ended(t, b, "a")
			bustest.Diff(t, "EVENTS", bustest.Dump(t, b.PublicJetStream(), b.Names.Events()), want)
		})
	}
}

func TestHealthAndRebuildSeeAQuietNormalizerBehindAnIdleEntry(t *testing.T) {
	t.Parallel()
	s, b := serve(t)
	startNormalizer(t, s)
	bustest.Interleave(t, b, map[string][]runs.Entry{"a": bustest.CorpusLog(t, "hello", 700)}, "a")
	bustest.Ended(t, b, "a")
	bustest.Until(t, "not healthy", func() bool { return b.Health(t.Context()) == nil })
	// A foreign entry after the exit results in no event.
	m := &nats.Msg{
		Subject: b.RawSubject("codex", "a"),
		Header:  nats.Header{bus.HeaderRecord: {"note"}, bus.HeaderTime: {"5"}},
	}
	if _, err := b.JetStream().PublishMsg(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	bustest.Until(t, "not healthy behind an idle entry", func() bool { return b.Health(t.Context()) == nil })
	if r, err := Rebuild(
		t.Context(),
		b,
		[]normalizer.Backend{codex.Backend{}},
		0,
		zap.NewNop(),
	); err != nil ||
		len(r.Differences) > 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestRemovedEndOfRawHoldsNothingUp(t *testing.T) {
	t.Parallel()
	s, b := serve(t)
	bustest.Interleave(
		t,
		b,
		map[string][]runs.Entry{"a": bustest.CorpusLog(t, "hello", 700), "b": bustest.CorpusLog(t, "hello", 700)[:2]},
		"a",
		"b",
	)
	l, err := b.OpenLog(t.Context(), "codex", "c", runs.Mark{})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Append(t.Context(), runs.Entry{Kind: runs.Started, Time: 1}); err != nil {
		t.Fatal(err)
	}
	raw, err := b.JetStream().Stream(t.Context(), b.Raw())
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Purge(t.Context(), jetstream.WithPurgeSubject(b.RawSubject("codex", "c"))); err != nil {
		t.Fatal(err)
	}
	startNormalizer(t, s)
	bustest.Ended(t, b, "a")
	bustest.Until(t, "never healthy", func() bool { return b.Health(t.Context()) == nil })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // a stalled consumer is
	defer cancel()
	if r, err := Rebuild(
		ctx,
		b,
		[]normalizer.Backend{codex.Backend{}},
		0,
		zap.NewNop(),
	); err != nil ||
		len(r.Differences) > 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestRefusedEventEndsACutAtOnce(t *testing.T) {
	t.Parallel()
	_, b := serve(t)
	p, err := newPublisher(b, 1, false)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	if _, err := b.PublicJetStream().
		Publish(t.Context(), b.EventSubject("codex", "x", "status"), []byte("{}")); err != nil {
		t.Fatal(err)
	}
	waited := make(chan error, 1)
	go func() { waited <- p.stored(t.Context(), 1) }()
	if err := p.publish(
		t.Context(),
		b.EventSubject("codex", "x", "status"),
		normalizer.Message{Body: []byte("{}")},
	); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-waited:
		if err == nil {
			t.Error("a refused event counts as stored")
		}
	case <-time.After(fixture.Patience):
		t.Error("it continues to wait after the refusal")
	}
}

func TestBacklogOfLargeEventsIsStoredInOneTerm(t *testing.T) {
	t.Parallel()
	for _, burst := range []bool{false, true} {
		t.Run(fmt.Sprintf("fast ingest %v", burst), func(t *testing.T) {
			canary := fixture.StartCanary(t)
			check := func(what string, err error) {
				t.Helper()
				switch {
				case errors.Is(err, jetstream.ErrAsyncPublishTimeout): // seconds: it is about a machine that stores
					canary.Errorf("%s: %v", what, err)
					t.FailNow()
				case err != nil:
					t.Fatalf("%s: %v", what, err)
				}
			}
			// The default is 128 MiB; less simulates a slower server.
			b := bustest.ConnectPlain(t, bustest.ServePlain(t, server.Options{StreamMaxBufferedSize: 2 * publishBytes}))
			bustest.EnsureSmall(t, b)
			p, err := newPublisher(b, 1, burst)
			if err != nil {
				t.Fatal(err)
			}
			defer p.close()
			p.bursting = burst
			body := []byte(strings.Repeat("x", 500<<10))
			events := 150 / fixture.Every(3)
			for i := range events {
				check(fmt.Sprintf("event %d", i), p.publish(t.Context(), b.EventSubject("codex", "x", "status"),
					normalizer.Message{Pos: normalizer.Pos{Raw: uint64(i + 1)}, Body: body}))
				p.mu.Lock()
				if p.inFlight > publishBytes {
					t.Errorf("event %d: %d bytes in flight", i, p.inFlight)
				}
				p.mu.Unlock()
			}
			check("all are sent", p.quiet(t.Context()))
			err = p.stored(t.Context(), uint64(events))
			if err != nil {
				select {
				case err = <-p.broken:
				default:
				}
			}
			check("all are stored", err)
		})
	}
}

func TestUnfinishedLineOfOneRunDoesNotFillRaw(t *testing.T) {
	t.Parallel()
	s, b := serve(t)
	raw, err := b.JetStream().Stream(t.Context(), b.Raw())
	if err != nil {
		t.Fatal(err)
	}
	config := raw.CachedInfo().Config
	config.MaxBytes = 512 << 10
	if _, err := b.JetStream().UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	n := newNormalizer(bustest.Connect(t, s, embedded.NormalizerUser))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	bustest.Interleave(
		t,
		b,
		map[string][]runs.Entry{"hangs": {{Kind: runs.Out, Time: 1, Body: []byte(`{"type":"turn.`)}}},
		"hangs",
	)
	l, err := b.OpenLog(t.Context(), "codex", "writes", runs.Mark{})
	if err != nil {
		t.Fatal(err)
	}
	line := []byte(strings.Repeat(" ", 4<<10) + "\n")
	for i := range 500 {
		limited, stop := context.WithTimeout(t.Context(), fixture.Patience)
		err := l.Append(limited, runs.Entry{Kind: runs.Out, Time: 2, Offset: int64(i * len(line)), Body: line})
		stop()
		if err != nil {
			t.Fatalf("entry %d: %v", i, err)
		}
	}
	// The run itself loses nothing while the normalizer lives.
	hanging, err := b.OpenLog(t.Context(), "codex", "hangs", runs.Mark{Out: 14})
	if err != nil {
		t.Fatal(err)
	}
	if err := hanging.Append(
		t.Context(),
		runs.Entry{Kind: runs.Out, Time: 3, Offset: 14, Body: []byte("started\"}\n")},
	); err != nil {
		t.Fatal(err)
	}
	bustest.Until(
		t,
		"the line is not put together",
		func() bool { return bustest.LastSeq(t, b.PublicJetStream(), b.Names.Events()) == 1 },
	)
	if events := bustest.Dump(t, b.PublicJetStream(), b.Names.Events()); !strings.Contains(events[0], "turn started") {
		t.Errorf("got %s", events[0])
	}
}

func TestFollowerOutlivesEventsThatAreMadeAgain(t *testing.T) {
	t.Parallel()
	s, b := serve(t)
	startNormalizer(t, s)
	bustest.Interleave(t, b, map[string][]runs.Entry{"a": bustest.CorpusLog(t, "hello", 700)}, "a")
	bustest.Ended(t, b, "a")
	last := bustest.LastSeq(t, b.PublicJetStream(), b.Names.Events())
	ctx, cancel := context.WithTimeout(t.Context(), fixture.Patience)
	defer cancel()
	var got []uint64
	read := make(chan error, 1)
	begun := make(chan struct{})
	go func() {
		read <- b.Read(ctx, runs.Selection{Follow: true}, func(m bus.Stored) error {
			if got = append(got, m.Seq); len(got) == int(last) {
				close(begun)
			}
			if m.Run == "b" && m.Token == normalizer.CompletionToken {
				cancel()
			}
			return nil
		})
	}()
	<-begun
	if err := b.PublicJetStream().DeleteStream(t.Context(), b.Names.Events()); err != nil {
		t.Fatal(err)
	}
	bustest.Until(t, "the events did not come back", func() bool {
		stream, err := b.PublicJetStream().Stream(t.Context(), b.Names.Events())
		return err == nil && stream.CachedInfo().State.LastSeq == last
	})
	bustest.Interleave(t, b, map[string][]runs.Entry{"b": bustest.CorpusLog(t, "hello", 700)}, "b")
	if err := <-read; err != nil {
		t.Fatal(err)
	}
	for i, seq := range got {
		if seq != uint64(i+1) {
			t.Fatalf("got %v", got)
		}
	}
	if len(got) != int(2*last) {
		t.Errorf("%d events, want %d: %v", len(got), 2*last, got)
	}
}

func TestRunsThatNeverEndAreForgottenAndReadAgain(t *testing.T) {
	t.Parallel()
	logs := map[string][]runs.Entry{}
	var order []string
	for i := range 8 {
		id := fmt.Sprintf("run-%d", i)
		order = append(order, id)
		log := bustest.CorpusLog(t, "shell-fail", 300)
		logs[id] = log[:len(log)-1]
	}
	_, unbounded := serve(t)
	bustest.Interleave(t, unbounded, logs, order...)
	normalize(t, unbounded)

	for name, limit := range map[string]func(*Normalizer){
		"runs":    func(n *Normalizer) { n.maxRuns = 2 },
		"records": func(n *Normalizer) { n.maxStored = 3 << 10 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, b := serve(t)
			for i := range len(logs[order[0]]) {
				part := map[string][]runs.Entry{}
				for _, id := range order {
					part[id] = logs[id][i : i+1]
				}
				bustest.Interleave(t, b, part, order...)
			}
			n := newNormalizer(b)
			limit(n)
			n.Until, n.CutEvery = bustest.LastSeq(t, b.JetStream(), b.Raw()), time.Millisecond
			s, err := n.open(t.Context(), n.Log)
			if err != nil {
				t.Fatal(err)
			}
			err = s.work(t.Context())
			s.close()
			if err != nil {
				t.Fatal(err)
			}
			if held := len(s.runs); held > 2 {
				t.Errorf("%d runs are held", held)
			}
			bustest.Diff(
				t,
				"EVENTS",
				bustest.Dump(t, b.PublicJetStream(), b.Names.Events()),
				bustest.Dump(t, unbounded.PublicJetStream(), unbounded.Names.Events()),
			)
		})
	}
}

// A consumer may stall while its server sends heartbeats: the normalizer detects that,
// and continues with another one.
func TestNormalizerReplacesAStalledConsumer(t *testing.T) {
	t.Parallel()
	_, b := serve(t)
	n := newNormalizer(b)
	n.stall = time.Second
	bustest.Background(t, n.Run)
	bustest.Interleave(t, b, map[string][]runs.Entry{"a": bustest.CorpusLog(t, "hello", 700)}, "a")
	bustest.Recorded(t, b, "a")
	raw, err := b.JetStream().Stream(t.Context(), b.Raw())
	if err != nil {
		t.Fatal(err)
	}
	paused := 0
	for c := range raw.ListConsumers(t.Context()).Info() {
		if _, err := raw.PauseConsumer(t.Context(), c.Name, time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		paused++
	}
	if paused != 1 {
		t.Fatalf("%d consumers were paused", paused)
	}
	bustest.Interleave(t, b, map[string][]runs.Entry{"b": bustest.CorpusLog(t, "hello", 700)}, "b")
	bustest.Recorded(t, b, "b")
}

func TestTermThatFailsWithABacklogEnds(t *testing.T) {
	t.Parallel()
	_, b := serve(t)
	bustest.Interleave(
		t,
		b,
		map[string][]runs.Entry{"a": bustest.CorpusLog(t, "plan", 3), "b": bustest.CorpusLog(t, "shell-fail", 5)},
		"a",
		"b",
	) // hundreds of entries
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { ended <- termUntil(ctx, b, 5) }()
	select {
	case err := <-ended:
		if !errors.Is(err, errDied) {
			t.Fatal(err)
		}
	case <-time.After(fixture.Patience):
		t.Fatal("the term does not end")
	}
	normalize(t, b)
}
