package bus_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"

	"go.uber.org/zap"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// breaker is a proxy in front of a server. Once armed it drops the next chunk that
// contains a text, and ends its connection if configured to.
type breaker struct {
	listener net.Listener
	to       string
	conns    sync.WaitGroup

	mu    sync.Mutex
	on    []byte
	end   bool // the connection, too
	pass  bool // the chunk is forwarded before: only its answer is lost
	late  bool // nothing is lost, but answers are late
	fired int
	held  chan struct{} // connections wait until it is closed
}

// arm makes the breaker wait for a text.
func (b *breaker) arm(on string, end bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.on, b.end, b.pass, b.late = []byte(on), end, false, false
}

// armAnswer makes the breaker drop the answer to the next chunk with a text. The next
// connection waits until release.
func (b *breaker) armAnswer(on string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.on, b.end, b.pass, b.late = []byte(on), true, true, false
	b.held = make(chan struct{})
}

// armLate makes the breaker hold all answers from the next chunk with a text on, until release. It fires there, and at
// the next request to JetStream.
func (b *breaker) armLate(on string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.on, b.late = []byte(on), true
}

func (b *breaker) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held != nil {
		close(b.held)
		b.held = nil
	}
}

func (b *breaker) hold() {
	b.mu.Lock()
	held := b.held
	b.mu.Unlock()
	if held != nil {
		<-held
	}
}

// holdLate is hold for answers.
func (b *breaker) holdLate() {
	b.mu.Lock()
	late := b.late
	b.mu.Unlock()
	if late {
		b.hold()
	}
}

// through returns a bus that connects through a breaker, with its streams.
func through(t *testing.T) (*breaker, *bus.Bus) {
	t.Helper()
	b := startBreaker(t, bustest.ServePlain(t, server.Options{})[len("nats://"):])
	t.Cleanup(b.close)
	client, err := bus.Connect(
		t.Context(),
		bus.Login{URL: "nats://" + b.listener.Addr().String(), Options: []nats.Option{nats.Timeout(fixture.Patience)}},
		bus.Login{},
		bustest.Names,
		zap.NewNop(),
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	if _, err := client.Ensure(t.Context(), bus.DefaultLimits()); err != nil {
		t.Fatal(err)
	}
	return b, client
}

func startBreaker(t *testing.T, to string) *breaker {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &breaker{listener: l, to: to}
	b.conns.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			b.hold()
			server, err := net.Dial("tcp", to)
			if err != nil {
				_ = client.Close()
				continue
			}
			b.conns.Go(func() { b.carry(server, client, true) })
			b.conns.Go(func() { b.carry(client, server, false) })
		}
	})
	return b
}

// close waits for the connections to end, after their creators have closed them.
func (b *breaker) close() {
	b.release()
	_ = b.listener.Close()
	b.conns.Wait()
}

func (b *breaker) carry(to, from net.Conn, upstream bool) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if upstream {
			lost, end, pass := b.lose(buf[:n])
			if pass {
				_ = from.Close() // first: the answer may arrive quickly
				_, _ = to.Write(buf[:n])
			}
			if end {
				return
			}
			if lost {
				continue
			}
		} else {
			b.holdLate()
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (b *breaker) lose(piece []byte) (lost, end, pass bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.on == nil || !bytes.Contains(piece, b.on) {
		return false, false, false
	}
	b.on = nil
	b.fired++
	if b.late {
		if b.held == nil {
			b.on, b.held = []byte("$JS.API."), make(chan struct{})
		}
		return false, false, false
	}
	return true, b.end, b.pass
}

// waitFired waits until a number of chunks were dropped.
func (b *breaker) waitFired(t *testing.T, n int) {
	t.Helper()
	bustest.Until(t, fmt.Sprintf("%d pieces are not lost", n), func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.fired == n
	})
}

// An entry is stored, and its answer is lost with the connection; so is the first
// request after it. The writer must not take its own entry for another writer's: a
// worker would abandon a run that it has started.
func TestEntryWhoseAnswerIsLostIsOurs(t *testing.T) {
	t.Parallel()
	b, client := through(t)
	l, err := client.OpenLog(t.Context(), "codex", "a", runs.Mark{})
	if err != nil {
		t.Fatal(err)
	}
	b.armAnswer("PUB " + bustest.Names.RawSubject("codex", "a"))
	done := make(chan error, 1)
	go func() { done <- l.Append(t.Context(), runs.Entry{Kind: runs.Started, Time: 1, Body: []byte("{}")}) }()
	b.waitFired(t, 1)
	b.arm("$JS.API.STREAM.MSG.GET."+bustest.Names.Raw(), true)
	b.release()
	if err := <-done; err != nil {
		t.Errorf("the entry that was stored: %v", err)
	}
	if m := l.Mark(); m.Seq != 1 || !m.Started || b.fired != 2 {
		t.Errorf("the log has %+v after %d losses, want the entry, and 2", m, b.fired)
	}
}

