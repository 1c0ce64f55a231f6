package httpserver

import (
	"cmp"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"mime"
	"net"
	"net/http"
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

// cookieName is the name of the cookie: browsers send a cookie to all ports of a host, so
// servers on several ports need several names.
func (s *Server) cookieName() string {
	address := s.config.Listen
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener != nil {
		address = s.listener.Addr().String()
	}
	_, port, _ := net.SplitHostPort(address) // New has parsed it
	return "linesman_" + port
}

// seal is the value of a cookie for an identity.
func (s *Server) seal(of identity, until time.Time) string {
	value := binary.BigEndian.AppendUint64(nil, uint64(until.Unix()))
	value = append(value, of[:]...)
	return base64.RawURLEncoding.EncodeToString(append(value, s.mac(value)...))
}

func (s *Server) mac(value []byte) []byte {
	h := hmac.New(sha256.New, s.sessionKey)
	_, _ = h.Write([]byte(s.cookieName() + "\x00")) // a hash takes everything
	_, _ = h.Write(value)
	return h.Sum(nil)
}

// unseal returns the identity of a cookie's value; false if this server has not sealed it for
// this address, or if it has expired.
func (s *Server) unseal(text string) (of identity, ok bool) {
	value, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(value) != sealed {
		return of, false
	}
	value, mac := value[:sealed-sha256.Size], value[sealed-sha256.Size:]
	if !hmac.Equal(mac, s.mac(value)) || time.Now().Unix() >= int64(binary.BigEndian.Uint64(value)) {
		return of, false
	}
	return identity(value[8:]), true
}

// inSession returns the caller of a request with a valid cookie, without scopes if the request
// has none, or if another origin caused it: that includes pages on other ports of this host, to
// which browsers apply neither SameSite nor the name of the host.
func (s *Server) inSession(r *http.Request) (caller, identity) {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
	default:
		return caller{}, identity{}
	}
	if s.crossOrigin.Check(r) != nil {
		return caller{}, identity{}
	}
	for _, c := range r.CookiesNamed(s.cookieName()) {
		if of, ok := s.unseal(c.Value); ok {
			if who := s.owner(of); who.scopes != 0 {
				return who, of
			}
		}
	}
	return caller{}, identity{}
}

// owner returns the caller whose token an identity names, without scopes if the token was
// removed.
func (s *Server) owner(of identity) caller {
	if of == (identity{}) {
		return caller{scopes: All}
	}
	return s.tokens.of(of)
}

// setCookie begins a session, or ends it if age is negative.
func (s *Server) setCookie(w http.ResponseWriter, r *http.Request, value string, age time.Duration) {
	forwarded, _, _ := strings.Cut(r.Header.Get("X-Forwarded-Proto"), ",") // by a reverse proxy with TLS
	http.SetCookie(w, &http.Cookie{
		Name: s.cookieName(), Value: value, Path: "/", MaxAge: int(age / time.Second), HttpOnly: true,
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
		if who, _ := s.authenticate(r); who.scopes != 0 {
			s.answerSession(w, who)
			return
		}
		s.unauthorized(w, r)
	case http.MethodPost:
		s.beginSession(w, r)
	case http.MethodDelete:
		s.setCookie(w, r, "", -time.Second)
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
	who, of := s.ofToken(body.Token)
	switch {
	case who.scopes == 0:
		s.unauthorized(w, r)
		return
	case who.scopes&Read == 0: // its session could do nothing
		s.forbidden(w, r, Read, who.scopes)
		return
	}
	s.setCookie(w, r, s.seal(of, time.Now().Add(sessionTime)), sessionTime)
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
