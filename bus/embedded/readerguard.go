package embedded

import (
	"crypto/subtle"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/atomicfile"
	"github.com/linesman/linesman/bus/reader"
)

// Bounds of the readers of EVENTS on the embedded server, linesman's own users
// excepted. The server has one queue of API requests for all accounts, and drops
// all of it at 10,000 requests; it bounds neither the answers to direct gets nor
// the number of connections of a user.
const (
	// MaxConnections is how many connections the users may have, or a quarter of
	// the descriptors of this process where that is less.
	MaxConnections = 256

	lookAtQueues      = 20 * time.Millisecond
	lookAtConnections = 200 * time.Millisecond

	countTime      = time.Second            // within which messages are counted
	manyRequests   = 1000                   // in the queues: a flood
	steadyRequests = 100                    // the same, where there are as many for
	steadyTime     = 2 * time.Second        // so long
	manyAnswers    = 50_000                 // messages from EVENTS that wait, or more: see batches
	maxAnswers     = 5 * manyAnswers        // but no more than these: they are all in memory
	maxUnread      = 64 << 20               // bytes that readers do not take, together
	maxPending     = 16 << 20               // and one of them, or any other client: more than [reader.PullBytes]
	writeTime      = 5 * time.Second        // without a byte taken; a restart may wait for it
	idleMessages   = 1000                   // from a limited connection in countTime
	drainTime      = 500 * time.Millisecond // for answers to connections that were closed
	maxDrainTime   = 10 * time.Second
	limitedFor     = time.Minute     // by default
	connectTime    = 2 * time.Second // in which a client has to send its password

	limitedFile = "readers.json"
	whyRequests = "requests to the JetStream API"
	whyDirect   = "direct gets"
	whyUnread   = "answers that it does not read"
	whyFull     = "more connections were refused"
	fullAccount = "LINESMAN_FULL" // it takes no connections
)

// Limited is the last time that the embedded server limited a reader.
type Limited struct {
	At          time.Time `json:"at"`
	Until       time.Time `json:"until"`
	User        string    `json:"user"`
	Connections int       `json:"connections"` // closed, or those there are
	Refused     bool      `json:"refused"`     // more connections were; nothing else is limited
	Why         string    `json:"why"`
}

// ReadLimited returns what the embedded server of a data directory recorded, or
// an error that is [os.ErrNotExist].
func ReadLimited(dir string) (l Limited, err error) {
	b, err := os.ReadFile(filepath.Join(dir, limitedFile))
	if err == nil {
		err = json.Unmarshal(b, &l)
	}
	return l, err
}

// readerGuard authenticates the clients of the embedded server, and limits
// readers that flood it. Narrower permissions apply to new connections, when
// they are authenticated: a reload of the server's configuration would recreate
// the exports of all accounts, and with them lose answers that are on their way.
type readerGuard struct {
	dir   string
	log   *zap.Logger
	users map[string]*server.User

	restart func() error

	server atomic.Pointer[server.Server]
	end    chan struct{}
	ended  chan struct{}

	mu              sync.Mutex
	most, maxUnread int           // connections, bytes
	many, batch     int           // answers that wait in any case, and to one request of a reader
	period          time.Duration // of a limit
	began           time.Time     // of the limit; zero while there is none
	until           time.Time
	refused         string // user of a connection above the most

	// Of the goroutine alone.
	before    map[uint64]traffic // of the connections, some time ago
	counted   time.Time          // when
	looked    time.Time          // at connections
	busy      time.Time          // since when there are steadyRequests; zero: there are not
	full      time.Time          // when a refused connection was last recorded
	restarted time.Time
}

// traffic is how many messages a connection sent, and got.
type traffic struct{ in, out int64 }

func newReaderGuard(dir string, users []*server.User, restart func() error, log *zap.Logger) *readerGuard {
	g := &readerGuard{
		dir: dir, log: log, restart: restart, users: map[string]*server.User{}, most: MaxConnections, maxUnread: maxUnread, period: limitedFor,
		many: manyAnswers, batch: reader.BatchMessages, end: make(chan struct{}), ended: make(chan struct{}),
	}
	for _, u := range users {
		g.users[u.Username] = u
	}
	var files unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &files) == nil {
		g.most = int(min(uint64(g.most), uint64(files.Cur)/4))
	}
	return g
}

// limits reports whether a user is one that is limited.
func (g *readerGuard) limits(u *server.User) bool {
	return u.Account.GetName() == ReadersAccount && !strings.HasSuffix(u.Username, publicSuffix)
}

