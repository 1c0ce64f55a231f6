package main

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/daemon"
)

type responderCmd struct {
	HTTP      string `name:"http" setting:"http" placeholder:"HOST:PORT" help:"${http}"`
	LostAfter string `name:"lost-after" setting:"lost_after" placeholder:"DURATION" help:"${lost_after}"`
}

// Help is printed by `linesman responder --help`.
func (responderCmd) Help() string {
	return `Answers requests about runs, and puts tasks on the work queue: over MCP at /mcp of its HTTP server, and as the NATS service
linesman. Any number can run against one NATS cluster and share the requests. Once it is ready it prints one line,

    ready http=URL

Examples:

    linesman responder --nats nats://cluster:4222 --creds responder.creds

While NATS is away or refuses the credentials, and while streams are missing, it says so once and tries again. Meanwhile
/healthz answers 200, and /readyz and all else 503.

Exit status: 0 ended by a signal, 1 failed, 2 bad flags or settings, 3 no server is named, and no "linesman up" is running here.`
}

func (c *responderCmd) Run(ctx context.Context, a *app) error {
	if _, _, err := a.logins(embedded.ResponderUser); err != nil { // no waiting mends it
		return err
	}
	roles, err := a.roles()
	if err != nil {
		return err
	}
	r, err := daemon.NewResponder(roles, func(ctx context.Context) (*bus.Bus, error) {
		return a.connectWithRetry(ctx, embedded.ResponderUser)
	})
	if err != nil {
		return listenHint(err)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return r.Run(ctx) })
	group.Go(func() error {
		if r.Ready(ctx) == nil {
			fmt.Fprintf(a.stdout, "ready http=%s\n", r.URL())
			a.log.Info("responder ready", zap.String("http", r.URL()))
		}
		return nil
	})
	return group.Wait()
}

// listenHint is an error of building roles with the flag that repairs it.
func listenHint(err error) error {
	const hint = "choose another address, or port 0 for a free one"
	var http *daemon.ListenError
	switch {
	case errors.As(err, &http):
		return fmt.Errorf("--http: %w; %s", http.Err, hint)
	case errors.Is(err, embedded.ErrListen):
		return fmt.Errorf("--nats-listen: %w; %s", err, hint)
	}
	return err
}
