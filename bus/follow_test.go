package bus

import (
	"context"
	"errors"
	"testing"

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
