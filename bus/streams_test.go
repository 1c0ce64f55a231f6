package bus_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/bustest"
)

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
	if err := first.Append(
		t.Context(),
		runs.Entry{Kind: runs.Started, Time: 1, Body: []byte(`{"worker":"first"}`)},
	); err != nil {
		t.Fatal(err)
	}
	if err := second.Append(
		t.Context(),
		runs.Entry{Kind: runs.Started, Time: 1, Body: []byte(`{"worker":"second"}`)},
	); !errors.Is(
		err,
		runs.ErrMoved,
	) {
		t.Fatalf("the second start: %v", err)
	}
	if !second.Mark().Started {
		t.Error("the second writer was not told of the first one's start")
	}
	if err := second.Append(t.Context(), runs.Entry{Kind: runs.Cancelled, Time: 2}); err != nil {
		t.Fatal(err)
	}
	if err := first.Append(
		t.Context(),
		runs.Entry{Kind: runs.Out, Time: 3, Body: []byte("x\n")},
	); !errors.Is(err, runs.ErrMoved) ||
		!first.Mark().Cancelled {
		t.Fatalf("after a cancel: %v, %+v", err, first.Mark())
	}
	if err := first.Append(t.Context(), runs.Entry{Kind: runs.Out, Time: 3, Body: []byte("x\n")}); err != nil {
		t.Fatal(err)
	}
}

func TestHealth(t *testing.T) {
	t.Parallel()
	s, b := serve(t)
	if err := b.Health(t.Context()); err == nil || !strings.Contains(err.Error(), "no normalizer") {
		t.Errorf("without a normalizer: %v", err)
	}
	n := newNormalizer(bustest.Connect(t, s, embedded.NormalizerUser)) // it does not make the streams again
	bustest.Background(t, n.Run)
	bustest.Until(t, "not healthy", func() bool { return b.Health(t.Context()) == nil })
	if err := b.JetStream().DeleteStream(t.Context(), b.Raw()); err != nil {
		t.Fatal(err)
	}
	if err := b.Health(t.Context()); err == nil || !strings.Contains(err.Error(), b.Raw()) {
		t.Errorf("without RAW: %v", err)
	}
}

