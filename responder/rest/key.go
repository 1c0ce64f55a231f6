package rest

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"

	"github.com/linesman/linesman/responder/adcp"
)

// keyHeader carries an idempotency key, in the place of a member of the body.
const keyHeader = "Idempotency-Key"

var keyForm = regexp.MustCompile(adcp.KeyPattern)

// readKey is the key of a header, "" without one. It may be quoted, as the
// draft of the header has it: a key itself has no quotes.
func readKey(h http.Header) (string, error) {
	given := h.Values(keyHeader)
	if len(given) == 0 {
		return "", nil
	}
	key := given[0]
	if len(key) > 1 && strings.HasPrefix(key, `"`) && strings.HasSuffix(key, `"`) {
		key = key[1 : len(key)-1]
	}
	if len(given) > 1 || !keyForm.MatchString(key) {
		return "", invalid(keyHeader, "must be one key of 16 to 255 letters, digits, '_', '.', ':' and '-'")
	}
	return key, nil
}

// keyParam is the parameter of the tools that a key is.
const keyParam = "idempotency_key"

// addKey adds the key of the header to the arguments of a tool. A body that
// has another one is refused.
func (q *request) addKey(add map[string]string, body map[string]json.RawMessage) error {
	if q.key == "" {
		return nil
	}
	for _, name := range []string{"idempotencyKey", keyParam} {
		raw, given := body[name]
		if !given {
			continue
		}
		var key string
		if json.Unmarshal(raw, &key) != nil || key != q.key {
			p := invalid(keyHeader, "is another key than "+name+" of the body")
			p.Issues = append(p.Issues, Issue{Field: name, Problem: "is another key than the header " + keyHeader})
			return p
		}
		return nil
	}
	add[keyParam] = q.key
	return nil
}

// nameKey calls the key what the caller does.
func (q *request) nameKey(p *Problem) *Problem {
	if q.key == "" || p.Field != keyParam {
		return p
	}
	p.Field = keyHeader
	if rest, ok := strings.CutPrefix(p.Detail, keyParam+": "); ok {
		p.Detail = keyHeader + ": " + rest
	}
	return p
}
