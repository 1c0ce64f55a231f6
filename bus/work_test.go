package bus_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/linesman/linesman/agent/codex"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/bus/pipeline"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/bustest"
)

func TestTasksComeInTheOrderOfSubmission(t *testing.T) {
	t.Parallel()
	s, _ := serve(t)
	r, w := bustest.Connect(t, s, embedded.ResponderUser), bustest.Connect(t, s, embedded.WorkerUser)
	last := uint64(0)
	for i := range 5 {
		work := bustest.Submit(t, r, fmt.Sprintf("T-%d", i))
		if work <= last {
			t.Fatalf("place %d after %d", work, last)
		}
		last = work
	}
	for i := range 5 {
		d := bustest.Take(t, w)
		got, err := d.Task()
		if want := fmt.Sprintf("T-%d", i); err != nil || got.Run != want {
			t.Fatalf("task %q (%v), want %q", got.Run, err, want)
		}
		if err := d.Done(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestARunIDIsTakenOnce(t *testing.T) {
	t.Parallel()
	s, _ := serve(t)
	b := bustest.Connect(t, s, embedded.ResponderUser)
	bustest.Submit(t, b, "T-1")
	if _, _, err := b.Submit(t.Context(), bus.DefaultQueue, bustest.Task("T-1"), 2); !errors.Is(err, runs.ErrKnownRun) {
		t.Errorf("the second submission: %v", err)
	}
	// The worker has completed it: the log still has the run.
	w := bustest.Connect(t, s, embedded.WorkerUser)
	log, err := w.OpenLog(t.Context(), "codex", "T-1", runs.Mark{})
	if err == nil {
		err = log.Append(t.Context(), runs.Entry{Kind: runs.Started, Time: 2})
	}
	if err := cmp.Or(err, bustest.Take(t, w).Done()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.Submit(t.Context(), bus.DefaultQueue, bustest.Task("T-1"), 3); !errors.Is(err, runs.ErrKnownRun) {
		t.Errorf("the third submission: %v", err)
	}
}

// The task of a failed submission is removed, and its queued entry is stored only then: by a server that was late. To
// submit it again queues it again. A worker may get the task before the log names it.
func TestTaskThatNoQueueHasIsQueuedAgain(t *testing.T) {
	t.Parallel()
	s, _ := serve(t)
	r, w := bustest.Connect(t, s, embedded.ResponderUser), bustest.Connect(t, s, embedded.WorkerUser)
	first := bustest.Submit(t, r, "T-1")
	if err := r.Unqueue(t.Context(), bus.DefaultQueue, "T-1"); err != nil {
		t.Fatal(err)
	}
	other := bustest.Task("T-1")
	other.Mode = runs.WorkspaceWrite
	if _, _, err := r.Submit(t.Context(), bus.DefaultQueue, other, 2); err == nil || errors.Is(err, runs.ErrKnownRun) {
		t.Errorf("another task: %v, want another error than that it is known", err)
	}
	again := bustest.Task("T-1")
	again.Labels = runs.WithTraceparent("", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	work, _, err := r.Submit(t.Context(), bus.DefaultQueue, again, 3)
	if err != nil || work <= first {
		t.Fatalf("again: place %d after %d, %v", work, first, err)
	}
	if _, _, err := r.Submit(t.Context(), bus.DefaultQueue, again, 4); !errors.Is(err, runs.ErrKnownRun) {
		t.Errorf("once more: %v", err)
	}
	log, err := w.OpenLog(t.Context(), "codex", "T-1", runs.Mark{})
	if err != nil {
		t.Fatal(err)
	}
	if d := bustest.Take(t, w); d.Work() != work || log.Mark().Work != work {
		t.Errorf("place %d, the log names %d, want %d", d.Work(), log.Mark().Work, work)
	}
	if err := log.Append(t.Context(), runs.Entry{Kind: runs.Cancelled, Time: 5}); err != nil {
		t.Fatal(err)
	}
	if err := r.Unqueue(t.Context(), bus.DefaultQueue, "T-1"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.Submit(t.Context(), bus.DefaultQueue, again, 6); !errors.Is(err, runs.ErrKnownRun) {
		t.Errorf("after it was cancelled: %v", err)
	}
}

func TestAFullQueueRefusesTheNextTask(t *testing.T) {
	t.Parallel()
	s, b := serve(t)
	stream, err := b.JetStream().Stream(t.Context(), b.Work())
	if err != nil {
		t.Fatal(err)
	}
	config := stream.CachedInfo().Config
	config.MaxMsgs = 2
	if _, err := b.JetStream().UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	r := bustest.Connect(t, s, embedded.ResponderUser)
	bustest.Submit(t, r, "T-1")
	bustest.Submit(t, r, "T-2")
	if _, _, err := r.Submit(t.Context(), bus.DefaultQueue, bustest.Task("T-3"), 2); !errors.Is(err, runs.ErrQueueFull) {
		t.Fatalf("a full queue: %v", err)
	}
	if _, err := r.Peek(t.Context(), "T-3"); !errors.Is(err, runs.ErrNoRun) {
		t.Errorf("what was refused has a log: %v", err)
	}
}

// TestCancelAndStartHaveOneWinner races the two: the second one sees the first.
func TestCancelAndStartHaveOneWinner(t *testing.T) {
	t.Parallel()
	s, b := serve(t)
	startNormalizer(t, s)
	r, w := bustest.Connect(t, s, embedded.ResponderUser), bustest.Connect(t, s, embedded.WorkerUser)
	won := map[string]int{}
	for i := range 40 {
		run := fmt.Sprintf("T-%d", i)
		bustest.Submit(t, r, run)
		var race sync.WaitGroup
		var started, cancelled bool
		race.Go(func() {
			log, err := w.OpenLog(t.Context(), "codex", run, runs.Mark{})
			if err == nil && !log.Mark().Cancelled {
				err = log.Append(
					t.Context(),
					runs.Entry{Kind: runs.Started, Time: 2000, Body: runs.Encode(runs.Start{Source: "queue", Worker: "w"})},
				)
				started = err == nil
			}
			if err != nil && !errors.Is(err, runs.ErrMoved) {
				t.Error(err)
			}
		})
		race.Go(func() {
			_, err := r.AppendIf(t.Context(), "codex", run, runs.Mark{}, func(m runs.Mark) *runs.Entry {
				if m.Started || cancelled {
					return nil
				}
				cancelled = true
				return &runs.Entry{Kind: runs.Cancelled, Time: 2000, Body: runs.Encode(runs.Remark{Reason: "race"})}
			})
			if err != nil {
				t.Error(err)
			}
		})
		race.Wait()
		log, err := b.OpenLog(t.Context(), "codex", run, runs.Mark{})
		if err != nil {
			t.Fatal(err)
		}
		m := log.Mark()
		if started == (m.Cancelled && !m.Started) || m.Started && m.Cancelled {
			t.Fatalf("%s: started %v, the log says %+v", run, started, m)
		}
		if m.Started {
			won["start"]++
		} else {
			won["cancel"]++
			rec := bustest.Recorded(t, b, run)
			if rec.State != runs.StateCancelled || rec.StartedAt != 0 || rec.EndedAt != 2000 {
				t.Fatalf("%s: %+v", run, rec)
			}
		}
	}
	t.Log("won:", won)
}

func TestATaskThatNobodyStartedIsRedelivered(t *testing.T) {
	t.Parallel()
	s, _ := serve(t)
	r := bustest.Connect(t, s, embedded.ResponderUser)
	bustest.Submit(t, r, "T-1")
	first := bustest.Connect(t, s, embedded.WorkerUser)
	if err := bustest.Take(t, first).Later(10 * time.Millisecond); err != nil {
		t.Fatal(err)
	}
	d := bustest.Take(t, bustest.Connect(t, s, embedded.WorkerUser))
	if got, err := d.Task(); err != nil || got.Run != "T-1" {
		t.Fatalf("%+v %v", got, err)
	}
}

func TestAnUnqueuedTaskIsGone(t *testing.T) {
	t.Parallel()
	s, _ := serve(t)
	r, w := bustest.Connect(t, s, embedded.ResponderUser), bustest.Connect(t, s, embedded.WorkerUser)
	bustest.Submit(t, r, "T-1")
	bustest.Submit(t, r, "T-2")
	if err := r.Unqueue(t.Context(), bus.DefaultQueue, "T-1"); err != nil {
		t.Fatal(err)
	}
	for run, want := range map[string]bool{"T-1": false, "T-2": true} {
		if got, err := r.Queued(t.Context(), bus.DefaultQueue, run); err != nil || got != want {
			t.Errorf("%s queued: %v %v", run, got, err)
		}
	}
	if got, err := bustest.Take(t, w).Task(); err != nil || got.Run != "T-2" {
		t.Fatalf("%+v %v", got, err)
	}
}

func TestAnOwnerIsAskedToEndItsRun(t *testing.T) {
	t.Parallel()
	s, _ := serve(t)
	r, w := bustest.Connect(t, s, embedded.ResponderUser), bustest.Connect(t, s, embedded.WorkerUser)
	if err := r.AskCancel(t.Context(), "T-1", "no"); !errors.Is(err, runs.ErrNoOwner) {
		t.Fatalf("without an owner: %v", err)
	}
	asked := make(chan string, 1)
	stop, err := w.Listen("T-1", owner{cancel: func(_ context.Context, reason string) error {
		asked <- reason
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Inside().FlushTimeout(fixture.Patience); err != nil {
		t.Fatal(err)
	}
	if err := r.AskCancel(t.Context(), "T-1", "enough"); err != nil {
		t.Fatal(err)
	}
	if got := <-asked; got != "enough" {
		t.Errorf("reason %q", got)
	}
	stop()
	if err := w.Inside().FlushTimeout(fixture.Patience); err != nil {
		t.Fatal(err)
	}
	if err := r.AskCancel(t.Context(), "T-1", "again"); !errors.Is(err, runs.ErrNoOwner) {
		t.Errorf("after the owner has gone: %v", err)
	}
}

// Health checks ask whether a queue is ready, and create nothing.
func TestReadyQueueHasAConsumerAndCreatesNone(t *testing.T) {
	t.Parallel()
	s, b := serve(t)
	w := bustest.Connect(t, s, embedded.WorkerUser)
	queue := w.Queue("default")
	for range 2 {
		if err := queue.Ready(t.Context()); err == nil {
			t.Fatal("it is ready before a worker waits for tasks")
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	waiting.Go(func() { _, _ = queue.Next(ctx) })
	bustest.Until(t, "the queue is ready", func() bool { return queue.Ready(t.Context()) == nil })
	cancel()
	waiting.Wait()
	if err := b.JetStream().DeleteConsumer(t.Context(), b.Work(), "worker_default"); err != nil {
		t.Fatal(err)
	}
	if queue.Ready(t.Context()) == nil {
		t.Error("it is ready without a consumer")
	}
}

func TestHeartbeatsAreReceivedAndExpire(t *testing.T) {
	t.Parallel()
	s, b := serve(t)
	r, w := bustest.Connect(t, s, embedded.ResponderUser), bustest.Connect(t, s, embedded.WorkerUser)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() {
		w.SendHeartbeats(ctx, time.Second, func() runs.Heartbeat {
			return runs.Heartbeat{ID: "here", Name: "here", Slots: 2}
		})
	})
	heard := make(chan runs.Heartbeat, 64)
	all.Go(func() {
		if err := r.WatchHeartbeats(ctx, func(v runs.Heartbeat, _ time.Time) { heard <- v }); err != nil {
			t.Error(err)
		}
	})
	for range 2 {
		if v := <-heard; v.Name != "here" || v.Slots != 2 {
			t.Errorf("heard %+v", v)
		}
	}
	cancel()
	all.Wait()
	stream, err := b.JetStream().Stream(t.Context(), bucket.Stream(b.State()))
	if err != nil {
		t.Fatal(err)
	}
	bustest.Until(t, "the last heartbeat of a worker that is gone stays", func() bool {
		_, err := stream.GetLastMsgForSubject(t.Context(), bucket.Subject(b.State(), bus.WorkerKey("here")))
		return errors.Is(err, jetstream.ErrMsgNotFound)
	})
}

// The next one would come after ten seconds.
func TestAHeartbeatThatIsNotStoredIsSentAgain(t *testing.T) {
	t.Parallel()
	canary := fixture.StartCanary(t)
	_, b := serve(t)
	if err := b.JetStream().DeleteStream(t.Context(), bucket.Stream(b.State())); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	sent := 0
	var began time.Time
	b.SendHeartbeats(ctx, time.Minute, func() runs.Heartbeat {
		if sent++; sent == 1 {
			began = time.Now()
		} else {
			cancel()
		}
		return runs.Heartbeat{ID: "here", Name: "here"}
	})
	canary.Within("the next heartbeat came", time.Since(began), 8*time.Second)
}

func TestTheTableHearsOfEveryRun(t *testing.T) {
	t.Parallel()
	s, b := serve(t)
	startNormalizer(t, s)
	r := bustest.Connect(t, s, embedded.ResponderUser)
	bustest.Submit(t, r, "T-1")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	news := make(chan runs.Change, 64)
	watched := make(chan error, 1)
	go func() { watched <- r.WatchRuns(ctx, func(c runs.Change) { news <- c }) }()
	wait := func(what string, is func(runs.Change) bool) runs.Change {
		t.Helper()
		late := time.After(fixture.Patience)
		for {
			select {
			case c := <-news:
				if is(c) {
					return c
				}
			case <-late:
				t.Fatalf("no news: %s", what)
			}
		}
	}
	wait("queued", func(c runs.Change) bool {
		return c.Run.ID == "T-1" && c.Run.State == runs.StateQueued && c.Run.Work != 0 && c.Run.Queue == bus.DefaultQueue
	})
	if _, err := r.AppendIf(t.Context(), "codex", "T-1", runs.Mark{}, func(m runs.Mark) *runs.Entry {
		if m.Cancelled {
			return nil
		}
		return &runs.Entry{Kind: runs.Cancelled, Time: 5, Body: runs.Encode(runs.Remark{})}
	}); err != nil {
		t.Fatal(err)
	}
	last := wait("cancelled", func(c runs.Change) bool { return c.Run.State == runs.StateCancelled })
	if err := r.RemoveRun(t.Context(), "T-1", last.Revision-1); err == nil {
		t.Error("a record that changed was removed")
	}
	if err := r.RemoveRun(t.Context(), "T-1", last.Revision); err != nil {
		t.Fatal(err)
	}
	wait("removed", func(c runs.Change) bool { return c.Removed && c.Run.ID == "T-1" })
	if _, ok, err := r.Record(t.Context(), "T-1"); ok || err != nil {
		t.Errorf("a removed record: %v %v", ok, err)
	}
	// Removed records stay removed when RAW is read again.
	startNormalizer(t, s)
	found, err := pipeline.Rebuild(t.Context(), b, []normalizer.Backend{codex.Backend{}}, 0, zap.NewNop())
	if err != nil || len(found.Differences) != 0 {
		t.Errorf("rebuild: %+v %v", found, err)
	}
	cancel()
	if err := <-watched; err != nil {
		t.Error(err)
	}
}

// TestOutputIsTheBeginningAndTheEnd compares with the written output, for streams and
// limits of all sizes, divided into entries in all ways.
func TestOutputIsTheBeginningAndTheEnd(t *testing.T) {
	t.Parallel()
	s, b := serve(t)
	r := bustest.Connect(t, s, embedded.ResponderUser)
	rnd := rand.New(rand.NewPCG(1, 2))
	for i, c := range []struct{ out, err, chunk, most int }{
		{0, 0, 10, 100},
		{50, 0, 7, 100},
		{100, 100, 33, 100},
		{101, 0, 64, 100},
		{0, 5000, 64, 100},
		{2000, 3, 1, 100},
		{3, 2000, 1, 100},
		{100_000, 900, 100, 1024},
		{12_000 / fixture.Every(2), 12_000 / fixture.Every(2), 3, 4096},
		{3 << 20, 70_000, runs.MaxChunk, 65536},
	} {
		run := fmt.Sprintf("T-%d", i)
		stream := map[runs.Kind][]byte{runs.Out: text(rnd, c.out), runs.ErrOut: text(rnd, c.err)}
		log, err := b.OpenLog(t.Context(), "codex", run, runs.Mark{})
		if err != nil {
			t.Fatal(err)
		}
		written := map[runs.Kind]int{}
		for written[runs.Out] < c.out || written[runs.ErrOut] < c.err {
			kind := runs.Out
			if rnd.IntN(c.out+c.err) >= c.out && written[runs.ErrOut] < c.err || written[runs.Out] == c.out {
				kind = runs.ErrOut
			}
			from := written[kind]
			to := min(from+c.chunk, len(stream[kind]))
			if err := log.Append(
				t.Context(),
				runs.Entry{Kind: kind, Time: 1, Offset: int64(from), Body: stream[kind][from:to]},
			); err != nil {
				t.Fatal(err)
			}
			written[kind] = to
		}
		out, errs, err := r.Output(t.Context(), "codex", run, c.most, c.err > 0)
		if err != nil {
			t.Fatal(err)
		}
		for kind, got := range map[runs.Kind]runs.Excerpt{runs.Out: out, runs.ErrOut: errs} {
			want := stream[kind]
			if got.Size != int64(len(want)) {
				t.Errorf("%+v, %s: size %d, want %d", c, kind, got.Size, len(want))
			}
			if len(want) <= c.most {
				if !bytes.Equal(got.Head, want) || len(got.Tail) > 0 {
					t.Errorf("%+v, %s: %d and %d bytes, want all", c, kind, len(got.Head), len(got.Tail))
				}
				continue
			}
			half := c.most / 2
			if !bytes.Equal(got.Head, want[:half]) {
				t.Errorf("%+v, %s: the beginning differs (%d bytes)", c, kind, len(got.Head))
			}
			if !bytes.Equal(got.Tail, want[len(want)-half:]) {
				t.Errorf("%+v, %s: the end differs (%d bytes)", c, kind, len(got.Tail))
			}
		}
	}
}

func text(rnd *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('a' + rnd.IntN(26))
	}
	return b
}

// lastEvents returns the bodies of the newest n events of a run.
func lastEvents(t *testing.T, b *bus.Bus, run string, n int) (all []string) {
	t.Helper()
	err := b.LastEvents(t.Context(), "codex", run, "", n, func(_ uint64, _ string, body []byte) error {
		all = append(all, string(body))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestLastEventsAreTheNewest(t *testing.T) {
	t.Parallel()
	s, b := serve(t)
	logs := map[string][]runs.Entry{
		"T-1": bustest.CorpusLog(t, "shell-ok", 512),
		"T-2": bustest.CorpusLog(t, "patch", 512),
	}
	bustest.Interleave(t, b, logs, "T-1", "T-2")
	startNormalizer(t, s)
	bustest.Ended(t, b, "T-1")
	bustest.Ended(t, b, "T-2")
	r := bustest.Connect(t, s, embedded.ResponderUser)
	var all []string
	if err := r.Read(
		t.Context(),
		runs.Selection{Run: "T-1"},
		func(e bus.Stored) error { all = append(all, string(e.Body)); return nil },
	); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, 3, len(all), 1000} {
		got := lastEvents(t, r, "T-1", n)
		want := all[max(len(all)-n, 0):]
		if len(got) != len(want) {
			t.Fatalf("the last %d: %d events, want %d", n, len(got), len(want))
		}
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("the last %d: event %d differs: %.80s", n, i, got[i])
			}
		}
	}
}

// busy is a JetStream context that calls a function after each lookup of a stream.
type busy struct {
	jetstream.JetStream
	then func()
}

func (b busy) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	s, err := b.JetStream.Stream(ctx, name)
	b.then()
	return s, err
}

func TestLastEventsAreAsManyAsAskedForWhileMoreCome(t *testing.T) {
	t.Parallel()
	s, b := serve(t)
	stored := 0
	store := func() {
		for range 10 {
			if _, err := b.PublicJetStream().
				Publish(t.Context(), b.EventSubject("codex", "T-1", "status"), fmt.Append(nil, stored)); err != nil {
				t.Fatal(err)
			}
			stored++
		}
	}
	store()
	r := bustest.Connect(t, s, embedded.ResponderUser)
	r.ReplacePublic(busy{r.PublicJetStream(), store})
	for _, n := range []int{1, 3, 10} {
		got := lastEvents(t, r, "T-1", n)
		want := make([]string, n)
		for i := range want {
			want[i] = fmt.Sprint(stored - n + i)
		}
		if fmt.Sprintf("%s", got) != fmt.Sprintf("%s", want) {
			t.Errorf("the last %d: %s, want %s", n, got, want)
		}
	}
}

func TestAWorkerSeesNoOtherStream(t *testing.T) {
	t.Parallel()
	s, _ := serve(t)
	w := bustest.Connect(t, s, embedded.WorkerUser)
	for _, subject := range []string{
		w.WorkSubject(bus.DefaultQueue, "T-1"), w.ControlSubject("T-1"), bucket.Subject(w.Runs(), "T-1"),
		bucket.Subject(w.State(), bus.CheckpointKey), w.EventSubject("codex", "T-1", "status"),
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		if _, err := w.JetStream().Publish(ctx, subject, []byte("x")); err == nil {
			t.Errorf("a worker may publish to %s", subject)
		}
		cancel()
	}
	if !strings.HasPrefix(w.WorkSubject("q", "r"), bus.DefaultPrefix+".work.") {
		t.Error("subject")
	}
}

// owner is the owner of a run that can be cancelled.
type owner struct {
	bus.Owner
	cancel func(ctx context.Context, reason string) error
}

func (o owner) Cancel(ctx context.Context, reason string) error { return o.cancel(ctx, reason) }
