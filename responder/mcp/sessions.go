package mcp

import (
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// sessions bounds the number of HTTP sessions of a server. The SDK stores them,
// and closes idle ones; it does not count them.
type sessions struct {
	server *sdk.Server
	most   int

	mu      sync.Mutex
	opening int
	known   map[string]*use
}

// use is the state of a session.
type use struct {
	requests int       // in progress
	since    time.Time // the end of the last request
}

// begin reserves a session, if necessary by closing the one that was idle for
// the longest time. It reports whether that was possible. Then begun must
// follow.
func (s *sessions) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	live := s.live()
	oldest := ""
	for id, u := range s.known {
		switch {
		case live[id] == nil:
			delete(s.known, id)
		case u.requests == 0 && (oldest == "" || u.since.Before(s.known[oldest].since)):
			oldest = id
		}
	}
	if len(s.known)+s.opening >= s.most {
		if oldest == "" {
			return false
		}
		// Under the lock, so that no request of it begins meanwhile: it has no
		// calls, and Close does not wait.
		_ = live[oldest].Close()
		delete(s.known, oldest)
	}
	s.opening++
	return true
}

// begun reports the id of the session that begin reserved; "": none was
// created.
func (s *sessions) begun(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opening--
	if id != "" {
		s.known[id] = &use{since: time.Now()}
	}
}

// use counts a request of a session until the returned function is called.
func (s *sessions) use(id string) (done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.known[id]
	if u == nil {
		return func() {}
	}
	u.requests++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		u.requests--
		u.since = time.Now()
	}
}

// close ends all sessions.
func (s *sessions) close() {
	for _, session := range s.live() {
		_ = session.Close()
	}
}

// live returns the sessions that the SDK has, by id. Stdio and requests
// without a session have none.
func (s *sessions) live() map[string]*sdk.ServerSession {
	live := make(map[string]*sdk.ServerSession)
	for session := range s.server.Sessions() {
		if id := session.ID(); id != "" {
			live[id] = session
		}
	}
	return live
}
