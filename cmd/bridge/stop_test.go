package bridge

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// goneRunner never has an answer. At the end of a request's time it is being stopped.
type goneRunner struct {
	runner
	stop func()
}

func (r *goneRunner) Submit(context.Context, job) error { return errors.New("NATS is away") }

func (r *goneRunner) Wait(context.Context, string) (outcome, error) {
	return outcome{}, errors.New("NATS is away")
}

func (r *goneRunner) Expire(context.Context, string) error {
	r.stop()
	return context.Canceled
}

// A bridge that is stopped while a request is in progress writes no response, in particular no timeout: the next bridge
// continues with the request.
func TestStoppedBridgeHasNoOutcome(t *testing.T) {
	t.Parallel()
	for name, age := range map[string]time.Duration{"while it retries": 0, "while it ends the run": 2 * time.Hour} {
		for range 100 {
			ctx, stop := context.WithCancel(t.Context())
			core, logs := observer.New(zap.WarnLevel)
			log := zap.New(core, zap.Hooks(func(zapcore.Entry) error {
				stop()
				return nil
			}))
			w := &dirWatcher{bridge: newBridge(Config{runner: &goneRunner{stop: stop}, Retry: time.Hour}), log: log}
			e := entry{ID: "id-1", Run: "T-local-1", At: time.Now().Add(-age).UnixMilli(), Timeout: time.Hour.Milliseconds()}
			o, err := w.outcome(ctx, requestFile{ID: e.ID, Prompt: "Which one?"}, e, false)
			stop()
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("%s: got %+v, %v, want that it was stopped\n%v", name, o, err, logs.All())
			}
		}
	}
}
