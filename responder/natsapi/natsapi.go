// Package natsapi offers the tools as a NATS service, named linesman, which
// describes itself as micro does: `nats service ls`, `info` and `stats` show
// it. A request's body is the tool's arguments as JSON, its answer the envelope
// that every surface gives.
//
//	PREFIX.api.TOOL    each tool under its own name
//	PREFIX.api.VERB    status, results, wait, submit, cancel, cleanup
//
// Where the envelope holds an error the answer has the headers
// Nats-Service-Error-Code and Nats-Service-Error, too. Several responders
// share the requests.
package natsapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/linesman/linesman/responder/adcp"
	v36 "github.com/linesman/linesman/responder/v36"
)

// Verbs are the short names of the tools that people ask for most.
var Verbs = map[string]string{
	"status":  "_codex_local_status",
	"results": "_codex_local_results",
	"wait":    "_codex_local_wait",
	"submit":  "_codex_local_exec",
	"cancel":  "_codex_local_cancel",
	"cleanup": "_codex_cleanup_registry",
}

const (
	maxCalls = 4096 // requests in flight; one more is refused with code 503
	maxQuick = 256  // bytes of a request that may be answered at once
)

// Tools is what can be called.
type Tools interface {
	// Call runs one tool. The error is [v36.ErrUnknownTool] alone; all else is an
	// answer.
	Call(ctx context.Context, tool string, args json.RawMessage, progress func(v36.Progress)) (v36.Answer, error)
	// Quick is Call for what takes no time; it reports false for all else. It is
	// called first, in the goroutine that receives the requests.
	Quick(tool string, args json.RawMessage) (v36.Answer, bool)
}

// Config is what the service needs.
type Config struct {
	Conn    *nats.Conn // to the inside account
	Root    string     // subject that the endpoints are below: PREFIX.api
	Tools   Tools
	List    []v36.Tool
	Version string // of linesman
	Log     *zap.Logger

	// Listening is called once requests from any connection reach the service.
	// It may be nil.
	Listening func()
}

