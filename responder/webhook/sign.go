package webhook

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strconv"
)

// Headers of a notification that is signed with HMAC-SHA256.
const (
	headerTimestamp = "X-ADCP-Timestamp"
	headerSignature = "X-ADCP-Signature"
)

var (
	errSecret = errors.New("the secret is too weak to sign with")
	errNames  = errors.New("a body in which an object has a name twice is not signed")
)

// Sign returns the signature of a body that is sent at a time, in Unix seconds.
// It refuses ambiguous bodies: JSON with a duplicate name in an object, at any
// depth.
func Sign(secret string, at int64, body []byte) (string, error) {
	if checkSecret(secret) != "" {
		return "", errSecret
	}
	if err := checkNames(body); errors.Is(err, errNames) {
		return "", err
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(append(strconv.AppendInt(nil, at, 10), '.'))
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil)), nil
}

// checkNames returns errNames for JSON with a duplicate name in an object, and
// another error for invalid JSON.
func checkNames(raw []byte) error {
	if !json.Valid(raw) {
		return errors.New("not JSON")
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	return uniqueNames(d)
}

// uniqueNames reads one value.
func uniqueNames(d *json.Decoder) error {
	t, err := d.Token()
	open, nested := t.(json.Delim)
	if err != nil || !nested {
		return err
	}
	names := map[json.Token]bool{}
	for d.More() {
		if open == '{' {
			name, err := d.Token()
			if err != nil {
				return err
			}
			if names[name] {
				return errNames
			}
			names[name] = true
		}
		if err := uniqueNames(d); err != nil {
			return err
		}
	}
	_, err = d.Token()
	return err
}
