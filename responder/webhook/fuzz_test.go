package webhook

import (
	"bytes"
	"errors"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/linesman/linesman/responder/idempotency"
	"github.com/linesman/linesman/runs"
)

// Every configuration is accepted or refused; an accepted one contains no
// private address as a literal, and errors quote nothing of a refused one.
func FuzzConfig(f *testing.F) {
	for _, s := range []string{
		`{"url":"https://h.example/","operation_id":"op","authentication":{"schemes":["Bearer"],"credentials":"0123456789abcdef0123456789abcdef"}}`,
		`{"url":"https://[::ffff:127.0.0.1]/","token":"0123456789abcdef","authentication":{"schemes":["HMAC-SHA256"],"credentials":""}}`,
		`{"url":null,"token":null,"authentication":null}`, `{"authentication":{"schemes":[1]}}`, `[]`, `null`,
		`{"url":"https://0x7f.1/"}`, `{"a":1,"a":2}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := ParseConfig(raw)
		if err == nil {
			err = r.check(false)
		}
		if err != nil {
			for _, e := range flat(err) {
				var field *runs.FieldError
				if !errors.As(e, &field) {
					t.Fatalf("%v", e)
				}
				if field.Problem == "" || len(r.Credentials) > 8 && strings.Contains(field.Problem, r.Credentials) {
					t.Fatalf("%v", field)
				}
			}
			return
		}
		u, err := url.Parse(r.URL)
		if err != nil || u.Scheme != "https" || u.User != nil || u.Hostname() == "" {
			t.Fatalf("taken: %q, %v", r.URL, err)
		}
		if ip, err := netip.ParseAddr(u.Hostname()); err == nil && (ip.IsPrivate() || ip.IsLoopback() ||
			ip.IsLinkLocalUnicast() || !ip.IsGlobalUnicast()) {
			t.Fatalf("taken: %q", r.URL)
		}
		if r.OperationID == "" || len(r.Credentials) < minCredentials {
			t.Fatal("taken without what is required")
		}
	})
}

func flat(err error) []error {
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		return []error{err}
	}
	var all []error
	for _, e := range joined.Unwrap() {
		all = append(all, flat(e)...)
	}
	return all
}

// Input that has a canonical form has no duplicate names.
func FuzzNames(f *testing.F) {
	for _, s := range []string{`{"a":1,"a":2}`, `{"a":{"b":[{"c":1,"c":2}]}}`, `{"a":"a"}`, `[[],{}]`, `{"a":1}{`, `"`,
		`{"\u0061":1,"a":2}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		err := checkNames(raw)
		if _, canonical := idempotency.Canonical(raw); canonical == nil && err != nil {
			t.Fatalf("it has a canonical form, and %v", err)
		}
		if err == nil && bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) &&
			errors.Is(checkNames(append([]byte(`{"x":`), append(raw, '}')...)), errNames) {
			t.Fatal("within an object it has a name twice")
		}
	})
}