// As before, but another writer appended after it, and reading that entry is
// interrupted.
func TestEntryWhoseAnswerIsLostIsOursWhateverFollows(t *testing.T) {
	t.Parallel()
	b, client := through(t)
	l, err := client.OpenLog(t.Context(), "codex", "a", runs.Mark{})
	if err != nil {
		t.Fatal(err)
	}
	b.armAnswer("PUB " + bustest.Names.RawSubject("codex", "a"))
	done := make(chan error, 1)
	go func() { done <- l.Append(t.Context(), runs.Entry{Kind: runs.Started, Time: 1, Body: []byte("{}")}) }()
	b.waitFired(t, 1)
	other, err := bus.Connect(bustest.Patient(t), bus.Login{URL: "nats://" + b.to}, bus.Login{}, bustest.Names,
		zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.Close)
	if _, err := other.AppendIf(t.Context(), "codex", "a", runs.Mark{}, func(m runs.Mark) *runs.Entry {
		if m.Cancelled {
			return nil
		}
		return &runs.Entry{Kind: runs.Cancelled, Time: 2, Body: []byte("{}")}
	}); err != nil {
		t.Fatal(err)
	}
	b.arm(`{"seq":2,`, true)
	b.release()
	if err := <-done; err != nil {
		t.Errorf("the entry that was stored: %v", err)
	}
	if err := l.Append(
		t.Context(),
		runs.Entry{Kind: runs.Out, Time: 3, Body: []byte("x\n")},
	); !errors.Is(err, runs.ErrMoved) ||
		!l.Mark().Cancelled {
		t.Errorf("the next entry: %v, %+v; want that the log has moved, to the cancel", err, l.Mark())
	}
	if b.fired != 2 {
		t.Errorf("%d pieces were lost, want 2", b.fired)
	}
}

