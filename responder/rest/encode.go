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

// retryAfter is in how many seconds to ask again what cannot be answered now.
const retryAfter = 2

// Answer is what a request came to, before it has a form.
type Answer struct {
	Status  int
	Body    any      // an *api.Run, *api.RunPage, *api.EventPage, *WorkerList or json.RawMessage; nil with a problem
	Problem *Problem // what went wrong; nil: nothing

	record   *runs.Record    // of the run that the body is; all that is known of it where it has none
	envelope json.RawMessage // of AdCP, where it is made already
	request  json.RawMessage // the body of a POST
	location string
	late     bool   // it is of a wait that ran out
	tagged   bool   // it has an ETag
	cache    string // Cache-Control of one that is tagged; "": no-cache
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

// Media types: the form of an [Answer] is JSON or [adcpType], and the others
// are no answers.
const (
	jsonType   = "application/json"
	streamType = "text/event-stream"
	bytesType  = "application/octet-stream"
)

// accept chooses the form of the answer. What is written as it is can be asked
// for by its own type; its errors are JSON.
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
		return &Problem{Status: http.StatusNotAcceptable, Code: "NOT_ACCEPTABLE", Detail: "this is given as " + strings.Join(offers, " or ")}
	}
	if got == adcpType {
		q.form = got
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
func (q *exchange) write(a *Answer) {
	a.request = q.body
	media := q.form
	if a.Problem != nil && media == jsonType {
		media = "application/problem+json"
	}
	body, err := a.encode(q.form)
	if err != nil {
		q.log.Error("an answer cannot be written", zap.String("operation", q.operation), zap.String("type", media), zap.Error(err))
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
		if q.form != jsonType { // it has the time in it
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

// send writes a whole body, and gives the client some time to take it. The
// HTTP server lifts that limit when the request ends.
func (q *exchange) send(status int, body []byte) {
	_ = http.NewResponseController(q.w).SetWriteDeadline(time.Now().Add(writeTime))
	q.w.WriteHeader(status)
	if _, err := q.w.Write(body); err != nil && q.r.Method != http.MethodHead {
		panic(http.ErrAbortHandler) // what was written is not the whole
	}
}

// matches reports whether the client knows the answer already.
func (q *exchange) matches(etag string) bool {
	for part := range strings.SplitSeq(strings.Join(q.r.Header.Values("If-None-Match"), ","), ",") {
		if part = strings.TrimPrefix(strings.TrimSpace(part), "W/"); part == etag || part == "*" {
			return true
		}
	}
	return false
}
