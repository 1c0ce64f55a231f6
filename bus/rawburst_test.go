package bus_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// spool is output of a run, in chunks of the same size.
type spool struct{ chunks [][]byte }

func newSpool(chunks, size int) spool {
	var s spool
	for i := range chunks {
		line := fmt.Sprintf("%d %s\n", i, strings.Repeat("x", size))
		s.chunks = append(s.chunks, []byte(line[:size-1]+"\n"))
	}
	return s
}

func (s spool) output() string { return string(bytes.Join(s.chunks, nil)) }

// after returns the entries after the first bytes of the output, with the next time.
func (s spool) after(m runs.Mark) (entries []runs.Entry) {
	at := int64(0)
	for _, c := range s.chunks {
		if at >= m.Out {
			entries = append(entries, runs.Entry{Kind: runs.Out, Time: m.At + 1, Offset: at, Body: c})
		}
		at += int64(len(c))
	}
	return entries
}

// write appends the output to the log, as a worker does: after a conflict it resumes at
// the mark. It returns the number of conflicts.
func (s spool) write(ctx context.Context, l *bus.RawLog) (moved int, err error) {
	for {
		entries := s.after(l.Mark())
		if len(entries) == 0 {
			return moved, nil
		}
		if err := l.AppendAll(ctx, entries); errors.Is(err, runs.ErrMoved) {
			moved++
		} else if err != nil {
			return moved, err
		}
	}
}

// stored returns the output of a run in RAW, and how many of its entries belong to
// bursts. The offset of each entry must be the end of the previous one.
func stored(t *testing.T, b *bus.Bus, run string) (output string, inBursts int) {
	t.Helper()
	raw, err := b.JetStream().Stream(t.Context(), b.Raw())
	if err != nil {
		t.Fatal(err)
	}
	var all bytes.Buffer
	for seq := uint64(1); seq <= bustest.LastSeq(t, b.JetStream(), b.Raw()); seq++ {
		m, err := raw.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		e, ok := bus.DecodeEntry(m.Header, m.Data)
		if !ok || m.Subject != b.RawSubject("codex", run) || e.Kind != runs.Out {
			continue
		}
		if e.Offset != int64(all.Len()) {
			t.Fatalf("run %s: sequence %d has offset %d after %d bytes", run, seq, e.Offset, all.Len())
		}
		all.Write(e.Body)
		if m.Header.Get(jetstream.ExpectedLastSeqHeader) != "" {
			inBursts++
		}
	}
	return all.String(), inBursts
}

