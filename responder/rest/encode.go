package rest

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/adcp"
	"github.com/linesman/linesman/responder/request"
	"github.com/linesman/linesman/runs"
)

// retryAfter is the delay, in seconds, after which a client should retry, if no better one is known.
const retryAfter = 2

// reply is the outcome of a request, before encoding.
type reply struct {
	Status  int
	Body    any      // of a type of package api, or a pointer to one, or json.RawMessage; nil with a problem
	Problem *Problem // the error; nil: none

	record   *runs.Record    // the record of the run in the body, or what is known of it
	envelope json.RawMessage // the AdCP envelope, if it is finished already
	fields   *request.Args   // those of every request of AdCP, or nil
	location string
	late     bool   // the answer of a wait that timed out
	tagged   bool   // it has an ETag
	cache    string // Cache-Control if tagged; "": no-cache
}

func (a *reply) encode(form string) ([]byte, error) {
	if form == adcpType {
		return envelop(a)
	}
	if raw, ok := a.Body.(json.RawMessage); ok {
		return api.OneLine(raw), nil
	}
	body := a.Body
	if a.Problem != nil {
		body = a.Problem
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(body)
	return api.OneLine(b.Bytes()), err
}

// Media types: a [reply] is encoded as JSON or [adcpType]; the others are
// written unencoded.
const (
	jsonType   = "application/json"
	streamType = "text/event-stream"
	bytesType  = "application/octet-stream"
	patchType  = "text/x-diff"
)

// accept selects the media type of the answer. Unencoded contents can be
// requested by their own type; their errors are JSON.
func (q *exchange) accept() error {
	accept := strings.Join(q.r.Header.Values("Accept"), ",")
	q.form, q.errors = jsonType, formOfErrors(accept)
	got, ok := choose(accept, q.Media)
	if !ok {
		return &Problem{Status: http.StatusNotAcceptable, Code: "NOT_ACCEPTABLE", Detail: "this is given as " +
			strings.Join(q.Media, " or ")}
	}
	if got == adcpType {
		q.form = got
	}
	q.stream, q.patch = got == streamType, got == patchType
	return nil
}

// formOfErrors is the form of an error: the AdCP envelope for a client that prefers it to JSON,
// also where nothing else is given in it.
func formOfErrors(accept string) string {
	form, _ := choose(accept, []string{jsonType, adcpType})
	return cmp.Or(form, jsonType)
}

// choose returns the offer that an Accept header prefers, the first of equal
// ones. A missing header accepts all.
func choose(accept string, offers []string) (best string, ok bool) {
	if strings.TrimSpace(accept) == "" {
		return offers[0], true
	}
	var most float64
	for _, offer := range offers {
		if likes := quality(accept, offer); likes > most {
			best, most = offer, likes
		}
	}
	return best, most > 0
}

// quality is the weight that an Accept header gives a type, by its most
// specific range: 0 not at all, 1 fully.
func quality(accept, offer string) (likes float64) {
	family, _, _ := strings.Cut(offer, "/")
	exact := 0
	for part := range strings.SplitSeq(accept, ",") {
		media, params, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		fits := map[string]int{offer: 3, family + "/*": 2, "*/*": 1}[media]
		if fits <= exact {
			continue
		}
		exact, likes = fits, 1
		if weight, given := params["q"]; given {
			if likes, err = strconv.ParseFloat(weight, 64); err != nil || likes < 0 || likes > 1 {
				likes = 0
			}
		}
	}
	return likes
}

// write writes an answer.
func (q *exchange) write(a *reply) {
	a.fields = q.fields
	form := q.form
	if a.Problem != nil {
		form = cmp.Or(q.errors, jsonType)
	}
	media := form
	if a.Problem != nil && media == jsonType {
		media = "application/problem+json"
	}
	body, err := a.encode(form)
	if err != nil {
		q.log.Error("an answer cannot be written", zap.String("operation", q.ID), zap.String("type", media),
			zap.Error(err))
		a = &reply{Status: http.StatusInternalServerError, Problem: problemOf(&api.Error{Code: api.Internal})}
		media = "application/problem+json"
		body, _ = a.encode(jsonType) // strings
	}
	free, err := q.room(len(body))
	if err != nil {
		p := q.explain(err)
		q.write(&reply{Status: p.Status, Problem: p})
		return
	}
	defer free()
	h := q.w.Header()
	h.Set("Content-Type", media)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	h.Add("Vary", "Accept")
	if a.tagged {
		told := body
		if q.form != jsonType { // an envelope contains the time
			told, _ = a.encode(jsonType) // strings and numbers
		}
		sum := sha256.Sum256(append([]byte(q.form), told...))
		etag := `"` + hex.EncodeToString(sum[:12]) + `"`
		h.Set("ETag", etag)
		h.Set("Cache-Control", cmp.Or(a.cache, "no-cache"))
		if q.matches(etag) {
			h.Del("Content-Length")
			h.Del("Content-Type")
			q.w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	if a.location != "" {
		h.Set("Location", a.location)
	}
	switch p := a.Problem; {
	case p != nil && p.after > 0:
		h.Set("Retry-After", strconv.Itoa(int((p.after+time.Second-1)/time.Second)))
	case a.Status == http.StatusServiceUnavailable:
		h.Set("Retry-After", strconv.Itoa(retryAfter))
	}
	q.send(a.Status, body)
}

// room takes a slot for an answer if it is large: clients that do not read hold as many for as long as writing may
// take. The outcome of a request that changes something is always written.
func (q *exchange) room(size int) (free func(), err error) {
	if size <= largeAnswer || q.posts() {
		return func() {}, nil
	}
	free, ok := q.large.Take(responder.Caller(q.r.Context()))
	if !ok {
		return nil, &api.Error{
			Code: api.TooMany, Message: "too many large answers have not been read: ask for less", Retryable: true,
		}
	}
	return free, nil
}

// send writes a complete body, with a write timeout. The HTTP server resets
// that when the request ends.
func (q *exchange) send(status int, body []byte) {
	_ = http.NewResponseController(q.w).SetWriteDeadline(time.Now().Add(writeTime))
	q.w.WriteHeader(status)
	if _, err := q.w.Write(body); err != nil && q.r.Method != http.MethodHead {
		panic(http.ErrAbortHandler) // the response is incomplete
	}
}

// matches reports whether the client has the answer already.
func (q *exchange) matches(etag string) bool {
	for part := range strings.SplitSeq(strings.Join(q.r.Header.Values("If-None-Match"), ","), ",") {
		if part = strings.TrimPrefix(strings.TrimSpace(part), "W/"); part == etag || part == "*" {
			return true
		}
	}
	return false
}

// adcpType is the media type of the AdCP envelope.
const adcpType = "application/adcp+json"

// envelop renders an answer as an AdCP envelope: the members of the plain JSON
// beside those of the envelope.
func envelop(a *reply) ([]byte, error) {
	if a.envelope != nil {
		return a.envelope, nil
	}
	p := adcp.Plain{Record: a.record}
	if a.Problem != nil {
		p = a.Problem.plain()
	}
	p.Late = a.late
	r := p.Response()
	r.At = api.TimeOf(time.Now())
	if a.fields != nil {
		r.Release, r.Context = a.fields.Release(), a.fields.Echo()
	}
	if a.Body != nil {
		var err error
		if r.Body, err = bounds.Encode(a.Body); err != nil {
			return nil, err
		}
	}
	return r.Encode(), nil
}

// Refuse writes an error of the server in front of the API as an AdCP envelope, for a client that
// prefers that, and returns true; for others it does nothing and returns false. It is the Refuse of
// a server's configuration.
func Refuse(w http.ResponseWriter, r *http.Request, status int, code, detail string) bool {
	if formOfErrors(strings.Join(r.Header.Values("Accept"), ",")) != adcpType {
		return false
	}
	p := adcp.Plain{Status: status, Code: code, Detail: detail, RetryAfter: retryAfter}
	if status == http.StatusNotFound { // of a path, not of a run
		p.Status = http.StatusBadRequest
	}
	e := p.Response()
	e.At = api.TimeOf(time.Now())
	w.Header().Set("Content-Type", adcpType)
	w.Header().Add("Vary", "Accept")
	w.WriteHeader(status)
	_, _ = w.Write(e.Encode())
	return true
}

// plain is a problem for the AdCP envelope.
func (p *Problem) plain() adcp.Plain {
	return adcp.Plain{Status: p.Status, Code: p.Code, Detail: p.Detail, Field: p.Field, Run: p.Run, Issues: p.Issues,
		RetryAfter: retryAfter}
}

// enveloped is an answer with a finished envelope: the answer to a write
// request depends on idempotency keys and earlier outcomes.
func enveloped(e adcp.Response) *reply {
	a := &reply{Status: e.HTTP(), envelope: e.Encode()}
	if e.Error == nil && e.Status == adcp.Submitted && e.TaskID != "" {
		a.location = "/v1/runs/" + e.TaskID
	}
	return a
}
