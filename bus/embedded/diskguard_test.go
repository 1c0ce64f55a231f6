package embedded

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/reader"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// serve starts a server of the test's own, with its streams.
func serve(t testing.TB) (*Server, *bus.Bus) {
	t.Helper()
	return bustest.Serve(t, StartServer)
}

// A server without free space refuses writes and serves reads. When there is space
// again it accepts writes, with the same limits as before.
func TestServerWithoutRoomTakesNothing(t *testing.T) {
	t.Parallel()
	s, b := serve(t)
	log, err := b.OpenLog(t.Context(), "codex", "x", runs.Mark{})
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Append(
		t.Context(),
		runs.Entry{Kind: runs.Started, Time: 1, Body: runs.Encode(runs.Start{Source: "run"})},
	); err != nil {
		t.Fatal(err)
	}
	limits := func() any {
		account, err := s.current().LookupAccount(PublicAccount)
		if err != nil {
			t.Fatal(err)
		}
		return account.JetStreamUsage().Limits
	}
	before := limits()
	r := NewDiskGuard(s)
	r.block()
	_, err = b.JetStream().Publish(t.Context(), b.RawSubject("codex", "x"), nil)
	var api *jetstream.APIError
	if !errors.As(err, &api) {
		t.Errorf("published: %v", err)
	}
	if errors.Is(err, jetstream.ErrBadRequest) {
		t.Errorf("%v would not be waited for", err)
	}
	if row, err := b.Peek(t.Context(), "x"); err != nil || row.ID != "x" {
		t.Errorf("read: %+v, %v", row, err)
	}
	r.unblock()
	if after := limits(); !reflect.DeepEqual(after, before) {
		t.Errorf("limits %+v, want %+v", after, before)
	}
	if err := log.Append(t.Context(), runs.Entry{Kind: runs.Out, Time: 2, Body: []byte("one\n")}); err != nil {
		t.Error(err)
	}
}

// A server that is restarted while its disk is full, as the reader guard does, also
// refuses writes.
func TestServerStartedAgainWithoutRoomTakesNothing(t *testing.T) {
	t.Parallel()
	s, b := serve(t)
	disk := uint64(1 << 20) // less than needed is free
	r := NewDiskGuard(s)
	write := func() error {
		_, err := b.JetStream().Publish(t.Context(), b.RawSubject("codex", "x"), nil)
		return err
	}
	full := func(err error) bool {
		var api *jetstream.APIError
		return errors.As(err, &api) && reader.Shortage(api) != ""
	}
	look := func() {
		t.Helper()
		if err := r.act(time.Now(), disk, 1<<30); err != nil {
			t.Fatal(err)
		}
	}
	if err := write(); err != nil {
		t.Fatal(err)
	}
	look()
	if err := write(); !full(err) {
		t.Errorf("closed: %v", err)
	}
	if err := s.Restart(nil); err != nil {
		t.Fatal(err)
	}
	look()
	bustest.Until(t, "it stores on a full disk", func() bool { return full(write()) })
	disk = 2 << 30
	look()
	bustest.Until(t, "it does not store once there is room", func() bool { return write() == nil })
}

// A restarted server keeps its address and its streams, and connected clients
// reconnect.
func TestServerStartedAgainIsFoundAgain(t *testing.T) {
	t.Parallel()
	s, b := serve(t)
	log, err := b.OpenLog(t.Context(), "codex", "x", runs.Mark{})
	if err != nil {
		t.Fatal(err)
	}
	url := s.URL()
	for i := range 3 {
		if err := log.Append(
			t.Context(),
			runs.Entry{Kind: runs.Note, Time: int64(i), Body: runs.Encode(runs.Remark{Reason: "idle"})},
		); err != nil {
			t.Fatal(err)
		}
		if err := s.Restart(nil); err != nil || s.URL() != url {
			t.Fatalf("%v, at %s", err, s.URL())
		}
	}
	bustest.Until(t, "RAW is not as it was", func() bool {
		raw, err := b.JetStream().Stream(t.Context(), b.Raw())
		return err == nil && raw.CachedInfo().State.Msgs == 3
	})
}

// If a restart fails, for example one of the reader guard, Run retries it once, and
// then returns an error.
func TestServerThatDidNotStartAgainIsStartedOrGivenUp(t *testing.T) {
	t.Parallel()
	closed := func(t *testing.T, s *Server) func() {
		if err := s.socket.Close(); err != nil {
			t.Fatal(err)
		}
		return func() {
			var err error
			if s.socket, err = listen(strings.TrimPrefix(s.URL(), "nats://"), zap.NewNop()); err != nil {
				t.Fatal(err)
			}
		}
	}
	invalid := func(_ *testing.T, s *Server) func() {
		options := s.options
		s.options = func() (*server.Options, error) { return &server.Options{ServerName: "not valid"}, nil }
		return func() { s.options = options }
	}
	for name, spoil := range map[string]func(*testing.T, *Server) func(){"the socket is closed": closed,
		"the options are refused": invalid} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, b := serve(t)
			s.current().Shutdown()
			s.current().WaitForShutdown()
			mend := spoil(t, s)
			if err := s.Restart(nil); err == nil {
				t.Fatal("it starts again")
			}
			if err := NewDiskGuard(s).Run(t.Context()); err == nil {
				t.Error("Run ends without an error")
			}
			mend()
			ctx, cancel := context.WithCancel(t.Context())
			kept := make(chan error, 1)
			go func() { kept <- NewDiskGuard(s).Run(ctx) }()
			bustest.Until(t, "the server is not back", b.Connected)
			cancel()
			if err := <-kept; err != nil {
				t.Error(err)
			}
		})
	}
}

// A nearly full disk blocks writes to the streams.
func TestCauseOfAFullDiskIsReported(t *testing.T) {
	s, err := StartServer(t.TempDir(), "127.0.0.1:0", bustest.Names, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	b, err := s.Connect(bustest.Patient(t), OperatorUser, bustest.Names, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	limits := bus.DefaultLimits()
	limits.RawBytes, limits.EventsBytes, limits.RunsBytes = 1<<28, 1<<28, 1<<26
	if _, err := b.Ensure(t.Context(), limits); err != nil {
		t.Fatal(err)
	}
	r := NewDiskGuard(s)
	r.block()
	defer r.unblock()
	if !fixture.Poll(fixture.Patience, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second) // the writer waits to append the entry to RAW
		defer cancel()
		_, _, err = b.Submit(ctx, bus.DefaultQueue, runs.QueuedTask{Run: "a",
			Task: runs.Task{Attributes: runs.Attributes{Agent: "codex"}, Prompt: "Go."}}, 1)
		return err == nil || strings.HasPrefix(bus.Cause(err), "there is no room: the disk of the server is full")
	}) || err == nil {
		t.Errorf("%v: %q", err, bus.Cause(err))
	}
	if text := b.Explain(err); !strings.Contains(text, "there is no room") || strings.Contains(text, "err_code") {
		t.Errorf("the log says %q", text)
	}
	if err := b.Health(
		t.Context(),
	); err == nil || !strings.HasPrefix(err.Error(), "nothing can be stored: there is no room") ||
		strings.Contains(err.Error(), "err_code") {
		t.Errorf("health says %v", err)
	}
}
