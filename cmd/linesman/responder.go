package main

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/linesman/linesman/bus"
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
	if _, _, err := a.logins(bus.ResponderUser); err != nil { // no waiting mends it
		return err
	}
	f, err := a.newFront(a.config.HTTP)
	if err != nil {
		return err
	}
	serving := f.begin(ctx)
	failed := func(err error) error {
		f.end()
		return errors.Join(quiet(err), <-f.served)
	}
	b, err := a.connectWithRetry(serving, bus.ResponderUser)
	if err != nil {
		return failed(err)
	}
	defer b.Close()
	d, err := a.newDeskBehind(b, f, nil)
	if err != nil {
		return failed(err)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return d.serve(ctx) })
	group.Go(func() error {
		if d.open(ctx) == nil {
			fmt.Fprintf(a.stdout, "ready http=%s\n", d.url())
			a.log.Info("responder ready", zap.String("http", d.url()))
		}
		return nil
	})
	return group.Wait()
}
