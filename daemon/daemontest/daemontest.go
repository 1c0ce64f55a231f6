// Package daemontest runs a daemon for a test.
package daemontest

import (
	"context"
	"testing"

	"github.com/linesman/linesman/config"
	"github.com/linesman/linesman/daemon"
)

// Start runs all roles until the test ends, and returns once they answer. They take
// no tasks and serve no HTTP unless change, which may be nil, sets that.
func Start(tb testing.TB, change func(*config.Config)) *daemon.Daemon {
	tb.Helper()
	s := config.Default()
	s.DataDir, s.NATSListen, s.HTTP, s.Work.MaxRuns = tb.TempDir(), "127.0.0.1:0", "", 0
	if change != nil {
		change(&s)
	}
	d, err := daemon.New(tb.Context(), daemon.Config{Settings: s})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(d.Close)
	ctx, cancel := context.WithCancel(tb.Context())
	ended := make(chan error, 1)
	go func() {
		defer cancel()
		ended <- d.Run(ctx)
	}()
	tb.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			tb.Error(err)
		}
	})
	if err := d.Ready(ctx); err != nil {
		tb.Fatal(err)
	}
	return d
}