func TestSubscriberReadsEventsAndNothingElse(t *testing.T) {
	t.Parallel()
	s, b := serve(t)
	startNormalizer(t, s)
	login := bus.Login{URL: s.URL(), User: embedded.SubscriberUser, Password: s.Credentials[embedded.SubscriberUser]}
	sub, err := bus.Connect(bustest.Patient(t), login, bus.Login{}, bustest.Names, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	bustest.Interleave(t, b, map[string][]runs.Entry{"a": bustest.CorpusLog(t, "hello", 700)}, "a")
	bustest.Ended(t, b, "a")
	n := 0
	if err := sub.Read(
		t.Context(),
		runs.Selection{Run: "a"},
		func(bus.Stored) error { n++; return nil },
	); err != nil ||
		n != 5 {
		t.Errorf("subscriber: %d events, %v", n, err)
	}
	one := jetstream.ConsumerConfig{Name: "one", FilterSubject: b.EventSubject("codex", "a", "*")}
	if _, err := sub.JetStream().CreateConsumer(t.Context(), b.Events(), one); err != nil {
		t.Errorf("a consumer with one filter: %v", err)
	}
	brief, stop := context.WithTimeout(t.Context(), time.Second)
	defer stop()
	list := jetstream.ConsumerConfig{Name: "list", FilterSubjects: []string{one.FilterSubject}} // in the body only
	if _, err := sub.JetStream().CreateConsumer(brief, b.Events(), list); err == nil {
		t.Error("the subscriber can create a consumer with a list of filters")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := sub.JetStream().Stream(ctx, b.Raw()); err == nil {
		t.Error("the subscriber sees RAW")
	}
	if _, err := sub.JetStream().Publish(ctx, b.EventSubject("codex", "a", "status"), []byte("{}")); err == nil {
		t.Error("the subscriber can write EVENTS")
	}
}

func TestChangedConfigurationIsReported(t *testing.T) {
	t.Parallel()
	_, b := serve(t)
	limits := bus.DefaultLimits()
	if changed, err := b.Ensure(t.Context(), limits); err != nil || len(changed) != 0 {
		t.Fatalf("the same again: %v, %v", changed, err)
	}
	limits.RawAge = time.Hour
	changed, err := b.Ensure(t.Context(), limits)
	want := []string{
		"stream KV_linesman_folds: max_age changed from 72h0m0s to 1h0m0s", // which is as old as RAW
		"stream LINESMAN_RAW: max_age changed from 72h0m0s to 1h0m0s",
	}
	if err != nil || !slices.Equal(changed, want) {
		t.Errorf("%q, %v", changed, err)
	}
}

// A full RAW that discards old entries loses those that the normalizer has not read, and one with a maximum of messages
// refuses new ones.
func TestLimitsThatSomebodyChangedAreSetAgain(t *testing.T) {
	t.Parallel()
	_, b := serve(t)
	read := func(name string) jetstream.StreamConfig {
		t.Helper()
		s, err := b.JetStream().Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		return s.CachedInfo().Config
	}
	for _, name := range []string{b.Raw(), b.Work(), bucket.Stream(b.Runs())} {
		ours := read(name)
		theirs := ours
		theirs.MaxMsgs, theirs.MaxMsgsPerSubject, theirs.DiscardNewPerSubject = 5, 2, false
		if theirs.Discard = jetstream.DiscardOld; ours.Discard == jetstream.DiscardOld {
			theirs.Discard = jetstream.DiscardNew
		}
		if _, err := b.JetStream().UpdateStream(t.Context(), theirs); err != nil {
			t.Fatal(err)
		}
		what, err := b.Ensure(t.Context(), bus.DefaultLimits())
		if now := read(name); err != nil || !reflect.DeepEqual(now, ours) {
			t.Errorf("%s is\n%+v, and was\n%+v, %v", name, now, ours, err)
		}
		if len(what) != 3 || !strings.Contains(strings.Join(what, "\n"), name+": discard changed from ") {
			t.Errorf("%s: it reports %q", name, what)
		}
	}
}

func TestNewerFormatIsRefused(t *testing.T) {
	t.Parallel()
	_, b := serve(t)
	stream, err := b.JetStream().Stream(t.Context(), b.Raw())
	if err != nil {
		t.Fatal(err)
	}
	config := stream.CachedInfo().Config
	config.Metadata = map[string]string{"linesman.format": "2"}
	if _, err := b.JetStream().UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Ensure(t.Context(), bus.DefaultLimits()); err == nil || !strings.Contains(err.Error(), "format") {
		t.Errorf("got %v", err)
	}
}

func TestRecordsAreReadFromTheLeaderAlone(t *testing.T) {
	t.Parallel()
	_, b := serve(t)
	for _, name := range []string{b.Runs(), b.State(), b.Threads()} {
		s, err := b.JetStream().Stream(t.Context(), bucket.Stream(name))
		if err != nil {
			t.Fatal(err)
		}
		if s.CachedInfo().Config.AllowDirect {
			t.Errorf("%s: a replica that lags may answer", name)
		}
	}
}

// Readers of raw logs rely on complete results: a worker appends after what it reads,
// and the normalizer continues a long line that it dropped from memory.
func TestRawLogsAreReadFromTheLeaderAlone(t *testing.T) {
	t.Parallel()
	_, b := serve(t)
	s, err := b.JetStream().Stream(t.Context(), b.Raw())
	if err != nil {
		t.Fatal(err)
	}
	if s.CachedInfo().Config.AllowDirect {
		t.Errorf("%s: a replica that lags may answer", b.Raw())
	}
}
