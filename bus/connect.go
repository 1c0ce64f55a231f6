// Package bus implements linesman's storage on NATS. It and the packages below it are
// the only ones that know subjects, streams and headers.
//
//	worker ─▶ RawLog ─▶ RAW ─▶ pipeline.Normalizer ─┬▶ EVENTS ─▶ Bus.Read
//	└▶ RUNS ───▶ Bus.Record, Bus.WatchRuns
//
// It starts no server (package embedded does), and derives no events (package pipeline
// does).
//
// Guarantees:
//
//   - RAW: an entry whose Append returned nil is stored once, after all earlier entries
//     of its run. Every entry names the last one of its subject, so of two concurrent
//     writers one is refused.
//   - EVENTS: exactly f(RAW), in order, without gaps or duplicates, whichever process
//     is killed at whatever time. Every event names the stream's last sequence.
//   - RUNS: a record is never ahead of EVENTS, and lags by about a second at most.
package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/bus/reader"
)

// ErrUnreachable reports that no NATS server could be reached.
var ErrUnreachable = errors.New("NATS is out of reach")

// ErrUnfit reports a server that linesman cannot work with.
var ErrUnfit = reader.ErrUnfit

// ErrRefused reports that the server refused the credentials; it is
// [ErrUnreachable], too.
var ErrRefused = errors.New("the server refused the credentials")

// Requirements of a server.
const (
	// minPayload is the minimum max_payload: an event with escapes takes up to 512 KiB,
	// a run record with its state up to 545 KiB.
	minPayload = 576 << 10
	// MaxPayload is the max_payload with which every prompt fits: of runs.MaxPrompt bytes, each of which
	// may take six in JSON, with the rest of a task. Servers warn of more.
	MaxPayload = 8 << 20
	// ReaderPayload is that of the accounts of readers, whose requests are small.
	ReaderPayload = 1 << 20
	// Version 2.11 introduced per-message TTLs, which the lease needs.
	minMajor, minMinor = 2, 11
)

// InboxPrefix returns the prefix of a user's inboxes: no other user may subscribe
// there.
func InboxPrefix(user string) string { return "_INBOX_" + user }

// Login describes a connection to one account of a server.
type Login struct {
	URL      string
	User     string // of an embedded server; "" for others
	Password string
	Creds    string // a NATS credentials file, or ""

	Name  string // of the connection; "": linesman
	Inbox string // prefix of its inboxes; "": that of User, or else that of NATS

	// Where, if set, is called at each attempt to connect, and returns HOST:PORT of the
	// server, which may have restarted on another port; "" means that there is none.
	Where func() string

	// EndRefused ends the connection when the credentials are refused twice at an
	// attempt to reconnect. Otherwise it keeps retrying, with growing pauses.
	EndRefused bool

	Options []nats.Option // additional options: other keys
}

// dialer connects to the address that a login's Where returns. Without one it does not try that of the URL: another
// program could have its port by now, and a client sends its password to whoever listens. So it asks again once it is
// connected.
type dialer struct {
	net   net.Dialer
	where func() string
}

func (d dialer) Dial(network, _ string) (net.Conn, error) {
	none := errors.New("no server is running")
	at := d.where()
	if at == "" {
		return nil, none
	}
	c, err := d.net.Dial(network, at)
	if err == nil && d.where() != at { // a server is withdrawn before its port is free
		_ = c.Close()
		return nil, none
	}
	return c, err
}

// Bus is a connection to both accounts.
type Bus struct {
	Names
	inside *nats.Conn
	public *nats.Conn // the same connection on a server with one account
	js     jetstream.JetStream
	jsPub  jetstream.JetStream
	log    *zap.Logger
	denied denials
	inbox  *inbox        // for the answers of requests
	turns  chan struct{} // of readers of raw logs: [reader.Reader.Turns]
	output chan struct{} // of requests for output: each asks for several messages, one after the other
	away   atomic.Int32  // how many of the connections are lost
	since  atomic.Int64  // when the current inside connection was established, Unix nanoseconds

	records  *bucket.Bucket // RUNS
	rawKnown atomic.Pointer[rawHandle]
}

