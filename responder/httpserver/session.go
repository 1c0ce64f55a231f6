package httpserver

import (
	"cmp"
	"context"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

const (
	sessionTime = 30 * 24 * time.Hour
	maxSignIn   = 4 << 10 // bytes of the body of POST /session
)

// identity says which token a session belongs to: the SHA-256 of an additional token, and zero
// for the token of the token file, whose hash may reveal it if a person chose it.
type identity [sha256.Size]byte

// MarshalText returns i in hex.
func (i identity) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(i[:])), nil }

// UnmarshalText reads what MarshalText returned.
func (i *identity) UnmarshalText(text []byte) error {
	b, err := hex.DecodeString(string(text))
	if err == nil && len(b) != len(i) {
		err = errors.New("a hash has 64 digits")
	}
	if err == nil {
		*i = identity(b)
	}
	return err
}

// sealed is the size of a cookie's value before encoding: when it expires, in Unix seconds, its
// identity, and a MAC.
const sealed = 8 + len(identity{}) + sha256.Size

// sessionKey derives the key of cookies from the token of the token file. So cookies are valid
// across restarts, and end with that token.
func sessionKey(token string) []byte {
	key, err := hkdf.Key(sha256.New, []byte(token), nil, "linesman session 1", sha256.Size)
	if err != nil {
		panic(err) // the length is valid
	}
	return key
}

// sealer seals cookies.
type sealer struct {
	key  []byte
	name string // of the cookie
	sure bool   // the key could be read lately, or need not be
}

// sealer returns the sealer of all servers, or that of this one if they share nothing. Browsers
// send a cookie to all ports of a host, so servers that do not share their sessions need several
// names: that of one server contains its port, that of several a hash of their key.
func (s *Server) sealer(ctx context.Context) sealer {
	key, sure := s.access.sealing(ctx)
	if len(key) == 0 { // nothing is shared, or it was never read
		own := s.ownSealer()
		own.sure = sure
		return own
	}
	name := hmac.New(sha256.New, key)
	_, _ = name.Write([]byte("linesman cookie")) // a hash takes everything
	return sealer{key, cookieName + hex.EncodeToString(name.Sum(nil)[:keyedName]), sure}
}

// cookieName begins the names of cookies. A shared key adds so many bytes in hex, which no port has.
const (
	cookieName = "linesman_"
	keyedName  = 8
)

// mayBeShared reports whether a cookie may be a session of a shared key that is not known.
func mayBeShared(c *http.Cookie) bool {
	key, ours := strings.CutPrefix(c.Name, cookieName)
	if b, err := hex.DecodeString(key); !ours || err != nil || len(b) != keyedName {
		return false
	}
	_, ok := split(c.Value)
	return ok
}

// sealers are those of all sessions that this server accepts: its own, and those of a shared store;
// sure is false if the shared key is not known.
func (s *Server) sealers(ctx context.Context) (all []sealer, sure bool) {
	own, shared := s.ownSealer(), s.sealer(ctx)
	if shared.name == own.name {
		return []sealer{own}, shared.sure
	}
	return []sealer{own, shared}, shared.sure
}

// ownSealer seals sessions of this server alone: their key derives from the token file, so that they
// end with its token.
func (s *Server) ownSealer() sealer {
	address := s.config.Listen
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener != nil {
		address = s.listener.Addr().String()
	}
	_, port, _ := net.SplitHostPort(address) // New has parsed it
	return sealer{s.sessionKey, cookieName + port, true}
}

// seal is the value of a cookie for an identity.
func (s sealer) seal(of identity, until time.Time) string {
	value := binary.BigEndian.AppendUint64(nil, uint64(until.Unix()))
	value = append(value, of[:]...)
	return base64.RawURLEncoding.EncodeToString(append(value, s.mac(value)...))
}

func (s sealer) mac(value []byte) []byte {
	h := hmac.New(sha256.New, s.key)
	_, _ = h.Write([]byte(s.name + "\x00")) // a hash takes everything
	_, _ = h.Write(value)
	return h.Sum(nil)
}

// unseal returns the identity of a cookie's value; false if it was not sealed with this key and
// name, or if it has expired.
func (s sealer) unseal(text string) (of identity, ok bool) {
	value, ok := split(text)
	if !ok || !hmac.Equal(value[sealed-sha256.Size:], s.mac(value[:sealed-sha256.Size])) {
		return of, false
	}
	return identity(value[8:]), true
}

// split decodes a cookie's value; false if no key can have sealed it, or if it has expired.
func split(text string) (value []byte, ok bool) {
	value, err := base64.RawURLEncoding.Strict().DecodeString(text)
	return value, err == nil && len(value) == sealed && time.Now().Unix() < int64(binary.BigEndian.Uint64(value))
}

