package telemetry

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cenkalti/backoff/v5"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Defaults of OTLP.
const (
	defaultTimeout = 10 * time.Second
	maxAnswer      = 64 << 10 // bytes that are read of an answer
)

// target is a receiver of one signal over OTLP.
type target struct {
	url     string
	headers http.Header
	gzip    bool
	tls     *tls.Config // nil: the default
	client  *http.Client

	conn   *grpc.ClientConn // nil: HTTP
	method string

	refused bool // the last request
	failing bool // the last attempt got no answer that counts
	pause   *backoff.ExponentialBackOff
	due     time.Time // of the next attempt of what is sent once
}

// newTarget returns the receiver of a signal, traces or metrics, by the standard variables;
// nil: the environment configures none.
func newTarget(env func(string) string, signal string) (*target, error) {
	upper := strings.ToUpper(signal)
	get := func(name string) string {
		if v := env("OTEL_EXPORTER_OTLP_" + upper + "_" + name); v != "" {
			return v
		}
		return env("OTEL_EXPORTER_OTLP_" + name)
	}
	wrong := func(name string) error { return fmt.Errorf("OTEL_EXPORTER_OTLP_%s: not a value of the standard", name) }
	exporter := env("OTEL_" + upper + "_EXPORTER")
	if get("ENDPOINT") == "" || strings.EqualFold(env("OTEL_SDK_DISABLED"), "true") ||
		exporter != "" && exporter != "otlp" {
		return nil, nil
	}
	t := &target{headers: http.Header{}, client: &http.Client{
		Timeout:       defaultTimeout, // a redirect may lose the body, and take keys elsewhere
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, pause: backoff.NewExponentialBackOff()}
	t.pause.InitialInterval, t.pause.MaxInterval = retryLeast, retryMost
	protocol := get("PROTOCOL")
	if protocol != "" && protocol != "http/protobuf" && protocol != "grpc" {
		return nil, wrong("PROTOCOL")
	}
	endpoint := get("ENDPOINT")
	if protocol == "grpc" && !strings.Contains(endpoint, "://") {
		endpoint = map[bool]string{false: "https://", true: "http://"}[strings.EqualFold(get("INSECURE"), "true")] + endpoint
	}
	at, err := url.Parse(endpoint)
	if err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" {
		return nil, wrong("ENDPOINT")
	}
	switch own := env("OTEL_EXPORTER_OTLP_" + upper + "_ENDPOINT"); {
	case own == "":
		at = at.JoinPath("v1", signal)
	case at.Path == "":
		at.Path = "/"
	}
	t.url = at.String()
	switch get("COMPRESSION") {
	case "gzip":
		t.gzip = true
	case "", "none":
	default:
		return nil, wrong("COMPRESSION")
	}
	if v := get("TIMEOUT"); v != "" {
		ms, err := strconv.ParseUint(v, 10, 31)
		if err != nil {
			return nil, wrong("TIMEOUT")
		}
		t.client.Timeout = time.Duration(ms) * time.Millisecond
	}
	given, err := pairs(get("HEADERS"))
	if err != nil {
		return nil, wrong("HEADERS")
	}
	for _, h := range given {
		t.headers.Set(h[0], h[1])
	}
	if err := t.secure(get("CERTIFICATE"), get("CLIENT_CERTIFICATE"), get("CLIENT_KEY")); err != nil {
		return nil, err
	}
	if protocol == "grpc" {
		t.method = exports[signal]
		return t, t.dial(at, at.Scheme == "http")
	}
	return t, nil
}

// pairs parses name=value,name=value with values escaped as in URLs.
func pairs(list string) (all [][2]string, err error) {
	for pair := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		name = strings.TrimSpace(name)
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if !ok || err != nil || name == "" || !utf8.ValidString(name) || !utf8.ValidString(value) {
			return nil, errors.New("not a list of pairs")
		}
		all = append(all, [2]string{name, value})
	}
	return all, nil
}