// patience is the key of [WithPatience].
type patience struct{}

// WithPatience returns a context for [Connect] that sets how long the server may take to accept the connection, and to
// answer a request without a deadline. Without it both are 5 s. It is for tests on busy machines.
func WithPatience(ctx context.Context, most time.Duration) context.Context {
	return context.WithValue(ctx, patience{}, most)
}

// answerTime is how long the server may take to answer.
func answerTime(ctx context.Context) time.Duration {
	if most, ok := ctx.Value(patience{}).(time.Duration); ok {
		return most
	}
	return reader.AnswerTimeout
}

// maxTurns is how many readers of raw logs request a batch at the same time. A batch has 16
// entries, typically of at most 64 KiB; the embedded server buffers 16 MiB for a connection.
const maxTurns = 8

// unanswered is when an asynchronous write counts as one that gets no acknowledgement: a stream without quorum sends
// none while the connection lasts. Few may be open at a time.
const unanswered = 20 * time.Second

// Connect connects to the inside account and, unless public is the zero Login, to the
// public one; otherwise both are the same. It does not wait for a server: if none can
// be reached, it returns ErrUnreachable. Afterwards it reconnects without a limit.
func Connect(ctx context.Context, inside, public Login, names Names, log *zap.Logger) (*Bus, error) {
	b := &Bus{Names: names, log: log.Named("bus"), turns: make(chan struct{}, maxTurns),
		output: make(chan struct{}, maxTurns), inbox: newInbox(),
	}
	b.since.Store(time.Now().UnixNano())
	var err error
	if b.inside, err = b.dial(ctx, inside); err != nil {
		return nil, err
	}
	b.public = b.inside
	if public.URL != "" {
		if b.public, err = b.dial(ctx, public); err != nil {
			b.Close()
			return nil, err
		}
	}
	within := jetstream.WithDefaultTimeout(answerTime(ctx))
	if b.js, err = jetstream.New(b.inside, within, jetstream.WithPublishAsyncTimeout(unanswered)); err == nil {
		b.jsPub, err = jetstream.New(b.public, within)
	}
	if err != nil {
		b.Close()
		return nil, fmt.Errorf("connect: %w", err)
	}
	b.records = bucket.New(b.js, b.Runs())
	return b, nil
}

func (b *Bus) dial(ctx context.Context, l Login) (*nats.Conn, error) {
	timeout := answerTime(ctx)
	if deadline, ok := ctx.Deadline(); ok {
		timeout = min(timeout, max(time.Until(deadline), time.Millisecond))
	}
	limiter := LogLimiter{Max: 32}
	var conn atomic.Pointer[nats.Conn]
	var lost atomic.Bool
	opts := []nats.Option{
		nats.Name(cmp.Or(l.Name, "linesman")), nats.Timeout(timeout),
		nats.MaxReconnects(-1), nats.CustomReconnectDelay(reconnectPauses(&conn)),
		nats.ReconnectBufSize(-1), // no buffering: the callers retry
		nats.PingInterval(10 * time.Second),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil && lost.CompareAndSwap(false, true) && b.away.Add(1) == 1 {
				b.log.Warn("connection lost", zap.Error(err))
			}
		}),
		nats.ReconnectHandler(func(*nats.Conn) {
			b.since.Store(time.Now().UnixNano())
			if lost.CompareAndSwap(true, false) && b.away.Add(-1) == 0 {
				b.log.Info("reconnected")
			}
		}),
		nats.SyncQueueLen(reader.LiveMessages),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
			b.denied.notice(err)
			if errors.Is(err, nats.ErrSlowConsumer) && sub != nil && strings.HasPrefix(sub.Subject, b.Prefix+".live.") {
				return // the follower reads from the stream
			}
			if limiter.Allow(err.Error(), time.Now()) { // refused credentials are retried often
				b.log.Warn("connection", zap.Error(err))
			}
		}),
	}
	if !l.EndRefused {
		opts = append(opts, nats.IgnoreAuthErrorAbort())
	}
	if l.User != "" {
		opts = append(opts, nats.UserInfo(l.User, l.Password), nats.CustomInboxPrefix(InboxPrefix(l.User)))
	}
	if l.Inbox != "" {
		opts = append(opts, nats.CustomInboxPrefix(l.Inbox))
	}
	if l.Where != nil {
		opts = append(opts, nats.SetCustomDialer(dialer{net.Dialer{Timeout: timeout}, l.Where}))
	}
	if l.Creds != "" {
		opts = append(opts, nats.UserCredentials(l.Creds))
	}
	nc, err := dialNATS(ctx, l.URL, append(opts, l.Options...)...)
	switch {
	case errors.Is(err, context.Canceled):
		return nil, err
	case errors.Is(err, nats.ErrAuthorization):
		return nil, fmt.Errorf("%w: the server at %s refused the credentials", ErrUnreachable, redact(l.URL))
	case err != nil:
		return nil, fmt.Errorf("%w at %s: %w", ErrUnreachable, redact(l.URL), err)
	}
	if err := checkServer(nc); err != nil {
		nc.Close()
		return nil, err
	}
	conn.Store(nc)
	return nc, nil
}

