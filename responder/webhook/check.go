package webhook

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"

	"github.com/linesman/linesman/internal/lazy"
	"github.com/linesman/linesman/responder/idempotency"
	"github.com/linesman/linesman/runs"
)

// Limits of what a caller may register.
const (
	maxURL         = 2048
	maxOperation   = 255
	maxToken       = 4096
	maxCredentials = 4096
	MaxContext     = 64 << 10 // bytes of JSON

	minToken       = 16
	minCredentials = 32
	maxID          = 256
	maxTool        = 64
)

// placeholder is the secret that the SDK of AdCP 6.11 sends if its user has configured none.
const placeholder = "placeholder_secret_min_32_characters_required"

// ParseConfig reads the push_notification_config of AdCP. The result must still
// be checked: see [Registry.Check]. The error is one or several
// [runs.FieldError], and quotes no value.
func ParseConfig(raw []byte) (Registration, error) {
	r := Registration{ID: AdCP, Protocol: AdCP}
	if _, err := idempotency.Canonical(raw); err != nil {
		return r, &runs.FieldError{Problem: "must be JSON in which no object has a name twice"}
	}
	var top map[string]json.RawMessage
	if json.Unmarshal(raw, &top) != nil || top == nil {
		return r, &runs.FieldError{Problem: "must be an object"}
	}
	var errs []error
	text := func(from map[string]json.RawMessage, field, name string, into *string) {
		if v, there := from[name]; there && (string(v) == "null" || json.Unmarshal(v, into) != nil) {
			errs = append(errs, &runs.FieldError{Field: field, Problem: "must be a string"})
		}
	}
	text(top, "url", "url", &r.URL)
	text(top, "operation_id", "operation_id", &r.OperationID)
	text(top, "token", "token", &r.Token)
	for _, one := range []runs.FieldError{
		{Field: "operation_id", Problem: operationRule}, {Field: "token", Problem: tokenRule},
	} {
		if string(top[one.Field]) == `""` { // not the same as none
			errs = append(errs, &one)
		}
	}
	if how, there := top["authentication"]; there {
		var auth map[string]json.RawMessage
		if json.Unmarshal(how, &auth) != nil || auth == nil {
			return r, errors.Join(append(errs, &runs.FieldError{Field: "authentication", Problem: "must be an object"})...)
		}
		for name := range auth {
			if name != "schemes" && name != "credentials" {
				errs = append(errs, &runs.FieldError{Field: "authentication",
					Problem: "has schemes and credentials, and nothing else"})
				break
			}
		}
		var schemes []string
		if json.Unmarshal(auth["schemes"], &schemes) != nil || len(schemes) != 1 {
			errs = append(errs, &runs.FieldError{Field: "authentication.schemes", Problem: schemeRule})
		} else {
			r.Scheme = schemes[0]
		}
		text(auth, "authentication.credentials", "credentials", &r.Credentials)
	}
	return r, errors.Join(errs...)
}

// Echo is the registration as the push_notification_config of an answer, without its secrets.
func (r Registration) Echo() json.RawMessage {
	type authentication struct {
		Schemes     []string `json:"schemes"`
		Credentials string   `json:"credentials"`
	}
	config := struct {
		URL       string          `json:"url"`
		Operation string          `json:"operation_id,omitempty"`
		Auth      *authentication `json:"authentication,omitempty"`
	}{URL: r.URL, Operation: r.OperationID}
	if r.Scheme != "" { // the contract requires credentials, as long as a secret
		config.Auth = &authentication{[]string{r.Scheme}, strings.Repeat("*", minCredentials)}
	}
	return runs.Encode(config)
}

const (
	operationRule = "must be 1 to 255 letters, digits, '_', '.', ':' and '-'"
	tokenRule     = "must be 16 to 4096 characters without control characters"
	schemeRule    = "must be one scheme, Bearer or HMAC-SHA256"
)

