package httpserver

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/linesman/linesman/atomicfile"
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
	if err := createToken(path); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("token: %w", err)
	}
	return readToken(path)
}

func readToken(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxTokenFile+1))
	if err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	token := strings.TrimSpace(string(b))
	if len(b) > maxTokenFile || len(token) < minToken || len(strings.Fields(token)) != 1 {
		return "", fmt.Errorf("token: %s holds no token; remove it, and a new one is made", path)
	}
	return token, nil
}

// createToken writes a new token to the file at path. The error is an
// [fs.ErrExist] if there is one already.
func createToken(path string) error {
	secret := make([]byte, 32)
	rand.Read(secret) // never fails
	return atomicfile.Create(path, ".token-*", []byte(hex.EncodeToString(secret)+"\n"))
}
