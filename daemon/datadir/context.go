package datadir

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
)

// natsContext is a context file of the nats CLI, with the fields that linesman
// sets. It may hold a password.
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

// NATSContext returns the context of a user at the server of the settings.
func (d *Dialer) NATSContext(user string) (natsContext, error) {
	c := natsContext{Description: "linesman: " + user}
	isPublic := user == embedded.SubscriberUser || strings.HasSuffix(user, publicSuffix)
	if d.Config.NATS != "" && isDir(d.Config.Creds) {
		k, err := findKeys(d.Config.Creds, user)
		c.URL, c.Creds, c.NKey, c.CA, c.InboxPrefix = d.Config.NATS, k.creds, k.nkey, k.ca, bus.InboxPrefix(user)
		c.Cert, c.Key = k.cert, k.certKey
		return c, err
	}
	if d.Config.NATS != "" {
		c.URL, c.Creds = d.Config.NATS, d.Config.Creds
		if isPublic && d.Config.PublicCreds != "" {
			c.Creds = d.Config.PublicCreds
		}
		if c.Creds == "" {
			return c, nil
		}
		read, err := readCredentials(c.Creds)
		if errors.Is(err, errShared) {
			return c, fmt.Errorf("creds: %w", err)
		}
		c.InboxPrefix = read.inbox           // the file may be on another machine
		c.Creds, err = filepath.Abs(c.Creds) // the context is used in other directories
		return c, err
	}
	login, _, err := d.Logins(user)
	if err != nil {
		return c, err
	}
	c.URL, c.User, c.Password, c.InboxPrefix = login.URL, login.User, login.Password, bus.InboxPrefix(user)
	return c, nil
}

// ServerConfig returns the accounts, users and permissions of linesman as a file
// that the configuration of a nats-server can include. Without a directory of keys
// users authenticate with certificates, whose subject is CN= and the user; else
// with NKeys, or with signed credentials files, and the keys that are missing in
// the directory are created.
func (d *Dialer) ServerConfig(keysDir string, signed bool) (string, error) {
	all, err := embedded.Accounts(bus.Names{Prefix: d.Config.Prefix}), error(nil)
	about := "Users show certificates, whose subject is CN= and their name."
	if len(d.Config.Cells) > 0 {
		if all, err = embedded.CellAccounts(d.Config.Cells); err != nil {
			return "", classified{err, ErrSettings}
		}
		about = "Users show certificates, whose subject is CN= and their name, and OU= and the prefix of their cell."
	}
	accounts := ""
	switch {
	case keysDir == "":
		accounts = embedded.CertificateConfig(all)
	case signed:
		about = "Users show credentials files, signed by the operator below."
		accounts, err = embedded.SignedConfig(all, keysDir)
	default:
		about = "Users show NKeys; these are their public keys."
		accounts, err = embedded.NKeyConfig(all, keysDir)
	}
	if err != nil {
		return "", err
	}
	return `# The accounts, users and permissions of linesman, for a nats-server 2.11 or
# newer with JetStream. ` + about + `
` + accounts, nil
}
