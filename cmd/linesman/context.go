package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/linesman/linesman/local"
)

type contextCmd struct {
	User string `arg:"" optional:"" default:"subscriber" enum:"subscriber,operator,worker,normalizer,responder,operator_public,normalizer_public,responder_public" help:"Whom to be: subscriber (default), operator, worker, normalizer or responder; operator_public, normalizer_public and responder_public are who these are in the account of the events."`

	ServerConfig bool   `name:"server-config" help:"Print linesman's accounts, users and permissions as configuration of a nats-server instead."`
	NKey         bool   `name:"nkey" help:"With --server-config: users show NKeys, not certificates."`
	JWT          bool   `name:"jwt" help:"With --server-config: users show credentials files, not certificates."`
	Keys         string `name:"keys" placeholder:"DIR" help:"With --nkey or --jwt: where the secret keys are kept. What is missing is made."`
}

// Help is printed by `linesman context --help`.
func (contextCmd) Help() string {
	return `Prints a context for the nats CLI, or for any program that reads them: where the server is, who to be, and below which
prefix that user may listen for answers. It holds a password: whoever reads the file is that user. The subscriber can
read the events and nothing else; the operator can do everything, and start programs here by it. Save it with

    mkdir -p ~/.config/nats/context
    (umask 077 && linesman context >~/.config/nats/context/linesman.json)

With --nats it names that server and the credentials file of --creds, or for the subscriber and the public users that of
LINESMAN_PUBLIC_CREDS. Where --creds is a directory it names the user's files in there.

With --server-config it prints the same accounts, users and permissions for a nats-server of your own, as a file for its
configuration to include. Users show certificates, or with --nkey or --jwt the keys that are in DIR then. Each machine
needs the files of its own user alone, in a directory that --creds names.

Examples:

    nats --context linesman subscribe 'linesman.live.>'
    linesman context operator | jq -r .url
    linesman context --server-config --nkey --keys keys >linesman.conf

Exit status: 0 done, 1 failed, 2 bad flags or settings, 3 no linesman is running here.`
}

func (c *contextCmd) Run(_ context.Context, a *app) error {
	if c.ServerConfig {
		text, err := c.serverConfig(a)
		if err != nil {
			return err
		}
		_, err = io.WriteString(a.stdout, text)
		return err
	}
	if c.NKey || c.JWT || c.Keys != "" {
		return exitWith(exitUsage, errors.New("--nkey, --jwt and --keys: go with --server-config"))
	}
	one, err := a.dialer().NATSContext(c.User)
	if err != nil {
		return err
	}
	b, err := json.MarshalIndent(one, "", "  ")
	if err != nil {
		return err
	}
	if a.shown(a.stdout).Terminal() && one.Password != "" {
		fmt.Fprintln(a.stderr, "linesman: what follows holds a password; keep it to yourself")
	}
	_, err = fmt.Fprintf(a.stdout, "%s\n", jsonFor(a.stdout, b))
	return err
}

// serverConfig returns configuration for a nats-server of the user's own.
func (c *contextCmd) serverConfig(a *app) (string, error) {
	switch {
	case c.JWT && c.NKey:
		return "", exitWith(exitUsage, errors.New("--jwt and --nkey: one of them"))
	case (c.JWT || c.NKey) == (c.Keys == ""):
		return "", exitWith(exitUsage, errors.New("--keys: goes with --nkey or --jwt, and says where the keys are kept"))
	}
	auth := local.Certificates
	switch {
	case c.JWT:
		auth = local.CredentialFiles
	case c.NKey:
		auth = local.NKeys
	}
	return local.ServerConfig(a.names(), auth, c.Keys)
}
