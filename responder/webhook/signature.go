package webhook

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/linesman/linesman/internal/lazy"
)

// Signatures of AdCP's profile of RFC 9421. They are written by hand: libraries of RFC 9421 encode binary values in
// standard Base64, and take the URI as it is; AdCP demands Base64URL without padding, and a canonical URI.

// SignatureProfile is the tag of signatures: the name of AdCP's profile.
const SignatureProfile = "adcp/webhook-signing/v1"

// lifetime is how long a signature is valid, AdCP's maximum.
const lifetime = 300 * time.Second

// covered are the components of a signature, in their order.
const covered = `("@method" "@target-uri" "@authority" "content-type" "content-digest")`

// sign adds the headers of a signature to a request that is sent at a time.
func (k *Key) sign(q *http.Request, body []byte, at time.Time) {
	var nonce [16]byte
	_, _ = rand.Read(nonce[:]) // never fails
	sum := sha256.Sum256(body)
	q.Header.Set("Content-Digest", "sha-256=:"+base64url(sum[:])+":")
	parameters := k.parameters(at.Unix(), base64url(nonce[:]))
	q.Header.Set("Signature-Input", "sig1="+parameters)
	q.Header.Set("Signature", "sig1=:"+base64url(ed25519.Sign(k.private, []byte(signatureBase(q, parameters))))+":")
}

// parameters is the value of @signature-params.
func (k *Key) parameters(created int64, nonce string) string {
	return fmt.Sprintf(`%s;created=%d;expires=%d;nonce=%q;keyid=%q;alg="ed25519";tag=%q`, covered, created,
		created+int64(lifetime/time.Second), nonce, k.id, SignatureProfile)
}

// signatureBase is what is signed.
func signatureBase(q *http.Request, parameters string) string {
	target, authority := canonical(q.URL)
	return `"@method": ` + q.Method + "\n" + `"@target-uri": ` + target + "\n" + `"@authority": ` + authority + "\n" +
		`"content-type": ` + q.Header.Get("Content-Type") + "\n" +
		`"content-digest": ` + q.Header.Get("Content-Digest") + "\n" + `"@signature-params": ` + parameters
}

// canonical returns a checked URL, and its host with its port, in the canonical form of AdCP: that of RFC 3986, with
// the query as it is.
func canonical(u *url.URL) (target, authority string) {
	authority = strings.ToLower(u.Host)
	if port := u.Port(); port == map[string]string{"https": "443", "http": "80"}[u.Scheme] {
		authority = strings.TrimSuffix(authority, ":"+port)
	}
	target = u.Scheme + "://" + authority + withoutDots(escape().ReplaceAllStringFunc(u.EscapedPath(), unescaped))
	if u.ForceQuery || u.RawQuery != "" {
		target += "?" + u.RawQuery
	}
	return target, authority
}

var escape = lazy.Regexp(`%[0-9A-Fa-f]{2}`)

// unescaped decodes an escaped octet that needs no escape, and writes any other one in upper case.
func unescaped(s string) string {
	const more = "-._~" // beside letters and digits
	n, _ := strconv.ParseUint(s[1:], 16, 8)
	switch c := rune(n); {
	case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.ContainsRune(more, c):
		return string(c)
	}
	return strings.ToUpper(s)
}

// withoutDots removes the segments . and .. of a path, as RFC 3986 demands. Unlike [path.Clean] it keeps empty ones.
func withoutDots(path string) string {
	var kept []string
	segments := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i, s := range segments {
		if s == ".." && len(kept) > 0 {
			kept = kept[:len(kept)-1]
		}
		switch dots := s == "." || s == ".."; {
		case !dots:
			kept = append(kept, s)
		case i == len(segments)-1:
			kept = append(kept, "")
		}
	}
	return "/" + strings.Join(kept, "/")
}

// codes are the errors of AdCP by which a receiver refuses a signature. No other attempt helps.
var codes = lazy.Regexp(`^(?i:signature)\b.*\berror="?(webhook_[a-z_]{1,64})\b`)

// refusedFor returns why a receiver refused a signature, "" if it does not say.
func refusedFor(answer *http.Response) string {
	if answer.StatusCode != http.StatusUnauthorized {
		return ""
	}
	for _, challenge := range answer.Header.Values("WWW-Authenticate") {
		if found := codes().FindStringSubmatch(challenge); found != nil {
			return found[1]
		}
	}
	return ""
}
