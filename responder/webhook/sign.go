package webhook

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
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
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var open []map[string]bool // the names of each open object; nil: an array
	name := false              // the next token is a name
	for {
		t, err := d.Token()
		switch {
		case errors.Is(err, io.EOF) && len(open) == 0:
			return nil
		case err != nil:
			return err
		}
		switch v := t.(type) {
		case json.Delim:
			switch v {
			case '{':
				open = append(open, map[string]bool{})
			case '[':
				open = append(open, nil)
			default:
				open = open[:len(open)-1]
			}
			name = len(open) > 0 && open[len(open)-1] != nil
			continue
		case string:
			if name {
				names := open[len(open)-1]
				if names[v] {
					return errNames
				}
				names[v], name = true, false
				continue
			}
		}
		name = len(open) > 0 && open[len(open)-1] != nil
	}
}
