package main

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/responder/mcp"
)

type mcpCmd struct{}

// Help is printed by `linesman mcp --help`.
func (mcpCmd) Help() string {
	return `For the configuration of an MCP client, which starts it and speaks with it over stdin and stdout. It works with the "linesman
up" of this data directory, or the NATS server of --nats; where nothing runs it is an "up" itself, on free ports, for as
long as the client wants it. Agents that run then go on, and the next one finds them.

Examples:

    codex mcp add linesman -- linesman mcp
    claude mcp add linesman -- linesman mcp

Exit status: 0 the client has gone, 1 failed, 2 bad flags or settings, 3 NATS is out of reach.`
}

func (c *mcpCmd) Run(ctx context.Context, a *app) error {
	a.whisper()
	if a.config.NATS == "" {
		lock, err := lockData(a.config.DataDir)
		switch {
		case err == nil:
			defer lock.Close()
			return a.everythingForMCP(ctx)
		case !errors.Is(err, errLocked):
			return err
		}
	}
	b, err := a.connectSoon(ctx, bus.ResponderUser)
	if err != nil {
		return err
	}
	defer b.Close()
	d, err := a.newDesk(b, "")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return d.Run(ctx) })
	group.Go(func() error {
		defer cancel() // the client has gone
		return a.speakMCP(ctx, d)
	})
	return group.Wait()
}

// everythingForMCP is an `up` for as long as there is a client.
func (a *app) everythingForMCP(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return a.everything(ctx, "127.0.0.1:0", "127.0.0.1:0", func(ctx context.Context, _ instance, d *desk) error {
		defer cancel()
		return a.speakMCP(ctx, d)
	})
}

func (a *app) speakMCP(ctx context.Context, d *desk) error {
	if err := mcp.ServeStdio(ctx, mcp.NewServer(d.mcpConfig()), a.stdin, a.stdout); err != nil {
		return fmt.Errorf("MCP: %w", err)
	}
	return nil
}
