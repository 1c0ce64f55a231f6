package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
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

// natsContext is the file of a context of the nats CLI, as far as linesman has
// something to say in it.
type natsContext struct {
	Description string `json:"description"`
	URL         string `json:"url"`
	User        string `json:"user,omitempty"`
	Password    string `json:"password,omitempty"`
	Creds       string `json:"creds,omitempty"`
	NKey        string `json:"nkey,omitempty"`
	Cert        string `json:"cert,omitempty"`
	Key         string `json:"key,omitempty"`
	CA          string `json:"ca,omitempty"`
	InboxPrefix string `json:"inbox_prefix,omitempty"`
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
	one, err := c.context(a)
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

func (c *contextCmd) context(a *app) (natsContext, error) {
	one := natsContext{Description: "linesman: " + c.User}
	public := c.User == embedded.SubscriberUser || strings.HasSuffix(c.User, "_public")
	if a.config.NATS != "" && isDir(a.config.Creds) {
		k, err := keysOf(a.config.Creds, c.User)
		one.URL, one.Creds, one.NKey, one.CA, one.InboxPrefix = a.config.NATS, k.creds, k.nkey, k.ca, bus.InboxPrefix(c.User)
		one.Cert, one.Key = k.cert, k.certKey
		return one, err
	}
	if a.config.NATS != "" {
		one.URL, one.Creds = a.config.NATS, a.config.Creds
		if public && a.config.PublicCreds != "" {
			one.Creds = a.config.PublicCreds
		}
		if one.Creds == "" {
			return one, nil
		}
		if c, err := readCredentials(one.Creds); err == nil { // else it may be on another machine
			one.InboxPrefix = c.inbox
		}
		var err error
		one.Creds, err = filepath.Abs(one.Creds) // it will be read from elsewhere
		return one, err
	}
	login, _, err := a.logins(c.User)
	if err != nil {
		return one, err
	}
	one.URL, one.User, one.Password, one.InboxPrefix = login.URL, login.User, login.Password, bus.InboxPrefix(c.User)
	return one, nil
}
