package idempotency

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// maxDepth is the greatest nesting depth of arrays and objects.
const maxDepth = 256

var errNotCanonical = errors.New("idempotency: not JSON that has a canonical form")

// Hash identifies a request: the SHA-256 of its canonical form, in hex. It must not
// contain fields that the comparison ignores. A missing field and a null field
// make two different requests.
func Hash(request []byte) (string, error) {
	c, err := Canonical(request)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(c)
	return hex.EncodeToString(sum[:]), nil
}

// Canonical returns JSON in the form of RFC 8785 (JCS). One error covers all
// input without such a form: invalid JSON or UTF-8, duplicate names in an
// object, lone surrogates, numbers too large for a double, and nesting deeper
// than 256.
func Canonical(raw []byte) ([]byte, error) {
	// What the library takes, and the RFC does not.
	d := jsontext.NewDecoder(bytes.NewReader(raw))
	values := 0
	for {
		t, err := d.ReadToken()
		if errors.Is(err, io.EOF) && values == 1 {
			break
		}
		if err != nil || d.StackDepth() > maxDepth {
			return nil, errNotCanonical
		}
		if d.StackDepth() == 0 {
			values++
		}
		if t.Kind() == '0' {
			if _, err := strconv.ParseFloat(t.String(), 64); err != nil {
				return nil, errNotCanonical
			}
		}
	}
	v := jsontext.Value(bytes.Clone(raw))
	if err := v.Canonicalize(); err != nil {
		return nil, errNotCanonical
	}
	return v, nil
}
