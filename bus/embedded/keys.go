package embedded

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

// CertificateConfig renders the accounts with users that present certificates with the
// subject CN=USER. The paths of the server's own files must be filled in.
func CertificateConfig(names bus.Names) string {
	return `# Name your own files here.
tls {
  cert_file: "server.pem"
  key_file: "server-key.pem"
  ca_file: "ca.pem"
  verify_and_map: true
}
` + AccountsConfig(names, func(user string) string { return "user: " + strconv.Quote("CN="+user) })
}

// NKeyConfig renders the accounts with users that present NKeys, whose seeds are in
// dir. It creates missing ones.
func NKeyConfig(names bus.Names, dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("keys: %w", err)
	}
	public := map[string]string{}
	for _, account := range Accounts(names) {
		for _, u := range account.Users {
			key, err := keyPair(filepath.Join(dir, u.Name+".nk"), nkeys.PrefixByteUser)
			if err != nil {
				return "", err
			}
			if public[u.Name], err = key.PublicKey(); err != nil {
				return "", fmt.Errorf("keys: user %s: %w", u.Name, err)
			}
		}
	}
	return AccountsConfig(names, func(user string) string { return "nkey: " + public[user] }), nil
}

// keyPair reads the key whose seed is in a file. If there is no file, it creates one
// with a new seed.
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
			err = errors.New("wrong kind of key")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("keys: %s does not contain a seed of the expected kind; remove it to create a new one", path)
	}
	return key, nil
}