// inSession returns the caller of a request with a valid cookie, without scopes if the request
// has none, or if another origin caused it.
func (s *Server) inSession(r *http.Request) (caller, identity) {
	if !s.ownOrigin(r) {
		return caller{}, identity{}
	}
	all, sure := s.sealers(r.Context())
	unsure := !sure && slices.ContainsFunc(r.Cookies(), mayBeShared)
	for _, seals := range all {
		for _, c := range r.CookiesNamed(seals.name) {
			of, ok := seals.unseal(c.Value)
			if !ok || !seals.sure {
				continue
			}
			who := s.owner(r.Context(), of)
			if who.scopes != 0 {
				return who, of
			}
			unsure = unsure || who.unsure
		}
	}
	return caller{unsure: unsure}, identity{}
}

// ownOrigin reports whether the page itself made a request, with any method. Pages on other
// ports of this host did not: browsers apply neither SameSite nor the name of the host to them.
// Older browsers send no Sec-Fetch-Site, so each Origin must be the Host.
func (s *Server) ownOrigin(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
	default:
		return false
	}
	for _, origin := range r.Header.Values("Origin") {
		if u, err := url.Parse(origin); err != nil || !strings.EqualFold(u.Host, r.Host) {
			return false
		}
	}
	return s.crossOrigin.Check(r) == nil
}

// owner returns the caller whose token an identity names, without scopes if the token was
// removed.
func (s *Server) owner(ctx context.Context, of identity) caller {
	if of == (identity{}) {
		return caller{scopes: allScopes}
	}
	if who := s.tokens.of(of); who.scopes != 0 {
		return who
	}
	return s.access.of(ctx, of)
}

// setCookie begins a session, or ends it if age is negative.
func (s *Server) setCookie(w http.ResponseWriter, r *http.Request, seals sealer, value string, age time.Duration) {
	forwarded, _, _ := strings.Cut(r.Header.Get("X-Forwarded-Proto"), ",") // by a reverse proxy with TLS
	http.SetCookie(w, &http.Cookie{
		Name: seals.name, Value: value, Path: "/", MaxAge: int(age / time.Second), HttpOnly: true,
		SameSite: http.SameSiteStrictMode,
		Secure:   r.TLS != nil || strings.EqualFold(strings.TrimSpace(forwarded), "https"),
	})
}

// session answers requests for /session: GET returns the caller, POST signs in with a token,
// DELETE signs out.
func (s *Server) session(w http.ResponseWriter, r *http.Request) {
	if s.crossOrigin.Check(r) != nil {
		s.refuse(w, r, http.StatusForbidden, "FORBIDDEN", "a page of another origin made the request")
		return
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		who, _ := s.authenticate(r)
		if who.scopes == 0 {
			s.unauthorized(w, r, who)
			return
		}
		s.answerSession(w, who)
	case http.MethodPost:
		s.beginSession(w, r)
	case http.MethodDelete:
		all, sure := s.sealers(r.Context())
		for _, c := range r.Cookies() {
			if !sure && mayBeShared(c) {
				all = append(all, sealer{name: c.Name})
			}
		}
		for _, seals := range all {
			s.setCookie(w, r, seals, "", -time.Second)
		}
		w.WriteHeader(http.StatusNoContent)
	default:
		w.Header().Set("Allow", "GET, HEAD, POST, DELETE")
		s.refuse(w, r, http.StatusMethodNotAllowed, "METHOD_NOT_ALLOWED", "this path does not take "+r.Method)
	}
}

func (s *Server) beginSession(w http.ResponseWriter, r *http.Request) {
	// A form of another page cannot send JSON.
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		s.refuse(w, r, http.StatusUnsupportedMediaType, "UNSUPPORTED_MEDIA_TYPE", "the body must be application/json")
		return
	}
	var body struct {
		Token string `json:"token"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxSignIn)).Decode(&body); err != nil {
		s.refuse(w, r, http.StatusBadRequest, "VALIDATION", "the body must be a JSON object with a token")
		return
	}
	who, of := s.ofToken(r.Context(), body.Token)
	switch {
	case who.scopes == 0:
		s.unauthorized(w, r, who)
		return
	case who.scopes&Read == 0: // its session could do nothing
		s.forbidden(w, r, Read, who.scopes)
		return
	}
	seals := s.sealer(r.Context())
	if of == (identity{}) { // other servers do not have the token of the token file
		seals = s.ownSealer()
	}
	s.setCookie(w, r, seals, seals.seal(of, time.Now().Add(sessionTime)), sessionTime)
	s.answerSession(w, who)
}

func (s *Server) answerSession(w http.ResponseWriter, who caller) {
	respond(w, http.StatusOK, struct {
		Scopes  []string `json:"scopes"`
		Name    string   `json:"name"`
		Version string   `json:"version"`
	}{who.scopes.Names(), who.name, cmp.Or(s.config.Version, "dev")})
}

// respond responds with JSON.
func respond(w http.ResponseWriter, code int, body any) {
	b, err := json.Marshal(body)
	if err != nil {
		panic(err) // strings always encode
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(append(b, '\n'))
}
