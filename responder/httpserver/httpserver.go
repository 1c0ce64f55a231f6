// Package httpserver is the HTTP server for the handlers of the responder's
// surfaces. It implements what they have in common: authorization (a bearer token
// with scopes; on loopback, Host and Origin must be this machine), the limit of
// connections, the health checks, and the shutdown.
//
//	conn ──▶ bound ──▶ host, origin ──┬──▶ /healthz /readyz, the files of the page; of a monitor /metrics
//	                                  ├──▶ /signin /session: a link or a token for a cookie
//	                                  ├──▶ public handlers
//	                                  └──▶ token, or cookie below /v1 ──▶ scopes ──▶ handler of a surface
//
// The one rule: without a token only the two health checks, the page, its sign-in and public
// handlers are reachable, and any other handler needs a token with all its scopes. A cookie
// has the scopes of the token that it was issued for. A monitor, which is the HTTP server of a role
// without surfaces, has no other handler than /metrics.
package httpserver

import (
	"cmp"
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
	"golang.org/x/sys/unix"
)

const (
	maxConns  = 2048     // beyond it, or half of the descriptors, an idle one is closed, see limit
	maxHeader = 32 << 10 // bytes of the request line and headers, else 431
	maxReason = 256      // bytes of the answer of /readyz
	minToken  = 16       // characters

	idleTime  = 2 * time.Minute
	readyTime = 2 * time.Second
)

// patience are the timeouts of the server.
type patience struct {
	header  time.Duration // for the header of a request
	request time.Duration // for the whole request; the response may take longer
	token   time.Duration // between two looks whether the token of a request in progress was removed

	// When Serve's context ends, requests have the time polite to complete.
	// Then their contexts end, which ends streams; after stop their connections
	// are closed.
	polite, stop time.Duration
}

var patient = patience{
	header: 5 * time.Second, request: 30 * time.Second, token: 2 * time.Second, polite: time.Second, stop: 5 * time.Second,
}

// Config configures the address, the tokens and the health checks.
type Config struct {
	// Listen is host:port; port 0 selects a free one. On a loopback host only
	// requests to and from loopback names are answered. On other hosts any Host
	// is accepted, and an Origin must equal the Host.
	Listen string

	// Token is the token with all scopes, at least 16 characters. [TokenFile]
	// creates one.
	Token string

	// Tokens is the path of the file that [CreateToken] writes: additional
	// tokens with their scopes. It is read again when it changes. "": none.
	Tokens string

	// Served is a private directory in which [ServedAt] finds the server. "": it does not.
	Served string

	// Ready returns what is missing before requests can be answered, nil if
	// nothing is. It is called without a token and its text is public, so it
	// must contain no secret. Its context ends after two seconds; it must
	// return then.
	Ready func(context.Context) error

	// Role returns what the role does at present, for the 200 of /readyz: "active". nil: it
	// is "ok". It is as public as Ready.
	Role func() string

	// Metrics answers GET /metrics, for tokens with the scope metrics; nil: nothing does.
	Metrics http.Handler

	// Monitor serves the health checks and Metrics only, for everyone who reaches the
	// address, without a token.
	Monitor bool
	// Page answers browsers, without a token, whether or not the server is held:
	// files that reveal nothing about runs. It gets the requests that its patterns
	// match, and "/" only if the client accepts HTML. Nil: no page.
	Page *http.ServeMux

	// Refuse writes an error, and returns true; or it writes nothing and returns false: the
	// answer is then problem details. Code is a word. It is called after the headers of the
	// answer are set. Nil: all are problem details.
	Refuse func(w http.ResponseWriter, r *http.Request, status int, code, detail string) bool

	Version string // of linesman, for the page; default "dev"

	Log *zap.Logger // nil: no log
}

// Server is the HTTP server.
type Server struct {
	config      Config
	token       [sha256.Size]byte
	tokens      *tokens
	needs       map[string]Scopes // by pattern
	loopback    bool
	log         *zap.Logger
	mux         *http.ServeMux
	public      *http.ServeMux // handlers that need no token
	openPaths   []string       // the patterns of public
	codes       codes          // of a server that shares none
	redeeming   chan struct{}  // slots for codes that are being redeemed
	access      *access
	sessionKey  []byte
	crossOrigin *http.CrossOriginProtection
	wait        patience
	maxOpen     int         // connections
	held        atomic.Bool // only health checks are answered

	mu       sync.Mutex
	listener net.Listener
	unserve  func() // nil: [ServedAt] does not find it
}

