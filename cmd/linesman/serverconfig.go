package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/nats-io/nkeys"

	"github.com/linesman/linesman/atomicfile"
	"github.com/linesman/linesman/bus"
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
		accounts, err = c.claims(names)
	case c.NKey:
		about = "Users show NKeys; these are their public keys."
		accounts, err = c.nkeys(names)
	default:
		about = "Users show certificates, whose subject is CN= and their name."
		accounts = `# Name your own files here.
tls {
  cert_file: "server.pem"
  key_file: "server-key.pem"
  ca_file: "ca.pem"
  verify_and_map: true
}
` + bus.AccountsConfig(names, func(user string) string { return "user: " + strconv.Quote("CN="+user) })
	}
	if err != nil {
		return "", err
	}
	return `# The accounts, users and permissions of linesman, for a nats-server 2.11 or
# newer with JetStream. ` + about + `
` + accounts, nil
}

// nkeys renders the accounts with users that show NKeys. Those that have none
// yet get one.
func (c *contextCmd) nkeys(names bus.Names) (string, error) {
	if err := os.MkdirAll(c.Keys, 0o700); err != nil {
		return "", fmt.Errorf("keys: %w", err)
	}
	public := map[string]string{}
	for _, account := range bus.Accounts(names) {
		for _, u := range account.Users {
			key, err := keyPair(filepath.Join(c.Keys, u.Name+".nk"), nkeys.PrefixByteUser)
			if err != nil {
				return "", err
			}
			if public[u.Name], err = key.PublicKey(); err != nil {
				return "", fmt.Errorf("keys: user %s: %w", u.Name, err)
			}
		}
	}
	return bus.AccountsConfig(names, func(user string) string { return "nkey: " + public[user] }), nil
}

// keyPair is the key whose seed is in a file. Where there is no file it makes
// one with a new seed.
func keyPair(path string, kind nkeys.PrefixByte) (nkeys.KeyPair, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		key, err := nkeys.CreatePair(kind)
		if err != nil {
			return nil, fmt.Errorf("keys: %w", err)
		}
		seed, err := key.Seed()
		if err == nil {
			err = atomicfile.Replace(path, ".tmp-*", append(seed, '\n'))
		}
		if err != nil {
			return nil, fmt.Errorf("keys: %w", err)
		}
		return key, nil
	}
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	key, err := nkeys.FromSeed([]byte(strings.TrimSpace(string(b))))
	if err == nil {
		var public string
		if public, err = key.PublicKey(); err == nil && nkeys.Prefix(public) != kind {
			err = errors.New("another kind of key")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("keys: %s holds no seed of the kind that belongs there; remove it, and a new one is made", path)
	}
	return key, nil
}
