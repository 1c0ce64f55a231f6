package rest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"
)

// Answer is what a request came to, before it is written in some form.
type Answer struct {
	Operation string          // as in openapi.json: getRun, …
	Request   json.RawMessage // the body of a POST, nil where there was none
	Status    int
	Body      any      // a *Run, *RunList, *EventPage, *WorkerList or json.RawMessage; nil with a problem
	Problem   *Problem // what went wrong; nil: nothing

	location string
	tagged   bool // it has an ETag
}

// Encoder writes answers in another form than plain JSON, for requests whose
// Accept asks for it.
type Encoder interface {
	// Type is the media type, without parameters.
	Type() string
	// Encode returns the body of an answer. The status stays.
	Encode(Answer) ([]byte, error)
}

// plain is the form of openapi.json.
type plain struct{}

func (plain) Type() string { return "application/json" }

func (plain) Encode(a Answer) ([]byte, error) {
	if raw, ok := a.Body.(json.RawMessage); ok {
		return raw, nil
	}
	body := a.Body
	if a.Problem != nil {
		body = a.Problem
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(body)
	return b.Bytes(), err
}

// Media types of answers that are no [Answer].
const (
	streamType = "text/event-stream"
	bytesType  = "application/octet-stream"
)

// accept chooses the form of the answer. What is written as it is can be asked
// for by its own type; its errors are JSON.
func (q *request) accept() error {
	q.encoder = plain{}
	offers := []string{plain{}.Type()}
	switch q.operation {
	case "getOutput":
		offers = []string{bytesType}
	case "getEvents":
		offers = append(offers, streamType)
	}
	if q.operation != "getOutput" && q.operation != "describe" {
		for _, e := range q.Encoders {
			offers = append(offers, e.Type())
		}
	}
	got, ok := choose(strings.Join(q.r.Header.Values("Accept"), ","), offers)
	if !ok {
		return &Problem{Status: http.StatusNotAcceptable, Code: "NOT_ACCEPTABLE", Detail: "this is given as " + strings.Join(offers, " or ")}
	}
	for _, e := range q.Encoders {
		if e.Type() == got {
			q.encoder = e
		}
	}
	q.stream = got == streamType
	return nil
}

// choose finds the offer that an Accept header likes best, the first of those
// it likes alike. No header accepts all.
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

// quality is how much an Accept header likes a type, by the range that names
// it most exactly: 0 not at all, 1 fully.
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
func (q *request) write(a *Answer) {
	a.Operation, a.Request = q.operation, q.body
	media := q.encoder.Type()
	if a.Problem != nil && q.encoder == (plain{}) {
		media = "application/problem+json"
	}
	body, err := q.encoder.Encode(*a)
	if err != nil {
		q.log.Error("an answer cannot be written", zap.String("operation", q.operation), zap.String("type", media), zap.Error(err))
		a = &Answer{Operation: q.operation, Status: http.StatusInternalServerError, Problem: internal()}
		media = "application/problem+json"
		body, _ = plain{}.Encode(*a) // strings
	}
	h := q.w.Header()
	h.Set("Content-Type", media)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	h.Add("Vary", "Accept")
	if a.tagged {
		sum := sha256.Sum256(body)
		etag := `"` + hex.EncodeToString(sum[:12]) + `"`
		h.Set("ETag", etag)
		h.Set("Cache-Control", "no-cache")
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
	if a.Status == http.StatusServiceUnavailable {
		h.Set("Retry-After", "2")
	}
	q.send(a.Status, body)
}

// send writes a whole body, and gives the client some time to take it. The
// HTTP server lifts that limit when the request ends.
func (q *request) send(status int, body []byte) {
	_ = http.NewResponseController(q.w).SetWriteDeadline(time.Now().Add(writeTime))
	q.w.WriteHeader(status)
	if _, err := q.w.Write(body); err != nil && q.r.Method != http.MethodHead {
		panic(http.ErrAbortHandler) // what was written is not the whole
	}
}

// matches reports whether the client knows the answer already.
func (q *request) matches(etag string) bool {
	for part := range strings.SplitSeq(strings.Join(q.r.Header.Values("If-None-Match"), ","), ",") {
		if part = strings.TrimPrefix(strings.TrimSpace(part), "W/"); part == etag || part == "*" {
			return true
		}
	}
	return false
}
