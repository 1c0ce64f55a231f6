package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/linesman/linesman/bus"
)

// keys are what one user shows to a server: files of a directory of keys.
//
//	USER.creds               a credentials file
//	USER.nk                  the seed of an NKey
//	USER.pem, USER-key.pem   a certificate and its key
//	ca.pem                   who signed the server's certificate
type keys struct {
	user                       string
	creds, nkey, cert, certKey string
	ca                         string
}

// errNoKeys reports that a directory has nothing that shows who a user is.
var errNoKeys = errors.New("no keys")

// keysOf finds a user's keys in a directory. A secret that others can read is
// an error: it is theirs, too.
func keysOf(dir, user string) (k keys, err error) {
	k.user = user
	for _, f := range []struct {
		to     *string
		name   string
		secret bool
	}{
		{&k.creds, user + ".creds", true}, {&k.nkey, user + ".nk", true},
		{&k.cert, user + ".pem", false}, {&k.certKey, user + "-key.pem", true}, {&k.ca, "ca.pem", false},
	} {
		path := filepath.Join(dir, f.name)
		info, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return k, fmt.Errorf("keys: %w", err)
		case f.secret && info.Mode().Perm()&0o077 != 0:
			return k, fmt.Errorf("keys: %s can be read by others; make a new one, or `chmod 600` it if nobody has", path)
		}
		*f.to = path
	}
	if k.creds == "" && k.nkey == "" && (k.cert == "" || k.certKey == "") {
		there := ""
		if others := usersIn(dir); len(others) > 0 {
			there = "; there are those of " + strings.Join(others, ", ")
		}
		return k, fmt.Errorf("%w of %s in %s: %[2]s.creds, %[2]s.nk, or %[2]s.pem and %[2]s-key.pem%[4]s", errNoKeys, user, dir, there)
	}
	return k, nil
}

// usersIn are the users that have keys in a directory.
func usersIn(dir string) (users []string) {
	for _, user := range allUsers() {
		for _, ending := range []string{".creds", ".nk", "-key.pem"} {
			if _, err := os.Stat(filepath.Join(dir, user+ending)); err == nil {
				users = append(users, user)
				break
			}
		}
	}
	return users
}

// login is how to get into a server with these keys.
func (k keys) login(url string) (bus.Login, error) {
	l := bus.Login{URL: url, Creds: k.creds, Options: []nats.Option{nats.CustomInboxPrefix(bus.InboxPrefix(k.user))}}
	if k.ca != "" {
		if b, err := os.ReadFile(k.ca); err != nil || !x509.NewCertPool().AppendCertsFromPEM(b) {
			return l, fmt.Errorf("keys: %s holds no certificate", k.ca)
		}
		l.Options = append(l.Options, nats.RootCAs(k.ca))
	}
	if k.cert != "" && k.certKey != "" {
		if _, err := tls.LoadX509KeyPair(k.cert, k.certKey); err != nil { // its text names no secret
			return l, fmt.Errorf("keys: %s and %s: %w", k.cert, k.certKey, err)
		}
		l.Options = append(l.Options, nats.ClientCert(k.cert, k.certKey))
	}
	if k.nkey != "" {
		seed, err := nats.NkeyOptionFromSeed(k.nkey)
		if err != nil {
			return l, fmt.Errorf("keys: %s holds no seed of a user's NKey", k.nkey)
		}
		l.Options = append(l.Options, seed)
	}
	return l, nil
}

// keyLogins are a user's logins with the keys of a directory: its own, and in
// the account of the events that of its other self, where that has keys.
func keyLogins(dir, url, user string) (inside, public bus.Login, err error) {
	k, err := keysOf(dir, user)
	if err != nil {
		return inside, public, err
	}
	if inside, err = k.login(url); err != nil {
		return inside, public, err
	}
	switch k, err = keysOf(dir, user+publicSuffix); {
	case errors.Is(err, errNoKeys) && (user == bus.SubscriberUser || user == bus.WorkerUser || strings.HasSuffix(user, publicSuffix)):
		return inside, bus.Login{}, nil // it has no other self
	case err != nil:
		return inside, public, err
	}
	public, err = k.login(url)
	return inside, public, err
}

const publicSuffix = "_public"

// isDir reports whether there is a directory at a path.
func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
