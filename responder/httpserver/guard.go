package httpserver

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
	"time"

	"go.uber.org/zap"
)

// handler wraps the server's handlers with the checks of every request.
func (s *Server) handler() http.Handler {
	return http.HandlerFunc(func(plain http.ResponseWriter, r *http.Request) {
		w := &response{ResponseWriter: plain}
		defer s.recoverPanic(w, r)
		for name, value := range defaultHeaders {
			w.Header().Set(name, value)
		}
		if s.foreign(r) {
			closeAfter(w, r)
			s.refuse(w, r, http.StatusForbidden, "FORBIDDEN", "the Host or Origin header names another machine")
			return
		}
		if h := s.open(r); h != nil {
			h.ServeHTTP(w, r)
			return
		}
		who, of := s.authenticate(r)
		if who.scopes == 0 {
			s.unauthorized(w, r, who)
			return
		}
		defer busy(r.Context())()
		if climbs(r.URL.Path) { // the mux would redirect: /v1/runs/../events is not the path of a run
			s.refuse(w, r, http.StatusNotFound, "NOT_FOUND", "there is nothing at this path")
			return
		}
		h, pattern := s.mux.Handler(r)
		if pattern == "" {
			s.unmatched(w, r, h)
			return
		}
		if needed := s.needs[pattern]; needed&^who.scopes != 0 {
			s.forbidden(w, r, needed, who.scopes)
			return
		}
		ctx, end := s.whileValid(r.Context(), of)
		defer end()
		s.mux.ServeHTTP(w, r.WithContext(context.WithValue(ctx, callerKey{}, who)))
	})
}

// whileValid returns a context for a request. It ends soon after the token of the request was
// removed, which ends streams; end releases it.
func (s *Server) whileValid(ctx context.Context, of identity) (_ context.Context, end context.CancelFunc) {
	ctx, end = context.WithCancel(ctx)
	if of == (identity{}) { // the token file is read at the start only
		return ctx, end
	}
	go func() {
		defer end()
		tick := time.NewTicker(s.wait.token)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if who := s.owner(ctx, of); who.scopes == 0 && !who.unsure { // an outage ends no stream
					return
				}
			}
		}
	}()
	return ctx, end
}

// open returns the handler of a request that needs no token, or checks it itself; nil for others.
func (s *Server) open(r *http.Request) http.Handler {
	path := r.URL.Path
	switch {
	case path == "/healthz":
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { line(w, http.StatusOK, "ok") })
	case path == "/readyz":
		return http.HandlerFunc(s.readyz)
	case path == "/metrics" && s.config.Metrics != nil:
		return http.HandlerFunc(s.metrics)
	case s.config.Monitor:
		return http.HandlerFunc(s.nothing)
	}
	if s.config.Page != nil && !climbs(path) && (path != "/" || strings.Contains(r.Header.Get("Accept"), "text/html")) {
		if h, pattern := s.config.Page.Handler(r); pattern != "" {
			return h
		}
	}
	switch {
	case s.held.Load():
		return http.HandlerFunc(s.unready)
	case path == "/" && (r.Method == http.MethodGet || r.Method == http.MethodHead) &&
		r.Header.Get("Authorization") == "":
		return http.HandlerFunc(s.front)
	case path == "/signin":
		return http.HandlerFunc(s.signIn)
	case path == "/session":
		return http.HandlerFunc(s.session)
	}
	if h, pattern := s.public.Handler(r); pattern != "" {
		return h
	}
	return s.unknownPage(r)
}

// unknownPage returns the handler of "/" if a browser opens a path that does not exist: the
// page then says so, to a person who may not be signed in. Nil for other requests.
func (s *Server) unknownPage(r *http.Request) http.Handler {
	if s.config.Page == nil || r.Method != http.MethodGet || r.Header.Get("Sec-Fetch-Mode") != "navigate" ||
		r.Header.Get("Authorization") != "" || climbs(r.URL.Path) {
		return nil
	}
	if _, pattern := s.mux.Handler(r); pattern != "" {
		return nil
	}
	front := r.Clone(r.Context())
	front.URL.Path, front.URL.RawPath = "/", ""
	if h, pattern := s.config.Page.Handler(front); pattern != "" {
		return h
	}
	return nil
}

func (s *Server) unready(w http.ResponseWriter, r *http.Request) {
	closeAfter(w, r)
	s.refuse(w, r, http.StatusServiceUnavailable, "UNAVAILABLE", "not ready yet: /readyz says what is missing")
}

