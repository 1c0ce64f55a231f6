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

// Limits of the file of further tokens.
const (
	maxTokens     = 1000
	maxTokensFile = 1 << 20 // bytes
)

// Named is one of the further tokens. The token itself is kept nowhere: who
// reads the file has nothing to show.
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

// Why the file of further tokens cannot be changed as asked.
var (
	ErrNoToken    = errors.New("there is no token of this name")
	ErrKnownToken = errors.New("there is a token of this name already; remove it first")
)

// CreateToken adds a token of 256 random bits to the file at path, which it
// makes where there is none, and returns it. The error is [ErrKnownToken] for
// a name that is taken.
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
			return ErrKnownToken
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

// RemoveToken takes a token out of the file at path. Servers refuse it from
// then on. The error is [ErrNoToken] where there is none of the name.
func RemoveToken(path, name string) error {
	err := changeTokens(path, func(f *tokensFile) error {
		before := len(f.Tokens)
		f.Tokens = slices.DeleteFunc(f.Tokens, func(n Named) bool { return n.Name == name })
		if len(f.Tokens) == before {
			return ErrNoToken
		}
		return nil
	})
	if errors.Is(err, ErrNoToken) {
		return fmt.Errorf("token: %w", err) // what was asked for may be a token, and not a name
	}
	return err
}

// ListTokens reads the further tokens, in the order in which they were made.
func ListTokens(path string) ([]Named, error) {
	f, _, err := readTokens(path)
	return f.Tokens, err
}

// changeTokens changes the file under a lock, whole or not at all: a process
// that is killed on the way leaves at most a temporary file beside it.
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

// readTokens reads the file and what it was when it was read; no file holds
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
		if _, scopeErr := ParseScopes(strings.Join(n.Scopes, ",")); scopeErr != nil || sumErr != nil || len(sum) != sha256.Size {
			return tokensFile{}, info, fmt.Errorf("tokens: %s is damaged; remove it, and make its tokens anew", path)
		}
	}
	return f, info, nil
}

// tokens are the further tokens as a server knows them. It looks at the file
// for every request that shows one of them. A file that cannot be read lets
// nobody in.
type tokens struct {
	path string
	log  *zap.Logger

	mu    sync.Mutex
	read  bool
	info  fs.FileInfo // nil: there was no file
	known map[[sha256.Size]byte]caller
}

// caller is who shows a token.
type caller struct {
	name   string // of the token; "": the one of the token file
	scopes Scopes
}

// of is whose token has this hash, without scopes where it is nobody's. The
// hash is of random bits, so how long it takes to find it tells nothing.
func (t *tokens) of(hash [sha256.Size]byte) caller {
	if t.path == "" {
		return caller{}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	info, err := os.Stat(t.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		t.known, t.info, t.read = nil, nil, true
		return caller{}
	case err == nil && t.read && t.info != nil && os.SameFile(info, t.info) && info.ModTime().Equal(t.info.ModTime()) && info.Size() == t.info.Size():
		return t.known[hash]
	}
	f, info, err := readTokens(t.path)
	t.known, t.info, t.read = map[[sha256.Size]byte]caller{}, info, true
	if err != nil {
		t.log.Warn("further tokens are refused", zap.Error(err))
		return caller{}
	}
	for _, n := range f.Tokens {
		var sum [sha256.Size]byte
		_, sumErr := hex.Decode(sum[:], []byte(n.SHA256))
		scopes, scopeErr := ParseScopes(strings.Join(n.Scopes, ","))
		if sumErr == nil && scopeErr == nil { // readTokens has seen to that
			t.known[sum] = caller{n.Name, scopes}
		}
	}
	return t.known[hash]
}
