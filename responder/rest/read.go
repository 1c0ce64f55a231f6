package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/linesman/linesman/responder/request"
)

// query is the query string of a URL, by declared parameter names.
type query struct{ values url.Values }

// readQuery refuses unknown parameters and repeated ones.
func readQuery(raw string, known []string) (*query, error) {
	if len(raw) > maxQuery {
		return nil, invalid("query", "at most "+strconv.Itoa(maxQuery)+" bytes")
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, invalid("query", "must be escaped as in a URL")
	}
	for name, given := range values {
		if !slices.Contains(known, name) {
			return nil, unknownName(known)
		}
		if len(given) > 1 {
			return nil, invalid(name, "is given twice")
		}
	}
	return &query{values}, nil
}

func unknownName(known []string) *Problem {
	if len(known) == 0 {
		return invalid("query", "this path takes no parameters")
	}
	return invalid("query", "the parameters are "+strings.Join(known, ", "))
}

func (q *query) text(name string) string { return q.values.Get(name) }

// number parses an integer parameter.
func (q *query) number(name string, least, most, otherwise int64) (int64, error) {
	if !q.values.Has(name) {
		return otherwise, nil
	}
	n, err := strconv.ParseInt(q.values.Get(name), 10, 64)
	if err != nil || n < least || n > most {
		return 0, invalid(name, "must be a whole number, "+strconv.FormatInt(least, 10)+" to "+strconv.FormatInt(most, 10))
	}
	return n, nil
}

// word parses an enumerated parameter.
func (q *query) word(name string, words ...string) (string, error) {
	if !q.values.Has(name) {
		return "", nil
	}
	if w := q.values.Get(name); slices.Contains(words, w) {
		return w, nil
	}
	return "", invalid(name, "must be one of "+strings.Join(words, ", "))
}

// readBody reads the body of a POST; an empty one is an empty object.
func (q *exchange) readBody() (json.RawMessage, error) {
	body, err := io.ReadAll(http.MaxBytesReader(q.w, q.r.Body, MaxBody))
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return nil, &Problem{Status: http.StatusRequestEntityTooLarge, Code: "TOO_LARGE", Detail: "the body is over " +
			strconv.Itoa(MaxBody) + " bytes"}
	case err != nil:
		return nil, invalid("body", "broke off")
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
