package datadir

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
)

// keys are the files with which one user authenticates, in a directory of keys:
//
//	USER.creds               a credentials file
//	USER.nk                  the seed of an NKey
//	USER.pem, USER-key.pem   a certificate and its key
//	ca.pem                   the authority that signed the server's certificate
//
// A path is "" if there is no such file.
type keys struct {
	user                       string
	creds, nkey, cert, certKey string
	ca                         string
}

// errNoKeys reports that a directory has no keys of a user.
var errNoKeys = errors.New("no keys")

// findKeys finds the keys of a user in a directory. A secret that other users
// can read is an error.
func findKeys(dir, user string) (k keys, err error) {
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
		case f.secret:
			if err := checkPrivate(path, info); err != nil {
				return k, fmt.Errorf("keys: %w", err)
			}
		}
		*f.to = path
	}
	if k.creds == "" && k.nkey == "" && (k.cert == "" || k.certKey == "") {
		found := ""
		if others := usersIn(dir); len(others) > 0 {
			found = "; there are those of " + strings.Join(others, ", ")
		}
		return k, fmt.Errorf("%w of %s in %s: %[2]s.creds, %[2]s.nk, or %[2]s.pem and %[2]s-key.pem%[4]s",
			errNoKeys, user, dir, found)
	}
	return k, nil
}

// usersIn returns the users that have keys in a directory.
func usersIn(dir string) []string {
	return slices.DeleteFunc(allUsers(), func(user string) bool {
		return !slices.ContainsFunc([]string{".creds", ".nk", "-key.pem"}, func(ending string) bool {
			_, err := os.Stat(filepath.Join(dir, user+ending))
			return err == nil
		})
	})
}

// login returns the login to a server with these keys.
func (k keys) login(url string) (bus.Login, error) {
	l := bus.Login{URL: url, Creds: k.creds, Inbox: bus.InboxPrefix(k.user)}
	if k.creds != "" {
		if _, err := readCredentials(k.creds); err != nil {
			return l, err
		}
	}
	if k.ca != "" {
		if b, err := os.ReadFile(k.ca); err != nil || !x509.NewCertPool().AppendCertsFromPEM(b) {
			return l, fmt.Errorf("keys: %s holds no certificate", k.ca)
		}
		l.Options = append(l.Options, nats.RootCAs(k.ca))
	}
	if k.cert != "" && k.certKey != "" {
		if _, err := tls.LoadX509KeyPair(k.cert, k.certKey); err != nil { // its text contains no secret
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

// keyLogins returns the logins of a user with the keys of a directory: to the
// inside account as the user, and to the public account as USER_public. Others than
// normalizer, responder and operator need one account only.
func keyLogins(dir, url, user string) (inside, public bus.Login, err error) {
	login := func(user string) (l bus.Login, err error) {
		k, err := findKeys(dir, user)
		if err == nil {
			l, err = k.login(url)
		}
		if err != nil {
			err = fmt.Errorf("creds: %w", err)
		}
		return l, err
	}
	if inside, err = login(user); err != nil {
		return inside, public, err
	}
	oneAccount := strings.HasSuffix(user, publicSuffix) || slices.Contains([]string{embedded.SubscriberUser,
		embedded.WorkerUser, embedded.ResponderAgentsUser, embedded.PrompterUser}, user)
	if public, err = login(user + publicSuffix); errors.Is(err, errNoKeys) && oneAccount {
		return inside, bus.Login{}, nil
	}
	return inside, public, err
}

// publicSuffix ends the name of a user in the public account.
const publicSuffix = "_public"
