// Package bustest is the test support of the packages below bus: servers with their
// streams, recorded runs as raw logs, and the contents of streams. Only tests import
// it.
package bustest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
)

// Names are the names that all tests use.
var Names = bus.Names{Prefix: bus.DefaultPrefix}

// Server is an embedded server.
type Server interface {
	Connect(ctx context.Context, user string, names bus.Names, log *zap.Logger) (*bus.Bus, error)
	Stop()
}

// Serve starts a server for the test, with its streams. The bus is that of the
// operator.
func Serve[S Server](t testing.TB,
	start func(dir, address string, names bus.Names, log *zap.Logger) (S, error)) (S, *bus.Bus) {
	t.Helper()
	log := zap.NewNop()
	if testing.Verbose() {
		log = zaptest.NewLogger(t)
	}
	s, err := start(t.TempDir(), fixture.FreeAddresses(t, 1)[0], Names, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	b := Connect(t, s, "operator")
	EnsureSmall(t, b)
	return s, b
}

// Subscribe calls f with each message of a subject, one at a time. At the end
// of the test, and when stop is called, it returns from the last call: then what
// f has written may be read.
func Subscribe(t testing.TB, conn *nats.Conn, subject string, f nats.MsgHandler) (stop func()) {
	t.Helper()
	sub, err := conn.Subscribe(subject, f)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	sub.SetClosedHandler(func(string) { close(ended) })
	stop = sync.OnceFunc(func() {
		_ = sub.Unsubscribe() // fails where the connection has ended, and this with it
		<-ended
	})
	t.Cleanup(stop)
	if err := conn.FlushTimeout(fixture.Patience); err != nil {
		t.Fatal(err)
	}
	return stop
}

// Connect connects to a server as one of its users.
func Connect(t testing.TB, s Server, user string) *bus.Bus {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), fixture.Patience)
	defer cancel()
	b, err := s.Connect(ctx, user, Names, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// Corpus returns the directory of the recorded runs of Codex.
func Corpus(t testing.TB) string {
	t.Helper()
	for up := ".."; len(up) < 32; up = filepath.Join(up, "..") {
		dir := filepath.Join(up, "test", "corpus", "codex")
		if _, err := os.Stat(dir); err == nil {
			return dir
		}
	}
	t.Fatal("no corpus above the test's directory")
	return ""
}

// CorpusLog returns a recorded run as a raw log, in chunks of at most size bytes.
func CorpusLog(t testing.TB, name string, size int) []runs.Entry {
	t.Helper()
	out, err := os.ReadFile(filepath.Join(Corpus(t), name+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	log := []runs.Entry{{Kind: runs.Started, Time: 1_000, Body: runs.Encode(runs.Start{Source: "run"})}}
	for at := 0; at < len(out); at += size {
		log = append(log,
			runs.Entry{Kind: runs.Out, Time: int64(2_000 + at), Offset: int64(at), Body: out[at:min(at+size, len(out))]})
	}
	code := 0
	return append(log,
		runs.Entry{Kind: runs.Exited, Time: 9_000, Body: runs.Encode(runs.Exit{Reason: runs.ReasonExited, Code: &code})})
}

// Interleave appends the logs of several runs to RAW, an entry of each in turn.
func Interleave(t testing.TB, b *bus.Bus, logs map[string][]runs.Entry, order ...string) {
	t.Helper()
	open := map[string]*bus.RawLog{}
	for _, id := range order {
		l, err := b.OpenLog(t.Context(), "codex", id, runs.Mark{})
		if err != nil {
			t.Fatal(err)
		}
		open[id] = l
	}
	for i := 0; ; i++ {
		more := false
		for _, id := range order {
			if i < len(logs[id]) {
				more = true
				if err := open[id].Append(t.Context(), logs[id][i]); err != nil {
					t.Fatal(err)
				}
			}
		}
		if !more {
			return
		}
	}
}

// LastSeq returns the last sequence of a stream.
func LastSeq(t testing.TB, js jetstream.JetStream, stream string) uint64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), fixture.Patience) // in place of the five seconds of a request
	defer cancel()
	s, err := js.Stream(ctx, stream)
	if err != nil {
		t.Fatal(err)
	}
	return s.CachedInfo().State.LastSeq
}