var operation = lazy.Regexp(`^[A-Za-z0-9_.:-]+$`)

// check reports every invalid field of a registration, each as a
// [runs.FieldError].
func (r *Registration) check(private bool) error {
	var errs []error
	wrong := func(is bool, field, problem string) {
		if is {
			errs = append(errs, &runs.FieldError{Field: field, Problem: problem})
		}
	}
	wrong(r.Run != "" && runs.CheckID(r.Run) != nil, "run", "must be the id of a run") // "": none yet
	wrong(!visible(r.ID) || len(r.ID) > maxID, "id", "must be 1 to 256 characters of visible ASCII")
	problem := checkURL(r.URL, private)
	wrong(problem != "", "url", problem)
	wrong(len(r.Tool) > maxTool || r.Tool != "" && !visible(r.Tool), "tool", "must be the name of a tool")
	switch n := len(r.Context); {
	case n > MaxContext:
		wrong(true, "context", "at most 65536 bytes")
	case n > 0:
		wrong(!utf8.Valid(r.Context) || checkNames(r.Context) != nil, "context",
			"must be JSON in which no object has a name twice: it is sent with a signature")
	}
	if r.Protocol == AdCP {
		wrong(len(r.OperationID) > maxOperation || r.OperationID != "" && !operation().MatchString(r.OperationID),
			"operation_id", operationRule)
		n := utf8.RuneCountInString(r.Token)
		wrong(r.Token != "" && (n < minToken || n > maxToken || !utf8.ValidString(r.Token) ||
			strings.ContainsFunc(r.Token, unicode.IsControl)), "token", tokenRule)
	} else {
		wrong(len(r.Token) > maxToken || r.Token != "" && !visible(r.Token), "token",
			"must be visible ASCII, at most 4096 characters")
	}
	if r.ofAdCP() {
		r.checkAuthentication(wrong)
		return errors.Join(errs...)
	}
	wrong(r.Scheme != "" && r.Scheme != Bearer || r.Scheme == "" && r.Credentials != "", "authentication.schemes",
		"must be Bearer")
	wrong(r.Scheme == Bearer && (len(r.Credentials) > maxCredentials || !visible(r.Credentials)),
		"authentication.credentials", "must be visible ASCII, 1 to 4096 characters")
	return errors.Join(errs...)
}

// checkAuthentication checks the authentication by the rules of AdCP.
func (r *Registration) checkAuthentication(wrong func(is bool, field, problem string)) {
	const credentials = "authentication.credentials"
	switch problem := checkSecret(r.Credentials); {
	case r.Scheme == "":
		wrong(r.Credentials != "", "authentication.schemes", schemeRule)
	case r.Scheme == Bearer && !visible(r.Credentials):
		wrong(true, credentials, "must be visible ASCII: it is sent in a header")
	default:
		wrong(r.Scheme != Bearer && r.Scheme != HMAC, "authentication.schemes", schemeRule)
		if len(r.Credentials) > maxCredentials {
			problem = "at most 4096 bytes"
		}
		wrong(problem != "", credentials, problem)
	}
}

// checkSecret returns what is wrong with a secret, or "".
func checkSecret(s string) string {
	switch {
	case utf8.RuneCountInString(s) < minCredentials:
		return "must be at least 32 characters"
	case strings.Count(s, s[:1]) == len(s):
		return "must not be one repeated character"
	}
	return ""
}

// checkURL returns what is wrong with the URL of a receiver, or "". The
// addresses that its host resolves to are checked when it is called.
func checkURL(raw string, private bool) string {
	if raw == "" {
		return "is required"
	}
	if len(raw) > maxURL {
		return "at most 2048 bytes"
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil || !visible(raw) || u.Opaque != "":
		return "must be a URL"
	case u.Scheme != "https" && !(private && u.Scheme == "http"):
		return "must begin with https://"
	case u.User != nil:
		return "must have no user and no password"
	case u.Fragment != "":
		return "must have no fragment"
	}
	if port := u.Port(); port != "" || strings.HasSuffix(u.Host, ":") {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return "must have a port from 1 to 65535, or none"
		}
	}
	return checkHost(u.Hostname(), private)
}

