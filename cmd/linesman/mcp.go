package main

import (
	"context"

	"github.com/linesman/linesman/daemon"
)

type mcpCmd struct{}

// Help is printed by `linesman mcp --help`.
func (mcpCmd) Help() string {
	return `For the configuration of an MCP client, which starts it and speaks with it over stdin and stdout. It works with the "linesman
up" of this data directory, which it starts in the background where none runs, or with the NATS server of --nats.

Examples:

    codex mcp add linesman -- linesman mcp
    claude mcp add linesman -- linesman mcp

Exit status: 0 the client has gone, 1 failed, 2 bad flags or settings, 3 NATS is out of reach.`
}

func (c *mcpCmd) Run(ctx context.Context, a *app) error {
	a.whisper()
	return a.withService(ctx, func(ctx context.Context, s *daemon.Service) error {
		return s.ServeMCP(ctx, a.stdin,
			a.stdout)
	})
}
