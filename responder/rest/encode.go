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
	"github.com/linesman/linesman/runs"
)

// retryAfter is the delay, in seconds, after which a client should retry.
const retryAfter = 2

// Answer is the outcome of a request, before encoding.
type Answer struct {
	Status  int
	Body    any      // an *api.Run, *api.RunPage, *api.EventPage, *WorkerList or json.RawMessage; nil with a problem
	Problem *Problem // the error; nil: none

	record   *runs.Record    // the record of the run in the body, or what is known of it
	envelope json.RawMessage // the AdCP envelope, if it is finished already
	request  json.RawMessage // the body of a POST
	location string
	late     bool   // the answer of a wait that timed out
	tagged   bool   // it has an ETag
	cache    string // Cache-Control if tagged; "": no-cache
}

func (a *Answer) encode(form string) ([]byte, error) {
	if form == adcpType {
		return envelop(a)
	}
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

// Media types: an [Answer] is encoded as JSON or [adcpType]; the others are
// written unencoded.
const (
	jsonType   = "application/json"
	streamType = "text/event-stream"
	bytesType  = "application/octet-stream"
)

// accept selects the media type of the answer. Unencoded contents can be
// requested by their own type; their errors are JSON.
func (q *exchange) accept() error {
	offers := []string{jsonType, adcpType}
	switch q.operation {
	case "describe":
		offers = offers[:1]
	case "getOutput":
		offers = []string{bytesType}
	case "getEvents":
		offers = append(offers, streamType)
	}
	q.form = jsonType // of an error
	got, ok := choose(strings.Join(q.r.Header.Values("Accept"), ","), offers)
	if !ok {
		return &Problem{Status: http.StatusNotAcceptable, Code: "NOT_ACCEPTABLE", Detail: "this is given as " +
			strings.Join(offers, " or ")}
	}
	if got == adcpType {
		q.form = got
	}
	q.stream = got == streamType
	return nil
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
func (q *exchange) write(a *Answer) {
	a.request = q.body
	media := q.form
	if a.Problem != nil && media == jsonType {
		media = "application/problem+json"
	}
	body, err := a.encode(q.form)
	if err != nil {
		q.log.Error("an answer cannot be written", zap.String("operation", q.operation), zap.String("type", media),
			zap.Error(err))
		a = &Answer{Status: http.StatusInternalServerError, Problem: problemOf(&api.Error{Code: api.Internal})}
		media = "application/problem+json"
		body, _ = a.encode(jsonType) // strings
	}
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
	if a.Status == http.StatusServiceUnavailable {
		h.Set("Retry-After", strconv.Itoa(retryAfter))
	}
	q.send(a.Status, body)
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
