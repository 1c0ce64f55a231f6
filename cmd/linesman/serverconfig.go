package main

import (
	"errors"

	"github.com/linesman/linesman/bus/embedded"
)

// serverConfig is the accounts of a server of somebody's own, as a file that
// the server's configuration can include.
func (c *contextCmd) serverConfig(a *app) (string, error) {
	var about, accounts string
	var err error
	names := a.names()
	switch {
	case c.JWT && c.NKey:
		return "", exitWith(exitUsage, errors.New("--jwt and --nkey: one of them"))
	case (c.JWT || c.NKey) == (c.Keys == ""):
		return "", exitWith(exitUsage, errors.New("--keys: goes with --nkey or --jwt, and says where the keys are kept"))
	case c.JWT:
		about = "Users show credentials files, signed by the operator below."
		accounts, err = embedded.SignedConfig(names, c.Keys)
	case c.NKey:
		about = "Users show NKeys; these are their public keys."
		accounts, err = embedded.NKeyConfig(names, c.Keys)
	default:
		about = "Users show certificates, whose subject is CN= and their name."
		accounts = embedded.CertificateConfig(names)
	}
	if err != nil {
		return "", err
	}
	return `# The accounts, users and permissions of linesman, for a nats-server 2.11 or
# newer with JetStream. ` + about + `
` + accounts, nil
}
