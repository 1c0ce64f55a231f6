package bus

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"go.uber.org/zap"
)

// Server is a NATS server inside this process, with JetStream in a directory.
// It lets in nobody without credentials.
type Server struct {
	Credentials Credentials
	url         string
	server      *server.Server
}

// ErrListen reports that the embedded server's address cannot be had.
var ErrListen = errors.New("cannot listen")

// StartServer starts a server that keeps its streams below dir and listens on
// address, HOST:PORT; port 0 is a free one. A host beyond loopback, as in a
// container, is taken with a warning.
func StartServer(dir, address string, names Names, log *zap.Logger) (*Server, error) {
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("%w on %q: not HOST:PORT", ErrListen, address)
	}
	port, err := strconv.Atoi(portText)
	if err != nil || port < 0 || port > 65535 {
		return nil, fmt.Errorf("%w on %q: bad port", ErrListen, address)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		log.Warn("the embedded server listens beyond this machine, and without TLS", zap.String("address", address))
	}
	// The server would end the process if it could not listen: try first.
	probe, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%w on %s: %w", ErrListen, address, err)
	}
	if port == 0 {
		port = probe.Addr().(*net.TCPAddr).Port
	}
	if err := probe.Close(); err != nil {
		return nil, fmt.Errorf("%w on %s: %w", ErrListen, address, err)
	}
	credentials, err := LoadCredentials(dir)
	if err != nil {
		return nil, err
	}
	opts := &server.Options{}
	if err := opts.ProcessConfigString(accountsConfig(names, credentials)); err != nil {
		return nil, fmt.Errorf("embedded server: %w", err)
	}
	opts.ServerName = "linesman"
	opts.Host, opts.Port = host, port
	opts.NoSigs = true
	opts.JetStream = true
	opts.StoreDir = filepath.Join(dir, "jetstream")
	opts.JetStreamMaxStore = 1 << 50 // each stream has a cap of its own
	opts.JetStreamMaxMemory = 64 << 20
	if err := os.MkdirAll(opts.StoreDir, 0o700); err != nil {
		return nil, fmt.Errorf("embedded server: %w", err)
	}
	s, err := server.NewServer(opts)
	if err != nil {
		return nil, fmt.Errorf("embedded server: %w", err)
	}
	s.SetLoggerV2(&serverLog{log.Named("nats")}, false, false, false)
	s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		s.Shutdown()
		return nil, fmt.Errorf("embedded server: %w on %s within 10s", ErrListen, address)
	}
	return &Server{Credentials: credentials, url: "nats://" + net.JoinHostPort(host, strconv.Itoa(port)), server: s}, nil
}

// URL is where clients connect.
func (s *Server) URL() string { return s.url }

// Stop shuts the server down and returns when its files are closed.
func (s *Server) Stop() {
	s.server.Shutdown()
	s.server.WaitForShutdown()
}

// serverLog passes the server's complaints on. What it says of its own life
// is of no interest in an embedded one.
type serverLog struct{ log *zap.Logger }

const plaintext = "Plaintext passwords detected, use nkeys or bcrypt"

func (l *serverLog) Noticef(string, ...any) {}
func (l *serverLog) Debugf(string, ...any)  {}
func (l *serverLog) Tracef(string, ...any)  {}
func (l *serverLog) Warnf(format string, v ...any) {
	if format == plaintext {
		return // they are random, and never leave this process and the data directory
	}
	l.log.Warn("server", zap.String("says", fmt.Sprintf(format, v...)))
}
func (l *serverLog) Errorf(format string, v ...any) {
	l.log.Error("server", zap.String("says", fmt.Sprintf(format, v...)))
}
func (l *serverLog) Fatalf(format string, v ...any) {
	l.log.Error("server", zap.String("says", fmt.Sprintf(format, v...)))
}
