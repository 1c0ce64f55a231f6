// Command linesman publishes what coding agents do as events on NATS, and reports the state of their runs.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	ctx, _ := untilSignal(context.Background(), signals)
	context.AfterFunc(ctx, func() { signal.Stop(signals) }) // a second signal ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}
