package rest

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/linesman/linesman/responder/request"
)

// keyHeader carries an idempotency key, in place of a member of the body.
const keyHeader = "Idempotency-Key"

// readKey returns the key of a header, "" without one. It may be quoted, as in
// the header's draft: a key itself has no quotes.
func readKey(h http.Header) (string, error) {
	given := h.Values(keyHeader)
	if len(given) == 0 {
		return "", nil
	}
	key := given[0]
	if len(key) > 1 && strings.HasPrefix(key, `"`) && strings.HasSuffix(key, `"`) {
		key = key[1 : len(key)-1]
	}
	if len(given) > 1 || !request.KeyForm.MatchString(key) {
		return "", invalid(keyHeader, "must be one key of 16 to 255 letters, digits, '_', '.', ':' and '-'")
	}
	return key, nil
}

// presetKey is the key of the header as a preset of the arguments. The same key
// in the body is accepted, a different one is refused.
func (q *exchange) presetKey(body map[string]json.RawMessage) ([]request.Preset, error) {
	if q.key == "" {
		return nil, nil
	}
	for _, name := range []string{"idempotencyKey", request.Key} {
		raw, given := body[name]
		if !given {
			continue
		}
		var key string
		if json.Unmarshal(raw, &key) != nil || key != q.key {
			p := invalid(keyHeader, "is another key than "+name+" of the body")
			p.Issues = append(p.Issues, Issue{Field: name, Problem: "is another key than the header " + keyHeader})
			return nil, p
		}
		return nil, nil
	}
	return []request.Preset{{Name: request.Key, Value: q.key}}, nil
}

// nameKey names the key as the caller did.
func (q *exchange) nameKey(p *Problem) *Problem {
	if q.key == "" || p.Field != request.Key {
		return p
	}
	p.Field = keyHeader
	if rest, ok := strings.CutPrefix(p.Detail, request.Key+": "); ok {
		p.Detail = keyHeader + ": " + rest
	}
	return p
}
