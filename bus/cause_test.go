package bus_test

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

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// codeStoreFailed is the code for a stream that could not store a message.
const codeStoreFailed = 10077

// A server that belongs to no cluster holds no elections.
func TestMissingAnswerIsNotCalledAnElectionWithoutACluster(t *testing.T) {
	_, b := serve(t)
	for _, err := range []error{context.DeadlineExceeded, nats.ErrTimeout, jetstream.ErrNoStreamResponse} {
		err = fmt.Errorf("stream RAW: %w", err)
		if text := b.Cause(err) + b.Explain(err); strings.Contains(text, "leader") || strings.Contains(text, "election") {
			t.Errorf("%v: cause %q, why %q", err, b.Cause(err), b.Explain(err))
		}
	}
	late := fmt.Errorf("stream RAW: %w", context.DeadlineExceeded)
	if cause, text := b.Cause(
		late,
	), b.Explain(
		late,
	); !strings.HasPrefix(cause, "no answer in time") ||
		text != "stream RAW: no answer in time" {
		t.Errorf("cause %q, why %q", cause, text)
	}
}

func TestServerWithoutSpaceForAStreamIsReported(t *testing.T) {
	b := bustest.ConnectPlain(t, bustest.ServePlain(t, server.Options{JetStreamMaxStore: 1 << 30}))
	_, err := b.Ensure(t.Context(), bus.DefaultLimits())
	for _, want := range []string{"stream KV_linesman_runs: ", "no room for its 1024 MiB in 1 copies", "runs.max_bytes",
		"max_file_store", "insufficient storage"} {
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(b.Explain(err), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

// The server has one code for all errors of its files: most of them are not a lack of
// space.
func TestWhatTheServerCannotStoreIsNotCalledAFullDisk(t *testing.T) {
	t.Parallel()
	b := bustest.ConnectPlain(t, bustest.ServePlain(t, server.Options{JetStreamMaxStore: 1 << 30, MaxPayload: 48 << 20}))
	limits := bus.DefaultLimits()
	limits.RawBytes, limits.EventsBytes, limits.RunsBytes = 1<<26, 1<<26, 1<<26
	if _, err := b.Ensure(t.Context(), limits); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // without a deadline it is some seconds
	defer cancel()
	_, err := b.JetStream().
		Publish(ctx, b.RawSubject("codex", "x"), make([]byte, 33<<20))
		// more than a file takes at once
	var api *jetstream.APIError
	if !errors.As(err, &api) || api.ErrorCode != codeStoreFailed {
		t.Fatalf("got %v, want error code %d", err, codeStoreFailed)
	}
	if text := err.Error() + b.Explain(
		err,
	) + bus.Cause(
		err,
	); strings.Contains(text, "no room") ||
		strings.Contains(text, "full") {
		t.Errorf("it is called a full disk: %v: cause %q, why %q", err, bus.Cause(err), b.Explain(err))
	}
	if want := "the server could not store it: " + api.Description; bus.Cause(err) != want {
		t.Errorf("cause %q, want %q", bus.Cause(err), want)
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
		if got := bus.Cause(err); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
		if got := bus.NoRoom(err); got != strings.Contains(text, "no space") {
			t.Errorf("%s: no room for a stream: %t", text, got)
		}
	}
}

// One node of three cannot choose a leader.
func TestClusterWithoutALeaderIsReported(t *testing.T) {
	route := &url.URL{Scheme: "nats", Host: "127.0.0.1:1"}
	b := bustest.ConnectPlain(t, bustest.ServePlain(t, server.Options{
		ServerName: "a", Cluster: server.ClusterOpts{Name: "three", Host: "127.0.0.1", Port: -1}, Routes: []*url.URL{route},
	}))
	var err error
	if !fixture.Poll(fixture.Patience, func() bool { // a server that has no time says nothing
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = b.Ensure(ctx, bus.DefaultLimits())
		return err != nil && strings.Contains(b.Cause(err), "has no leader now") &&
			strings.Contains(b.Explain(err), "stream KV_linesman_state: ") &&
			strings.Contains(b.Explain(err), "no leader now, as during an election, and is tried again")
	}) {
		t.Errorf("%v: cause %q, why %q", err, b.Cause(err), b.Explain(err))
	}
}