func checkHost(host string, private bool) string {
	const forbidden = "must not lead to a private or local address"
	if ip, err := netip.ParseAddr(host); err == nil {
		if !allowed(ip, private) {
			return forbidden
		}
		return ""
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	labels := strings.Split(host, ".")
	last := labels[len(labels)-1]
	switch {
	case len(host) > 253 || slices.ContainsFunc(labels, func(l string) bool { return !isLabel(l) }):
		return "must name a host, in ASCII"
	case '0' <= last[0] && last[0] <= '9': // 127.1, 0x7f000001: some resolvers parse them as addresses
		return "must name a host, or have its address as four decimal numbers"
	case !private && (last == "localhost" || host == "metadata.google.internal"):
		return forbidden
	}
	return ""
}

var label = lazy.Regexp(`^[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?$`)

// isLabel reports whether s is a part of the name of a host.
func isLabel(s string) bool { return len(s) <= 63 && label().MatchString(s) }

// visible reports whether s is not empty and consists of visible ASCII.
func visible(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c > '~' })
}

// errForbidden reports that a name resolves to an address that must not be
// called.
var errForbidden = errors.New("the address is private, local or reserved")

// never are the addresses that are never called: unspecified, multicast and
// link-local ones, and the metadata services of clouds.
var never = prefixes(
	"0.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "240.0.0.0/4",
	"100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32",
	"::/128", "fe80::/10", "ff00::/8", "fd00:ec2::/32", "fd20:ce::/32",
)

// private are the addresses that are called only if that is configured.
var private = prefixes(
	"10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24",
	"192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
	"2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
)

var (
	global = netip.MustParsePrefix("2000::/3")     // all allocated IPv6 addresses; the rest is not public
	nat64  = netip.MustParsePrefix("64:ff9b::/96") // an IPv4 address is in the last four bytes
)

// wrapped are the private IPv6 prefixes that embed an IPv4 address: local-use
// NAT64, and 6to4.
var wrapped = []struct {
	in netip.Prefix
	at int // offset of the IPv4 address
}{{netip.MustParsePrefix("64:ff9b:1::/48"), 12}, {netip.MustParsePrefix("2002::/16"), 2}}

func prefixes(list ...string) []netip.Prefix {
	all := make([]netip.Prefix, len(list))
	for i, s := range list {
		all[i] = netip.MustParsePrefix(s)
	}
	return all
}

// allowed reports whether a receiver may have an address; local also allows
// private networks and this machine.
func allowed(ip netip.Addr, local bool) bool {
	if !ip.IsValid() || ip.Zone() != "" {
		return false
	}
	ip = ip.Unmap()
	if nat64.Contains(ip) {
		b := ip.As16()
		ip = netip.AddrFrom4([4]byte(b[12:]))
	}
	in := func(list []netip.Prefix, ip netip.Addr) bool {
		return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(ip) })
	}
	for _, w := range wrapped {
		if b := ip.As16(); w.in.Contains(ip) && in(never, netip.AddrFrom4([4]byte(b[w.at:w.at+4]))) {
			return false
		}
	}
	switch {
	case in(never, ip):
		return false
	case local:
		return true
	case in(private, ip):
		return false
	}
	return ip.Is4() || global.Contains(ip)
}

// checkDialed refuses to connect to an address that is not allowed. It sees the
// address of the connection, after the name was resolved.
func checkDialed(local bool) func(network, address string, _ syscall.RawConn) error {
	return func(network, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil || network != "tcp4" && network != "tcp6" {
			return fmt.Errorf("%w: it is of no known form", errForbidden)
		}
		if !allowed(at.Addr(), local) {
			return errForbidden
		}
		return nil
	}
}
