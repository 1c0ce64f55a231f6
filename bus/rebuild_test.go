package bus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/normalizer/codex"
	"github.com/linesman/linesman/runs"
)

// office runs a normalizer in the background until the test ends.
func office(t testing.TB, s *Server) {
	t.Helper()
	n := newNormalizer(connect(t, s, NormalizerUser))
	operator := connect(t, s, OperatorUser)
	n.Prepare = func(ctx context.Context) error {
		_, err := operator.Ensure(ctx, DefaultLimits())
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("normalizer: %v", err)
		}
	})
}

// ended waits for the completion of a run.
func ended(t testing.TB, b *Bus, run string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	found := false
	if err := b.Read(ctx, Filter{Run: run, Tokens: []string{normalizer.CompletionToken}, Follow: true}, func(Stored) error {
		found = true
		cancel()
		return nil
	}); err != nil || !found {
		t.Fatalf("run %s: completion %v, %v", run, found, err)
	}
}

func TestRebuildFindsNoDifferenceBesideARunningNormalizer(t *testing.T) {
	t.Parallel()
	s, b := serve(t)
	office(t, s)
	interleave(t, b, map[string][]runs.Entry{"a": corpusLog(t, "shell-fail", 700), "b": corpusLog(t, "plan", 333)}, "a", "b")
	ended(t, b, "a")
	ended(t, b, "b")
	r, err := b.Rebuild(t.Context(), []normalizer.Backend{codex.Backend{}}, 0, zap.NewNop())
	if err != nil || len(r.Differences) > 0 || r.Runs != 2 || r.Events < 20 {
		t.Fatalf("%+v, %v", r, err)
	}
	for stream := range b.js.ListStreams(t.Context()).Info() {
		if strings.Contains(stream.Config.Name, "rebuild") {
			t.Errorf("%s was left behind", stream.Config.Name)
		}
	}
}

