package bus

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/linesman/linesman/runs"
)

// Who begins to follow while the server is away waits for it, as one does who
// has begun before.
func TestFollowingBeginsOnceTheServerIsBack(t *testing.T) {
	t.Parallel()
	s, b := serve(t)
	interleave(t, b, map[string][]runs.Entry{"a": corpusLog(t, "hello", 4096)}, "a")
	normalize(t, b)
	gone := s.now()
	gone.Shutdown()
	gone.WaitForShutdown()
	until(t, "the connection is not lost", b.public.IsReconnecting)

	enough := errors.New("enough")
	read := make(chan error, 1)
	go func() {
		read <- b.Read(t.Context(), Filter{Run: "a", Follow: true}, func(Stored) error { return enough })
	}()
	if err := b.Read(t.Context(), Filter{Run: "a"}, func(Stored) error { return nil }); err == nil {
		t.Error("who does not follow is told nothing of a server that is away")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Read(ended, Filter{Run: "a", Follow: true}, func(Stored) error { return enough }); err != nil {
		t.Errorf("ended before it began: %v", err)
	}
	select {
	case err := <-read:
		t.Fatalf("it ended without a server: %v", err)
	default:
	}
	if err := s.restart(); err != nil {
		t.Fatal(err)
	}
	if err := <-read; !errors.Is(err, enough) {
		t.Errorf("once the server is back: %v", err)
	}
}

// The connection breaks while a reader waits for its first answer, and is there
// again long before the reader gives that answer up.
func TestReaderWhoseFirstAnswerIsLostAsksAgain(t *testing.T) {
	t.Parallel()
	for _, follow := range []bool{true, false} {
		b, bus := through(t)
		many(t, bus, 1)
		b.arm("$JS.API.STREAM.INFO."+bus.Names.Events(), true)
		enough := errors.New("enough")
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		if err := bus.Read(ctx, Filter{Follow: follow}, func(Stored) error { return enough }); !errors.Is(err, enough) {
			t.Errorf("follow %t: %v, want the event", follow, err)
		}
		cancel()
		b.waitFired(t, 1)
	}
}

// A follower waits for an answer however long it takes, but not for one that
// the server has refused to give.
func TestFollowerWithoutPermissionEndsAtOnce(t *testing.T) {
	t.Parallel()
	s, b := serve(t)
	many(t, b, 1)
	stranger := connect(t, s, WorkerUser)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := stranger.Read(ctx, Filter{Follow: true}, func(Stored) error { return nil }); !errors.Is(err, ErrDenied) {
		t.Errorf("got %v, want ErrDenied", err)
	}
}
