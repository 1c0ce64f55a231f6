package embedded

import (
	"crypto/subtle"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"go.uber.org/zap"

	"github.com/linesman/linesman/bus/reader"
	"github.com/linesman/linesman/internal/files"
)

// Limits of the readers of EVENTS on the embedded server; linesman's own users are
// exempt. The server has one queue of API requests for all accounts, and drops all of
// it at 10,000 requests. It limits neither the answers to direct gets nor a user's
// connections.
const (
	// MaxConnections is the maximum number of the readers' connections, or a quarter of
	// this process's file descriptors if that is less.
	MaxConnections = 256

	queueInterval      = 20 * time.Millisecond
	connectionInterval = 200 * time.Millisecond

	countTime      = time.Second            // the interval of counting messages
	manyRequests   = 1000                   // in the queues: a flood
	steadyRequests = 100                    // also a flood, if there are as many for
	steadyTime     = 2 * time.Second        // this time
	manyAnswers    = 50_000                 // queued messages from EVENTS; more are allowed for many readers, see batches
	maxAnswers     = 5 * manyAnswers        // the absolute limit: they are all in memory
	maxUnread      = 64 << 20               // unread bytes of all readers
	maxPending     = 16 << 20               // unread bytes of one client: more than [reader.PullBytes]
	writeTime      = 5 * time.Second        // without progress; a restart
	idleMessages   = 1000                   // from a limited connection in countTime
	drainTime      = 500 * time.Millisecond // for answers to closed connections
	maxDrainTime   = 10 * time.Second
	limitedFor     = time.Minute     // by default
	connectTime    = 5 * time.Second // within which a client must authenticate, on a busy machine, too

	limitedFile = "readers.json"
	whyRequests = "requests to the JetStream API"
	whyDirect   = "direct gets"
	whyUnread   = "answers that it does not read"
	whyFull     = "more connections were refused"
	fullAccount = "LINESMAN_FULL" // it refuses all connections
)

// readerLimit describes the last time that the embedded server limited a reader.
type readerLimit struct {
	At          time.Time `json:"at"`
	Until       time.Time `json:"until"`
	User        string    `json:"user"`
	Connections int       `json:"connections"` // closed connections; if Refused, the existing ones
	Refused     bool      `json:"refused"`     // further connections were refused; nothing
	Why         string    `json:"why"`
}

// ReadLimited returns what the embedded server of a data directory recorded, or an
// error that is [os.ErrNotExist].
func ReadLimited(dir string) (l readerLimit, err error) {
	b, err := os.ReadFile(filepath.Join(dir, limitedFile))
	if err == nil {
		err = json.Unmarshal(b, &l)
	}
	return l, err
}

// readerGuard authenticates the clients of the embedded server, and limits readers that
// flood it. Reduced permissions apply to new connections, at authentication: reloading
// the server's configuration would recreate the exports of all accounts, and lose
// answers in transit.
type readerGuard struct {
	dir   string
	log   *zap.Logger
	users map[string]*server.User

	restart func() error
	known   func(net.Addr) // is called for each client that has shown its password

	server atomic.Pointer[server.Server]
	end    chan struct{}
	ended  chan struct{}

	mu             sync.Mutex
	maxConnections int
	maxUnread      int           // bytes
	many, batch    int           // queued answers: always allowed, and for one request of a reader
	period         time.Duration // of a limit
	began          time.Time     // start of the limit; zero while
	until          time.Time
	refused        string // user whose connection was refused

	// Only used by the goroutine of run.
	before    map[uint64]traffic // of the connections, at the time counted
	counted   time.Time          // when before was recorded
	looked    time.Time          // when connections were last checked
	busy      time.Time          // since when there are steadyRequests; zero: not now
	full      time.Time          // when a refused connection was last recorded
	restarted time.Time
}

// traffic is the number of messages that a connection sent and received.
type traffic struct{ in, out int64 }

func newReaderGuard(dir string, users []*server.User, restart func() error, log *zap.Logger) *readerGuard {
	g := &readerGuard{
		dir:            dir,
		log:            log,
		restart:        restart,
		users:          map[string]*server.User{},
		maxConnections: descriptors(4, MaxConnections),
		maxUnread:      maxUnread,
		period:         limitedFor,
		many:           manyAnswers,
		batch:          reader.BatchMessages,
		end:            make(chan struct{}),
		ended:          make(chan struct{}),
	}
	for _, u := range users {
		g.users[u.Username] = u
	}
	return g
}

// limits reports whether limits apply to a user.
func (g *readerGuard) limits(u *server.User) bool {
	return u.Account.GetName() == readersAccount && !strings.HasSuffix(u.Username, publicSuffix)
}

