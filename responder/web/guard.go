package web

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
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if s.foreign(r) {
			refuse(w, http.StatusForbidden, "forbidden", "the Host or Origin header names another machine")
			return
		}
		switch r.URL.Path {
		case "/healthz":
			line(w, http.StatusOK, "ok")
			return
		case "/readyz":
			s.readyz(w, r)
			return
		}
		if !s.known(r) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="linesman"`)
			refuse(w, http.StatusUnauthorized, "unauthorized", "a bearer token is missing or wrong")
			return
		}
		h, pattern := s.mux.Handler(r)
		if pattern == "" {
			s.unmatched(w, r, h)
			return
		}
		s.mux.ServeHTTP(w, r)
	})
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

// known reports whether the request shows the token. Hashes are compared, so
// that the time tells nothing of its length either.
func (s *Server) known(r *http.Request) bool {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	got := sha256.Sum256([]byte(strings.TrimSpace(token)))
	return subtle.ConstantTimeCompare(got[:], s.token[:]) == 1 && strings.EqualFold(scheme, "Bearer")
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
		refuse(w, verdict.code, "method_not_allowed", "this path does not take "+r.Method)
		return
	}
	refuse(w, http.StatusNotFound, "not_found", "there is nothing at this path")
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
	refuse(w, http.StatusInternalServerError, "internal", "linesman broke off; its log says where")
}

// refuse answers with an error.
func refuse(w http.ResponseWriter, code int, name, message string) {
	body, err := json.Marshal(map[string]any{"error": map[string]string{"code": name, "message": message}})
	if err != nil {
		panic(err) // strings
	}
	w.Header().Set("Content-Type", "application/json")
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