// Dump returns the content of a stream, one line per message.
func Dump(t testing.TB, js jetstream.JetStream, stream string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), fixture.Patience)
	defer cancel()
	s, err := js.Stream(ctx, stream)
	if err != nil {
		t.Fatal(err)
	}
	state := s.CachedInfo().State
	var out []string
	for seq := state.FirstSeq; seq <= state.LastSeq && state.Msgs > 0; seq++ {
		m, err := s.GetMsg(ctx, seq)
		if err != nil {
			t.Fatalf("%s %d: %v", stream, seq, err)
		}
		out = append(out, fmt.Sprintf("%d %s %s %s", seq, m.Subject, m.Header.Get(bus.HeaderPos), m.Data))
	}
	return out
}

// EachStored calls f with each message that is stored in any stream of both accounts.
func EachStored(t testing.TB, b *bus.Bus, f func(stream, subject string, header nats.Header, body []byte)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), fixture.Patience) // in place of the five seconds of a request
	defer cancel()
	for _, js := range []jetstream.JetStream{b.JetStream(), b.PublicJetStream()} {
		list := js.ListStreams(ctx)
		for info := range list.Info() {
			s, err := js.Stream(ctx, info.Config.Name)
			if err != nil {
				t.Fatal(err)
			}
			for seq := info.State.FirstSeq; seq <= info.State.LastSeq && info.State.Msgs > 0; seq++ {
				m, err := s.GetMsg(ctx, seq)
				if errors.Is(err, jetstream.ErrMsgNotFound) {
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				f(info.Config.Name, m.Subject, m.Header, m.Data)
			}
		}
		if err := list.Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// Diff fails the test if two dumps differ.
func Diff(t testing.TB, what string, got, want []string) {
	t.Helper()
	at := func(all []string, i int) string {
		if i < len(all) {
			return all[i]
		}
		return "(nothing)"
	}
	for i := range max(len(got), len(want)) {
		if g, w := at(got, i), at(want, i); g != w {
			t.Fatalf("%s: %d messages, want %d; first difference at %d:\n got %.300s\nwant %.300s",
				what, len(got), len(want), i, g, w)
		}
	}
}

// Remake deletes a stream and creates it again. The server may restore the messages of
// a stream that was removed just before: then Remake repeats it.
func Remake(t testing.TB, b *bus.Bus, js jetstream.JetStream, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), fixture.Patience)
	defer cancel()
	for range 100 {
		if err := js.DeleteStream(ctx, name); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Ensure(ctx, bus.DefaultLimits()); err != nil {
			t.Fatal(err)
		}
		if LastSeq(t, js, name) == 0 {
			return
		}
	}
	t.Fatalf("%s still has its messages after it was recreated", name)
}

// Until polls until holds returns true, or fails the test with the text what.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(fixture.Patience)
	for !holds() {
		select {
		case <-deadline:
			t.Fatal(what)
		case <-tick.C:
		}
	}
}

// Fill stores small events of a run in an EVENTS without another writer, until it has
// the given number.
func Fill(t testing.TB, b *bus.Bus, events int) {
	t.Helper()
	Until(t, "the events are not stored", func() bool {
		have := LastSeq(t, b.PublicJetStream(), b.Events())
		for i := have + 1; i <= uint64(events); i++ {
			e := NewEvent(b, "x", int(i), []byte("{}"))
			e.Header.Set(bus.HeaderPos, string(bus.AppendPos(nil, normalizer.Pos{Raw: i})))
			_, err := b.PublicJetStream().PublishMsg(t.Context(), e, jetstream.WithExpectLastSequence(i-1))
			var refused *jetstream.APIError
			switch {
			case errors.Is(err, context.DeadlineExceeded),
				errors.As(err, &refused) && refused.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence:
				return false // a busy machine: continue at
			case err != nil:
				t.Fatal(err)
			}
		}
		return true
	})
}

