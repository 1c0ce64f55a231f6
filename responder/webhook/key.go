package webhook

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net/http"

	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/internal/files"
)

// maxKeyFile bounds the file of a key, in bytes.
const maxKeyFile = 4 << 10

const pemKey = "PRIVATE KEY" // PKCS #8

// Key is the Ed25519 key that signs notifications. As an HTTP handler it serves its public half.
type Key struct {
	private ed25519.PrivateKey
	id      string
	set     []byte // the JWKS with the public half
}

// ReadKey reads the file of a key. The error has nothing of its content.
func ReadKey(path string) (*Key, error) {
	text, err := files.ReadSecret(path, maxKeyFile)
	if err != nil {
		return nil, err
	}
	block, rest := pem.Decode(text)
	if block == nil || block.Type != pemKey || len(rest) > 0 {
		return nil, fmt.Errorf("%s has no key in the form that `linesman setup webhook-key` writes", path)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	private, ok := parsed.(ed25519.PrivateKey)
	if err != nil || !ok {
		return nil, fmt.Errorf("%s has no Ed25519 key", path)
	}
	return newKey(private)
}

// CreateKey writes a new key to a file, which must not exist.
func CreateKey(path string) (*Key, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, err
	}
	err = files.Create(path, ".webhook-key-*", pem.EncodeToMemory(&pem.Block{Type: pemKey, Bytes: der}))
	if errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("%s exists, and is kept: receivers know its key", path)
	}
	if err != nil {
		return nil, err
	}
	return newKey(private)
}

// jwk is a public key in the form of RFC 7517, with the purpose that AdCP demands.
type jwk struct {
	Curve   string   `json:"crv"`
	Type    string   `json:"kty"`
	X       string   `json:"x"`
	ID      string   `json:"kid,omitempty"`
	Use     string   `json:"use,omitempty"`
	Ops     []string `json:"key_ops,omitempty"`
	Alg     string   `json:"alg,omitempty"`
	Purpose string   `json:"adcp_use,omitempty"`
}

func newKey(private ed25519.PrivateKey) (*Key, error) {
	public := jwk{Curve: "Ed25519", Type: "OKP", X: base64url(private[ed25519.PrivateKeySize-ed25519.PublicKeySize:])}
	required, err := bounds.Encode(public) // by RFC 7638 the id is the hash of these members, in the order of their names
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(required)
	public.ID, public.Use, public.Ops, public.Alg = base64url(sum[:]), "sig", []string{"verify"}, "EdDSA"
	public.Purpose = "webhook-signing" // the SDK 6.11 takes no other; later ones take it, too
	set, err := bounds.Encode(map[string][]jwk{"keys": {public}})
	return &Key{private, public.ID, set}, err
}

// base64url encodes binary values as AdCP demands.
func base64url(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// ID is the kid of the key.
func (k *Key) ID() string { return k.id }

// ServeHTTP serves the public half as a JWKS.
func (k *Key) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "public, max-age=300")
	_, _ = w.Write(k.set)
}