func (s *Server) nothing(w http.ResponseWriter, r *http.Request) {
	closeAfter(w, r)
	s.refuse(w, r, http.StatusNotFound, "NOT_FOUND", "there is nothing at this path")
}

// unauthorized refuses a request whose caller has no scopes: there is no valid token, or it
// cannot be known whether it is valid.
func (s *Server) unauthorized(w http.ResponseWriter, r *http.Request, who caller) {
	if who.unsure {
		s.unsure(w, r)
		return
	}
	closeAfter(w, r)
	w.Header().Set("WWW-Authenticate", `Bearer realm="linesman"`)
	s.refuse(w, r, http.StatusUnauthorized, "UNAUTHORIZED", "a bearer token is missing or wrong")
}

// unsure refuses a request for which the shared store would be needed.
func (s *Server) unsure(w http.ResponseWriter, r *http.Request) {
	closeAfter(w, r)
	w.Header().Set("Retry-After", "5")
	s.refuse(w, r, http.StatusServiceUnavailable, "UNAVAILABLE",
		"tokens and sessions cannot be checked, because NATS does not answer; try again")
}

// forbidden refuses a request whose token lacks scopes.
func (s *Server) forbidden(w http.ResponseWriter, r *http.Request, needed, there Scopes) {
	w.Header().Set("WWW-Authenticate", `Bearer realm="linesman", error="insufficient_scope", scope="`+
		strings.Join(needed.Names(), " ")+`"`)
	s.refuse(w, r, http.StatusForbidden, "FORBIDDEN", missingScopes(needed, there))
}

// metrics answers /metrics, which does not wait for NATS.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request) {
	if !s.config.Monitor {
		who, _ := s.authenticate(r)
		switch {
		case who.scopes == 0:
			s.unauthorized(w, r, who)
			return
		case who.scopes&metrics == 0:
			s.forbidden(w, r, metrics, who.scopes)
			return
		}
		defer busy(r.Context())()
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		closeAfter(w, r)
		w.Header().Set("Allow", "GET, HEAD")
		s.refuse(w, r, http.StatusMethodNotAllowed, "METHOD_NOT_ALLOWED", "this path does not take "+r.Method)
		return
	}
	s.config.Metrics.ServeHTTP(w, r)
}

// defaultHeaders are the headers of every response. A handler may override
// them. No page that is served has subresources, so nothing may be loaded or
// framed.
var defaultHeaders = map[string]string{
	"X-Content-Type-Options":       "nosniff",
	"Cache-Control":                "no-store",
	"Content-Security-Policy":      "default-src 'none'; frame-ancestors 'none'",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Referrer-Policy":              "no-referrer",
}

// closeAfter closes the connection after the response to a refused request with
// a body, so that the server does not wait for the body.
func closeAfter(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		w.Header().Set("Connection", "close")
	}
}

type callerKey struct{}

// Caller returns the name of the token that a request was made with, from the
// request's context; "" is the token of the token file.
func Caller(ctx context.Context) string {
	who, _ := ctx.Value(callerKey{}).(caller)
	return who.name
}

// Allows reports whether the token of a request has all of the given scopes,
// from the request's context: for handlers that need more than their pattern
// for some requests.
func Allows(ctx context.Context, needed Scopes) bool {
	who, _ := ctx.Value(callerKey{}).(caller)
	return needed&^who.scopes == 0
}

// foreign reports whether a page of another site may have made the request:
// through a name that resolves to this machine (DNS rebinding), or across
// origins.
func (s *Server) foreign(r *http.Request) bool {
	if s.loopback && !isLoopback(hostname(r.Host)) {
		return true
	}
	for _, origin := range r.Header.Values("Origin") {
		u, err := url.Parse(origin)
		switch {
		case err != nil, u.Host == "":
			return true
		case s.loopback && !isLoopback(u.Hostname()):
			return true
		case !s.loopback && !strings.EqualFold(u.Host, r.Host):
			return true
		}
	}
	return false
}

func hostname(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		return h
	}
	return host
}

// authenticate returns the caller of a request and the token, without scopes if that is missing
// or invalid. A session counts for REST and for /session itself, and only without an
// Authorization header.
func (s *Server) authenticate(r *http.Request) (caller, identity) {
	if r.Header.Get("Authorization") != "" {
		return s.bearer(r)
	}
	if r.URL.Path == "/session" || strings.HasPrefix(r.URL.Path, "/v1/") {
		return s.inSession(r)
	}
	return caller{}, identity{}
}