// listening returns the permissions of a user that may only subscribe.
func (g *readerGuard) listening(u *server.User) *server.Permissions {
	return &server.Permissions{Subscribe: u.Permissions.Subscribe, Publish: &server.SubjectPermission{Deny: []string{">"}}}
}

// Check authenticates a client.
func (g *readerGuard) Check(c server.ClientAuthentication) bool {
	shown := c.GetOpts()
	u, known := g.users[shown.Username]
	if !known || c.Kind() != server.CLIENT || subtle.ConstantTimeCompare([]byte(u.Password), []byte(shown.Password)) != 1 {
		return false
	}
	g.known(c.RemoteAddress())
	as := &server.User{Username: u.Username, Permissions: u.Permissions}
	s := g.server.Load()
	var err error
	if as.Account, err = s.LookupAccount(u.Account.GetName()); err != nil {
		return false
	}
	if !g.limits(u) {
		c.RegisterUser(as)
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock() // also serializes the check of the number of connections
	if as.Account.NumLocalConnections() >= g.maxConnections {
		if as.Account, err = s.LookupAccount(fullAccount); err == nil {
			c.RegisterUser(as) // reports to the client that there are too many connections, and closes it
		}
		g.refused = u.Username
		return false
	}
	if !g.began.IsZero() {
		as.Permissions = g.listening(u)
	}
	c.RegisterUser(as)
	return true
}

// run checks the readers until stop.
func (g *readerGuard) run() {
	defer close(g.ended)
	tick := time.NewTicker(queueInterval)
	defer tick.Stop()
	for {
		select {
		case <-g.end:
			return
		case now := <-tick.C:
			g.check(now)
		}
	}
}

func (g *readerGuard) stop() {
	close(g.end)
	<-g.ended
}

func (g *readerGuard) check(now time.Time) {
	s := g.server.Load()
	g.mu.Lock()
	maxUnread, many, batch := g.maxUnread, g.many, g.batch
	g.mu.Unlock()
	requests, answers := queued(s)
	switch {
	case requests < steadyRequests:
		g.busy = time.Time{}
	case g.busy.IsZero():
		g.busy = now
	}
	flooded := requests >= manyRequests || !g.busy.IsZero() && now.Sub(g.busy) >= steadyTime
	if !flooded && answers < many && now.Sub(g.looked) < connectionInterval {
		return
	}
	readers := g.readers(s)
	tooMany := answers >= many && answers >= min(2*batch*g.batches(s, len(readers)), maxAnswers)
	unread := 0
	for _, c := range readers {
		unread += c.Pending
	}
	asked := func(c *server.ConnInfo) int64 { return c.InMsgs - g.before[c.Cid].in }
	messages := func(c *server.ConnInfo) int64 { return asked(c) + c.OutMsgs - g.before[c.Cid].out }
	switch {
	case flooded: // by other users, if readers did not send as many
		g.limit(s, now, whyRequests, heaviest(readers, min(requests, manyRequests/2), asked))
	case tooMany && g.stuck(now):
		// The server still answers every request that a closed connection has sent,
		// which can take minutes and all memory. Only a restart stops that.
		g.restarted = now
		g.log.Error("restarting the embedded server to discard direct gets of readers", zap.Int("answers", answers))
		if err := g.restart(); err != nil {
			g.log.Error("cannot restart the embedded server", zap.Error(err))
		}
	case tooMany:
		g.limit(s, now, whyDirect, heaviest(readers, 1, messages))
	case unread >= maxUnread:
		g.limit(s, now, whyUnread, heaviest(readers, 1, func(c *server.ConnInfo) int64 { return int64(c.Pending) }))
	}
	if now.Sub(g.looked) >= connectionInterval {
		g.upkeep(s, now, readers)
	}
}

// queued returns the numbers of queued requests to the JetStream API, and of queued
// messages of EVENTS that answer requests.
func queued(s *server.Server) (requests, answers int) {
	for name, q := range *s.Ipqueuesz(&server.IpqueueszOptions{}) {
		switch {
		case strings.HasPrefix(name, "JetStream API "):
			requests += q.Pending
		case strings.HasPrefix(name, "[ACC:"+PublicAccount+"] ") && strings.HasSuffix(name, " sendQ"):
			answers += q.Pending // counts those in progress until the last one is sent
		}
	}
	return requests, answers
}

// batches returns how many requests for messages there may be if every reader behaves
// like [reader.Direct]: one request at a time, two if it gave one up. A connection of
// linesman's own may have several, each with a subscription.
func (g *readerGuard) batches(s *server.Server, readers int) int {
	n := max(readers, len(g.before)) // requests of recently closed connections are still answered
	for _, account := range []string{readersAccount, PublicAccount} {
		for _, c := range connections(s, account) {
			if u := g.users[c.AuthorizedUser]; u != nil && !g.limits(u) {
				n += int(c.NumSubs)
			}
		}
	}
	return n
}

// readers returns the connections of all users to which limits apply.
func (g *readerGuard) readers(s *server.Server) []*server.ConnInfo {
	return slices.DeleteFunc(connections(s, readersAccount), func(c *server.ConnInfo) bool {
		u := g.users[c.AuthorizedUser]
		return u == nil || !g.limits(u)
	})
}

// connections returns all connections of an account.
func connections(s *server.Server, name string) []*server.ConnInfo {
	account, err := s.LookupAccount(name)
	if err != nil || account.NumLocalConnections() == 0 {
		return nil
	}
	all, err := s.Connz(&server.ConnzOptions{Account: name, Username: true, Limit: 1 << 16})
	if err != nil {
		return nil
	}
	return all.Conns
}

// heaviest returns the connections with most of a load, or none if their total is less
// than least.
func heaviest(conns []*server.ConnInfo, least int, load func(*server.ConnInfo) int64) (out []*server.ConnInfo) {
	sum, peak := int64(0), int64(0)
	for _, c := range conns {
		sum, peak = sum+load(c), max(peak, load(c))
	}
	if sum < int64(least) {
		return nil
	}
	for _, c := range conns {
		if load(c) >= max(peak/8, 1) {
			out = append(out, c)
		}
	}
	return out
}

// limit closes the connections of a flood, and temporarily restricts new connections of
// readers to subscriptions. If a limit is in effect already, it closes all readers that
// may still send requests.
func (g *readerGuard) limit(s *server.Server, now time.Time, why string, flood []*server.ConnInfo) {
	if len(flood) == 0 {
		return
	}
	g.mu.Lock()
	again := !g.began.IsZero()
	if !again {
		g.began, g.until = now, now.Add(g.period)
	}
	until := g.until
	g.mu.Unlock()
	if again && now.Sub(g.began) >= time.Second {
		flood = g.readers(s)
	}
	for _, c := range flood {
		if why != whyRequests {
			if client := s.GetClient(c.Cid); client != nil {
				client.RegisterUser(&server.User{Permissions: g.listening(g.users[c.AuthorizedUser])})
			}
		}
		_ = s.DisconnectClientByID(c.Cid) // fails if it is closed already
	}
	if !again {
		g.record(readerLimit{At: now, Until: until, User: flood[0].AuthorizedUser, Connections: len(flood), Why: why})
	}
}

// stuck reports whether the queued answers belong to connections that were closed for a
// flood. After maxDrainTime they belong to others.
func (g *readerGuard) stuck(now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	since := now.Sub(g.began)
	return !g.began.IsZero() && since >= drainTime && since < maxDrainTime && g.restarted.Before(g.began)
}

// upkeep ends a limit that has expired, and closes the connections made during it,
// which would otherwise stay restricted.
func (g *readerGuard) upkeep(s *server.Server, now time.Time, readers []*server.ConnInfo) {
	g.looked = now
	g.mu.Lock()
	began, over := g.began, !g.began.IsZero() && now.After(g.until)
	if over {
		g.began = time.Time{}
	}
	refused, limit, period := g.refused, g.maxConnections, g.period
	g.refused = ""
	g.mu.Unlock()
	before := make(map[uint64]traffic, len(readers))
	for _, c := range readers {
		before[c.Cid] = traffic{c.InMsgs, c.OutMsgs}
		limited := !began.IsZero() && c.Start.After(began.Add(-connectTime))
		if limited && (over || c.InMsgs-g.before[c.Cid].in > idleMessages) {
			_ = s.DisconnectClientByID(c.Cid)
		}
	}
	if now.Sub(g.counted) >= countTime {
		g.before, g.counted = before, now
	}
	if over {
		g.log.Info("readers may use the JetStream API again")
	}
	if refused != "" && now.Sub(g.full) >= period {
		g.full = now
		g.record(readerLimit{
			At: now, Until: now.Add(period), User: refused, Connections: limit, Refused: true, Why: whyFull,
		})
	}
}

// record reports a limit to the log and to `doctor`.
func (g *readerGuard) record(l readerLimit) {
	g.log.Warn("a user of the readers' account is limited", zap.String("user", l.User),
		zap.Int("connections", l.Connections), zap.String("why", l.Why), zap.Time("until", l.Until))
	b, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return
	}
	if err := files.Replace(filepath.Join(g.dir, limitedFile), ".tmp-*", append(b, '\n')); err != nil {
		g.log.Warn("cannot write "+limitedFile, zap.Error(err))
	}
}
