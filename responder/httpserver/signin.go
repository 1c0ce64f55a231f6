package httpserver

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
)

// Limits of the codes of sign-in links.
const (
	codeTime    = 10 * time.Minute
	codeLength  = 26   // characters, of 5 random bits
	maxCodes    = 16   // of a token; beyond it its oldest one is revoked
	maxAllCodes = 2000 // of all tokens; beyond it a further one is refused
)

var (
	errNoCode       = errors.New("there is no such code")
	errNotRead      = errors.New("what servers share could not be read")
	errTooManyCodes = errors.New("too many sign-in links are valid; they expire within ten minutes")
)

// codeList are the valid codes of sign-in links, the oldest first. Only their hashes are kept.
type codeList struct {
	Codes []signInCode `json:"codes"`
}

type signInCode struct {
	Hash  identity  `json:"sha256"`
	Of    identity  `json:"of"` // the token that the session will belong to
	Until time.Time `json:"until"`
}

func (l *codeList) add(code signInCode, now time.Time) error {
	l.expire(now)
	more := 1 - maxCodes
	for _, one := range l.Codes {
		if one.Of == code.Of {
			more++
		}
	}
	if more > 0 {
		oldest := slices.IndexFunc(l.Codes, func(one signInCode) bool { return one.Of == code.Of })
		l.Codes = slices.Delete(l.Codes, oldest, oldest+1)
	}
	if len(l.Codes) >= maxAllCodes {
		return errTooManyCodes
	}
	l.Codes = append(l.Codes, code)
	return nil
}

// take removes a code, and returns its identity. Hashes are compared, all of them, so that the
// time reveals nothing.
func (l *codeList) take(hash identity, now time.Time) (identity, error) {
	l.expire(now)
	found := -1
	for i := range l.Codes {
		if subtle.ConstantTimeCompare(hash[:], l.Codes[i].Hash[:]) == 1 {
			found = i
		}
	}
	if found < 0 {
		return identity{}, errNoCode
	}
	of := l.Codes[found].Of
	l.Codes = slices.Delete(l.Codes, found, found+1)
	return of, nil
}

func (l *codeList) expire(now time.Time) {
	l.Codes = slices.DeleteFunc(l.Codes, func(one signInCode) bool { return !now.Before(one.Until) })
}

// codes are the codes of a server that shares none.
type codes struct {
	mu  sync.Mutex
	all codeList
}

// changeCodes changes the codes of the server, or those of all servers.
func (s *Server) changeCodes(ctx context.Context, change func(*codeList) error) error {
	if store := s.access.shared(); store != nil {
		return changeCodes(ctx, store, change)
	}
	return s.changeOwnCodes(change)
}

// changeOwnCodes changes the codes of this server alone: without a shared store all, with one
// those of the token file, whose token other servers do not have.
func (s *Server) changeOwnCodes(change func(*codeList) error) error {
	s.codes.mu.Lock()
	defer s.codes.mu.Unlock()
	return change(&s.codes.all)
}

func changeCodes(ctx context.Context, store shared, change func(*codeList) error) error {
	ctx, cancel := context.WithTimeout(ctx, sharedWait)
	defer cancel()
	return changeShared(ctx, store, sharedCodes, codeTime, change)
}

// newCode adds a code of 130 random bits for a session of an identity, and returns when it
// expires.
func newCode(of identity, add func(func(*codeList) error) error) (code string, until time.Time, err error) {
	code, now := rand.Text(), time.Now()
	until = now.Add(codeTime)
	err = add(func(l *codeList) error {
		return l.add(signInCode{sha256.Sum256([]byte(code)), of, until.UTC()}, now)
	})
	return code, until, err
}

// redeem removes a code, and returns its identity and what seals a session of it. The error is
// errNoCode if there is none.
func (s *Server) redeem(ctx context.Context, code string) (of identity, seals sealer, err error) {
	if len(code) != codeLength { // no reason to ask a store
		return of, seals, errNoCode
	}
	take := func(l *codeList) (err error) {
		of, err = l.take(sha256.Sum256([]byte(code)), time.Now())
		if err == nil && s.owner(ctx, of).unsure { // the store keeps the code; this server's own are of its token
			return errNotRead
		}
		return err
	}
	if err := s.changeOwnCodes(take); err == nil {
		return of, s.ownSealer(), nil
	}
	select {
	case s.redeeming <- struct{}{}:
	case <-ctx.Done():
		return of, seals, ctx.Err()
	}
	defer func() { <-s.redeeming }()
	if seals = s.sealer(ctx); !seals.sure { // the code would be used up without a session
		return of, seals, errNotRead
	}
	err = s.changeCodes(ctx, take)
	return of, seals, err
}

// SignInPath returns the path and query of a link that signs a browser in once, within ten
// minutes, with all scopes. It is a secret. If no code can be made, it is the path of the page,
// which asks for a token.
func (s *Server) SignInPath() string {
	code, _, err := newCode(identity{}, s.changeOwnCodes)
	if err != nil {
		s.log.Warn("a sign-in link cannot be made", zap.Error(err))
		return "/"
	}
	return SignInPath(code)
}

// SharedSignInPath is [Server.SignInPath] for all servers with the same store.
func SharedSignInPath(ctx context.Context, store shared) (string, error) {
	code, _, err := newCode(identity{}, func(add func(*codeList) error) error { return changeCodes(ctx, store, add) })
	return SignInPath(code), err
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
			s.unauthorized(w, r, who)
			return
		case who.scopes&Read == 0: // a session is for the page alone
			closeAfter(w, r)
			s.forbidden(w, r, Read, who.scopes)
			return
		}
		code, until, err := newCode(of, func(add func(*codeList) error) error {
			if of == (identity{}) {
				return s.changeOwnCodes(add)
			}
			return s.changeCodes(r.Context(), add)
		})
		switch {
		case errors.Is(err, errTooManyCodes):
			s.refuse(w, r, http.StatusTooManyRequests, "TOO_MANY_REQUESTS", err.Error())
			return
		case err != nil:
			s.log.Warn("a sign-in link cannot be made", zap.Error(err))
			s.unsure(w, r)
			return
		}
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
	of, seals, err := s.redeem(r.Context(), query.Get("code"))
	if err == nil && s.owner(r.Context(), of).scopes != 0 {
		s.setCookie(w, r, seals, seals.seal(of, time.Now().Add(sessionTime)), sessionTime)
	} else if who, _ := s.inSession(r); who.scopes == 0 {
		if who.unsure || err != nil && !errors.Is(err, errNoCode) {
			s.log.Warn("a sign-in link cannot be checked", zap.Error(err))
			s.unsure(w, r)
			return
		}
		expired(w)
		return
	}
	http.Redirect(w, r, localPath(query.Get("next")), http.StatusSeeOther)
}

var localPaths = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^/([A-Za-z0-9_-][A-Za-z0-9_/.-]*)?(\?[A-Za-z0-9_=&%.:,+-]*)?$`)
})

// localPath returns next if it is a path of this server in every browser's reading, else "/".
func localPath(next string) string {
	if len(next) > 1024 || !localPaths().MatchString(next) {
		return "/"
	}
	return next
}
