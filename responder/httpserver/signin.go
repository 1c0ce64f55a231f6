package httpserver

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"sync"
	"time"
)

// Limits of the codes of sign-in links.
const (
	codeTime = 10 * time.Minute
	maxCodes = 16 // of a token; beyond it its oldest one is revoked
)

// codes are the valid codes of sign-in links, the oldest first. Only their hashes are kept.
type codes struct {
	mu  sync.Mutex
	all []signInCode
}

type signInCode struct {
	hash  [sha256.Size]byte
	of    identity // the token that the session will belong to
	until time.Time
}

// create returns a code of at least 128 random bits for a session of an identity, and when it
// expires.
func (c *codes) create(of identity) (code string, until time.Time) {
	code = rand.Text()
	until = time.Now().Add(codeTime)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expire()
	c.all = append(c.all, signInCode{sha256.Sum256([]byte(code)), of, until})
	more := -maxCodes
	for _, one := range c.all {
		if one.of == of {
			more++
		}
	}
	if more > 0 {
		oldest := slices.IndexFunc(c.all, func(one signInCode) bool { return one.of == of })
		c.all = slices.Delete(c.all, oldest, oldest+1)
	}
	return code, until
}

// redeem removes a code, and returns its identity. Hashes are compared, all of them, so that
// the time reveals nothing.
func (c *codes) redeem(code string) (of identity, ok bool) {
	hash := sha256.Sum256([]byte(code))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expire()
	found := -1
	for i := range c.all {
		if subtle.ConstantTimeCompare(hash[:], c.all[i].hash[:]) == 1 {
			found = i
		}
	}
	if found < 0 {
		return of, false
	}
	of = c.all[found].of
	c.all = slices.Delete(c.all, found, found+1)
	return of, true
}

func (c *codes) expire() {
	now := time.Now()
	c.all = slices.DeleteFunc(c.all, func(one signInCode) bool { return !now.Before(one.until) })
}

// SignInPath returns the path and query of a link that signs a browser in once, within ten
// minutes, with all scopes. It is a secret.
func (s *Server) SignInPath() string {
	code, _ := s.codes.create(identity{})
	return SignInPath(code)
}

// SignInPath is the path and query of the link with a code that POST /signin returned.
func SignInPath(code string) string { return "/signin?code=" + url.QueryEscape(code) }

// signIn answers requests for /signin: GET exchanges a code for a cookie, POST with a bearer
// token returns a new code for that token.
func (s *Server) signIn(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet:
		s.exchange(w, r)
	case http.MethodPost:
		who, of := s.bearer(r) // not a cookie: a stolen one must not renew itself
		switch {
		case who.scopes == 0:
			s.unauthorized(w, r)
			return
		case who.scopes&Read == 0: // a session is for the page alone
			closeAfter(w, r)
			s.forbidden(w, r, Read, who.scopes)
			return
		}
		code, until := s.codes.create(of)
		respond(w, http.StatusCreated, struct {
			Code      string    `json:"code"`
			ExpiresAt time.Time `json:"expiresAt"`
		}{code, until.UTC().Truncate(time.Millisecond)})
	default:
		w.Header().Set("Allow", "GET, POST")
		s.refuse(w, r, http.StatusMethodNotAllowed, "METHOD_NOT_ALLOWED", "this path does not take "+r.Method)
	}
}

// exchange signs in and redirects. A link that is opened again in the same browser redirects, too.
func (s *Server) exchange(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	of, ok := s.codes.redeem(query.Get("code"))
	if ok && s.owner(of).scopes != 0 {
		s.setCookie(w, r, s.seal(of, time.Now().Add(sessionTime)), sessionTime)
	} else if who, _ := s.inSession(r); who.scopes == 0 {
		expired(w)
		return
	}
	http.Redirect(w, r, localPath(query.Get("next")), http.StatusSeeOther)
}

var localPaths = regexp.MustCompile(`^/([A-Za-z0-9_-][A-Za-z0-9_/.-]*)?(\?[A-Za-z0-9_=&%.:,+-]*)?$`)

// localPath returns next if it is a path of this server in every browser's reading, else "/".
func localPath(next string) string {
	if len(next) > 1024 || !localPaths.MatchString(next) {
		return "/"
	}
	return next
}
