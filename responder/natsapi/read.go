package natsapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	strict "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/runs"
)

// Limits of requests.
const (
	maxRequest = 1 << 20 // bytes
	// maxSubmission is the same of a task: its prompt may take six times its size in JSON.
	maxSubmission = 8 << 20
	// verbTime is how long a verb may take: its caller, which NATS does not tell from one that is gone, has long given up.
	verbTime = 2 * time.Minute
)

// patient are the operations that have a time of their own.
var patient = []string{
	api.OpWait.Name, api.OpCleanup.Name, api.OpForget.Name, api.OpSubmitCloud.Name, api.OpDetail.Name,
}

// VerbEndpoints are the endpoints of the operations of a service: each takes a request of package
// api as JSON, and answers with an outcome of package api, or an [api.Error], as
// JSON. Decoding is strict: an unknown field is an error.
func VerbEndpoints(s *responder.Service) (all []Endpoint) {
	for _, op := range s.Operations() {
		all = append(all, Endpoint{
			Name: op.Name, Metadata: map[string]string{"description": op.About}, Refuse: refusal,
			Do: func(ctx context.Context, body []byte) Answer {
				if !slices.Contains(patient, op.Name) {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, verbTime)
					defer cancel()
				}
				q := op.New()
				err := decode(body, q)
				if c, ok := q.(interface{ Valid() error }); ok && err == nil {
					err = c.Valid()
				}
				if err == nil {
					err = s.Ready(ctx)
				}
				if err != nil {
					return answerOf(nil, err)
				}
				return answerOf(op.Do(ctx, q))
			},
		})
	}
	return all
}

// refusal is the error of a verb that was not carried out, or whose outcome
// does not fit into a message.
func refusal(code int, text string) []byte {
	e := &api.Error{Code: api.TooMany, Message: text, Retryable: true}
	if code == http.StatusRequestEntityTooLarge {
		e = api.Invalid("limit", "the answer is larger than a message may be: ask for less")
	}
	return answerOf(nil, e).Body
}

// answerOf is the answer of a verb.
func answerOf(outcome any, err error) Answer {
	var e *api.Error
	switch {
	case err == nil:
		if body, err := bounds.Encode(outcome); err == nil {
			return Answer{Body: body}
		}
		e = &api.Error{Code: api.Internal, Message: "the answer cannot be encoded"}
	case !errors.As(err, &e): // breaks the contract, so its text is not shown
		e = &api.Error{Code: api.Internal, Message: "internal error; see linesman's log"}
	}
	body, err := bounds.Encode(e)
	if err != nil { // strings and numbers
		panic("natsapi: encode an error: " + err.Error())
	}
	return Answer{Body: body, Code: status[e.Code], Text: string(e.Code) + ": " + line(e.Error())}
}

// status is the HTTP status of a code of package api.
var status = map[api.Code]int{
	api.Validation: http.StatusBadRequest, api.NotFound: http.StatusNotFound, api.Ended: http.StatusConflict,
	api.NotEnded: http.StatusConflict, api.NotWaiting: http.StatusConflict, api.Conflict: http.StatusConflict,
	api.Timeout: http.StatusRequestTimeout, api.Unsupported: http.StatusNotImplemented,
	api.ProgramFailed: http.StatusBadGateway,
	api.NotSignedIn:   http.StatusBadGateway, api.QueueFull: http.StatusServiceUnavailable,
	api.TooMany:     http.StatusServiceUnavailable,
	api.KeyConflict: http.StatusConflict, api.KeyInFlight: http.StatusConflict, api.KeyExpired: http.StatusGone,
	api.RateLimited: http.StatusTooManyRequests, api.OutcomeUnknown: http.StatusInternalServerError,
	api.Unavailable: http.StatusServiceUnavailable, api.Internal: http.StatusInternalServerError,
}

// read decodes a request.
func read[Q any](body []byte) (q Q, err error) {
	err = decode(body, &q)
	return q, err
}

// decode decodes a request; q is a pointer. No bytes are an empty request.
func decode(body []byte, q any) error {
	limit := maxRequest
	if _, task := q.(*api.Submission); task {
		limit = maxSubmission
	}
	switch {
	case len(body) > limit:
		return api.Invalid("request", fmt.Sprintf("at most %d bytes", limit))
	case len(bytes.TrimSpace(body)) == 0:
		return nil
	case !utf8.Valid(body):
		return api.Invalid("request", "must be UTF-8")
	}
	err := strict.Unmarshal(body, q, strict.RejectUnknownMembers(true))
	var mistake *strict.SemanticError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, jsontext.ErrDuplicateName): // other readers of the same JSON may use another one of the values
		return api.Invalid("request", "must not have a name twice in an object")
	case errors.As(err, &mistake) && mistake.GoType != nil && mistake.JSONPointer != "" &&
		!errors.Is(err, strict.ErrUnknownName):
		return api.Invalid(fieldOf(reflect.TypeOf(q), mistake.JSONPointer), "must be of type "+jsonType(mistake.GoType))
	}
	return api.Invalid("request", "must be a JSON object with the fields of this request and no others")
}

// jsonType is the type of a value in the words of JSON.
func jsonType(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[runs.Labels]():
		return "object of strings"
	case reflect.TypeFor[runs.Time]():
		return "string, a time of RFC 3339"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return jsonType(t.Elem())
	case reflect.Bool:
		return "boolean"
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return "integer"
	case reflect.Slice, reflect.Array:
		return "array"
	case reflect.Struct, reflect.Map:
		return "object"
	}
	return t.Kind().String()
}

// fieldOf is the name of a field of a request, with dots between those of nested objects. It has
// no names that the caller chose, such as those of labels.
func fieldOf(t reflect.Type, at jsontext.Pointer) string {
	var names []string
	for token := range at.Tokens() {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		switch t.Kind() {
		case reflect.Slice:
			t = t.Elem()
			continue
		case reflect.Struct:
			for _, f := range reflect.VisibleFields(t) {
				if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name == token {
					names = append(names, token)
					t = f.Type
					break
				}
			}
		}
	}
	return strings.Join(names, ".")
}
