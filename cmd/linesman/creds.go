package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
)

// credentials is what a NATS credentials file says of its user.
type credentials struct {
	path  string
	user  string // one of [embedded.Accounts], as `context --jwt` signs them; "" for all others
	inbox string // prefix of the inboxes that the user may subscribe to; "" for that of NATS
}

// readCredentials reads a credentials file. What a client says of one that is
// damaged sounds like a server that is away.
func readCredentials(path string) (credentials, error) {
	c := credentials{path: path}
	b, err := os.ReadFile(path)
	if err != nil {
		return c, err
	}
	pair, err := nkeys.ParseDecoratedUserNKey(b)
	if err != nil { // its text may hold some of the file
		hint := ""
		if ext := filepath.Ext(path); ext == ".nk" || ext == ".pem" {
			hint = "; for NKeys and certificates name the directory that they are in"
		}
		return c, fmt.Errorf("%s holds no credentials of a user (a .creds file)%s", path, hint)
	}
	pair.Wipe()
	token, err := jwt.ParseDecoratedJWT(b)
	if err != nil {
		return c, nil // the server refuses it
	}
	claims, err := jwt.DecodeUserClaims(token)
	if err != nil {
		return c, nil
	}
	for _, subject := range claims.Sub.Allow {
		if prefix, ok := strings.CutSuffix(subject, ".>"); ok && strings.HasPrefix(prefix, "_INBOX") && !strings.ContainsAny(prefix, "*>") {
			c.inbox = prefix
			break
		}
	}
	if c.inbox == bus.InboxPrefix(claims.Name) && slices.Contains(allUsers(), claims.Name) {
		c.user = claims.Name
	}
	return c, nil
}

// allUsers are the users of all accounts.
func allUsers() (all []string) {
	for _, account := range embedded.Accounts(bus.Names{Prefix: bus.DefaultPrefix}) {
		for _, u := range account.Users {
			all = append(all, u.Name)
		}
	}
	return all
}

func (c credentials) login(url string) bus.Login {
	l := bus.Login{URL: url, Creds: c.path}
	if c.inbox != "" {
		l.Options = append(l.Options, nats.CustomInboxPrefix(c.inbox))
	}
	return l
}

// serves reports credentials of one user where a command needs another one.
func (c credentials) serves(user string) error {
	reads := user == embedded.SubscriberUser && c.user != embedded.WorkerUser // the others can read the events as well
	if c.user == "" || c.user == user || reads {
		return nil
	}
	return fmt.Errorf("%s holds the keys of %s; this needs those of %s, %s", c.path, c.user, user, mayDo[user])
}

// mayDo is the right for which a command connects as a user.
var mayDo = map[string]string{
	embedded.WorkerUser:     "which may take tasks and write raw logs",
	embedded.NormalizerUser: "which may make streams and run records",
	embedded.ResponderUser:  "which may answer requests",
	embedded.OperatorUser:   "which may send requests (publish to linesman.api.>) and read all streams",
	embedded.SubscriberUser: "which may read the events",
}

// fileLogins are a user's logins with credentials files: creds for the inside
// account, and public for the second one. Where public is not set and creds is of
// an account that `context --jwt` signed, the file of the second account is the
// one beside it.
func fileLogins(url, creds, public, user string) (inside, outside bus.Login, err error) {
	if creds == "" && public == "" {
		return bus.Login{URL: url}, outside, nil
	}
	var c credentials
	var errs []error
	if creds != "" {
		if c, err = readCredentials(creds); err == nil {
			err = c.serves(user)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("creds: %w", err))
		}
	}
	inside = c.login(url)
	if public == "" && err == nil && slices.Contains(allUsers(), c.user+publicSuffix) {
		public = filepath.Join(filepath.Dir(creds), c.user+publicSuffix+".creds")
		if _, err := os.Stat(public); err != nil {
			return inside, outside, fmt.Errorf("creds: the events are in a second account: put %s%s.creds beside %s, or set public_creds", c.user, publicSuffix, creds)
		}
	}
	if public != "" {
		p, err := readCredentials(public)
		if err != nil {
			errs = append(errs, fmt.Errorf("public_creds: %w", err))
		}
		outside = p.login(url)
	}
	return inside, outside, errors.Join(errs...)
}
