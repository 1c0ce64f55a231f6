package main

import (
	"github.com/linesman/linesman/cmd/setup"
)

type setupCmd struct {
	NATS     setupNATSCmd     `cmd:"" name:"nats" help:"Write the files of a NATS cluster for linesman."`
	Sessions setupSessionsCmd `cmd:"" help:"Have agents tell when a session needs you."`
	Webhook  setupWebhookCmd  `cmd:"" name:"webhook-key" help:"Create the key that signs notifications of webhooks."`
}

type setupWebhookCmd struct {
	File string `arg:"" help:"File to write, which must not exist."`
	jsonFlag
}

func (c *setupWebhookCmd) Run(a *app) error {
	done, err := setup.WebhookKey(c.File)
	if err != nil {
		return err
	}
	return a.print(done, func() error { return done.Print(a.stdout) })
}

type setupNATSCmd struct {
	Dir   string `arg:"" help:"Directory to write to. With an existing one its keys are kept."`
	Nodes string `placeholder:"LIST" default:"nats" help:"Servers, one or three: NAME, NAME=HOST or NAME=HOST:PORT, separated by commas (default nats)."`
	Store string `placeholder:"DIR" default:"/var/lib/nats" help:"Directory of the streams on the servers; each has its own below it (default /var/lib/nats)."`
	TLS   string `name:"tls" placeholder:"DIR" help:"Encrypt all connections, with server.pem, server-key.pem and ca.pem in this directory on each server."`
	jsonFlag
}

func (c *setupNATSCmd) Run(a *app) error {
	nodes, err := setup.ParseNodes(c.Nodes)
	if err != nil {
		return exitWith(exitUsage, err)
	}
	done, err := setup.NATS(setup.Config{Dir: c.Dir, Nodes: nodes, Store: c.Store, TLS: c.TLS, Prefix: a.config.Prefix})
	if err != nil {
		return err
	}
	return a.print(done, func() error { return done.Print(a.stdout) })
}
