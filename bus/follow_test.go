package bus_test

import (
	"context"
	"errors"
	"testing"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// A reader that starts to follow while the server is unreachable waits for it.
func TestFollowingBeginsOnceTheServerIsBack(t *testing.T) {
	t.Parallel()
	s, b := serve(t)
	bustest.Interleave(t, b, map[string][]runs.Entry{"a": bustest.CorpusLog(t, "hello", 4096)}, "a")
	normalize(t, b)
	back, restarted := make(chan struct{}), make(chan error, 1)
	go func() {
		restarted <- s.Restart(func() error { <-back; return nil })
	}()
	bustest.Until(t, "the connection is not lost", b.PublicJetStream().Conn().IsReconnecting)

	enough := errors.New("enough")
	read := make(chan error, 1)
	go func() {
		read <- b.Read(t.Context(), runs.Selection{Run: "a", Follow: true}, func(bus.Stored) error { return enough })
	}()
	if err := b.Read(t.Context(), runs.Selection{Run: "a"}, func(bus.Stored) error { return nil }); err == nil {
		t.Error("a reader that does not follow gets no error while the server is unreachable")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Read(ended, runs.Selection{Run: "a", Follow: true}, func(bus.Stored) error { return enough }); err != nil {
		t.Errorf("ended before it began: %v", err)
	}
	select {
	case err := <-read:
		t.Fatalf("it ended without a server: %v", err)
	default:
	}
	close(back)
	if err := <-restarted; err != nil {
		t.Fatal(err)
	}
	if err := <-read; !errors.Is(err, enough) {
		t.Errorf("once the server is back: %v", err)
	}
}

// The connection breaks while a reader waits for its first answer, and is restored long
// before that request times out.
func TestReaderWhoseFirstAnswerIsLostAsksAgain(t *testing.T) {
	t.Parallel()
	for _, follow := range []bool{true, false} {
		b, client := through(t)
		bustest.Fill(t, client, 1)
		b.arm("$JS.API.STREAM.INFO."+client.Names.Events(), true)
		enough := errors.New("enough")
		ctx, cancel := context.WithTimeout(t.Context(), fixture.Patience)
		if err := client.Read(
			ctx,
			runs.Selection{Follow: follow},
			func(bus.Stored) error { return enough },
		); !errors.Is(
			err,
			enough,
		) {
			t.Errorf("follow %t: %v, want the event", follow, err)
		}
		cancel()
		b.waitFired(t, 1)
	}
}

// A follower waits for an answer without a limit, but fails if the server denies the
// request.
func TestFollowerWithoutPermissionEndsAtOnce(t *testing.T) {
	t.Parallel()
	s, b := serve(t)
	bustest.Fill(t, b, 1)
	stranger := bustest.Connect(t, s, embedded.WorkerUser)
	ctx, cancel := context.WithTimeout(t.Context(), fixture.Patience)
	defer cancel()
	if err := stranger.Read(
		ctx,
		runs.Selection{Follow: true},
		func(bus.Stored) error { return nil },
	); !errors.Is(
		err,
		bus.ErrDenied,
	) {
		t.Errorf("got %v, want ErrDenied", err)
	}
}

// The events of a run are most of what is stored: no others are delivered with them.
func TestKindsOfARunAreThoseOfNoOtherRun(t *testing.T) {
	t.Parallel()
	_, b := serve(t)
	const each = 600
	for i := range 2 * each {
		run := []string{"mine", "other"}[i%2]
		if _, err := b.PublicJetStream().PublishMsgAsync(bustest.NewEvent(b, run, i+1, []byte("{}"))); err != nil {
			t.Fatal(err)
		}
	}
	<-b.PublicJetStream().PublishAsyncComplete()
	selected := runs.Selection{Run: "mine", Tokens: []string{"completion", "status"}}
	n := 0
	err := b.Read(t.Context(), selected, func(s bus.Stored) error {
		if s.Run != "mine" {
			t.Fatalf("event %d is of run %s", s.Seq, s.Run)
		}
		n++
		return nil
	})
	if err != nil || n != each {
		t.Errorf("%d events, %v; want %d", n, err, each)
	}
}
