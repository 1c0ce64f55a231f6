package httpserver

import (
	"context"
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

	"github.com/linesman/linesman/internal/files"
)

// Limits of the tokens file.
const (
	maxTokens     = 1000
	maxTokensFile = 1 << 20 // bytes
)

// maxTokenFile bounds what is read of a token file, in bytes.
const maxTokenFile = 4096

// TokenFile returns the token in the file at path. If there is no file, it
// creates one with a new token of 256 random bits, readable by its owner only.
// Of several concurrent processes one wins, and all get its token. A process
// that is killed in between leaves at most a temporary file. A file whose token
// is too short, or contains white space, is an error: it belongs to a user, and
// is not replaced.
func TokenFile(path string) (string, error) {
	token, err := readToken(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return token, err
	}
	err = files.Create(path, ".token-*", []byte(newToken()+"\n"))
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("token: %w", err)
	}
	return readToken(path)
}

func readToken(path string) (string, error) {
	b, _, err := readFile(path, maxTokenFile)
	if err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	token := strings.TrimSpace(string(b))
	if len(b) > maxTokenFile || len(token) < minToken || len(strings.Fields(token)) != 1 {
		return "", fmt.Errorf("token: %s holds no token; remove it, and a new one is made", path)
	}
	return token, nil
}

// readFile reads at most limit+1 bytes of a file, and its metadata at that time.
func readFile(path string, limit int64) ([]byte, fs.FileInfo, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	return b, info, err
}

// newToken returns 256 random bits.
func newToken() string {
	secret := make([]byte, 32)
	rand.Read(secret) // never fails
	return hex.EncodeToString(secret)
}

// Named is an additional token. The token itself is not stored, so the file
// reveals no credentials.
type Named struct {
	Name    string    `json:"name"` // 1 to 64 letters, digits, '-' and '_'
	SHA256  string    `json:"sha256"`
	Scopes  []string  `json:"scopes"`
	Created time.Time `json:"created"`
}

