package bus

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/linesman/linesman/runs"
)

// A disk that is nearly full closes the streams to writers.
func TestCauseOfAFullDiskIsSaid(t *testing.T) {
	s, err := StartServer(t.TempDir(), "127.0.0.1:0", testNames, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	b, err := s.Connect(t.Context(), OperatorUser, testNames, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	limits := DefaultLimits()
	limits.RawBytes, limits.EventsBytes, limits.RunsBytes = 1<<28, 1<<28, 1<<26
	if _, err := b.Ensure(t.Context(), limits); err != nil {
		t.Fatal(err)
	}
	r := &room{server: s, log: zap.NewNop()}
	r.close()
	defer r.open()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second) // the entry in RAW is waited for
	defer cancel()
	_, _, err = b.Submit(ctx, DefaultQueue, runs.Task{Run: "a", Agent: "codex", Prompt: "Go."}, 1)
	if err == nil || !strings.HasPrefix(Cause(err), "there is no room: the disk of the server is full") {
		t.Errorf("%v: %q", err, Cause(err))
	}
	if text := b.why(err); !strings.Contains(text, "there is no room") || strings.Contains(text, "err_code") {
		t.Errorf("the log says %q", text)
	}
	if err := b.Health(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "nothing can be stored: there is no room") || strings.Contains(err.Error(), "err_code") {
		t.Errorf("health says %v", err)
	}
}

// A server that belongs to no cluster holds no elections.
func TestMissingAnswerIsNotCalledAnElectionWithoutACluster(t *testing.T) {
	_, b := serve(t)
	for _, err := range []error{context.DeadlineExceeded, nats.ErrTimeout, jetstream.ErrNoStreamResponse} {
		err = fmt.Errorf("stream RAW: %w", err)
		if text := b.Cause(err) + b.why(err); strings.Contains(text, "leader") || strings.Contains(text, "election") {
			t.Errorf("%v: cause %q, why %q", err, b.Cause(err), b.why(err))
		}
	}
	late := fmt.Errorf("stream RAW: %w", context.DeadlineExceeded)
	if cause, text := b.Cause(late), b.why(late); !strings.HasPrefix(cause, "no answer in time") || text != "stream RAW: no answer in time" {
		t.Errorf("cause %q, why %q", cause, text)
	}
}

// whatever is a server of its own with other options.
func whatever(t *testing.T, o *server.Options) *Bus {
	t.Helper()
	o.Host, o.Port, o.JetStream, o.StoreDir, o.NoSigs, o.NoLog = "127.0.0.1", -1, true, t.TempDir(), true, true
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server does not start")
	}
	b, err := Connect(t.Context(), Login{URL: s.ClientURL()}, Login{}, testNames, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

func TestServerWithoutRoomForAStreamIsSaid(t *testing.T) {
	b := whatever(t, &server.Options{JetStreamMaxStore: 1 << 30})
	_, err := b.Ensure(t.Context(), DefaultLimits())
	for _, want := range []string{"stream KV_linesman_runs: ", "no room for its 1024 MiB in 1 copies", "runs.max_bytes", "max_file_store", "insufficient storage"} {
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(b.why(err), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

// The server has one code for all that its files refuse: most of that is no
// want of room.
func TestWhatTheServerCannotStoreIsNotCalledAFullDisk(t *testing.T) {
	t.Parallel()
	b := whatever(t, &server.Options{JetStreamMaxStore: 1 << 30, MaxPayload: 48 << 20})
	limits := DefaultLimits()
	limits.RawBytes, limits.EventsBytes, limits.RunsBytes = 1<<26, 1<<26, 1<<26
	if _, err := b.Ensure(t.Context(), limits); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // without one, some seconds
	defer cancel()
	_, err := b.js.Publish(ctx, b.RawSubject("codex", "x"), make([]byte, 33<<20)) // more than a file takes at once
	var api *jetstream.APIError
	if !errors.As(err, &api) || api.ErrorCode != codeStoreFailed {
		t.Fatalf("got %v, want error code %d", err, codeStoreFailed)
	}
	if text := err.Error() + b.why(err) + Cause(err); strings.Contains(text, "no room") || strings.Contains(text, "full") {
		t.Errorf("it is called a full disk: %v: cause %q, why %q", err, Cause(err), b.why(err))
	}
	if want := "the server could not store it: " + api.Description; Cause(err) != want {
		t.Errorf("cause %q, want %q", Cause(err), want)
	}
}

func TestCodeOfAFullDiskAndOfAFullStream(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"write 1.blk: no space left on device": "there is no room: ",
		"maximum messages exceeded":            "a stream is full: maximum messages exceeded",
		"store is closed":                      "the server could not store it: store is closed",
	} {
		err := fmt.Errorf("stream RAW: %w", &jetstream.APIError{ErrorCode: codeStoreFailed, Description: text})
		if got := Cause(err); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
		if got := noRoom(err); got != strings.Contains(text, "no space") {
			t.Errorf("%s: no room for a stream: %t", text, got)
		}
	}
}

// One node of three cannot choose a leader.
func TestClusterWithoutALeaderIsSaid(t *testing.T) {
	route := &url.URL{Scheme: "nats", Host: "127.0.0.1:1"}
	b := whatever(t, &server.Options{
		ServerName: "a", Cluster: server.ClusterOpts{Name: "three", Host: "127.0.0.1", Port: -1}, Routes: []*url.URL{route},
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := b.Ensure(ctx, DefaultLimits())
	if err == nil || !strings.Contains(b.Cause(err), "has no leader now") || !strings.Contains(b.why(err), "stream KV_linesman_state: ") ||
		!strings.Contains(b.why(err), "no leader now, as during an election, and is tried again") {
		t.Errorf("%v: cause %q, why %q", err, b.Cause(err), b.why(err))
	}
}
