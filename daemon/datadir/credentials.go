package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nats-io/nkeys"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/internal/files"
)

// credentials describes a NATS credentials file.
type credentials struct {
	path  string
	user  string // the user of [embedded.Accounts] that has this inbox; "" for all others
	inbox string // prefix of the inboxes that the user may subscribe to; "" for the default of NATS
}

// readCredentials reads a credentials file, which others must not be able to read. The NATS
// client reports a damaged one like a server that is unreachable, so it is checked here.
func readCredentials(path string) (credentials, error) {
	c := credentials{path: path}
	b, err := os.ReadFile(path)
	if err != nil {
		return c, err
	}
	pair, err := nkeys.ParseDecoratedUserNKey(b)
	if err != nil { // its text may contain parts of the file
		hint := ""
		if ext := filepath.Ext(path); ext == ".nk" || ext == ".pem" {
			hint = "; for NKeys and certificates name the directory that they are in"
		}
		return c, fmt.Errorf("%s holds no credentials of a user (a .creds file)%s", path, hint)
	}
	pair.Wipe()
	info, err := os.Stat(path)
	if err != nil {
		return c, err
	}
	if err := checkPrivate(path, info); err != nil {
		return c, err
	}
	c.inbox = bus.InboxOf(path)
	user, ok := strings.CutPrefix(c.inbox, bus.InboxPrefix(""))
	if ok && slices.Contains(allUsers(), user) {
		c.user = user
	}
	return c, nil
}

// FileLogin returns the login with a credentials file, whoever's it is; without one if creds is empty.
func FileLogin(url, creds string) (bus.Login, error) {
	if creds == "" {
		return bus.Login{URL: url}, nil
	}
	c, err := readCredentials(creds)
	return c.login(url), err
}

// errShared reports a secret that others can read.
var errShared = errors.New("can be read by others")

func checkPrivate(path string, info fs.FileInfo) error {
	if files.Shared(path, info) {
		return fmt.Errorf("%s %w; make a new one, or `chmod 600` it if it was not read", path, errShared)
	}
	return nil
}

// allUsers returns the users of all accounts.
func allUsers() (all []string) {
	for _, account := range embedded.Accounts(bus.Names{Prefix: bus.DefaultPrefix}) {
		for _, u := range account.Users {
			all = append(all, u.Name)
		}
	}
	return all
}

func (c credentials) login(url string) bus.Login {
	return bus.Login{URL: url, Creds: c.path, Inbox: c.inbox}
}

// check reports credentials of another user than the one that a command needs.
func (c credentials) check(user string) error {
	canRead := user == embedded.SubscriberUser && c.user != embedded.WorkerUser // all others can read the events
	if c.user == "" || c.user == user || canRead {
		return nil
	}
	return fmt.Errorf("%s holds the keys of %s; this needs those of %s, %s", c.path, c.user, user, Permission(user))
}

// Permission describes the permission for which a command connects as user, as a
// relative clause.
func Permission(user string) string {
	return map[string]string{
		embedded.WorkerUser:     "which may take tasks and write raw logs",
		embedded.NormalizerUser: "which may make streams and run records",
		embedded.ResponderUser:  "which may answer requests",
		embedded.OperatorUser:   "which may send requests (publish to linesman.api.>) and read all streams",
		embedded.SubscriberUser: "which may read the events",

		embedded.ResponderAgentsUser: "which may answer prompts",
	}[user]
}

// AnyUser returns the user whose keys the settings name; of several, the one with
// the most permissions.
func (d *Dialer) AnyUser() string {
	switch creds := d.Config.Creds; {
	case d.Config.NATS == "" || creds == "":
	case isDir(creds):
		for _, user := range []string{
			embedded.OperatorUser, embedded.NormalizerUser, embedded.ResponderUser, embedded.WorkerUser, embedded.SubscriberUser,
			embedded.PrompterUser,
		} {
			if _, _, err := keyLogins(creds, d.Config.NATS, user); err == nil {
				return user
			}
		}
	default:
		if c, err := readCredentials(creds); err == nil && c.user != "" {
			return c.user
		}
	}
	return embedded.OperatorUser
}

// fileLogins returns the logins of a user with credentials files: creds for the
// inside account, and public for the public one. If public is empty, and `context
// --jwt` signed creds, the file of the public account is expected beside it.
func fileLogins(url, creds, public, user string) (inside, outside bus.Login, err error) {
	if creds == "" && public == "" {
		return bus.Login{URL: url}, outside, nil
	}
	var c credentials
	var errs []error
	if creds != "" {
		if c, err = readCredentials(creds); err == nil {
			err = c.check(user)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("creds: %w", err))
		}
	}
	inside = c.login(url)
	if public == "" && err == nil && slices.Contains(allUsers(), c.user+publicSuffix) {
		public = filepath.Join(filepath.Dir(creds), c.user+publicSuffix+".creds")
		if _, err := os.Stat(public); err != nil {
			return inside, outside, fmt.Errorf("creds: the events are in a second account: put %s%s.creds beside %s, "+
				"or set public_creds", c.user, publicSuffix, creds)
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
