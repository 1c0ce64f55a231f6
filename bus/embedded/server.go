package embedded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/linesman/linesman/bus"
)

// Server is a NATS server inside this process, with JetStream in a directory. It
// refuses clients without credentials.
type Server struct {
	Credentials   credentials
	url           string
	store         string
	names         bus.Names
	rawHeld       atomic.Bool
	rawAway       time.Duration // for how long nothing had been stored in RAW at the start
	socket        *socket
	options       func() (*server.Options, error)
	guard         *readerGuard
	stopReleasing func() // of full blocks
	log           *zap.Logger

	mu      sync.RWMutex
	server  *server.Server // the current one, or the last one
	stopped bool
}

// storeName is the directory of the streams in a data directory.
const storeName = "jetstream"

// ErrListen reports that the embedded server cannot listen on its address.
var ErrListen = errors.New("cannot listen")

// StartServer starts a server that stores its streams below dir and listens on address,
// HOST:PORT; port 0 selects a free one. An address beyond loopback, for example in a
// container, is accepted with a warning.
func StartServer(dir, address string, names bus.Names, log *zap.Logger) (_ *Server, err error) {
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("%w on %q: not HOST:PORT", ErrListen, address)
	}
	port, err := strconv.Atoi(portText)
	if err != nil || port < 0 || port > 65535 {
		return nil, fmt.Errorf("%w on %q: bad port", ErrListen, address)
	}
	socket, err := listen(address, log.Named("socket"))
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = socket.Close()
		}
	}()
	if at, ok := socket.Addr().(*net.TCPAddr); ok {
		port = at.Port
		if _, err := netip.ParseAddr(host); host != "" && err != nil {
			host = at.AddrPort().Addr().Unmap().String() // another address of the name may be somebody else's
		}
		if !at.IP.IsLoopback() {
			log.Warn("the embedded server accepts connections from other machines, without TLS",
				zap.String("address", address))
		}
	}
	credentials, err := LoadCredentials(dir)
	if err != nil {
		return nil, err
	}
	s := &Server{
		Credentials: credentials, url: "nats://" + net.JoinHostPort(host, strconv.Itoa(port)), socket: socket,
		store: filepath.Join(dir, storeName), names: names, log: log,
	}
	s.options = func() (*server.Options, error) { // a server modifies its options
		opts := &server.Options{}
		if err := opts.ProcessConfigString(accountsConfig(names, credentials)); err != nil {
			return nil, err
		}
		opts.ServerName = "linesman"
		opts.Host, opts.Port, opts.DontListen = host, port, true // but at the socket
		opts.NoSigs = true
		opts.JetStream = true
		opts.StoreDir = s.store
		opts.JetStreamMaxStore = 1 << 50 // each stream has its own limit
		opts.JetStreamMaxMemory = 64 << 20
		opts.MaxPending, opts.WriteDeadline, opts.MaxPayload = maxPending, writeTime, bus.MaxPayload
		opts.AuthTimeout, opts.MaxConn = connectTime.Seconds(), descriptors(2, server.DEFAULT_MAX_CONNECTIONS)
		if s.guard == nil {
			s.guard = newReaderGuard(dir, opts.Users, func() error { return s.Restart(nil) }, log.Named("readers"))
			s.guard.known = socket.known
		}
		opts.CustomClientAuthentication = s.guard
		return opts, nil
	}
	if err := os.MkdirAll(s.store, 0o700); err != nil {
		return nil, fmt.Errorf("embedded server: %w", err)
	}
	streams, err := s.verifier().verify(maxVerified)
	if err != nil {
		return nil, fmt.Errorf("embedded server: %w", err)
	}
	held, err := s.verifier().hold(streams)
	if err != nil {
		return nil, fmt.Errorf("embedded server: %w", err)
	}
	s.rawHeld.Store(held)
	for _, one := range streams {
		if one.name == names.Raw() && one.newest != 0 {
			s.rawAway = s.verifier().away(one)
		}
	}
	if err := s.start(); err != nil {
		return nil, fmt.Errorf("embedded server: %w", err)
	}
	go s.guard.run()
	ctx, cancel := context.WithCancel(context.Background())
	var releasing sync.WaitGroup
	releasing.Go(func() { s.releaseFull(ctx) })
	releasing.Go(func() { s.verifyRest(ctx, streams) })
	s.stopReleasing = func() { cancel(); releasing.Wait() }
	return s, nil
}

// start starts a server with the store.
func (s *Server) start() error {
	opts, err := s.options()
	if err != nil {
		return err
	}
	fresh, err := server.NewServer(opts)
	if err != nil {
		return err
	}
	s.server = fresh
	s.guard.server.Store(s.server)
	logger := &serverLog{log: s.log.Named("nats"), limiter: bus.LogLimiter{Max: 100}}
	s.server.SetLoggerV2(logger, false, false, false)
	s.server.Start()
	if logger.fatal.Load() != nil || !s.server.ReadyForConnections(10*time.Second) {
		s.server.Shutdown()
		if why := logger.fatal.Load(); why != nil {
			return errors.New(*why)
		}
		return errors.New("it does not start within 10s")
	}
	limitCaches(fresh)
	if err := s.socket.serve(fresh); err != nil {
		s.server.Shutdown()
		return err
	}
	return nil
}

// Restart stops the server and starts another one with the same store and address,
// unless Stop was called. In between it calls offline, unless that is nil; an error
// leaves the server stopped. Clients reconnect by themselves. The socket stays open, so that no
// other process can listen at the address meanwhile.
func (s *Server) Restart(offline func() error) error { return s.restart(offline, maxVerified) }