func openLog(t *testing.T, b *bus.Bus, run string) *bus.RawLog {
	t.Helper()
	l, err := b.OpenLog(t.Context(), "codex", run, runs.Mark{})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// A worker's login is enough for bursts, and the result is that of single appends.
func TestBacklogIsStoredInBursts(t *testing.T) {
	t.Parallel()
	s, op := serve(t)
	l, out := openLog(t, bustest.Connect(t, s, embedded.WorkerUser), "a"), newSpool(600, 1000)
	if moved, err := out.write(t.Context(), l); err != nil || moved != 0 {
		t.Fatalf("%d conflicts, %v", moved, err)
	}
	got, inBursts := stored(t, op, "a")
	if got != out.output() || inBursts < 500 {
		t.Errorf("%d of %d bytes, %d entries in bursts", len(got), len(out.output()), inBursts)
	}
	if m := l.Mark(); m.Seq != 600 || m.Out != int64(len(got)) || m.At == 0 {
		t.Errorf("mark %+v", m)
	}
}

// On a slow server bursts stay shorter than the longest. A run that writes alone again needs
// fewer entries before the next burst nevertheless.
func TestBurstsThatAreNotTheLongestShortenTheWait(t *testing.T) {
	t.Parallel()
	s, _ := serve(t)
	l, out := openLog(t, bustest.Connect(t, s, embedded.WorkerUser), "a"), newSpool(400, 100)
	const most = 64 // entries at a time
	l.SetPatience(32)
	for entries := out.after(l.Mark()); len(entries) > 0; entries = entries[min(most, len(entries)):] {
		if err := l.AppendAll(t.Context(), entries[:min(most, len(entries))]); err != nil {
			t.Fatal(err)
		}
	}
	if got := l.Patience(); got >= 32 {
		t.Errorf("%d entries before a burst, want fewer than 32", got)
	}
}

// Several runs write at once, each in bursts while it is alone.
func TestBurstsOfSeveralRunsAreComplete(t *testing.T) {
	t.Parallel()
	s, op := serve(t)
	worker, out := bustest.Connect(t, s, embedded.WorkerUser), newSpool(150, 2000)
	var writing sync.WaitGroup
	for _, run := range []string{"a", "b", "c"} {
		l := openLog(t, worker, run)
		writing.Go(func() {
			if moved, err := out.write(t.Context(), l); err != nil || moved != 0 {
				t.Errorf("run %s: %d conflicts, %v", run, moved, err)
			}
		})
	}
	writing.Wait()
	for _, run := range []string{"a", "b", "c"} {
		if got, _ := stored(t, op, run); got != out.output() {
			t.Errorf("run %s: %d of %d bytes", run, len(got), len(out.output()))
		}
	}
}

// Two workers send the same spool: each byte is stored once, in order.
func TestTwoWritersOfBurstsStoreEachByteOnce(t *testing.T) {
	t.Parallel()
	s, op := serve(t)
	out := newSpool(400, 3000)
	var writing sync.WaitGroup
	for range 2 {
		l := openLog(t, bustest.Connect(t, s, embedded.WorkerUser), "a")
		writing.Go(func() {
			if _, err := out.write(t.Context(), l); err != nil {
				t.Error(err)
			}
		})
	}
	writing.Wait()
	if got, _ := stored(t, op, "a"); got != out.output() {
		t.Errorf("%d of %d bytes", len(got), len(out.output()))
	}
}

// A burst after a cancel that its writer has not read stores nothing.
func TestBurstBehindAnUnreadCancelIsRefused(t *testing.T) {
	t.Parallel()
	s, op := serve(t)
	l, out := openLog(t, bustest.Connect(t, s, embedded.WorkerUser), "a"), newSpool(40, 1000)
	if err := l.AppendAll(t.Context(), out.after(l.Mark())[:20]); err != nil {
		t.Fatal(err)
	}
	if _, err := op.AppendIf(t.Context(), "codex", "a", runs.Mark{}, func(m runs.Mark) *runs.Entry {
		if m.Cancelled {
			return nil
		}
		return &runs.Entry{Kind: runs.Cancelled, Time: m.At, Body: []byte("{}")}
	}); err != nil {
		t.Fatal(err)
	}
	err := l.AppendAll(t.Context(), out.after(l.Mark()))
	if m := l.Mark(); !errors.Is(err, runs.ErrMoved) || !m.Cancelled || m.Seq != 21 {
		t.Errorf("got %v and %+v, want that the log has moved, to the cancel at 21", err, m)
	}
	if last := bustest.LastSeq(t, op.JetStream(), op.Raw()); last != 21 {
		t.Errorf("RAW ends at %d, want the cancel at 21", last)
	}
}

// An entry that another writer stores between two entries of a burst ends the burst.
func TestCancelInsideABurstEndsIt(t *testing.T) {
	t.Parallel()
	s, op := serve(t)
	worker, out := bustest.Connect(t, s, embedded.WorkerUser), newSpool(6, 1000)
	l := openLog(t, worker, "a")
	entries := out.after(runs.Mark{})
	if err := l.Append(t.Context(), entries[0]); err != nil {
		t.Fatal(err)
	}
	send := func(i int) {
		if err := worker.JetStream().Conn().PublishMsg(l.BurstMsg(entries[1:], i, "_INBOX_worker.x")); err != nil {
			t.Fatal(err)
		}
		if err := worker.JetStream().Conn().FlushTimeout(fixture.Patience); err != nil {
			t.Fatal(err)
		}
	}
	last := func(want uint64) func() bool {
		return func() bool { return bustest.LastSeq(t, op.JetStream(), op.Raw()) == want }
	}
	send(0)
	bustest.Until(t, "the first entry is not stored", last(2))
	other := openLog(t, op, "a")
	if err := other.Append(t.Context(), runs.Entry{Kind: runs.Cancelled, Time: 2, Body: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	answers, err := worker.JetStream().Conn().SubscribeSync("_INBOX_worker.x.>")
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; i < 5; i++ {
		send(i)
	}
	for { // the server ends the burst after its first entry
		a, err := answers.NextMsgWithContext(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(a.Data, []byte(`"count":`)) {
			break
		}
	}
	if !last(3)() {
		t.Fatal("an entry was stored after a cancel that its writer has not read")
	}
	if moved, err := out.write(t.Context(), l); err != nil || moved != 1 || !l.Mark().Cancelled {
		t.Errorf("%d conflicts, %v, %+v; want one, with the cancel", moved, err, l.Mark())
	}
	if got, inBursts := stored(t, op, "a"); got != out.output() || inBursts < 1 {
		t.Errorf("%d of %d bytes, %d entries in bursts", len(got), len(out.output()), inBursts)
	}
}

// The first entry of a burst is lost, and a cancel takes the sequence that the second
// one expects: only the server's check for gaps refuses it.
func TestBurstWithoutItsFirstEntryIsRefused(t *testing.T) {
	t.Parallel()
	s, op := serve(t)
	worker, out := bustest.Connect(t, s, embedded.WorkerUser), newSpool(6, 1000)
	l := openLog(t, worker, "a")
	entries := out.after(runs.Mark{})
	if err := l.Append(t.Context(), entries[0]); err != nil {
		t.Fatal(err)
	}
	other := openLog(t, op, "a")
	if err := other.Append(t.Context(), runs.Entry{Kind: runs.Cancelled, Time: 2, Body: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	m := l.BurstMsg(entries[1:], 1, "_INBOX_worker.x")
	if got := m.Header.Get(jetstream.ExpectedLastSeqHeader); got != "2" {
		t.Fatalf("the second entry expects %s, not the sequence of the cancel", got)
	}
	answer, err := worker.JetStream().Conn().SubscribeSync("_INBOX_worker.x.>")
	if err != nil {
		t.Fatal(err)
	}
	if err := worker.JetStream().Conn().PublishMsg(m); err != nil {
		t.Fatal(err)
	}
	if a, err := answer.NextMsgWithContext(t.Context()); err != nil || !strings.Contains(string(a.Data), `"error"`) {
		t.Errorf("answer %v, %v; want an error", a, err)
	}
	if last := bustest.LastSeq(t, op.JetStream(), op.Raw()); last != 2 {
		t.Errorf("RAW ends at %d, want the cancel at 2", last)
	}
}

// The connection breaks inside a burst, or before its acknowledgement: what was stored is
// found, and the rest is sent.
func TestTornBurstIsCompleted(t *testing.T) {
	t.Parallel()
	for name, arm := range map[string]func(b *breaker){
		"in the first entry":     func(b *breaker) { b.arm(".fail.1.0.$FI", true) },
		"in the middle":          func(b *breaker) { b.arm(".fail.3.1.$FI", true) },
		"in the last entry":      func(b *breaker) { b.arm(".2.$FI", true) },
		"the acknowledgement":    func(b *breaker) { b.armAnswer(".2.$FI"); b.release() },
		"the answer to an entry": func(b *breaker) { b.armAnswer(".fail.2.1.$FI"); b.release() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, client := through(t)
			l, out := openLog(t, client, "a"), newSpool(40, runs.MaxChunk)
			arm(b)
			if _, err := out.write(t.Context(), l); err != nil {
				t.Fatal(err)
			}
			b.waitFired(t, 1)
			if got, inBursts := stored(t, client, "a"); got != out.output() || inBursts < 10 {
				t.Errorf("%d of %d bytes, %d entries in bursts", len(got), len(out.output()), inBursts)
			}
		})
	}
}

// RAW becomes full inside a burst: what fits is stored, and the rest once there is room.
func TestBurstIntoAFullStreamIsCompletedLater(t *testing.T) {
	t.Parallel()
	b := bustest.ConnectPlain(t, bustest.ServePlain(t, server.Options{}))
	limits := bus.DefaultLimits()
	limits.RawBytes, limits.EventsBytes, limits.RunsBytes = 1<<20, 1<<28, 1<<26
	if _, err := b.Ensure(t.Context(), limits); err != nil {
		t.Fatal(err)
	}
	l, out := openLog(t, b, "a"), newSpool(60, runs.MaxChunk)
	done := make(chan error, 1)
	go func() {
		_, err := out.write(t.Context(), l)
		done <- err
	}()
	bustest.Until(t, "RAW is not full", func() bool { return bustest.LastSeq(t, b.JetStream(), b.Raw()) == 15 })
	limits.RawBytes = 1 << 28
	if _, err := b.Ensure(t.Context(), limits); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got, inBursts := stored(t, b, "a"); got != out.output() || inBursts == 0 {
		t.Errorf("%d of %d bytes, %d entries in bursts", len(got), len(out.output()), inBursts)
	}
}

// RAW is deleted and created again between two bursts: the writer sends everything again.
func TestBurstIntoARecreatedStreamStartsAgain(t *testing.T) {
	t.Parallel()
	s, op := serve(t)
	l, out := openLog(t, bustest.Connect(t, s, embedded.WorkerUser), "a"), newSpool(80, 1000)
	if err := l.AppendAll(t.Context(), out.after(l.Mark())[:30]); err != nil {
		t.Fatal(err)
	}
	bustest.Remake(t, op, op.JetStream(), op.Raw())
	if moved, err := out.write(t.Context(), l); err != nil || moved != 1 {
		t.Errorf("%d conflicts, %v", moved, err)
	}
	if got, _ := stored(t, op, "a"); got != out.output() {
		t.Errorf("%d of %d bytes", len(got), len(out.output()))
	}
}

// Without allow_batched, as on an older server, all entries are appended one by one.
func TestStreamWithoutFastIngestGetsSingleEntries(t *testing.T) {
	t.Parallel()
	b := bustest.ConnectPlain(t, bustest.ServePlain(t, server.Options{}))
	bustest.EnsureSmall(t, b)
	raw, err := b.JetStream().Stream(t.Context(), b.Raw())
	if err != nil {
		t.Fatal(err)
	}
	c := raw.CachedInfo().Config
	if !c.AllowBatchPublish {
		t.Fatal("RAW has no allow_batched")
	}
	c.AllowBatchPublish = false
	if _, err := b.JetStream().UpdateStream(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	l, out := openLog(t, b, "a"), newSpool(40, 1000)
	if _, err := out.write(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	if got, inBursts := stored(t, b, "a"); got != out.output() || inBursts != 0 {
		t.Errorf("%d of %d bytes, %d entries in bursts", len(got), len(out.output()), inBursts)
	}
	limits := bus.DefaultLimits()
	limits.RawBytes, limits.EventsBytes, limits.RunsBytes = 1<<28, 1<<28, 1<<26
	changed, err := b.Ensure(t.Context(), limits)
	if want := "stream TEST_RAW: allow_batched changed from false to true"; err != nil || len(changed) != 1 ||
		changed[0] != strings.Replace(want, "TEST_RAW", b.Raw(), 1) {
		t.Errorf("%q, %v", changed, err)
	}
}