// bearer returns the caller whose token the request has, without scopes if the token is
// missing or invalid.
func (s *Server) bearer(r *http.Request) (caller, identity) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return caller{}, identity{}
	}
	return s.ofToken(r.Context(), strings.TrimSpace(token))
}

// ofToken returns the caller that has a token, without scopes if it is invalid. Hashes are
// compared, so that the time reveals nothing, not even the length.
func (s *Server) ofToken(ctx context.Context, token string) (caller, identity) {
	got := sha256.Sum256([]byte(token))
	if subtle.ConstantTimeCompare(got[:], s.token[:]) == 1 {
		return caller{scopes: allScopes | metrics}, identity{}
	}
	return s.owner(ctx, got), got
}

func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), readyTime)
	defer cancel()
	if s.config.Ready != nil {
		if err := s.config.Ready(ctx); err != nil {
			reason := strings.Join(strings.Fields(err.Error()), " ")
			line(w, http.StatusServiceUnavailable, strings.ToValidUTF8(reason[:min(len(reason), maxReason)], ""))
			return
		}
	}
	role := "ok"
	if s.config.Role != nil {
		role = s.config.Role()
	}
	line(w, http.StatusOK, role)
}

// climbs reports whether a path has a segment "..".
func climbs(path string) bool { return strings.Contains(path+"/", "/../") }

// unmatched answers in JSON where the mux would answer in plain text: 404, or
// 405 with the allowed methods.
func (s *Server) unmatched(w http.ResponseWriter, r *http.Request, h http.Handler) {
	verdict := &status{header: w.Header()}
	h.ServeHTTP(verdict, r)
	if verdict.code == http.StatusMethodNotAllowed {
		s.refuse(w, r, verdict.code, "METHOD_NOT_ALLOWED", "this path does not take "+r.Method)
		return
	}
	s.refuse(w, r, http.StatusNotFound, "NOT_FOUND", "there is nothing at this path")
}

// recoverPanic answers for a handler that panicked, or cuts off what it has begun to
// answer. The value of a panic may contain request data, so the log gets its type and the
// stack.
func (s *Server) recoverPanic(w *response, r *http.Request) {
	p := recover()
	if p == nil {
		return
	}
	if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(p)
	}
	s.log.Error("panic", zap.String("pattern", r.Pattern), zap.String("type", fmt.Sprintf("%T", p)),
		zap.ByteString("stack", debug.Stack()))
	if w.begun {
		panic(http.ErrAbortHandler)
	}
	s.refuse(w, r, http.StatusInternalServerError, "INTERNAL", "internal error; see the log of linesman")
}

// refuse responds with an error: the problem details of RFC 9457, or what the config writes.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, code int, name, message string) {
	if s.config.Refuse != nil && s.config.Refuse(w, r, code, name, message) {
		return
	}
	body, err := json.Marshal(struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
		Code   string `json:"code"`
	}{"about:blank", http.StatusText(code), code, message, name})
	if err != nil {
		panic(err) // strings always encode
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(code)
	_, _ = w.Write(append(body, '\n'))
}

func line(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, text+"\n")
}

// status records the status and headers of a response, and discards its body.
type status struct {
	header http.Header
	code   int
}

func (s *status) Header() http.Header         { return s.header }
func (s *status) WriteHeader(code int)        { s.code = code }
func (s *status) Write(p []byte) (int, error) { return len(p), nil }

// response knows whether the answer to a request has begun.
type response struct {
	http.ResponseWriter
	begun bool
}

func (a *response) WriteHeader(code int) {
	a.begun = a.begun || code >= http.StatusOK || code == http.StatusSwitchingProtocols
	a.ResponseWriter.WriteHeader(code)
}

func (a *response) Write(b []byte) (int, error) {
	a.begun = true
	return a.ResponseWriter.Write(b)
}

// FlushError is Flush for [http.ResponseController].
func (a *response) FlushError() error {
	a.begun = true
	return http.NewResponseController(a.ResponseWriter).Flush()
}

// Flush implements [http.Flusher].
func (a *response) Flush() { _ = a.FlushError() }

// Unwrap is for [http.ResponseController].
func (a *response) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// quiet is the error log of net/http: mistakes of clients, at level debug.
func quiet(l *zap.Logger) *log.Logger {
	std, err := zap.NewStdLogAt(l, zap.DebugLevel)
	if err != nil {
		panic(err) // the level exists
	}
	return std
}
