// Package httpserver is the HTTP server that the responder's surfaces hang their
// handlers on. It owns what they have in common: who may ask what (a bearer
// token with scopes, and on loopback a host and an origin that are this machine), how much at
// once, the health checks, and the end.
//
//	conn ──▶ bound ──▶ host, origin ──┬──▶ /healthz /readyz, and / for browsers
//	                                  ├──▶ what is public
//	                                  └──▶ token ──▶ scopes ──▶ handler of a surface
//
// The one rule: nothing but the two health checks, the page at /, and what was
// hung on it as public, is answered without a token, and a handler is reached only by one
// that has all its scopes.
package httpserver

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

const (
	maxConns  = 512      // the next one takes the place of one that waits, see limit
	maxHeader = 32 << 10 // bytes of the request line and headers, else 431
	maxReason = 256      // bytes of what /readyz says
	minToken  = 16       // characters

	idleTime  = 2 * time.Minute
	readyTime = 2 * time.Second
)

// patience is how long the server waits.
type patience struct {
	header  time.Duration // for the head of a request
	request time.Duration // for the whole of it; the answer may take longer

	// From the end of Serve's context on, requests have polite to end by
	// themselves. Then their contexts end, which cuts streams; at stop their
	// connections are closed.
	polite, stop time.Duration
}

var patient = patience{header: 5 * time.Second, request: 30 * time.Second, polite: time.Second, stop: 5 * time.Second}

// Config is where to listen and whom to answer.
type Config struct {
	// Listen is host:port; port 0 takes a free one. With a loopback host only
	// requests to and from loopback names are answered. With another one any
	// Host is, and an Origin has to be the same as the Host.
	Listen string

	// Token is what a caller shows who may do everything, at least 16
	// characters. [TokenFile] makes one.
	Token string

	// Tokens is the path of the file that [CreateToken] writes: further tokens,
	// each with its scopes. It is read again when it changes. "": there are none.
	Tokens string

	// Ready says what is missing for requests to be answered, nil when nothing
	// is. It is asked without a token and its text is shown, so it must hold no
	// secret. Its context ends after two seconds; it must return then.
	Ready func(context.Context) error

	Log *zap.Logger // nil: no log
}

// Server is the HTTP server.
type Server struct {
	listen   string
	token    [sha256.Size]byte
	tokens   *tokens
	needs    map[string]Scopes // by pattern
	loopback bool
	ready    func(context.Context) error
	log      *zap.Logger
	mux      *http.ServeMux
	public   *http.ServeMux // what anybody may ask
	open     []string       // the patterns of it
	wait     patience
	most     int         // connections
	held     atomic.Bool // only the health checks are answered

	mu       sync.Mutex
	listener net.Listener
}

// New returns a server that does not listen yet. The error names the settings
// that are wrong.
func New(c Config) (*Server, error) {
	host, _, err := net.SplitHostPort(c.Listen)
	var errs []error
	if err != nil {
		errs = append(errs, fmt.Errorf("listen: must be host:port, got %q", c.Listen))
	}
	if len(c.Token) < minToken {
		errs = append(errs, fmt.Errorf("token: must have at least %d characters, got %d", minToken, len(c.Token)))
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	if c.Ready == nil {
		c.Ready = func(context.Context) error { return nil }
	}
	return &Server{
		listen:   c.Listen,
		token:    sha256.Sum256([]byte(c.Token)),
		tokens:   &tokens{path: c.Tokens, log: c.Log.Named("web")},
		needs:    map[string]Scopes{},
		loopback: isLoopback(host),
		ready:    c.Ready,
		log:      c.Log.Named("web"),
		mux:      http.NewServeMux(),
		public:   http.NewServeMux(),
		wait:     patient,
		most:     maxConns,
	}, nil
}

// Handle hangs a handler on a pattern of [http.ServeMux], before Serve, for
// tokens with all scopes. It panics when the pattern is taken.
func (s *Server) Handle(pattern string, h http.Handler) { s.HandleFor(All, pattern, h) }

// HandleFor is Handle for tokens that have at least the needed scopes.
func (s *Server) HandleFor(needed Scopes, pattern string, h http.Handler) {
	s.mux.Handle(pattern, h)
	s.needs[pattern] = needed
}

// HandlePublic is Handle for what anybody may ask who reaches the server, also
// without a token: it must tell nothing of runs. Host and Origin are checked.
func (s *Server) HandlePublic(pattern string, h http.Handler) {
	s.public.Handle(pattern, h)
	s.open = append(s.open, pattern)
}

// Hold has Serve answer 503 to all but the health checks, until Release. Meanwhile
// handlers may be hung on the server also after Serve was called.
func (s *Server) Hold() { s.held.Store(true) }

// Release ends Hold.
func (s *Server) Release() { s.held.Store(false) }

// Listen takes the address and returns it, with the port that was free. After
// the first time it returns the same. Connections wait for Serve.
func (s *Server) Listen() (net.Addr, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener == nil {
		l, err := net.Listen("tcp", s.listen)
		if err != nil {
			return nil, fmt.Errorf("listen on %s: %w", s.listen, err)
		}
		s.listener = limit(l, s.most)
	}
	return s.listener.Addr(), nil
}

// Close gives the address back, where Serve was not called.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener != nil {
		_ = s.listener.Close()
	}
}

// Serve serves until ctx ends, and returns within five seconds of it. It calls
// Listen where nobody has, and can be called once.
func (s *Server) Serve(ctx context.Context) error {
	if _, err := s.Listen(); err != nil {
		return err
	}
	after := context.WithoutCancel(ctx) // what is being answered, we finish
	base, cut := context.WithCancel(after)
	defer cut()
	srv := &http.Server{
		Handler:           s.handler(),
		ReadHeaderTimeout: s.wait.header,
		ReadTimeout:       s.wait.request,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    maxHeader,
		BaseContext:       func(net.Listener) context.Context { return base },
		ConnContext:       withConn,
		ErrorLog:          quiet(s.log),
	}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(s.listener) }()
	s.log.Info("serving", zap.Stringer("addr", s.listener.Addr()))

	select {
	case err := <-done:
		return fmt.Errorf("serve on %s: %w", s.listen, err)
	case <-ctx.Done():
	}
	defer time.AfterFunc(s.wait.polite, cut).Stop()
	end, cancel := context.WithTimeout(after, s.wait.stop)
	defer cancel()
	if err := srv.Shutdown(end); err != nil {
		s.log.Warn("requests did not end", zap.Duration("after", s.wait.stop))
		_ = srv.Close()
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve on %s: %w", s.listen, err)
	}
	return nil
}

// isLoopback reports whether a host can only mean this machine.
func isLoopback(host string) bool {
	if strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && addr.Unmap().IsLoopback()
}