// A request that is pending when the connection breaks gets no answer. The log repeats
// it as soon as the connection is restored, not a minute later: meanwhile its run would
// be stalled, and a worker that checks a task would take no other.
func TestRequestLostWithItsConnectionIsAskedAgainSoon(t *testing.T) {
	t.Parallel()
	b, client := through(t)
	first, err := client.OpenLog(t.Context(), "codex", "a", runs.Mark{})
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Append(t.Context(), runs.Entry{Kind: runs.Started, Time: 1, Body: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	b.arm("$JS.API.STREAM.MSG.GET."+bustest.Names.Raw(), true)
	ctx, cancel := context.WithTimeout(t.Context(), fixture.Patience)
	defer cancel()
	l, err := client.OpenLog(ctx, "codex", "a", runs.Mark{})
	if err != nil {
		t.Fatalf("the log cannot be read 20s after a request was lost: %v", err)
	}
	if m := l.Mark(); m.Seq != 1 || !m.Started {
		t.Errorf("the log has %+v", m)
	}
	if b.fired != 1 {
		t.Errorf("%d requests were lost, want 1", b.fired)
	}
}

// An entry was stored, and its answer lost; while its writer was disconnected, another
// one ended the run after it. The entry is the writer's own, but the next append must
// return that the log has moved: otherwise it would write after the exit, and no process
// would stop the agent.
func TestExitBehindAnEntryWhoseAnswerIsLostStopsTheWriter(t *testing.T) {
	t.Parallel()
	_, b := serve(t)
	l, err := b.OpenLog(t.Context(), "codex", "a", runs.Mark{})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Append(t.Context(), runs.Entry{Kind: runs.Started, Time: 1, Body: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	out := runs.Entry{Kind: runs.Out, Time: 2, Body: []byte("x\n")}
	if _, err := l.Publish(t.Context(), out); err != nil { // stored; the writer gets no answer
		t.Fatal(err)
	}
	if _, err := b.AppendIf(t.Context(), "codex", "a", runs.Mark{}, func(m runs.Mark) *runs.Entry {
		if m.Exited {
			return nil
		}
		return &runs.Entry{Kind: runs.Exited, Time: 3, Body: runs.Encode(runs.Exit{Reason: runs.ReasonLost})}
	}); err != nil {
		t.Fatal(err)
	}
	b.Reconnected() // simulates a reconnect
	if err := l.Append(t.Context(), out); err != nil {
		t.Fatalf("the entry that was stored: %v", err)
	}
	err = l.Append(t.Context(), runs.Entry{Kind: runs.Out, Time: 4, Offset: 2, Body: []byte("y\n")})
	if !errors.Is(err, runs.ErrMoved) {
		t.Errorf("the entry behind the exit: %v, want that the log has moved", err)
	}
	if last := bustest.LastSeq(t, b.JetStream(), b.Raw()); last != 3 {
		t.Errorf("RAW ends at %d, want the exit at 3", last)
	}
}

// Another writer appended to the log, and reading its entries is interrupted: nothing
// may be stored after unread entries, such as a cancel.
func TestNothingIsStoredBehindWhatWasNotRead(t *testing.T) {
	t.Parallel()
	b, client := through(t)
	open := func() *bus.RawLog {
		l, err := client.OpenLog(t.Context(), "codex", "a", runs.Mark{})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	ours := open()
	if err := ours.Append(t.Context(), runs.Entry{Kind: runs.Started, Time: 1, Body: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	theirs := open()
	for _, kind := range []runs.Kind{runs.Note, runs.Cancelled} {
		if err := theirs.Append(t.Context(), runs.Entry{Kind: kind, Time: 2, Body: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
	}
	b.arm(`{"seq":2,`, false)
	err := ours.Append(t.Context(), runs.Entry{Kind: runs.Out, Time: 3, Body: []byte("x\n")})
	if m := ours.Mark(); !errors.Is(err, runs.ErrMoved) || !m.Cancelled || m.Seq != 3 {
		t.Errorf("got %v and %+v, want that the log has moved, to the cancel at 3", err, m)
	}
	if b.fired != 1 {
		t.Errorf("%d requests were lost, want 1", b.fired)
	}
}

// RAW was lost and recreated, and no process has written to this run's log since: that
// differs from a log whose entries have expired. Its writer must learn that everything
// must be sent again.
func TestLogInARecreatedRawIsEmpty(t *testing.T) {
	t.Parallel()
	_, client := through(t)
	l, err := client.OpenLog(t.Context(), "codex", "a", runs.Mark{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range int64(3) {
		if err := l.Append(
			t.Context(),
			runs.Entry{Kind: runs.Out, Time: i + 1, Offset: 2 * i, Body: []byte("x\n")},
		); err != nil {
			t.Fatal(err)
		}
	}
	known := l.Mark()
	if err := client.JetStream().DeleteStream(t.Context(), client.Raw()); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Ensure(t.Context(), bus.DefaultLimits()); err != nil {
		t.Fatal(err)
	}
	if err := l.Append(
		t.Context(),
		runs.Entry{Kind: runs.Out, Time: 4, Offset: 6, Body: []byte("x\n")},
	); !errors.Is(err, runs.ErrMoved) ||
		l.Mark() != (runs.Mark{At: 3}) {
		t.Errorf("got %v and %+v, want that the log has moved, to nothing", err, l.Mark())
	}
	again, err := client.OpenLog(t.Context(), "codex", "a", known)
	if err != nil || again.Mark() != (runs.Mark{At: 3}) {
		t.Errorf("opened again: %v and %+v, want nothing", err, again.Mark())
	}

	// An expired log is known by its mark, as before.
	if err := again.Append(t.Context(), runs.Entry{Kind: runs.Out, Time: 5, Body: []byte("x\n")}); err != nil {
		t.Fatal(err)
	}
	known = again.Mark()
	bustest.Purge(t, client.JetStream(), client.Raw())
	if aged, err := client.OpenLog(t.Context(), "codex", "a", known); err != nil || aged.Mark() != known {
		t.Errorf("aged out: %v and %+v, want %+v", err, aged.Mark(), known)
	}
}

// A submission is stored, and whoever waits for it is gone before the answer: a client that has waited long enough.
// Its task is not taken off the queue: the run would be shown as queued until it ends as lost, also to the client that
// asks again.
func TestSubmissionWhoseCallerIsGoneIsQueuedAllTheSame(t *testing.T) {
	t.Parallel()
	b, client := through(t)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	b.armLate("PUB " + bustest.Names.RawSubject("codex", "T-1"))
	done := make(chan error, 1)
	go func() {
		_, _, err := client.Submit(ctx, bus.DefaultQueue, bustest.Task("T-1"), 1)
		done <- err
	}()
	b.waitFired(t, 1)
	leave()
	b.waitFired(t, 2)
	b.release()
	if err := <-done; err != nil {
		t.Errorf("the submission that was stored: %v", err)
	}
	if v, err := client.Peek(t.Context(), "T-1"); err != nil || v.State != runs.StateQueued {
		t.Errorf("the run: %+v, %v", v, err)
	}
	if queued, err := client.Queued(t.Context(), bus.DefaultQueue, "T-1"); err != nil || !queued {
		t.Errorf("its task is queued: %v, %v", queued, err)
	}
}
