package daemon

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// A part that does not end, such as a server that reads damaged streams, holds up no stop.
func TestStopIsBoundedAndNamesWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		ready  bool
		bySelf bool // by a part that ends, not from outside
		want   time.Duration
	}{
		{"while it starts", false, false, startStopTime},
		{"at work", true, false, stopTime},
		{"by itself", true, true, stopTime},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := Config{}.withDefaults()
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				released := make(chan struct{})
				defer close(released)
				began := time.Now()
				err := c.bounded(ctx, func(_ context.Context, end func()) error {
					c.stages.enter("what has ended")()
					defer c.stages.enter("the worker")()
					if test.ready {
						c.stages.started()
					}
					if test.bySelf {
						end()
					} else {
						stop()
					}
					<-released
					return nil
				})
				if took := time.Since(began); took != test.want {
					t.Errorf("it took %v, want %v", took, test.want)
				}
				if !errors.Is(err, errStop) || !strings.Contains(err.Error(), "still waits for the worker; ") {
					t.Errorf("the error: %v", err)
				}
			})
		})
	}
}

func TestStartThatTakesLongSaysWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.InfoLevel)
		c := Config{Log: zap.New(core)}.withDefaults()
		err := c.bounded(t.Context(), func(context.Context, func()) error {
			left := c.stages.enter("the NATS server")
			time.Sleep(20 * time.Second) // on the fake clock
			left()
			c.stages.started()
			time.Sleep(time.Minute)
			return nil
		})
		said := logs.FilterMessage("still starting").All()
		if err != nil || len(said) != 2 || said[0].ContextMap()["waits_for"] != "the NATS server" {
			t.Errorf("logged %v, %v; want two lines with the NATS server", said, err)
		}
	})
}
