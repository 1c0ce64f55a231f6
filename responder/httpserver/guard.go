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

	"go.uber.org/zap"
)

// handler is what every request goes through.
func (s *Server) handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer s.recover(w, r)
		for name, value := range standing {
			w.Header().Set(name, value)
		}
		if s.foreign(r) {
			turnAway(w, r)
			refuse(w, http.StatusForbidden, "FORBIDDEN", "the Host or Origin header names another machine")
			return
		}
		switch r.URL.Path {
		case "/healthz":
			line(w, http.StatusOK, "ok")
			return
		case "/readyz":
			s.readyz(w, r)
			return
		case "/": // it lists what is hung on the server
			if !s.held.Load() && (r.Method == http.MethodGet || r.Method == http.MethodHead) && r.Header.Get("Authorization") == "" {
				s.front(w)
				return
			}
		}
		if s.held.Load() {
			turnAway(w, r)
			refuse(w, http.StatusServiceUnavailable, "UNAVAILABLE", "not ready yet: /readyz says what is missing")
			return
		}
		if h, pattern := s.public.Handler(r); pattern != "" {
			h.ServeHTTP(w, r)
			return
		}
		who := s.known(r)
		there := who.scopes
		if there == 0 {
			turnAway(w, r)
			w.Header().Set("WWW-Authenticate", `Bearer realm="linesman"`)
			refuse(w, http.StatusUnauthorized, "UNAUTHORIZED", "a bearer token is missing or wrong")
			return
		}
		defer busy(r.Context())()
		h, pattern := s.mux.Handler(r)
		if pattern == "" {
			s.unmatched(w, r, h)
			return
		}
		if needed := s.needs[pattern]; needed&^there != 0 {
			w.Header().Set("WWW-Authenticate", `Bearer realm="linesman", error="insufficient_scope", scope="`+strings.Join(needed.Names(), " ")+`"`)
			refuse(w, http.StatusForbidden, "FORBIDDEN", lacking(needed, there))
			return
		}
		s.mux.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, who)))
	})
}

// standing are the headers of every answer. A handler may say otherwise of
// its own. No page that is served has parts, so nothing may be loaded or framed.
var standing = map[string]string{
	"X-Content-Type-Options":       "nosniff",
	"Cache-Control":                "no-store",
	"Content-Security-Policy":      "default-src 'none'; frame-ancestors 'none'",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Referrer-Policy":              "no-referrer",
}

// turnAway has the connection closed behind the answer to a request with a
// body: what nobody wants is not waited for.
func turnAway(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		w.Header().Set("Connection", "close")
	}
}

type callerKey struct{}

// Caller is the name of the token that a request was made with, by the
// request's context; "" is the token of the token file.
func Caller(ctx context.Context) string {
	who, _ := ctx.Value(callerKey{}).(caller)
	return who.name
}

// Allows reports whether the token that a request was made with has all of some
// scopes, by the request's context: for a handler that needs more than its
// pattern does for a part of what it is asked.
func Allows(ctx context.Context, needed Scopes) bool {
	who, _ := ctx.Value(callerKey{}).(caller)
	return needed&^who.scopes == 0
}

// foreign reports whether a page of another site may have made the request:
// by a name of its own that resolves to us (DNS rebinding), or across origins.
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

// known is who shows a token with the request, without scopes where it is none
// that counts. Hashes are compared, so that the time tells nothing of its
// length either.
func (s *Server) known(r *http.Request) caller {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return caller{}
	}
	got := sha256.Sum256([]byte(strings.TrimSpace(token)))
	if subtle.ConstantTimeCompare(got[:], s.token[:]) == 1 {
		return caller{scopes: All}
	}
	return s.tokens.of(got)
}

func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), readyTime)
	defer cancel()
	if err := s.ready(ctx); err != nil {
		reason := strings.Join(strings.Fields(err.Error()), " ")
		line(w, http.StatusServiceUnavailable, strings.ToValidUTF8(reason[:min(len(reason), maxReason)], ""))
		return
	}
	line(w, http.StatusOK, "ok")
}

// unmatched says in JSON what the mux would say in plain text: 404, or 405
// with the methods there are.
func (s *Server) unmatched(w http.ResponseWriter, r *http.Request, h http.Handler) {
	verdict := &status{header: w.Header()}
	h.ServeHTTP(verdict, r)
	if verdict.code == http.StatusMethodNotAllowed {
		refuse(w, verdict.code, "METHOD_NOT_ALLOWED", "this path does not take "+r.Method)
		return
	}
	refuse(w, http.StatusNotFound, "NOT_FOUND", "there is nothing at this path")
}

// recover answers for a handler that panicked. The value of a panic can hold
// what was asked, so the log gets its type and the place.
func (s *Server) recover(w http.ResponseWriter, r *http.Request) {
	p := recover()
	if p == nil {
		return
	}
	if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(p)
	}
	s.log.Error("panic", zap.String("pattern", r.Pattern), zap.String("type", fmt.Sprintf("%T", p)), zap.ByteString("stack", debug.Stack()))
	refuse(w, http.StatusInternalServerError, "INTERNAL", "linesman broke off; its log says where")
}

// refuse answers with an error: the problem details of RFC 9457.
func refuse(w http.ResponseWriter, code int, name, message string) {
	body, err := json.Marshal(struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
		Code   string `json:"code"`
	}{"about:blank", http.StatusText(code), code, message, name})
	if err != nil {
		panic(err) // strings
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(code)
	_, _ = w.Write(append(body, '\n'))
}

func line(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, text+"\n")
}

// status takes the status and headers of a response, and drops its body.
type status struct {
	header http.Header
	code   int
}

func (s *status) Header() http.Header         { return s.header }
func (s *status) WriteHeader(code int)        { s.code = code }
func (s *status) Write(p []byte) (int, error) { return len(p), nil }

// quiet is the log of net/http: what clients do wrong, of use when one looks
// for it.
func quiet(l *zap.Logger) *log.Logger {
	std, err := zap.NewStdLogAt(l, zap.DebugLevel)
	if err != nil {
		panic(err) // the level exists
	}
	return std
}
