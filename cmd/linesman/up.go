package main

import "context"

type upCmd struct {
	NATSListen string `name:"nats-listen" setting:"nats_listen" placeholder:"HOST:PORT" help:"${nats_listen}"`
	Demo       bool   `help:"Show what it does: run a recorded agent once everything is ready."`
}

// Help is printed by `linesman up --help`.
func (upCmd) Help() string {
	return `Workers, normalizer, responder and an embedded NATS server, all in one process. Only one of them can have a
data directory. Once it is ready it prints one line on stdout,

    ready nats=URL http=URL data=DIR

and writes the same to linesman.json in the data directory, where the other commands find it. SIGTERM or Ctrl-C ends it
in order; agents that run go on under their limits, and the next start finds them.

Examples:

    linesman up
    linesman up --data-dir ./data --nats-listen 127.0.0.1:0

Exit status: 0 ended by a signal, 1 failed, 2 bad flags or settings.`
}

func (c *upCmd) Run(ctx context.Context, a *app) error { return errNotBuilt }