// dialNATS is [nats.Connect] with a context. An abandoned attempt is closed in the
// background when it ends, within the timeout of the options.
func dialNATS(ctx context.Context, url string, opts ...nats.Option) (*nats.Conn, error) {
	type result struct {
		conn *nats.Conn
		err  error
	}
	ended := make(chan result)
	go func() {
		nc, err := nats.Connect(url, opts...)
		select {
		case ended <- result{nc, err}:
		case <-ctx.Done():
			if nc != nil {
				nc.Close()
			}
		}
	}()
	select {
	case r := <-ended:
		return r.conn, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// reconnectPauses returns the delays between attempts to reconnect: short ones while
// the server is unreachable, increasing ones while it refuses the credentials.
func reconnectPauses(conn *atomic.Pointer[nats.Conn]) nats.ReconnectDelayHandler {
	refusals := backoff.NewExponentialBackOff() // with jitter
	refusals.InitialInterval, refusals.MaxInterval = 250*time.Millisecond, 5*time.Second
	return func(int) time.Duration {
		if nc := conn.Load(); nc != nil && unauthorized(nc) {
			return refusals.NextBackOff()
		}
		refusals.Reset()
		return 250*time.Millisecond + rand.N(100*time.Millisecond)
	}
}

// unauthorized reports whether the server refused the credentials at the last attempt
// to reconnect.
func unauthorized(nc *nats.Conn) bool {
	err := nc.LastError()
	return errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) ||
		errors.Is(err, nats.ErrAuthRevoked) || errors.Is(err, nats.ErrAccountAuthExpired)
}

// whyClosed returns err, or, if the connection ended because of the credentials, that
// reason.
func whyClosed(nc *nats.Conn, err error) error {
	if errors.Is(err, nats.ErrConnectionClosed) && unauthorized(nc) {
		return fmt.Errorf("%w: %w", ErrUnreachable, ErrRefused)
	}
	return err
}

// LogLimiter allows each text once a minute, and at most Max different ones.
type LogLimiter struct {
	Max   int
	mu    sync.Mutex
	since time.Time
	texts map[string]bool
}

// Allow reports whether a text may be logged now.
func (l *LogLimiter) Allow(text string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.since) >= time.Minute {
		l.since, l.texts = now, map[string]bool{}
	}
	if l.texts[text] || len(l.texts) == l.Max {
		return false
	}
	l.texts[text] = true
	return true
}

