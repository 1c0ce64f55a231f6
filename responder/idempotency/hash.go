package idempotency

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/linesman/linesman/bounds"
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
	if !utf8.Valid(raw) || !json.Valid(raw) || loneSurrogate(raw) {
		return nil, errNotCanonical
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	return canonical(nil, d, 0)
}

func canonical(out []byte, d *json.Decoder, depth int) ([]byte, error) {
	t, err := d.Token()
	if err != nil || depth > maxDepth {
		return nil, errNotCanonical
	}
	switch v := t.(type) {
	case nil:
		return append(out, "null"...), nil
	case bool:
		return strconv.AppendBool(out, v), nil
	case string:
		return bounds.AppendString(out, v), nil
	case json.Number:
		return appendNumber(out, v)
	}
	type member struct {
		name  []uint16 // the order is that of UTF-16; of an array: nil
		bytes []byte
	}
	var members []member
	object := t == json.Delim('{')
	for d.More() {
		var m member
		if object {
			t, err := d.Token()
			name, ok := t.(string)
			if err != nil || !ok {
				return nil, errNotCanonical
			}
			m = member{utf16.Encode([]rune(name)), append(bounds.AppendString(nil, name), ':')}
		}
		if m.bytes, err = canonical(m.bytes, d, depth+1); err != nil {
			return nil, err
		}
		members = append(members, m)
	}
	if _, err := d.Token(); err != nil {
		return nil, errNotCanonical
	}
	begin, end := byte('['), byte(']')
	if object {
		begin, end = '{', '}'
		slices.SortFunc(members, func(a, b member) int { return slices.Compare(a.name, b.name) })
	}
	out = append(out, begin)
	for i, m := range members {
		if i > 0 {
			if object && slices.Equal(m.name, members[i-1].name) {
				return nil, errNotCanonical
			}
			out = append(out, ',')
		}
		out = append(out, m.bytes...)
	}
	return append(out, end), nil
}

// appendNumber writes a number as ECMAScript does.
func appendNumber(out []byte, n json.Number) ([]byte, error) {
	f, err := strconv.ParseFloat(string(n), 64)
	if err != nil { // too large
		return nil, errNotCanonical
	}
	if f == 0 { // minus zero, too
		return append(out, '0'), nil
	}
	if a := math.Abs(f); a >= 1e-6 && a < 1e21 {
		return strconv.AppendFloat(out, f, 'f', -1, 64), nil
	}
	b := strconv.AppendFloat(nil, f, 'e', -1, 64)
	if n := len(b); b[n-2] == '0' && (b[n-3] == '-' || b[n-3] == '+') { // the exponent has two digits at least
		b = append(b[:n-2], b[n-1])
	}
	return append(out, b...), nil
}

// loneSurrogate reports whether a string of valid JSON has the escape of half a
// character, which a decoder would silently replace.
func loneSurrogate(raw []byte) bool {
	unit := func(i int) (rune, bool) {
		if i+6 > len(raw) || raw[i] != '\\' || raw[i+1] != 'u' {
			return 0, false
		}
		n, err := strconv.ParseUint(string(raw[i+2:i+6]), 16, 16)
		return rune(n), err == nil
	}
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		r, ok := unit(i)
		switch {
		case !ok:
			i++
		case !utf16.IsSurrogate(r):
			i += 5
		default:
			low, ok := unit(i + 6)
			if !ok || utf16.DecodeRune(r, low) == utf8.RuneError {
				return true
			}
			i += 11
		}
	}
	return false
}