// secure adds the certificates in files; "": none.
func (t *target) secure(ca, cert, key string) error {
	if ca == "" && cert == "" {
		return nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if c.RootCAs = x509.NewCertPool(); err != nil || !c.RootCAs.AppendCertsFromPEM(pem) {
			return errors.New("OTEL_EXPORTER_OTLP_CERTIFICATE: not a file with certificates")
		}
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return errors.New("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE: not a pair of files with OTEL_EXPORTER_OTLP_CLIENT_KEY")
		}
		c.Certificates = []tls.Certificate{pair}
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = c
	t.client.Transport, t.tls = transport, c.Clone()
	return nil
}

// refusal is an answer of a receiver that did not accept a request.
type refusal struct {
	status int
	after  time.Duration // when to try again; 0: unknown
	code   codes.Code    // over gRPC
}

// Error contains no part of the answer: that may quote what was sent.
func (r *refusal) Error() string {
	switch r.code {
	case codes.OK:
		return "the receiver answers " + strconv.Itoa(r.status)
	case codes.Unavailable: // both have this code
		return "the receiver is not reached, or answers Unavailable"
	}
	return "the receiver answers " + r.code.String()
}

// final reports whether the same request can never be accepted. Answers about addresses and
// credentials are not final, because they say nothing about the request.
func (r *refusal) final() bool {
	switch r.status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType,
		http.StatusUnprocessableEntity, http.StatusNotImplemented:
		return true
	}
	return false
}

// fault reports whether the receiver failed on the request. The request may be the reason, or
// something that passes.
func (r *refusal) fault() bool { return r.status == http.StatusInternalServerError }

// again reports whether OTLP asks for another attempt.
func (r *refusal) again() bool {
	switch r.status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// send sends one request, and returns how many spans or data points of it were rejected. The
// error is a [refusal] if there was an answer.
func (t *target) send(ctx context.Context, m proto.Message) (rejected int64, err error) {
	if t.conn != nil {
		return t.invoke(ctx, m)
	}
	body, err := proto.Marshal(m)
	if err != nil {
		return 0, err
	}
	if t.gzip {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, err = w.Write(body)
		if err = errors.Join(err, w.Close()); err != nil {
			return 0, err
		}
		body = b.Bytes()
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	q.Header = t.headers.Clone()
	q.Header.Set("Content-Type", "application/x-protobuf")
	if t.gzip {
		q.Header.Set("Content-Encoding", "gzip")
	}
	a, err := t.client.Do(q)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) { // without the address, which may have a password
			err = u.Err
		}
		return 0, fmt.Errorf("the receiver does not answer: %w", err)
	}
	defer func() { _ = a.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(a.Body, maxAnswer))
	if a.StatusCode/100 != 2 {
		seconds, _ := strconv.ParseUint(a.Header.Get("Retry-After"), 10, 16)
		return 0, &refusal{status: a.StatusCode, after: time.Duration(seconds) * time.Second}
	}
	if err != nil {
		return 0, fmt.Errorf("the receiver does not answer: %w", err)
	}
	return rejectedIn(answer), nil
}

// rejectedIn reads the number of rejected spans or data points from an answer of OTLP: field
// 1 of its field 1.
func rejectedIn(answer []byte) (n int64) {
	each(answer, func(partial []byte, _ uint64) {
		each(partial, func(_ []byte, v uint64) { n = int64(v) })
	})
	return max(n, 0)
}

// each calls f with the values of field 1 of a message.
func each(message []byte, f func(bytes []byte, number uint64)) {
	for len(message) > 0 {
		field, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return
		}
		message = message[n:]
		size := protowire.ConsumeFieldValue(field, kind, message)
		if size < 0 {
			return
		}
		if field == 1 {
			switch kind {
			case protowire.BytesType:
				b, _ := protowire.ConsumeBytes(message)
				f(b, 0)
			case protowire.VarintType:
				v, _ := protowire.ConsumeVarint(message)
				f(nil, v)
			}
		}
		message = message[size:]
	}
}