// checkServer checks the server's version and limits.
func checkServer(nc *nats.Conn) error {
	version := nc.ConnectedServerVersion()
	if major, minor := parseVersion(version); major < minMajor || major == minMajor && minor < minMinor {
		return fmt.Errorf("%w: it is version %s, and %d.%d is needed", ErrUnfit, version, minMajor, minMinor)
	}
	if nc.MaxPayload() < minPayload {
		return fmt.Errorf("%w: its max_payload is %d bytes; set it to %d or more", ErrUnfit, nc.MaxPayload(), minPayload)
	}
	return nil
}

func parseVersion(s string) (major, minor int) {
	f := strings.SplitN(s, ".", 3)
	if len(f) < 2 {
		return 0, 0
	}
	major, _ = strconv.Atoi(f[0])
	minor, _ = strconv.Atoi(f[1])
	return major, minor
}

// serverHas reports whether the servers of both accounts have at least this version.
func (b *Bus) serverHas(major, minor int) bool {
	for _, nc := range []*nats.Conn{b.inside, b.public} {
		have, haveMinor := parseVersion(nc.ConnectedServerVersion())
		if have < major || have == major && haveMinor < minor {
			return false
		}
	}
	return true
}

// redact removes user and password from a URL.
func redact(url string) string {
	scheme, rest, ok := strings.Cut(url, "://")
	if !ok {
		scheme, rest = "nats", url
	}
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		rest = rest[i+1:]
	}
	return scheme + "://" + rest
}

// Close sends what is pending and closes the connections.
func (b *Bus) Close() {
	for _, nc := range []*nats.Conn{b.inside, b.public} {
		if nc != nil && !nc.IsClosed() {
			_ = nc.FlushTimeout(time.Second)
			nc.Close()
		}
	}
}

// Since returns when the current connection was established: messages since then were
// received. It is zero while there is no connection.
func (b *Bus) Since() time.Time {
	if !b.Connected() {
		return time.Time{}
	}
	return time.Unix(0, b.since.Load())
}

// OneAccount reports whether EVENTS is in the same account as the other streams.
func (b *Bus) OneAccount() bool { return b.public == b.inside }

// Under returns a bus with other names on the same connections. It does not detect
// permission violations.
func (b *Bus) Under(names Names) *Bus {
	return &Bus{Names: names, inside: b.inside, public: b.public, js: b.js, jsPub: b.jsPub, log: b.log,
		inbox: b.inbox, records: bucket.New(b.js, names.Runs())}
}

// JetStream returns the JetStream context of the inside account: all streams but
// EVENTS.
func (b *Bus) JetStream() jetstream.JetStream { return b.js }

// PublicJetStream returns the JetStream context of the account of EVENTS.
func (b *Bus) PublicJetStream() jetstream.JetStream { return b.jsPub }

// Inside returns the connection to the inside account, for a service.
func (b *Bus) Inside() *nats.Conn { return b.inside }

// Connected reports whether the server is connected at the moment.
func (b *Bus) Connected() bool { return b.inside.IsConnected() && b.public.IsConnected() }

// Connections returns how many of the bus's connections are currently established.
func (b *Bus) Connections() (n int) {
	if b.inside.IsConnected() {
		n++
	}
	if b.public != b.inside && b.public.IsConnected() {
		n++
	}
	return n
}

// InboxOf returns the prefix of the inboxes that the user of a credentials file
// may subscribe to, or "" where the file says nothing of it.
func InboxOf(creds string) string {
	b, err := os.ReadFile(creds)
	if err != nil { // connecting tells
		return ""
	}
	token, err := jwt.ParseDecoratedJWT(b)
	if err != nil {
		return ""
	}
	claims, err := jwt.DecodeUserClaims(token)
	if err != nil {
		return ""
	}
	for _, subject := range claims.Sub.Allow {
		prefix, all := strings.CutSuffix(subject, ".>")
		if all && strings.HasPrefix(prefix, "_INBOX") && !strings.ContainsAny(prefix, "*>") {
			return prefix
		}
	}
	return ""
}