// New returns a server that does not listen yet. The error names the invalid
// settings.
func New(c Config) (*Server, error) {
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		err = fmt.Errorf("listen: must be host:port, got %q", c.Listen)
	}
	if len(c.Token) < minToken && !c.Monitor {
		err = errors.Join(err, fmt.Errorf("token: must have at least %d characters, got %d", minToken, len(c.Token)))
	}
	if err != nil {
		return nil, err
	}
	log := cmp.Or(c.Log, zap.NewNop()).Named("web")
	needs := map[string]Scopes{}
	if c.Metrics != nil {
		needs["GET /metrics"] = metrics
	}
	return &Server{
		config:      c,
		token:       sha256.Sum256([]byte(c.Token)),
		tokens:      &tokens{path: c.Tokens, log: log},
		redeeming:   make(chan struct{}, 4),
		access:      &access{log: log},
		needs:       needs,
		loopback:    isLoopback(host),
		log:         log,
		mux:         http.NewServeMux(),
		public:      http.NewServeMux(),
		wait:        patient,
		maxOpen:     mostConns(),
		sessionKey:  sessionKey(c.Token),
		crossOrigin: http.NewCrossOriginProtection(),
	}, nil
}

// mostConns is how many connections are open at most.
func mostConns() int {
	var files unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &files) != nil {
		return maxConns
	}
	return int(min(maxConns, uint64(files.Cur)/2))
}

// MaxConnections is how many connections are open at most.
func (s *Server) MaxConnections() int { return s.maxOpen }

// Handle registers a handler for a pattern of [http.ServeMux], before Serve,
// for tokens with the scopes read, submit and raw. It panics if the pattern is taken.
func (s *Server) Handle(pattern string, h http.Handler) { s.HandleFor(allScopes&^Answer, pattern, h) }

// HandleFor is Handle for tokens that have at least the needed scopes.
func (s *Server) HandleFor(needed Scopes, pattern string, h http.Handler) {
	s.mux.Handle(pattern, h)
	s.needs[pattern] = needed
}

// HandlePublic is Handle without a token, for every client that reaches the
// server: the handler must reveal nothing about runs. Host and Origin are
// checked.
func (s *Server) HandlePublic(pattern string, h http.Handler) {
	s.public.Handle(pattern, h)
	s.openPaths = append(s.openPaths, pattern)
}

// Share makes tokens, sign-in links and sessions count at all servers with the same store. The
// tokens of the file of [Config] count at this server, too, but links and sessions are those of
// the store from then on. It returns after a first try to read the store, at most two seconds.
func (s *Server) Share(ctx context.Context, store shared) { s.access.use(ctx, store) }

// Hold makes Serve answer 503 to all requests except health checks, until
// Release. Meanwhile handlers may be registered even after Serve was called.
func (s *Server) Hold() { s.held.Store(true) }

// Release ends Hold.
func (s *Server) Release() { s.held.Store(false) }

// Listen binds the address and returns it, with the selected port. Later calls
// return the same address. Connections wait for Serve.
func (s *Server) Listen() (net.Addr, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener == nil {
		l, err := net.Listen("tcp", s.config.Listen)
		if err != nil {
			return nil, fmt.Errorf("listen on %s: %w", s.config.Listen, err)
		}
		s.listener = limit(l, s.maxOpen)
		if s.config.Served != "" {
			if s.unserve, err = serve(s.config.Served, l.Addr()); err != nil {
				s.log.Warn("the page command will not find this server", zap.Error(err))
			}
		}
	}
	return s.listener.Addr(), nil
}

// forget makes [ServedAt] find the server no more.
func (s *Server) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unserve != nil {
		s.unserve()
		s.unserve = nil
	}
}

// Close closes the listener if Serve was not called.
func (s *Server) Close() {
	s.forget()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener != nil {
		_ = s.listener.Close()
	}
}

// Serve serves until ctx ends, and returns at most five seconds later. It calls Listen
// if that was not done, and can be called once.
func (s *Server) Serve(ctx context.Context) error {
	if _, err := s.Listen(); err != nil {
		return err
	}
	after := context.WithoutCancel(ctx) // requests in progress are completed
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

	defer s.forget()
	select {
	case err := <-done:
		return fmt.Errorf("serve on %s: %w", s.config.Listen, err)
	case <-ctx.Done():
	}
	s.forget()
	defer time.AfterFunc(s.wait.polite, cut).Stop()
	end, cancel := context.WithTimeout(after, s.wait.stop)
	defer cancel()
	if err := srv.Shutdown(end); err != nil {
		s.log.Warn("requests did not end", zap.Duration("after", s.wait.stop))
		_ = srv.Close()
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve on %s: %w", s.config.Listen, err)
	}
	return nil
}

// isLoopback reports whether a host can only be this machine.
func isLoopback(host string) bool {
	if strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && addr.Unmap().IsLoopback()
}
