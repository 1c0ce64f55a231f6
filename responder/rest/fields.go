package rest

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/responder/adcp"
	"github.com/linesman/linesman/responder/request"
)

// The fields of every request of AdCP are members of the body of a POST, and parameters of the query of others.

// readFields reads them for a client that reads AdCP, before anything else of the request is read, and returns the rest
// of the query. The reply is a refusal, nil if there is nothing to refuse: of the fields in a body only the release of
// AdCP is checked, because they are read with the others.
func (q *exchange) readFields(ctx context.Context) (rest string, refused *reply) {
	rest = q.r.URL.RawQuery
	if q.errors != adcpType {
		return rest, nil
	}
	if q.posts() {
		q.fields = request.Read(request.FieldParams, q.body)
		if err := q.fields.CheckRelease(); err != nil {
			return rest, enveloped(adcp.Fail(ctx, q.Service, adcp.Call{Args: q.fields}, err))
		}
		return rest, nil
	}
	values, err := url.ParseQuery(rest)
	if err != nil || len(rest) > maxQuery {
		q.fields = request.Read(request.FieldParams, nil)
		return rest, nil // it is refused
	}
	object := map[string]json.RawMessage{}
	for _, p := range request.FieldParams {
		given, has := values[p.Name]
		if !has || len(given) > 1 {
			continue
		}
		delete(values, p.Name)
		if object[p.Name] = json.RawMessage(given[0]); p.IsText() || !json.Valid(object[p.Name]) {
			object[p.Name], _ = bounds.Encode(given[0])
		}
	}
	all, _ := bounds.Encode(object) // each member is JSON
	q.fields = request.Read(request.FieldParams, all)
	if err := q.fields.Err(); err != nil {
		return rest, enveloped(adcp.Fail(ctx, q.Service, adcp.Call{Args: q.fields}, err))
	}
	return values.Encode(), nil
}

// posts reports whether the request has a body.
func (q *exchange) posts() bool {
	return q.r.Method == http.MethodPost || q.r.Method == http.MethodPatch
}