// restart is Restart that verifies up to a limit of each stream.
func (s *Server) restart(offline func() error, limit int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return nil
	}
	s.server.Shutdown()
	s.server.WaitForShutdown()
	if offline != nil {
		if err := offline(); err != nil {
			return err
		}
	}
	if _, err := s.verifier().verify(limit); err != nil {
		return err
	}
	return s.start()
}

func (s *Server) verifier() *verifier {
	return &verifier{store: s.store, names: s.names, log: s.log.Named("streams"), now: time.Now()}
}

// verifyRest reads the blocks that were not read before the start, at most half of the time.
// If one is damaged the server is restarted, and repaired meanwhile.
func (s *Server) verifyRest(ctx context.Context, streams []*storedStream) {
	var block []byte
	for _, stream := range streams {
		for _, number := range slices.Backward(stream.unread) {
			began, good := time.Now(), 0
			var bad []span
			var err error
			if block, err = readInto(block, stream.path(number)); err == nil {
				bad = scanEach(block, newBlockHash(stream.name, number), func(record) { good++ })
			}
			switch {
			case errors.Is(err, fs.ErrNotExist): // it has expired
			case err != nil:
				s.log.Warn("a block of a stream is not verified", zap.String("stream", stream.name), zap.Error(err))
			case len(bad) > 0 || good == 0:
				s.log.Error("a stream is damaged: the server is restarted to repair it", zap.String("stream", stream.name),
					zap.String("file", stream.path(number)))
				if err := s.restart(nil, math.MaxInt64); err != nil {
					s.log.Error("the damaged stream is not repaired", zap.Error(err))
				}
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Since(began)):
			}
		}
	}
}

// StoreDir returns the directory of the streams. They may be changed while the server
// is stopped.
func (s *Server) StoreDir() string { return s.store }

func (s *Server) current() *server.Server {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.server
}

// InProcessConn returns a connection for a client in this process, which costs less than
// one of the network. While the server restarts, and after Stop, there is none.
func (s *Server) InProcessConn() (net.Conn, error) {
	if s.mu.TryRLock() {
		defer s.mu.RUnlock()
		if !s.stopped {
			return s.server.InProcessConn()
		}
	}
	return nil, errors.New("no server is running")
}

// URL returns the address for clients.
func (s *Server) URL() string { return s.url }

// Others returns the number of connected clients, without those of own.
func (s *Server) Others(own []*bus.Bus) int {
	n := s.current().NumClients()
	for _, b := range own {
		n -= b.Connections()
	}
	return n
}

// Stop shuts the server down and returns when its files are closed.
func (s *Server) Stop() {
	s.mu.Lock()
	first := !s.stopped
	s.stopped = true
	s.mu.Unlock()
	if first {
		s.guard.stop() // the guard may be about to restart
		s.stopReleasing()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.server.Shutdown()
	s.server.WaitForShutdown()
	_ = s.socket.Close() // fails if it is closed already
}

// serverLog forwards the server's warnings and errors to the log, each once a minute,
// and at most 100 a minute; they name the client and its request. Other messages
// are dropped.
type serverLog struct {
	log     *zap.Logger
	limiter bus.LogLimiter
	fatal   atomic.Pointer[string] // why the server ends
}

const plaintext = "Plaintext passwords detected, use nkeys or bcrypt"

func (l *serverLog) Noticef(string, ...any) {}
func (l *serverLog) Debugf(string, ...any)  {}
func (l *serverLog) Tracef(string, ...any)  {}
func (l *serverLog) Warnf(format string, v ...any) {
	if format == plaintext {
		return // the passwords are random, and never
	}
	l.write(zap.WarnLevel, fmt.Sprintf(format, v...))
}
func (l *serverLog) Errorf(format string, v ...any) {
	l.write(zap.ErrorLevel, fmt.Sprintf(format, v...))
}
func (l *serverLog) Fatalf(format string, v ...any) {
	l.fatal.Store(new(fmt.Sprintf(format, v...)))
	l.write(zap.ErrorLevel, *l.fatal.Load())
}

func (l *serverLog) write(level zapcore.Level, what string) {
	key := what // the text without the client
	if _, rest, ok := strings.Cut(what, " - cid:"); ok {
		_, key, _ = strings.Cut(rest, " - ")
	}
	if l.limiter.Allow(key, time.Now()) {
		l.log.Log(level, "server", zap.String("says", what))
	}
}

// Connect connects to an embedded server as one of its users, and to the public account
// as that user's counterpart, if there is one. Those of much data, the worker and the
// normalizer, connect without a socket. A client that publishes to itself must not: such
// a connection has no buffer, and the server may wait for a client that waits for it.
func (s *Server) Connect(ctx context.Context, user string, names bus.Names, log *zap.Logger) (*bus.Bus, error) {
	inside, public := s.Credentials.Logins(s.url, user)
	if user == WorkerUser || user == NormalizerUser {
		for _, l := range []*bus.Login{&inside, &public} {
			l.Options = append(l.Options, nats.InProcessServer(s))
		}
	}
	return bus.Connect(ctx, inside, public, names, log)
}

// Logins returns a user's logins to the inside and the public account.
func (c credentials) Logins(url, user string) (inside, public bus.Login) {
	inside = bus.Login{URL: url, User: user, Password: c[user]}
	if p, ok := c[user+publicSuffix]; ok {
		public = bus.Login{URL: url, User: user + publicSuffix, Password: p}
	}
	return inside, public
}