func TestRebuildFindsWhatDiffers(t *testing.T) {
	t.Parallel()
	s, b := serve(t)
	office(t, s)
	interleave(t, b, map[string][]runs.Entry{"a": corpusLog(t, "hello", 700)}, "a")
	ended(t, b, "a")
	stream, err := b.jsPub.Stream(t.Context(), b.Names.Events())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.DeleteMsg(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	r, err := b.Rebuild(t.Context(), []normalizer.Backend{codex.Backend{}}, 0, zap.NewNop())
	if err != nil || len(r.Differences) == 0 {
		t.Fatalf("%+v, %v", r, err)
	}
}

func TestForeignWriterStopsTheNormalizer(t *testing.T) {
	t.Parallel()
	_, b := serve(t)
	if _, err := b.jsPub.Publish(t.Context(), b.EventSubject("codex", "x", "status"), []byte("{}")); err != nil {
		t.Fatal(err)
	}
	n := newNormalizer(b)
	if err := n.Run(t.Context()); err == nil || !strings.Contains(err.Error(), ErrForeign.Error()) {
		t.Errorf("got %v", err)
	}
}

func TestUnreadableEntryIsOneErrorEvent(t *testing.T) {
	t.Parallel()
	_, b := serve(t)
	subject := b.RawSubject("codex", "x")
	for _, h := range []nats.Header{
		{},
		{HeaderRecord: {"out"}, HeaderTime: {"5"}, HeaderOffset: {"-1"}},
		{HeaderRecord: {"novel"}, HeaderTime: {"5"}},
		{HeaderRecord: {"out"}, HeaderTime: {"5"}, HeaderOffset: {"0"}},
	} {
		if _, err := b.js.PublishMsg(t.Context(), &nats.Msg{Subject: subject, Header: h, Data: []byte("{\"type\":\"turn.started\"}\n")}); err != nil {
			t.Fatal(err)
		}
	}
	normalize(t, b)
	events := dump(t, b.jsPub, b.Names.Events())
	if len(events) != 4 || strings.Count(strings.Join(events, "\n"), "raw record error (redacted)") != 3 || !strings.Contains(events[3], "turn started") {
		t.Errorf("%d events: %s", len(events), strings.Join(events, "\n"))
	}
}

func TestTwoWritersOfOneRun(t *testing.T) {
	t.Parallel()
	_, b := serve(t)
	first, err := b.OpenLog(t.Context(), "codex", "x", runs.Mark{})
	if err != nil {
		t.Fatal(err)
	}
	second, err := b.OpenLog(t.Context(), "codex", "x", runs.Mark{})
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Append(t.Context(), runs.Entry{Kind: runs.Started, Time: 1, Body: []byte(`{"worker":"first"}`)}); err != nil {
		t.Fatal(err)
	}
	if err := second.Append(t.Context(), runs.Entry{Kind: runs.Started, Time: 1, Body: []byte(`{"worker":"second"}`)}); !errors.Is(err, runs.ErrMoved) {
		t.Fatalf("the second start: %v", err)
	}
	if !second.Mark().Started {
		t.Error("the second writer was not told of the first one's start")
	}
	if err := second.Append(t.Context(), runs.Entry{Kind: runs.Cancelled, Time: 2}); err != nil {
		t.Fatal(err)
	}
	if err := first.Append(t.Context(), runs.Entry{Kind: runs.Out, Time: 3, Body: []byte("x\n")}); !errors.Is(err, runs.ErrMoved) || !first.Mark().Cancelled {
		t.Fatalf("after a cancel: %v, %+v", err, first.Mark())
	}
	if err := first.Append(t.Context(), runs.Entry{Kind: runs.Out, Time: 3, Body: []byte("x\n")}); err != nil {
		t.Fatal(err)
	}
}

func TestUsageOfAResumedThreadIsTheRunsOwn(t *testing.T) {
	t.Parallel()
	s, b := serve(t)
	office(t, s)
	line := func(total string) []runs.Entry {
		out := `{"type":"thread.started","thread_id":"t-1"}` + "\n" + `{"type":"turn.completed","usage":{"input_tokens":` + total + `}}` + "\n"
		return []runs.Entry{{Kind: runs.Out, Time: 1, Body: []byte(out)}, {Kind: runs.Exited, Time: 2, Body: []byte(`{"reason":"eof"}`)}}
	}
	interleave(t, b, map[string][]runs.Entry{"first": line("100")}, "first")
	interleave(t, b, map[string][]runs.Entry{"second": line("130")}, "second")
	interleave(t, b, map[string][]runs.Entry{"third": line("175")}, "third")
	ended(t, b, "third")
	want := map[string]int64{"first": 100, "second": 30, "third": 45}
	deadline := time.After(time.Minute)
	for run, own := range want {
		for {
			r, ok, err := b.Record(t.Context(), run)
			if err != nil {
				t.Fatal(err)
			}
			if ok && r.State.Final() {
				if r.Own == nil || r.Own.Input != own {
					t.Errorf("run %s: own usage %+v, want %d", run, r.Own, own)
				}
				break
			}
			select {
			case <-deadline:
				t.Fatalf("run %s: no final record", run)
			case <-time.After(5 * time.Millisecond):
			}
		}
	}
}

func TestHealth(t *testing.T) {
	t.Parallel()
	s, b := serve(t)
	if err := b.Health(t.Context()); err == nil || !strings.Contains(err.Error(), "no normalizer") {
		t.Errorf("without a normalizer: %v", err)
	}
	office(t, s)
	deadline := time.After(time.Minute)
	for b.Health(t.Context()) != nil {
		select {
		case <-deadline:
			t.Fatal(b.Health(t.Context()))
		case <-time.After(10 * time.Millisecond):
		}
	}
	if err := b.js.DeleteStream(t.Context(), b.Raw()); err != nil {
		t.Fatal(err)
	}
	if err := b.Health(t.Context()); err == nil || !strings.Contains(err.Error(), b.Raw()) {
		t.Errorf("without RAW: %v", err)
	}
}

func TestSubscriberReadsEventsAndNothingElse(t *testing.T) {
	t.Parallel()
	s, b := serve(t)
	office(t, s)
	login := Login{URL: s.URL(), User: SubscriberUser, Password: s.Credentials[SubscriberUser]}
	sub, err := Connect(t.Context(), login, Login{}, testNames, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	interleave(t, b, map[string][]runs.Entry{"a": corpusLog(t, "hello", 700)}, "a")
	ended(t, b, "a")
	n := 0
	if err := sub.Read(t.Context(), Filter{Run: "a"}, func(Stored) error { n++; return nil }); err != nil || n != 5 {
		t.Errorf("subscriber: %d events, %v", n, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := sub.js.Stream(ctx, b.Raw()); err == nil {
		t.Error("the subscriber sees RAW")
	}
	if _, err := sub.js.Publish(ctx, b.EventSubject("codex", "a", "status"), []byte("{}")); err == nil {
		t.Error("the subscriber can write EVENTS")
	}
}

func TestChangedConfigurationIsReported(t *testing.T) {
	t.Parallel()
	_, b := serve(t)
	limits := DefaultLimits()
	if changed, err := b.Ensure(t.Context(), limits); err != nil || len(changed) != 0 {
		t.Fatalf("the same again: %v, %v", changed, err)
	}
	limits.RawAge = time.Hour
	changed, err := b.Ensure(t.Context(), limits)
	if err != nil || len(changed) != 1 || !strings.Contains(changed[0], "max_age changed from 72h0m0s to 1h0m0s") {
		t.Errorf("%q, %v", changed, err)
	}
}

func TestNewerFormatIsRefused(t *testing.T) {
	t.Parallel()
	_, b := serve(t)
	stream, err := b.js.Stream(t.Context(), b.Raw())
	if err != nil {
		t.Fatal(err)
	}
	config := stream.CachedInfo().Config
	config.Metadata = map[string]string{metadataFormat: "2"}
	if _, err := b.js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Ensure(t.Context(), DefaultLimits()); err == nil || !strings.Contains(err.Error(), "format") {
		t.Errorf("got %v", err)
	}
}

func TestRawFullWaitsAndLosesNothing(t *testing.T) {
	t.Parallel()
	_, b := serve(t)
	stream, err := b.js.Stream(t.Context(), b.Raw())
	if err != nil {
		t.Fatal(err)
	}
	config := stream.CachedInfo().Config
	config.MaxBytes = 8 << 10
	if _, err := b.js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	l, err := b.OpenLog(t.Context(), "codex", "x", runs.Mark{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	body := make([]byte, 3<<10)
	var offset int64
	for err = nil; err == nil; {
		e := runs.Entry{Kind: runs.Out, Time: 1, Offset: offset, Body: body}
		if err = l.Append(ctx, e); err == nil {
			offset += int64(len(body))
		}
	}
	if offset == 0 || ctx.Err() == nil {
		t.Fatalf("full after %d bytes: %v", offset, err)
	}
	config.MaxBytes = 1 << 20
	if _, err := b.js.UpdateStream(t.Context(), config); err != nil {
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
	for i := range 6 {
		id := fmt.Sprintf("run-%d", i)
		order = append(order, id)
		logs[id] = corpusLog(t, "long-message", 7_000+i)
	}
	_, unbounded := serve(t)
	interleave(t, unbounded, logs, order...)
	normalize(t, unbounded)

	_, b := serve(t)
	interleave(t, b, logs, order...)
	n := newNormalizer(b)
	n.Until, n.hold = lastSeq(t, b.js, b.Raw()), 300_000
	if err := n.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	diff(t, "EVENTS", dump(t, b.jsPub, b.Names.Events()), dump(t, unbounded.jsPub, unbounded.Names.Events()))
}

func TestEventsDeletedUnderARunningNormalizerAreMadeAgain(t *testing.T) {
	t.Parallel()
	s, b := serve(t)
	office(t, s)
	interleave(t, b, map[string][]runs.Entry{"a": corpusLog(t, "plan", 700)}, "a")
	ended(t, b, "a")
	want := dump(t, b.jsPub, b.Names.Events())
	if err := b.jsPub.DeleteStream(t.Context(), b.Names.Events()); err != nil {
		t.Fatal(err)
	}
	deadline := time.After(time.Minute)
	for {
		if stream, err := b.jsPub.Stream(t.Context(), b.Names.Events()); err == nil && stream.CachedInfo().State.LastSeq == uint64(len(want)) {
			break
		}
		select {
		case <-deadline:
			t.Fatal("the events did not come back")
		case <-time.After(10 * time.Millisecond):
		}
	}
	diff(t, "EVENTS", dump(t, b.jsPub, b.Names.Events()), want)
}

func TestAnotherNormalizerTakesOver(t *testing.T) {
	t.Parallel()
	s, b := serve(t)
	first := newNormalizer(connect(t, s, NormalizerUser))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- first.Run(ctx) }()
	interleave(t, b, map[string][]runs.Entry{"a": corpusLog(t, "hello", 700)}, "a")
	ended(t, b, "a")
	office(t, s) // stands by
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	interleave(t, b, map[string][]runs.Entry{"b": corpusLog(t, "hello", 700)}, "b")
	ended(t, b, "b")
	r, err := b.Rebuild(t.Context(), []normalizer.Backend{codex.Backend{}}, 0, zap.NewNop())
	if err != nil || len(r.Differences) > 0 || r.Runs != 2 {
		t.Errorf("%+v, %v", r, err)
	}
}