var tokenName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`) })

type tokensFile struct {
	Tokens []Named `json:"tokens"`
}

// Errors of changes of the tokens file.
var (
	errNoToken    = errors.New("there is no token of this name")
	errKnownToken = errors.New("there is a token of this name already; remove it first")
)

// CreateToken adds a token of 256 random bits to the file at path, which it
// creates if necessary, and returns it. The error is [errKnownToken] if the
// name is in use.
func CreateToken(path, name string, scopes Scopes, now time.Time) (string, error) {
	return createToken(name, scopes, now, func(change func(*tokensFile) error) error { return changeTokens(path, change) })
}

// CreateSharedToken is [CreateToken] for all servers with the same store.
func CreateSharedToken(ctx context.Context, store shared, name string, scopes Scopes, now time.Time) (string, error) {
	return createToken(name, scopes, now, func(change func(*tokensFile) error) error {
		return changeShared(ctx, store, sharedTokens, 0, change)
	})
}

func createToken(name string, scopes Scopes, now time.Time, store func(change func(*tokensFile) error) error) (string,
	error) {
	if !tokenName().MatchString(name) {
		return "", errors.New("token: a name has 1 to 64 letters, digits, '-' and '_'")
	}
	token := newToken()
	sum := sha256.Sum256([]byte(token))
	err := store(func(f *tokensFile) error {
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
	return removed(changeTokens(path, func(f *tokensFile) error { return f.remove(name) }))
}

// RemoveSharedToken is [RemoveToken] for all servers with the same store: they refuse the token
// within a second, and one that cannot read the store within 15 s.
func RemoveSharedToken(ctx context.Context, store shared, name string) error {
	return removed(changeShared(ctx, store, sharedTokens, 0, func(f *tokensFile) error { return f.remove(name) }))
}

func (f *tokensFile) remove(name string) error {
	before := len(f.Tokens)
	f.Tokens = slices.DeleteFunc(f.Tokens, func(n Named) bool { return n.Name == name })
	if len(f.Tokens) == before {
		return errNoToken
	}
	return nil
}

func removed(err error) error {
	if errors.Is(err, errNoToken) {
		return fmt.Errorf("token: %w", err) // what was asked for may be a token, and not a name
	}
	return err
}

// ListTokens reads the additional tokens, in order of creation.
func ListTokens(path string) ([]Named, error) {
	f, _, _, err := readTokens(path)
	return f.Tokens, err
}

// ListSharedTokens is [ListTokens] for the tokens of a store.
func ListSharedTokens(ctx context.Context, store shared) ([]Named, error) {
	f, _, err := readShared[tokensFile](ctx, store, sharedTokens)
	return f.Tokens, err
}

// changeTokens changes the file atomically under a lock: a process that is
// killed in between leaves at most a temporary file.
func changeTokens(path string, change func(*tokensFile) error) error {
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("tokens: %w", err)
	}
	defer func() { _ = files.Close(lock) }()
	if err := files.Lock(lock); err != nil {
		return fmt.Errorf("tokens: %w", err)
	}
	f, _, _, err := readTokens(path)
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
	if err := files.Replace(path, ".tokens-*", append(body, '\n')); err != nil {
		return fmt.Errorf("tokens: %w", err)
	}
	return nil
}

// readTokens reads the file, the callers by the hashes of their tokens, and the
// file's metadata at that time; a missing file has no tokens.
func readTokens(path string) (f tokensFile, byHash map[[sha256.Size]byte]caller, info fs.FileInfo, err error) {
	b, info, err := readFile(path, maxTokensFile)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil, nil, nil
	}
	if err != nil { // it may be readable the next time
		return f, nil, nil, fmt.Errorf("tokens: %w", err)
	}
	valid := len(b) <= maxTokensFile && json.Unmarshal(b, &f) == nil
	if valid {
		byHash, valid = f.callers()
	}
	if !valid {
		return tokensFile{}, nil, info, fmt.Errorf("tokens: %s is damaged; remove it, and create its tokens again", path)
	}
	return f, byHash, info, nil
}

// callers returns the callers by the hashes of their tokens; false if f is damaged.
func (f tokensFile) callers() (byHash map[[sha256.Size]byte]caller, valid bool) {
	byHash = map[[sha256.Size]byte]caller{}
	for _, n := range f.Tokens {
		sum, sumErr := hex.DecodeString(n.SHA256)
		scopes, scopeErr := ParseScopes(strings.Join(n.Scopes, ","))
		if sumErr != nil || scopeErr != nil || len(sum) != sha256.Size {
			return nil, false
		}
		byHash[[sha256.Size]byte(sum)] = caller{name: n.Name, scopes: scopes}
	}
	return byHash, len(f.Tokens) <= maxTokens
}

// tokens is a server's cache of the additional tokens. It checks the file for
// every request with such a token. If the file cannot be read, all of them are
// refused.
type tokens struct {
	path string
	log  *zap.Logger

	mu     sync.Mutex
	read   bool
	info   fs.FileInfo // nil: no file, or none that could be read
	wrong  string      // why it could not be read; "": it could
	byHash map[[sha256.Size]byte]caller
}

// caller is the owner of a token.
type caller struct {
	name   string // name of the token; "": the one in the token file
	scopes Scopes
	unsure bool // without scopes: the token may be valid, but what the servers share cannot be read
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
		t.byHash, t.info, t.read, t.wrong = nil, nil, true, ""
		return caller{}
	case err == nil && t.read && t.info != nil && os.SameFile(info, t.info) && info.ModTime().Equal(t.info.ModTime()) &&
		info.Size() == t.info.Size():
		return t.byHash[hash]
	}
	t.read = true
	before := t.wrong
	t.wrong = ""
	if _, t.byHash, t.info, err = readTokens(t.path); err != nil {
		if t.wrong = err.Error(); t.wrong != before {
			t.log.Warn("additional tokens are refused", zap.Error(err))
		}
	}
	return t.byHash[hash]
}

// Scopes is the set of permissions of a token.
type Scopes uint8

// The scopes.
const (
	Read    Scopes = 1 << iota // read the state and events of runs, and the workers
	Submit                     // start, resume and cancel runs
	raw                        // read the unmodified output of agents
	metrics                    // read /metrics, and nothing else
	Answer                     // read open questions in full, and answer them

	// allScopes are the scopes for all about runs. The token of the token file has metrics, too.
	allScopes = Read | Submit | raw | Answer
)

var scopeNames = []struct {
	scope Scopes
	name  string
}{{Read, "read"}, {Submit, "submit"}, {raw, "raw"}, {Answer, "answer"}, {metrics, "metrics"}}

// ParseScopes parses a list such as "read,submit". Every token needs read, but for one whose
// only scope is metrics.
func ParseScopes(list string) (Scopes, error) {
	var all Scopes
	for _, word := range strings.Split(list, ",") {
		scope, err := ScopeOf(strings.TrimSpace(word))
		if err != nil {
			return 0, errors.New("scope: must be a list of read, submit, raw and answer, or metrics alone")
		}
		all |= scope
	}
	if all&Read == 0 && all != metrics {
		return 0, errors.New("scope: read must be one of them")
	}
	return all, nil
}

// ScopeOf parses the name of one scope.
func ScopeOf(name string) (Scopes, error) {
	for _, s := range scopeNames {
		if s.name == name {
			return s.scope, nil
		}
	}
	return 0, errors.New("scope: must be read, submit, raw, answer or metrics")
}

// Names returns the names of the scopes in s, read first.
func (s Scopes) Names() []string {
	names := []string{}
	for _, one := range scopeNames {
		if s&one.scope != 0 {
			names = append(names, one.name)
		}
	}
	return names
}

// String formats s for [ParseScopes].
func (s Scopes) String() string { return strings.Join(s.Names(), ",") }

// lacking describes the scopes that are needed and missing.
func missingScopes(needed, there Scopes) string {
	names := (needed &^ there).Names()
	if len(names) == 1 {
		return fmt.Sprintf("the token lacks the scope %s", names[0])
	}
	return fmt.Sprintf("the token lacks the scopes %s", strings.Join(names, " and "))
}
