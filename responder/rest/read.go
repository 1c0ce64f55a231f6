package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder/request"
	"github.com/linesman/linesman/runs"
)

// query is the query string of a URL, by declared parameter names.
type query struct {
	url.Values
	params []request.Param
	err    error // the first mistake
}

// several are the parameters that may be repeated.
var several = []string{"label", "kind", "state", "word"}

// readQuery refuses unknown parameters and repeated ones.
func readQuery(raw string, params []request.Param) (*query, error) {
	if len(raw) > maxQuery {
		return nil, invalid("query", "at most "+strconv.Itoa(maxQuery)+" bytes")
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, invalid("query", "must be escaped as in a URL")
	}
	q := &query{Values: values, params: params}
	for name, given := range values {
		if !slices.ContainsFunc(params, func(p request.Param) bool { return p.Name == name }) {
			return nil, unknownName(params)
		}
		if len(given) > 1 && !slices.Contains(several, name) {
			return nil, invalid(name, "is given twice")
		}
	}
	return q, nil
}

func unknownName(params []request.Param) *Problem {
	if len(params) == 0 {
		return invalid("query", "this path takes no parameters")
	}
	var known []string
	for _, p := range params {
		known = append(known, p.Name)
	}
	return invalid("query", "the parameters are "+strings.Join(known, ", "))
}

// param returns a parameter by its name.
func (q *query) param(name string) request.Param {
	return q.params[slices.IndexFunc(q.params, func(p request.Param) bool { return p.Name == name })]
}

// number returns an integer parameter, or its default; 0 if it has none.
func (q *query) number(name string) int64 {
	p := q.param(name)
	if !q.Has(name) {
		otherwise, _ := p.Default.(int64)
		return otherwise
	}
	n, err := strconv.ParseInt(q.Get(name), 10, 64)
	if err != nil || n < p.Min || n > p.Max {
		q.refuse(name, fmt.Sprintf("must be a whole number, %d to %d", p.Min, p.Max))
	}
	return n
}

// word returns an enumerated parameter, "" if it is missing.
func (q *query) word(name string) string {
	w, words := q.Get(name), q.param(name).Words
	if q.Has(name) && !slices.Contains(words, w) {
		q.refuse(name, "must be one of "+strings.Join(words, ", "))
	}
	return w
}

// words are the values of an enumerated parameter that may be repeated.
func (q *query) words(name string) []string {
	for _, w := range q.Values[name] {
		if words := q.param(name).Words; !slices.Contains(words, w) {
			q.refuse(name, "must be one of "+strings.Join(words, ", "))
		}
	}
	return q.Values[name]
}

// time returns a time, zero if it is missing.
func (q *query) time(name string) runs.Time {
	if !q.Has(name) {
		return 0
	}
	at, err := time.Parse(time.RFC3339Nano, q.Get(name))
	if err != nil || at.UnixMilli() <= 0 {
		q.refuse(name, "must be a time of RFC 3339, after 1970")
	}
	return api.TimeOf(at)
}

func (q *query) refuse(name, problem string) {
	if q.err == nil {
		q.err = invalid(name, problem)
	}
}

// readBody reads the body of a POST; an empty one is an empty object.
func (q *exchange) readBody() (json.RawMessage, error) {
	limit := maxBody
	if strings.HasSuffix(q.r.Pattern, "/v1/runs") || strings.HasSuffix(q.r.Pattern, "/resume") {
		limit = maxTask
	}
	body, err := io.ReadAll(http.MaxBytesReader(q.w, q.r.Body, int64(limit)))
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return nil, &Problem{Status: http.StatusRequestEntityTooLarge, Code: "TOO_LARGE", Detail: "the body is over " +
			strconv.Itoa(limit) + " bytes"}
	case err != nil:
		return nil, invalid("body", "is incomplete")
	case len(body) == 0:
		return nil, nil
	}
	media, _, err := mime.ParseMediaType(q.r.Header.Get("Content-Type"))
	if err != nil || media != "application/json" {
		return nil, &Problem{Status: http.StatusUnsupportedMediaType, Code: "UNSUPPORTED_MEDIA_TYPE",
			Detail: "the body must be application/json"}
	}
	return body, nil
}

// arguments reads the body, and adds the values of the path and the headers.
// The body must not have the parameters in taken.
func (q *exchange) arguments(params []request.Param, path []request.Preset, taken ...string) (*request.Args, error) {
	body := bytes.Trim(q.body, " \t\r\n") // the white space of JSON
	if len(body) == 0 {
		body = []byte("{}")
	}
	var members map[string]json.RawMessage
	if body[0] != '{' || json.Unmarshal(body, &members) != nil {
		return nil, invalid("body", "must be a JSON object")
	}
	for _, name := range taken {
		if _, given := members[name]; given {
			return nil, invalid(name, "is no parameter of this request")
		}
	}
	presets, err := q.presetKey(members)
	if err != nil {
		return nil, err
	}
	presets = append(presets, path...)
	if q.form == adcpType {
		presets = append(presets, request.Preset{Name: request.Format, Value: "adcp"})
	}
	return request.Read(params, body, presets...), nil
}

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
	if len(given) > 1 || !request.KeyForm().MatchString(key) {
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
			p.Issues = append(p.Issues, api.Issue{Field: name, Problem: "is another key than the header " + keyHeader})
			return nil, p
		}
		return nil, nil
	}
	return []request.Preset{{Name: request.Key, Value: q.key}}, nil
}

// nameKey names the key as the caller did.
func (q *exchange) nameKey(p *Problem) *Problem {
	if q.key == "" || p.Field != request.Key && p.Field != api.FieldKey {
		return p
	}
	if rest, ok := strings.CutPrefix(p.Detail, p.Field+": "); ok {
		p.Detail = keyHeader + ": " + rest
	}
	p.Field = keyHeader
	return p
}
