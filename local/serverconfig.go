package local

import (
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
)

// ServerConfig returns the accounts, users and permissions of linesman as a file
// that the configuration of a nats-server can include. Without a directory of keys
// users authenticate with certificates, whose subject is CN= and the user; else
// with NKeys, or with signed credentials files, and the keys that are missing in
// the directory are created.
func (d *Dialer) ServerConfig(keysDir string, signed bool) (string, error) {
	names := bus.Names{Prefix: d.Config.Prefix}
	about := "Users show certificates, whose subject is CN= and their name."
	accounts, err := "", error(nil)
	switch {
	case keysDir == "":
		accounts = embedded.CertificateConfig(names)
	case signed:
		about = "Users show credentials files, signed by the operator below."
		accounts, err = embedded.SignedConfig(names, keysDir)
	default:
		about = "Users show NKeys; these are their public keys."
		accounts, err = embedded.NKeyConfig(names, keysDir)
	}
	if err != nil {
		return "", err
	}
	return `# The accounts, users and permissions of linesman, for a nats-server 2.11 or
# newer with JetStream. ` + about + `
` + accounts, nil
}
