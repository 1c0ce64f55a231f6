package pipeline

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/linesman/linesman/agent/codex"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// startNormalizer runs a normalizer in the background until the test ends.
func startNormalizer(t testing.TB, s *embedded.Server) {
	t.Helper()
	n := newNormalizer(bustest.Connect(t, s, embedded.NormalizerUser))
	operator := bustest.Connect(t, s, embedded.OperatorUser)
	n.Prepare = func(ctx context.Context) error {
		_, err := operator.Ensure(ctx, bus.DefaultLimits())
		return err
	}
	bustest.Background(t, n.Run)
}

func TestRebuildFindsNoDifferenceBesideARunningNormalizer(t *testing.T) {
	t.Parallel()
	s, b := serve(t)
	startNormalizer(t, s)
	bustest.Interleave(
		t,
		b,
		map[string][]runs.Entry{"a": bustest.CorpusLog(t, "shell-fail", 700), "b": bustest.CorpusLog(t, "plan", 333)},
		"a",
		"b",
	)
	bustest.Ended(t, b, "a")
	bustest.Ended(t, b, "b")
	r, err := Rebuild(t.Context(), b, []normalizer.Backend{codex.Backend{}}, 0, zap.NewNop())
	if err != nil || len(r.Differences) > 0 || r.Runs != 2 || r.Events < 20 {
		t.Fatalf("%+v, %v", r, err)
	}
	for stream := range b.JetStream().ListStreams(t.Context()).Info() {
		if strings.Contains(stream.Config.Name, "rebuild") {
			t.Errorf("%s was left behind", stream.Config.Name)
		}
	}
}

