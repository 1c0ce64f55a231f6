// Package natsapi serves endpoints as a NATS micro service named linesman:
// `nats service ls`, `info` and `stats` show it. It owns the subjects, the limit
// of requests in flight, and the headers of errors. It does not know what a
// request means.
//
//	PREFIX.api.VERB    a request of package api, its outcome: see VerbEndpoints
//	PREFIX.api.TOOL    a v3.6 tool under its name: its arguments, its envelope
//	PREFIX.api.tool    a call of any tool, with its progress: see CallEndpoints
//
// An error also has the headers Nats-Service-Error-Code and Nats-Service-Error.
// Several responders form a queue group.
package natsapi

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"go.uber.org/zap"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/internal/lazy"
	"github.com/linesman/linesman/responder"
)

const (
	// maxCalls is the number of requests in flight; one more is refused with code
	// 503. Each connection has at most the share of a caller, see [responder.Slots].
	maxCalls = 4096
)

// Config is what the service needs.
type Config struct {
	Conn    *nats.Conn // to the inside account
	Root    string     // subject that the endpoints are below: PREFIX.api
	Version string     // of linesman
	Log     *zap.Logger

	Metadata map[string]string // of the service

	Endpoints []Endpoint

	// Lease is after how long a held request ends that its caller does not renew. Default: 90 s.
	Lease time.Duration

	// Listening is called once requests from any connection reach the service.
	// It may be nil.
	Listening func()

	// Answered, if set, is called for each request: its endpoint, the code of its error, 0 if
	// there is none, and how long it took.
	Answered func(endpoint string, code int, took time.Duration)
}

// Serve answers requests until ctx ends. Then it cancels the requests in flight
// and returns nil.
func Serve(ctx context.Context, c Config) error {
	c.Lease = cmp.Or(c.Lease, 3*bus.RenewEvery)
	s := &service{Config: c, ctx: ctx, slots: responder.NewSlots(maxCalls), idle: make(chan job)}
	defer s.end()
	r := newRegistration(c.Version, c.Metadata)
	defer r.stop()
	if err := s.hearCallers(r); err != nil {
		return fmt.Errorf("NATS service: %w", err)
	}
	for _, e := range c.Endpoints {
		if err := r.add(c, e, s.request); err != nil {
			return fmt.Errorf("NATS service: %w", err)
		}
	}
	if err := r.announce(c.Conn); err != nil {
		return fmt.Errorf("NATS service: %w", err)
	}
	if c.Listening != nil && heard(ctx, c.Conn) {
		c.Listening()
	}
	<-ctx.Done()
	return nil
}

// heard waits until the server has received all subscriptions. It reports false
// if ctx ends first or the connection is closed.
func heard(ctx context.Context, conn *nats.Conn) bool {
	for ctx.Err() == nil && !conn.IsClosed() {
		within, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := conn.FlushWithContext(within)
		cancel()
		if err == nil {
			return true
		}
		select { // without a server, the flush fails at once
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
	return false
}

type service struct {
	Config
	ctx   context.Context // ends all calls
	mu    sync.Mutex      // guards over, and calls.Go
	over  bool
	calls sync.WaitGroup
	slots *responder.Slots

	held sync.Map // of the requests that are held, by their reply subject

	idle    chan job // to idle goroutines
	resting atomic.Int64
}

// end refuses later requests, which a stopped service may still receive, and
// waits for the calls in flight.
func (s *service) end() {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	s.calls.Wait()
}

func (s *service) request(j job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		s.respond(j, ends)
		return
	}
	free, ok := s.slots.Take(callerOf(j.request.Reply))
	if !ok {
		s.respond(j, Answer{Code: http.StatusServiceUnavailable, Text: "too many requests are in flight"})
		return
	}
	j.free = free
	select {
	case s.idle <- j: // an idle goroutine has a stack of the right size
	default:
		s.calls.Go(func() { s.work(j) })
	}
}

// maxIdle is the number of goroutines that are kept for later requests.
const maxIdle = 64

// work answers a request, and then further ones. It returns if maxIdle other
// goroutines are idle already.
func (s *service) work(j job) {
	for {
		s.answer(j)
		j.free()
		if s.resting.Add(1) > maxIdle {
			s.resting.Add(-1)
			return
		}
		select {
		case j = <-s.idle:
			s.resting.Add(-1)
		case <-s.ctx.Done():
			return
		}
	}
}

// callerOf returns the caller of a request: the connection whose inbox gets the
// answer. The last token of an inbox belongs to the single request.
func callerOf(reply string) string { return reply[:max(strings.LastIndexByte(reply, '.'), 0)] }

// job is a received request.
type job struct {
	to      *endpoint
	request *nats.Msg
	begun   time.Time
	free    func() // gives the slot back
}

func (s *service) answer(j job) {
	ctx := responder.WithTraceparent(s.ctx, traceparent(j.request.Header))
	if j.to.Hold != nil {
		s.respond(j, s.hold(ctx, j))
		return
	}
	a := j.to.Do(ctx, j.request.Data)
	if len(a.Body) > s.most() {
		a = Answer{Code: http.StatusRequestEntityTooLarge, Text: fmt.Sprintf("the answer has %d bytes, more than a "+
			"message may: ask for less, with max_output_bytes or without events", len(a.Body))}
	}
	s.respond(j, a)
}

// most is how many bytes of an answer fit into a message, beside its headers.
func (s *service) most() int { return int(s.Conn.MaxPayload()) - 1024 }

// traceparent returns the trace context of a request. Clients write its name as it is, or as
// HTTP does.
func traceparent(h nats.Header) string {
	return cmp.Or(h.Get(responder.Traceparent), http.Header(h).Get(responder.Traceparent))
}

// respond sends an answer, and counts the request. The statistics get the text of
// an error only up to the first colon, because the rest may quote the request.
func (s *service) respond(j job, a Answer) {
	m, failure := nats.NewMsg(j.request.Reply), ""
	m.Data = a.Body
	if a.Type != "" {
		m.Header.Set(bus.TypeHeader, a.Type)
	}
	if a.Code != 0 {
		if a.Body == nil && j.to.Refuse != nil {
			m.Data = j.to.Refuse(a.Code, a.Text)
		}
		code := strconv.Itoa(a.Code)
		m.Header[micro.ErrorCodeHeader], m.Header[micro.ErrorHeader] = []string{code}, []string{a.Text}
		what, _, _ := strings.Cut(a.Text, ": ")
		failure = code + ":" + what
	}
	if m.Subject != "" {
		if err := s.Conn.PublishMsg(m); err != nil {
			s.Log.Debug("answer", zap.Error(err))
			failure = "500:the answer was not sent"
		}
	}
	took := time.Since(j.begun)
	j.to.count(took, failure)
	if s.Answered != nil {
		s.Answered(j.to.Name, a.Code, took)
	}
}

// Semver returns a version in the form that a service needs.
func Semver(s string) string {
	s = strings.TrimPrefix(s, "v")
	if !semantic().MatchString(s) {
		return "0.0.0"
	}
	return s
}

var semantic = lazy.Regexp(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)

// line is s as a header takes it: printable ASCII, at most 512 bytes.
func line(s string) string {
	b := []byte(s[:min(len(s), 512)])
	for i, c := range b {
		if c < ' ' || c >= 0x7f {
			b[i] = ' '
		}
	}
	return string(b)
}
