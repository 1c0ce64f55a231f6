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

	"github.com/linesman/linesman/internal/files"
)

// CertificateConfig renders the accounts with users that present certificates with the
// subject CN=USER, or CN=USER,OU=CELL. The paths of the server's own files must be filled
// in.
func CertificateConfig(all []account) string {
	return `# Name your own files here.
tls {
  cert_file: "server.pem"
  key_file: "server-key.pem"
  ca_file: "ca.pem"
  verify_and_map: true
}
` + render(all, func(a account, user string) string {
		subject := "CN=" + user
		if a.Cell != "" {
			subject += ",OU=" + a.Cell
		}
		return "user: " + strconv.Quote(subject)
	})
}

// NKeyConfig renders the accounts with users that present NKeys, whose seeds are in
// dir. It creates missing ones.
func NKeyConfig(all []account, dir string) (string, error) {
	public := map[string]string{} // by cell and user
	for _, account := range all {
		if err := os.MkdirAll(filepath.Join(dir, account.Cell), 0o700); err != nil {
			return "", fmt.Errorf("keys: %w", err)
		}
		for _, u := range account.Users {
			user := filepath.Join(account.Cell, u.Name)
			key, err := keyPair(filepath.Join(dir, user+".nk"), nkeys.PrefixByteUser)
			if err != nil {
				return "", err
			}
			if public[user], err = key.PublicKey(); err != nil {
				return "", fmt.Errorf("keys: user %s: %w", user, err)
			}
		}
	}
	return render(all, func(a account, user string) string { return "nkey: " + public[filepath.Join(a.Cell, user)] }), nil
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
			err = files.Replace(path, ".tmp-*", append(seed, '\n'))
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