func TestRebuildFindsWhatDiffers(t *testing.T) {
	t.Parallel()
	s, b := serve(t)
	startNormalizer(t, s)
	bustest.Interleave(t, b, map[string][]runs.Entry{"a": bustest.CorpusLog(t, "hello", 700)}, "a")
	bustest.Ended(t, b, "a")
	stream, err := b.PublicJetStream().Stream(t.Context(), b.Names.Events())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.DeleteMsg(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	r, err := Rebuild(t.Context(), b, []normalizer.Backend{codex.Backend{}}, 0, zap.NewNop())
	if err != nil || len(r.Differences) == 0 {
		t.Fatalf("%+v, %v", r, err)
	}
}

func TestForeignWriterStopsTheNormalizer(t *testing.T) {
	t.Parallel()
	_, b := serve(t)
	if _, err := b.PublicJetStream().
		Publish(t.Context(), b.EventSubject("codex", "x", "status"), []byte("{}")); err != nil {
		t.Fatal(err)
	}
	n := newNormalizer(b)
	if err := n.Run(t.Context()); err == nil || !strings.Contains(err.Error(), errForeign.Error()) {
		t.Errorf("got %v", err)
	}
}

func TestUnreadableEntryIsOneErrorEvent(t *testing.T) {
	t.Parallel()
	_, b := serve(t)
	subject := b.RawSubject("codex", "x")
	for _, h := range []nats.Header{
		{},
		{bus.HeaderRecord: {"out"}, bus.HeaderTime: {"5"}, bus.HeaderOffset: {"-1"}},
		{bus.HeaderRecord: {"novel"}, bus.HeaderTime: {"5"}},
		{bus.HeaderRecord: {"out"}, bus.HeaderTime: {"5"}, bus.HeaderOffset: {"0"}},
	} {
		if _, err := b.JetStream().
			PublishMsg(t.Context(), &nats.Msg{Subject: subject, Header: h,
				Data: []byte("{\"type\":\"turn.started\"}\n")}); err != nil {
			t.Fatal(err)
		}
	}
	normalize(t, b)
	events := bustest.Dump(t, b.PublicJetStream(), b.Names.Events())
	if len(events) != 4 || strings.Count(strings.Join(events, "\n"), "raw record error (redacted)") != 3 ||
		!strings.Contains(events[3], "turn started") {
		t.Errorf("%d events: %s", len(events), strings.Join(events, "\n"))
	}
}

func TestUsageOfAResumedThreadIsTheRunsOwn(t *testing.T) {
	t.Parallel()
	s, b := serve(t)
	startNormalizer(t, s)
	line := func(total string) []runs.Entry {
		out := `{"type":"thread.started","thread_id":"t-1"}` + "\n" + `{"type":"turn.completed","usage":{"input_tokens":` +
			total + `}}` + "\n"
		return []runs.Entry{
			{Kind: runs.Out, Time: 1, Body: []byte(out)},
			{Kind: runs.Exited, Time: 2, Body: []byte(`{"reason":"eof"}`)},
		}
	}
	bustest.Interleave(t, b, map[string][]runs.Entry{"first": line("100")}, "first")
	bustest.Interleave(t, b, map[string][]runs.Entry{"second": line("130")}, "second")
	bustest.Interleave(t, b, map[string][]runs.Entry{"third": line("175")}, "third")
	bustest.Ended(t, b, "third")
	want := map[string]int64{"first": 100, "second": 30, "third": 45}
	for run, own := range want {
		if r := bustest.Recorded(t, b, run); r.Own == nil || r.Own.Input != own {
			t.Errorf("run %s: own usage %+v, want %d", run, r.Own, own)
		}
	}
}

func TestRawFullWaitsAndLosesNothing(t *testing.T) {
	t.Parallel()
	_, b := serve(t)
	stream, err := b.JetStream().Stream(t.Context(), b.Raw())
	if err != nil {
		t.Fatal(err)
	}
	config := stream.CachedInfo().Config
	config.MaxBytes = 8 << 10
	if _, err := b.JetStream().UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	l, err := b.OpenLog(t.Context(), "codex", "x", runs.Mark{})
	if err != nil {
		t.Fatal(err)
	}
	body := make([]byte, 3<<10)
	if err := l.Append(t.Context(), runs.Entry{Kind: runs.Out, Time: 1, Body: body}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	offset := int64(len(body))
	for err = nil; err == nil; {
		e := runs.Entry{Kind: runs.Out, Time: 1, Offset: offset, Body: body}
		if err = l.Append(ctx, e); err == nil {
			offset += int64(len(body))
		}
	}
	if ctx.Err() == nil {
		t.Fatalf("full after %d bytes: %v", offset, err)
	}
	config.MaxBytes = 1 << 20
	if _, err := b.JetStream().UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	if err := l.Append(t.Context(), runs.Entry{Kind: runs.Out, Time: 1, Offset: offset, Body: body}); err != nil {
		t.Fatal(err)
	}
	if got := l.Mark().Out; got != offset+int64(len(body)) {
		t.Errorf("mark %d", got)
	}
}

func TestUnfinishedLinesAreDroppedAndReadAgain(t *testing.T) {
	t.Parallel()
	logs := map[string][]runs.Entry{}
	var order []string
	for i := range 6 / fixture.Every(2) {
		id := fmt.Sprintf("run-%d", i)
		order = append(order, id)
		logs[id] = bustest.CorpusLog(t, "long-message", 7_000+i)
	}
	_, unbounded := serve(t)
	bustest.Interleave(t, unbounded, logs, order...)
	normalize(t, unbounded)

	_, b := serve(t)
	bustest.Interleave(t, b, logs, order...)
	n := newNormalizer(b)
	n.Until, n.hold = bustest.LastSeq(t, b.JetStream(), b.Raw()), 300_000/fixture.Every(2)
	if err := n.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	bustest.Diff(
		t,
		"EVENTS",
		bustest.Dump(t, b.PublicJetStream(), b.Names.Events()),
		bustest.Dump(t, unbounded.PublicJetStream(), unbounded.Names.Events()),
	)
}

func TestEventsDeletedUnderARunningNormalizerAreMadeAgain(t *testing.T) {
	t.Parallel()
	s, b := serve(t)
	startNormalizer(t, s)
	bustest.Interleave(t, b, map[string][]runs.Entry{"a": bustest.CorpusLog(t, "plan", 700)}, "a")
	bustest.Ended(t, b, "a")
	want := bustest.Dump(t, b.PublicJetStream(), b.Names.Events())
	if err := b.PublicJetStream().DeleteStream(t.Context(), b.Names.Events()); err != nil {
		t.Fatal(err)
	}
	bustest.Until(t, "the events were not restored", func() bool {
		stream, err := b.PublicJetStream().Stream(t.Context(), b.Names.Events())
		return err == nil && stream.CachedInfo().State.LastSeq == uint64(len(want))
	})
	bustest.Diff(t, "EVENTS", bustest.Dump(t, b.PublicJetStream(), b.Names.Events()), want)
}

func TestAnotherNormalizerTakesOver(t *testing.T) {
	t.Parallel()
	s, b := serve(t)
	first := newNormalizer(bustest.Connect(t, s, embedded.NormalizerUser))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- first.Run(ctx) }()
	bustest.Interleave(t, b, map[string][]runs.Entry{"a": bustest.CorpusLog(t, "hello", 700)}, "a")
	bustest.Ended(t, b, "a")
	startNormalizer(t, s) // standby
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	bustest.Interleave(t, b, map[string][]runs.Entry{"b": bustest.CorpusLog(t, "hello", 700)}, "b")
	bustest.Ended(t, b, "b")
	r, err := Rebuild(t.Context(), b, []normalizer.Backend{codex.Backend{}}, 0, zap.NewNop())
	if err != nil || len(r.Differences) > 0 || r.Runs != 2 {
		t.Errorf("%+v, %v", r, err)
	}
}
