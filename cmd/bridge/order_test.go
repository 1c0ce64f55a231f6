package bridge

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/linesman/linesman/api"
	testfixture "github.com/linesman/linesman/test/fixture"
)

// slowRunner records the calls of its methods. Submit returns when released is closed.
type slowRunner struct {
	runner
	released chan struct{}
	away     int // failures of Expire

	mu  sync.Mutex
	did []string
}

func (r *slowRunner) do(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.did = append(r.did, what)
}

func (r *slowRunner) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.did)
}

func (r *slowRunner) Submit(ctx context.Context, _ job) error {
	r.do("submit")
	select {
	case <-r.released:
	case <-ctx.Done():
		return ctx.Err()
	}
	r.do("submitted")
	return nil
}

func (r *slowRunner) Cancel(context.Context, string, string) error {
	r.do("cancel")
	return nil
}

func (r *slowRunner) Expire(context.Context, string) error {
	if r.away--; r.away >= 0 {
		return &api.Error{Code: api.Unavailable, Retryable: true}
	}
	r.do("expire")
	return nil
}

func (r *slowRunner) Wait(ctx context.Context, _ string) (outcome, error) {
	if slices.Contains(r.all(), "expire") {
		return outcome{Status: statusSuccess, Text: "just in time"}, nil
	}
	<-ctx.Done()
	return outcome{}, ctx.Err()
}

// serve runs a bridge for a request until the test ends.
func serve(t *testing.T, r runner, request string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, ".agent-request.json"), []byte(request), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- newBridge(Config{
			Dirs: []Dir{{Path: dir, Must: true}}, State: t.TempDir(), runner: r, Poll: 10 * time.Millisecond,
			Settle: 20 * time.Millisecond, Retry: 10 * time.Millisecond,
		}).run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return dir
}

// A request is withdrawn while its run is being submitted: the cancel comes after it, or it would find nothing.
func TestCancelComesAfterTheSubmission(t *testing.T) {
	t.Parallel()
	r := &slowRunner{released: make(chan struct{})}
	dir := serve(t, r, `{"request_id": "id-1", "prompt": "Which one?"}`)
	testfixture.Eventually(t, testfixture.Patience, "it is submitted", func() bool { return len(r.all()) == 1 })
	if err := os.Remove(filepath.Join(dir, ".agent-request.json")); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(200*time.Millisecond, func() { close(r.released) }) // it has been seen meanwhile
	testfixture.Eventually(t, testfixture.Patience, "it is cancelled", func() bool {
		return slices.Contains(r.all(), "cancel")
	})
	if did := r.all(); !slices.Equal(did, []string{"submit", "submitted", "cancel"}) {
		t.Errorf("got %v", did)
	}
}

// At the timeout of a request no responder answers for a moment: its answer is not lost.
func TestExpiryOutlastsAnOutage(t *testing.T) {
	t.Parallel()
	r := &slowRunner{released: make(chan struct{}), away: 3}
	close(r.released)
	dir := serve(t, r, `{"request_id": "id-1", "prompt": "Which one?", "timeout_seconds": 0.2}`)
	var response []byte
	testfixture.Eventually(t, testfixture.Patience, "there is a response", func() bool {
		response, _ = os.ReadFile(filepath.Join(dir, ".agent-response.json"))
		return response != nil
	})
	if !strings.Contains(string(response), `"just in time"`) {
		t.Errorf("got %s", response)
	}
}
