package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/linesman/linesman/internal/files"
)

// systemAccount is the name of the system account, which a server with an operator
// requires.
const systemAccount = "SYS"

// SignedConfig signs the accounts and their users, and renders the operator and the
// accounts as a server's configuration. It rewrites the users' credentials files in
// dir, which contain their permissions, and keeps the keys in them. The signing keys
// are below dir, too; missing ones are created.
func SignedConfig(accounts []account, dir string) (string, error) {
	issuers := filepath.Join(dir, "issuers")
	if err := os.MkdirAll(issuers, 0o700); err != nil {
		return "", fmt.Errorf("keys: %w", err)
	}
	operator, err := identityOf(filepath.Join(issuers, "operator.nk"), nkeys.PrefixByteOperator)
	if err != nil {
		return "", err
	}
	of := map[string]identity{}
	all := append(slices.Clip(accounts), account{Name: systemAccount})
	for _, a := range all {
		if of[a.Name], err = identityOf(filepath.Join(issuers, a.Name+".nk"), nkeys.PrefixByteAccount); err != nil {
			return "", err
		}
	}
	root := jwt.NewOperatorClaims(operator.public)
	root.Name = "linesman"
	root.SystemAccount = of[systemAccount].public
	signed, err := root.Encode(operator.key)
	if err != nil {
		return "", fmt.Errorf("sign the operator: %w", err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "operator: %s\nsystem_account: %s\nresolver: MEMORY\nresolver_preload: {\n", signed,
		of[systemAccount].public)
	for _, a := range all {
		claims, err := accountClaims(a, of)
		if err != nil {
			return "", err
		}
		signed, err := claims.Encode(operator.key)
		if err != nil {
			return "", fmt.Errorf("sign account %s: %w", a.Name, err)
		}
		fmt.Fprintf(&b, "  # %s\n  %s: %s\n", a.Name, of[a.Name].public, signed)
		if err := os.MkdirAll(filepath.Join(dir, a.Cell), 0o700); err != nil {
			return "", fmt.Errorf("keys: %w", err)
		}
		for _, u := range a.Users {
			if err := userFile(filepath.Join(dir, a.Cell, u.Name+".creds"), u, of[a.Name]); err != nil {
				return "", fmt.Errorf("sign user %s: %w", u.Name, err)
			}
		}
	}
	b.WriteString("}\n")
	return b.String(), nil
}

// identity is a key pair and its public key.
type identity struct {
	key    nkeys.KeyPair
	public string
}

func identityOf(path string, kind nkeys.PrefixByte) (i identity, err error) {
	if i.key, err = keyPair(path, kind); err != nil {
		return i, err
	}
	if i.public, err = i.key.PublicKey(); err != nil {
		return i, fmt.Errorf("keys: %w", err)
	}
	return i, nil
}

// accountClaims returns the claims of an account. Its exports require an activation
// token.
func accountClaims(a account, of map[string]identity) (*jwt.AccountClaims, error) {
	claims := jwt.NewAccountClaims(of[a.Name].public)
	claims.Name = a.Name
	if a.Payload > 0 {
		claims.Limits.Payload = int64(a.Payload)
	}
	if a.JetStream {
		consumers := int64(a.Consumers)
		if consumers == 0 {
			consumers = jwt.NoLimit
		}
		claims.Limits.JetStreamLimits = jwt.JetStreamLimits{
			MemoryStorage: jwt.NoLimit,
			DiskStorage:   jwt.NoLimit,
			Streams:       jwt.NoLimit,
			Consumer:      consumers,
			MaxAckPending: jwt.NoLimit,
		}
	}
	kind := func(s sharedSubject) jwt.ExportType {
		if s.Service {
			return jwt.Service
		}
		return jwt.Stream
	}
	for _, s := range a.Exports {
		e := &jwt.Export{Name: s.Subject, Subject: jwt.Subject(s.Subject), Type: kind(s), TokenReq: true}
		if s.Many {
			e.ResponseType, e.ResponseThreshold = jwt.ResponseTypeStream, answerTime
		}
		claims.Exports.Add(e)
	}
	for _, s := range a.Imports {
		from := of[s.Account]
		token := jwt.NewActivationClaims(of[a.Name].public)
		token.ImportSubject, token.ImportType = jwt.Subject(s.Subject), kind(s)
		signed, err := token.Encode(from.key)
		if err != nil {
			return nil, fmt.Errorf("share %s: %w", s.Subject, err)
		}
		claims.Imports.Add(
			&jwt.Import{Name: s.Subject, Subject: jwt.Subject(s.Subject), LocalSubject: jwt.RenamingSubject(s.To),
				Account: from.public, Type: kind(s), Token: signed},
		)
	}
	return claims, nil
}

// userFile writes a user's credentials file.
func userFile(path string, u user, account identity) error {
	var key nkeys.KeyPair
	b, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		key, err = nkeys.CreateUser()
	case err == nil:
		if key, err = jwt.ParseDecoratedUserNKey(b); err != nil {
			err = fmt.Errorf("%s is damaged; remove it to create a new one", path)
		}
	}
	if err != nil {
		return err
	}
	public, err := key.PublicKey()
	if err != nil {
		return err
	}
	claims := jwt.NewUserClaims(public)
	claims.Name = u.Name
	claims.Pub.Allow, claims.Sub.Allow = u.Publish, u.Subscribe
	signed, err := claims.Encode(account.key)
	if err != nil {
		return err
	}
	seed, err := key.Seed()
	if err != nil {
		return err
	}
	body, err := jwt.FormatUserConfig(signed, seed)
	if err != nil {
		return err
	}
	return files.Replace(path, ".tmp-*", body)
}