// Serve answers requests until ctx ends; then those in flight are given up,
// and it returns nil.
func Serve(ctx context.Context, c Config) error {
	s := &service{Config: c, ctx: ctx, slots: make(chan struct{}, maxCalls), idle: make(chan job)}
	defer s.end()
	r := newRegistration(c.Version)
	defer r.stop()
	byName := map[string]v36.Tool{}
	for _, t := range c.List {
		byName[t.Name] = t
		if err := r.add(c, t.Name, t, s.request); err != nil {
			return fmt.Errorf("NATS service: %w", err)
		}
	}
	for _, verb := range slices.Sorted(maps.Keys(Verbs)) {
		if err := r.add(c, verb, byName[Verbs[verb]], s.request); err != nil {
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

// heard waits until the server has the subscriptions made so far. It reports
// false when ctx ends first, or the connection is closed for good.
func heard(ctx context.Context, conn *nats.Conn) bool {
	for ctx.Err() == nil && !conn.IsClosed() {
		within, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := conn.FlushWithContext(within)
		cancel()
		if err == nil {
			return true
		}
		select { // while the server is away it fails at once
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
	return false
}

type service struct {
	Config
	ctx   context.Context // ends all calls
	mu    sync.Mutex      // for over, and for calls that begin
	over  bool
	calls sync.WaitGroup
	slots chan struct{}

	idle    chan job // to those who rest; nobody waits to send
	resting atomic.Int64
}

// end refuses what comes from now on, for a service that is stopped still gets
// some requests, and waits for the calls in flight.
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
		s.fail(j, "503", "this responder ends: ask again", nil)
		return
	}
	if body := j.request.Data; len(body) <= maxQuick {
		if a, done := s.Tools.Quick(j.to.tool, arguments(body)); done {
			s.respond(j, &nats.Msg{Data: a.Envelope}, "")
			return
		}
	}
	select {
	case s.slots <- struct{}{}:
	default:
		s.fail(j, "503", "too many requests are in flight", nil)
		return
	}
	select {
	case s.idle <- j: // who has done one before needs no new stack
	default:
		s.calls.Go(func() { s.work(j) })
	}
}

// maxIdle is how many goroutines are kept for the next requests.
const maxIdle = 64

// job is a request that has a slot.
type job struct {
	to      *endpoint
	request *nats.Msg
	begun   time.Time
}

// work answers a request, so that the next need not wait for it, and then
// others, unless enough are there for them.
func (s *service) work(j job) {
	for {
		s.answer(j)
		<-s.slots
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

func (s *service) answer(j job) {
	a, err := s.Tools.Call(s.ctx, j.to.tool, arguments(j.request.Data), nil)
	switch {
	case errors.Is(err, v36.ErrUnknownTool): // the list names only those that there are
		s.fail(j, "404", "unknown tool", nil)
	case err != nil:
		s.fail(j, "500", "internal error", nil)
	case int64(len(a.Envelope)) > s.Conn.MaxPayload()-1024:
		s.fail(j, "413", fmt.Sprintf("the answer has %d bytes, more than a message may: ask for less, with max_output_bytes or without events", len(a.Envelope)), nil)
	case a.IsError:
		code, text := problem(a)
		s.fail(j, code, text, a.Envelope)
	default:
		s.respond(j, &nats.Msg{Data: a.Envelope}, "")
	}
}

// arguments are a request's, which wants JSON unless it says something else:
// no page is made then that nobody sees.
func arguments(body []byte) []byte {
	const format = `{"format":"json"`
	body = bytes.Trim(body, space)
	switch {
	case len(body) == 0, string(body) == "null":
		return []byte(format + "}")
	case body[0] != '{', mayHave(body, "format") && gjson.GetBytes(body, "format").Exists():
		return body
	}
	rest := bytes.Trim(body[1:], space)
	out := append(make([]byte, 0, len(format)+1+len(rest)), format...)
	if len(rest) > 0 && rest[0] != '}' {
		out = append(out, ',')
	}
	return append(out, rest...)
}

// space is what JSON takes for that, and nothing else is.
const space = " \t\r\n"

// mayHave reports whether a name stands somewhere in JSON: it is quick where
// there is none.
func mayHave(body []byte, name string) bool {
	return bytes.IndexByte(body, '\\') >= 0 || bytes.Contains(body, []byte(name))
}

// fail answers with an error. The statistics get no more of its text than what
// stands before the first colon: behind it a request may be quoted.
func (s *service) fail(j job, code, text string, body []byte) {
	what, _, _ := strings.Cut(text, ": ")
	s.respond(j, &nats.Msg{Data: body, Header: nats.Header{micro.ErrorCodeHeader: {code}, micro.ErrorHeader: {text}}}, code+":"+what)
}

// respond answers, and counts the request; failure is "" for one that succeeded.
func (s *service) respond(j job, m *nats.Msg, failure string) {
	if m.Subject = j.request.Reply; m.Subject != "" {
		if err := s.Conn.PublishMsg(m); err != nil {
			s.Log.Debug("answer", zap.Error(err))
			failure = "500:the answer was not sent"
		}
	}
	j.to.count(time.Since(j.begun), failure)
}

// codes are the codes of v3.6 in the headers, by those of HTTP.
var codes = map[string]string{
	"VALIDATION": "400", "NOT_FOUND": "404", "TIMEOUT": "408", "INTERNAL": "500", "UNSUPPORTED": "501", "TOOL_ERROR": "502",
}

// problem is an answer's error, of v3.6 or AdCP, as headers have it: a code, and
// one line.
func problem(a v36.Answer) (code, text string) {
	if a.Code == "" {
		return "500", "internal error"
	}
	if code = codes[a.Code]; code == "" {
		code = strconv.Itoa(adcp.Code(a.Code).HTTP())
	}
	return code, a.Code + ": " + line(a.Message)
}

// semver is a version as a service must have it.
func semver(s string) string {
	s = strings.TrimPrefix(s, "v")
	if !semantic.MatchString(s) {
		return "0.0.0"
	}
	return s
}

var semantic = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)

// line is s as a header takes it.
func line(s string) string {
	const most = 512
	b := make([]byte, 0, min(len(s), most))
	for i := 0; i < len(s) && len(b) < most; i++ {
		c := s[i]
		if c < ' ' || c >= 0x7f {
			c = ' '
		}
		b = append(b, c)
	}
	return string(b)
}
