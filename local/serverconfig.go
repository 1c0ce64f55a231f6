package local

import (
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
)

// Auth is how users authenticate at a NATS server of the user's own.
type Auth int

// The ways to authenticate.
const (
	Certificates    Auth = iota // the subject of the certificate is CN= and the user
	NKeys                       // keys in a directory
	CredentialFiles             // signed files in a directory
)

// ServerConfig returns the accounts, users and permissions of linesman as a file
// that the configuration of a nats-server can include. It creates the keys that
// are missing in the directory keysDir; certificates need none.
func ServerConfig(names bus.Names, auth Auth, keysDir string) (string, error) {
	about := "Users show certificates, whose subject is CN= and their name."
	accounts, err := "", error(nil)
	switch auth {
	case CredentialFiles:
		about = "Users show credentials files, signed by the operator below."
		accounts, err = embedded.SignedConfig(names, keysDir)
	case NKeys:
		about = "Users show NKeys; these are their public keys."
		accounts, err = embedded.NKeyConfig(names, keysDir)
	default:
		accounts = embedded.CertificateConfig(names)
	}
	if err != nil {
		return "", err
	}
	return `# The accounts, users and permissions of linesman, for a nats-server 2.11 or
# newer with JetStream. ` + about + `
` + accounts, nil
}