// NewEvent returns a small event of a run, as the normalizer writes it.
func NewEvent(b *bus.Bus, run string, raw int, body []byte) *nats.Msg {
	return &nats.Msg{
		Subject: b.EventSubject("codex", run, "status"),
		Data:    body,
		Header: nats.Header{
			bus.HeaderPos: {string(bus.AppendPos(nil, normalizer.Pos{Raw: uint64(raw), Line: 1, Part: 1, Time: 1}))},
		},
	}
}

// Task returns a task of a run.
func Task(run string) runs.QueuedTask {
	task := runs.Task{Attributes: runs.Attributes{Agent: "codex", Mode: runs.ReadOnly}, Prompt: "Fix it."}
	return runs.QueuedTask{Run: run, Task: task}
}

// Submit adds a task to the default queue, and returns its sequence there.
func Submit(t testing.TB, b *bus.Bus, run string) uint64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), fixture.Patience)
	defer cancel()
	work, _, err := b.Submit(ctx, bus.DefaultQueue, Task(run), 1000)
	if err != nil {
		t.Fatal(err)
	}
	return work
}

// Take returns the next task of the default queue.
func Take(t testing.TB, b *bus.Bus) *bus.Delivery {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), fixture.Patience)
	defer cancel()
	d, err := b.Queue(bus.DefaultQueue).Next(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Recorded waits until the record of a run is final, and returns it.
func Recorded(t testing.TB, b *bus.Bus, run string) *runs.Record {
	t.Helper()
	var rec *runs.Record
	Until(t, run+" has not ended", func() bool {
		r, ok, err := b.Record(t.Context(), run)
		if err != nil {
			t.Fatal(err)
		}
		rec = r
		return ok && rec.State.Final()
	})
	return rec
}

// Ended waits for the completion of a run.
func Ended(t testing.TB, b *bus.Bus, run string) {
	t.Helper()
	Until(t, "run "+run+" has no completion", func() bool {
		completion, _, err := b.EventsEnd(t.Context(), "*", run)
		return err == nil && completion != 0
	})
}

// Background calls run in a goroutine, and stops it at the end of the test.
func Background(t testing.TB, run func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// ServePlain starts a server as operators have them, with one account and without
// credentials, and returns its URL. Without a limit in o there is none for its store:
// that of the server depends on the free space of the disk.
func ServePlain(t testing.TB, o server.Options) string {
	t.Helper()
	o.Host, o.Port, o.JetStream, o.StoreDir, o.NoSigs, o.NoLog = "127.0.0.1", -1, true, t.TempDir(), true, true
	o.JetStreamMaxStore = cmp.Or(o.JetStreamMaxStore, 1<<50)
	s, err := server.NewServer(&o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(fixture.Patience) {
		t.Fatal("the server does not start")
	}
	return s.ClientURL()
}

// ConnectPlain connects to a server by its URL.
func ConnectPlain(t testing.TB, url string) *bus.Bus {
	t.Helper()
	b, err := bus.Connect(t.Context(), bus.Login{URL: url}, bus.Login{}, Names, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// EnsureSmall creates the streams with small sizes.
func EnsureSmall(t testing.TB, b *bus.Bus) {
	t.Helper()
	limits := bus.DefaultLimits()
	limits.RawBytes, limits.EventsBytes, limits.RunsBytes = 1<<28, 1<<28, 1<<26
	ctx, cancel := context.WithTimeout(t.Context(), fixture.Patience)
	defer cancel()
	if _, err := b.Ensure(ctx, limits); err != nil {
		t.Fatal(err)
	}
}
