package httpserver

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/linesman/linesman/atomicfile"
	"github.com/linesman/linesman/filelock"
)

// Limits of the tokens file.
const (
	maxTokens     = 1000
	maxTokensFile = 1 << 20 // bytes
)

// Named is an additional token. The token itself is not stored, so the file
// reveals no credentials.
type Named struct {
	Name    string    `json:"name"` // 1 to 64 letters, digits, '-' and '_'
	SHA256  string    `json:"sha256"`
	Scopes  []string  `json:"scopes"`
	Created time.Time `json:"created"`
}

var tokenName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

type tokensFile struct {
	Tokens []Named `json:"tokens"`
}

// Errors of changes to the tokens file.
var (
	errNoToken    = errors.New("there is no token of this name")
	errKnownToken = errors.New("there is a token of this name already; remove it first")
)

// CreateToken adds a token of 256 random bits to the file at path, which it
// creates if necessary, and returns it. The error is [errKnownToken] if the
// name is in use.
func CreateToken(path, name string, scopes Scopes, now time.Time) (string, error) {
	if !tokenName.MatchString(name) {
		return "", errors.New("token: a name has 1 to 64 letters, digits, '-' and '_'")
	}
	secret := make([]byte, 32)
	rand.Read(secret) // never fails
	token := hex.EncodeToString(secret)
	sum := sha256.Sum256([]byte(token))
	err := changeTokens(path, func(f *tokensFile) error {
		if slices.ContainsFunc(f.Tokens, func(n Named) bool { return n.Name == name }) {
			return errKnownToken
		}
		if len(f.Tokens) >= maxTokens {
			return fmt.Errorf("at most %d tokens; remove one first", maxTokens)
		}
		f.Tokens = append(f.Tokens, Named{name, hex.EncodeToString(sum[:]), scopes.Names(), now.UTC().Truncate(time.Second)})
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("token %s: %w", name, err)
	}
	return token, nil
}

// RemoveToken revokes a token: it removes it from the file at path, and servers
// refuse it from then on. The error is [errNoToken] if there is no token of
// that name.
func RemoveToken(path, name string) error {
	err := changeTokens(path, func(f *tokensFile) error {
		before := len(f.Tokens)
		f.Tokens = slices.DeleteFunc(f.Tokens, func(n Named) bool { return n.Name == name })
		if len(f.Tokens) == before {
			return errNoToken
		}
		return nil
	})
	if errors.Is(err, errNoToken) {
		return fmt.Errorf("token: %w", err) // what was asked for may be a token, and not a name
	}
	return err
}

// ListTokens reads the additional tokens, in order of creation.
func ListTokens(path string) ([]Named, error) {
	f, _, err := readTokens(path)
	return f.Tokens, err
}

// changeTokens changes the file atomically under a lock: a process that is
// killed in between leaves at most a temporary file.
func changeTokens(path string, change func(*tokensFile) error) error {
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("tokens: %w", err)
	}
	defer func() { _ = filelock.Close(lock) }()
	if err := filelock.Lock(lock); err != nil {
		return fmt.Errorf("tokens: %w", err)
	}
	f, _, err := readTokens(path)
	if err != nil {
		return err
	}
	if err := change(&f); err != nil {
		return err
	}
	body, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return fmt.Errorf("tokens: %w", err)
	}
	if err := atomicfile.Replace(path, ".tokens-*", append(body, '\n')); err != nil {
		return fmt.Errorf("tokens: %w", err)
	}
	return nil
}

// readTokens reads the file, and its metadata at that time; a missing file has
// no tokens.
func readTokens(path string) (f tokensFile, info fs.FileInfo, err error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil, nil
	}
	if err != nil {
		return f, nil, fmt.Errorf("tokens: %w", err)
	}
	defer file.Close()
	if info, err = file.Stat(); err != nil {
		return f, nil, fmt.Errorf("tokens: %w", err)
	}
	b, err := io.ReadAll(io.LimitReader(file, maxTokensFile+1))
	if err != nil {
		return f, info, fmt.Errorf("tokens: %w", err)
	}
	if len(b) > maxTokensFile || json.Unmarshal(b, &f) != nil || len(f.Tokens) > maxTokens {
		return tokensFile{}, info, fmt.Errorf("tokens: %s is damaged; remove it, and make its tokens anew", path)
	}
	for _, n := range f.Tokens {
		sum, sumErr := hex.DecodeString(n.SHA256)
		if _, scopeErr := ParseScopes(strings.Join(n.Scopes, ",")); scopeErr != nil || sumErr != nil ||
			len(sum) != sha256.Size {
			return tokensFile{}, info, fmt.Errorf("tokens: %s is damaged; remove it, and make its tokens anew", path)
		}
	}
	return f, info, nil
}

// tokens is a server's cache of the additional tokens. It checks the file for
// every request with such a token. If the file cannot be read, all of them are
// refused.
type tokens struct {
	path string
	log  *zap.Logger

	mu     sync.Mutex
	read   bool
	info   fs.FileInfo // nil: no file
	byHash map[[sha256.Size]byte]caller
}

// caller is the owner of a token.
type caller struct {
	name   string // name of the token; "": the one in the token file
	scopes Scopes
}

// of returns the caller whose token has this hash, without scopes if there is
// none. The hash is of random bits, so the look-up time reveals nothing.
func (t *tokens) of(hash [sha256.Size]byte) caller {
	if t.path == "" {
		return caller{}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	info, err := os.Stat(t.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		t.byHash, t.info, t.read = nil, nil, true
		return caller{}
	case err == nil && t.read && t.info != nil && os.SameFile(info, t.info) && info.ModTime().Equal(t.info.ModTime()) &&
		info.Size() == t.info.Size():
		return t.byHash[hash]
	}
	f, info, err := readTokens(t.path)
	t.byHash, t.info, t.read = map[[sha256.Size]byte]caller{}, info, true
	if err != nil {
		t.log.Warn("further tokens are refused", zap.Error(err))
		return caller{}
	}
	for _, n := range f.Tokens {
		var sum [sha256.Size]byte
		_, sumErr := hex.Decode(sum[:], []byte(n.SHA256))
		scopes, scopeErr := ParseScopes(strings.Join(n.Scopes, ","))
		if sumErr == nil && scopeErr == nil { // readTokens has checked both
			t.byHash[sum] = caller{n.Name, scopes}
		}
	}
	return t.byHash[hash]
}