// listening are the permissions of a user that may only listen.
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
	defer g.mu.Unlock() // also for the number of connections
	if as.Account.NumLocalConnections() >= g.most {
		if as.Account, err = s.LookupAccount(fullAccount); err == nil {
			c.RegisterUser(as) // which tells the client that there are too many, and closes it
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

// run looks after the readers until stop.
func (g *readerGuard) run() {
	defer close(g.ended)
	tick := time.NewTicker(lookAtQueues)
	defer tick.Stop()
	for {
		select {
		case <-g.end:
			return
		case now := <-tick.C:
			g.look(now)
		}
	}
}

func (g *readerGuard) stop() {
	close(g.end)
	<-g.ended
}

func (g *readerGuard) look(now time.Time) {
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
	if !flooded && answers < many && now.Sub(g.looked) < lookAtConnections {
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
	case flooded: // by whom else, where readers did not ask for as much
		g.limit(s, now, whyRequests, heaviest(readers, min(requests, manyRequests/2), asked))
	case tooMany && g.stuck(now):
		// The server still answers every request that a closed connection has sent,
		// which can take minutes and all memory. Only a restart stops that.
		g.restarted = now
		g.log.Error("the embedded server restarts, to discard direct gets of readers", zap.Int("answers", answers))
		if err := g.restart(); err != nil {
			g.log.Error("the embedded server does not restart", zap.Error(err))
		}
	case tooMany:
		g.limit(s, now, whyDirect, heaviest(readers, 1, messages))
	case unread >= maxUnread:
		g.limit(s, now, whyUnread, heaviest(readers, 1, func(c *server.ConnInfo) int64 { return int64(c.Pending) }))
	}
	if now.Sub(g.looked) >= lookAtConnections {
		g.upkeep(s, now, readers)
	}
}

// queued is how many requests to the JetStream API a server has queued, and how
// many messages of EVENTS that wait to be sent as answers.
func queued(s *server.Server) (requests, answers int) {
	for name, q := range *s.Ipqueuesz(&server.IpqueueszOptions{}) {
		switch {
		case strings.HasPrefix(name, "JetStream API "):
			requests += q.Pending
		case strings.HasPrefix(name, "[ACC:"+PublicAccount+"] ") && strings.HasSuffix(name, " sendQ"):
			answers += q.Pending // those in progress are counted until the last of them is sent
		}
	}
	return requests, answers
}

// batches is how many requests for messages are to be answered where all ask as
// [reader.Direct] does, one at a time; twice as many where it gave them up. A connection
// of linesman's own may have several, each with a subscription.
func (g *readerGuard) batches(s *server.Server, readers int) int {
	n := max(readers, len(g.before)) // those that went a moment ago are still answered
	for _, account := range []string{ReadersAccount, PublicAccount} {
		for _, c := range connections(s, account) {
			if u := g.users[c.AuthorizedUser]; u != nil && !g.limits(u) {
				n += int(c.NumSubs)
			}
		}
	}
	return n
}

// readers are the connections of all users that are limited.
func (g *readerGuard) readers(s *server.Server) []*server.ConnInfo {
	return slices.DeleteFunc(connections(s, ReadersAccount), func(c *server.ConnInfo) bool {
		u := g.users[c.AuthorizedUser]
		return u == nil || !g.limits(u)
	})
}

// connections are all connections of an account.
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

// heaviest are the connections that make up most of a load, and none if all of
// them together have less than the least.
func heaviest(conns []*server.ConnInfo, least int, load func(*server.ConnInfo) int64) (out []*server.ConnInfo) {
	sum, most := int64(0), int64(0)
	for _, c := range conns {
		sum, most = sum+load(c), max(most, load(c))
	}
	if sum < int64(least) {
		return nil
	}
	for _, c := range conns {
		if load(c) >= max(most/8, 1) {
			out = append(out, c)
		}
	}
	return out
}

// limit closes the connections of a flood, and lets new ones of readers only
// listen for a while. Where that was done before it closes all that may ask.
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
		_ = s.DisconnectClientByID(c.Cid) // or it is gone
	}
	if !again {
		g.record(Limited{At: now, Until: until, User: flood[0].AuthorizedUser, Connections: len(flood), Why: why})
	}
}

// stuck reports whether answers that wait now are those to connections that
// were closed for asking too much. Later they are those of somebody else.
func (g *readerGuard) stuck(now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	since := now.Sub(g.began)
	return !g.began.IsZero() && since >= drainTime && since < maxDrainTime && g.restarted.Before(g.began)
}

// upkeep ends a limit whose time has come: the connections made during it are
// closed, as these would be limited for as long as they last.
func (g *readerGuard) upkeep(s *server.Server, now time.Time, readers []*server.ConnInfo) {
	g.looked = now
	g.mu.Lock()
	began, over := g.began, !g.began.IsZero() && now.After(g.until)
	if over {
		g.began = time.Time{}
	}
	refused, most, period := g.refused, g.most, g.period
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
		g.log.Info("readers may ask the JetStream API again")
	}
	if refused != "" && now.Sub(g.full) >= period {
		g.full = now
		g.record(Limited{At: now, Until: now.Add(period), User: refused, Connections: most, Refused: true, Why: whyFull})
	}
}

// record tells what was done, to the log and to `doctor`.
func (g *readerGuard) record(l Limited) {
	g.log.Warn("a user of the readers' account is limited", zap.String("user", l.User), zap.Int("connections", l.Connections),
		zap.String("why", l.Why), zap.Time("until", l.Until))
	b, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return
	}
	if err := atomicfile.Replace(filepath.Join(g.dir, limitedFile), ".tmp-*", append(b, '\n')); err != nil {
		g.log.Warn(limitedFile+" cannot be written", zap.Error(err))
	}
}
