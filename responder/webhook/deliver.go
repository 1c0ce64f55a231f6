package webhook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"github.com/linesman/linesman/internal/delivery"
)

// Limits of the duration of a delivery, of the pause before the next one, and of the pause that a receiver asks for.
const (
	maxPause      = 10 * time.Minute
	sendTimeout   = 10 * time.Second
	maxRetryAfter = time.Hour
)

// deliver makes one attempt to deliver a notification, and returns the delay
// before the next one; 0: the notification is finished.
func (p *Pusher) deliver(ctx context.Context, n notice) time.Duration {
	log := p.log.With(zap.String("run", n.Run))
	var of outboxMeta
	if err := json.Unmarshal([]byte(n.About), &of); err != nil {
		log.Error("invalid notification in the outbox")
		return 0
	}
	left := p.cfg.GiveUp - time.Since(n.At) // 0 or less: this attempt is the last one
	again := func(refused *delivery.Refusal) time.Duration {
		rule := delivery.Rule{Pace: p.hosts.pace, Pause: maxPause, GiveUp: p.cfg.GiveUp}
		return rule.Again(refused, time.Since(n.At), n.Times)
	}
	list, _, err := read(ctx, p.cfg.Registrations, n.Run)
	switch {
	case errors.Is(err, errForm) && left <= 0:
		p.cfg.Attempted(givenUp, -1)
		return giveUp(log, "it is too old: "+errForm.Error())
	case errors.Is(err, errForm): // another process may know it
		if n.Times == 1 {
			log.Warn("the registrations of a run cannot be read", zap.Error(err))
		}
		return again(&delivery.Refusal{})
	case err != nil:
		log.Warn("the registrations of a run cannot be read", zap.Error(err))
		return delivery.Spread(3 * p.hosts.pace)
	}
	i := find(list, of.Protocol, of.ID)
	if i < 0 || list[i].key(of.State) != n.Key { // or a newer registration has its id
		log.Info("a notification is dropped: its registration was removed")
		return 0
	}
	r := list[i].Registration
	host := hostOf(r.URL)
	log = log.With(zap.String("host", host), zap.Int("times", n.Times))
	if n.Times > 1 && time.Since(n.At) > p.patience && p.crowded(ctx) {
		p.cfg.Attempted(givenUp, -1)
		return giveUp(log, "the outbox has no space to keep it for longer")
	}
	if checkURL(r.URL, p.cfg.Private) != "" { // it was accepted under other settings
		p.cfg.Attempted(givenUp, -1)
		return giveUp(log, "the current settings do not allow its URL")
	}
	if r.signed() && p.cfg.Key == nil { // another process may have it
		if left <= 0 {
			p.cfg.Attempted(givenUp, -1)
			return giveUp(log, "it is too old, and there is no key to sign it with")
		}
		log.Warn("a notification waits for a key to sign it with: see the setting adcp.webhook_key")
		return min(delivery.Spread(max(maxPause, p.hosts.pace)), left+time.Second)
	}
	if left <= 0 && p.hosts.away(host, n.Times > 1, time.Now()) {
		p.cfg.Attempted(givenUp, -1) // the attempt with another notification counts for this one
		return giveUp(log, "it is too old, and its receiver is not reached")
	}
	wait, ok := p.hosts.enter(host, n.Times > 1, time.Now())
	if !ok {
		if left > 0 {
			wait = min(wait, left+time.Second)
		}
		return wait
	}
	began := time.Now()
	status, refused := p.sender.send(ctx, r, of.Type, n.Body)
	took := time.Since(began)
	unsent := status == 0 && refused.Final
	p.hosts.took(host, refused == nil || refused.Final, time.Now())
	p.hosts.leave(host, took, status != 0 || unsent || ctx.Err() != nil, time.Now())
	tooOld := refused != nil && !refused.Final && left <= 0
	if ctx.Err() == nil || status != 0 {
		outcome := outcomeOf(refused)
		if tooOld {
			outcome = givenUp
		}
		p.cfg.Attempted(outcome, took)
	}
	switch {
	case unsent:
		log.Error("a notification cannot be sent", zap.Error(refused))
		return 0
	case refused == nil:
		log.Debug("a notification was delivered", zap.Int("status", status))
		return 0
	case ctx.Err() != nil: // this process is shutting down
		return time.Second
	case tooOld:
		return giveUp(log, "it is too old: "+refused.Why)
	case !refused.Final:
		logTry := log.Debug
		if n.Times == 1 {
			logTry = log.Info
		}
		logTry("a notification was not accepted", zap.Int("status", status), zap.String("why", refused.Why))
		return again(refused)
	}
	return giveUp(log, refused.Why)
}

func giveUp(log *zap.Logger, why string) time.Duration {
	log.Warn("a notification is given up", zap.String("why", why))
	return 0
}

// hostOf is HOST or HOST:PORT of a checked URL: the only part of it that may be
// logged.
func hostOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Host)
}

// sender sends requests, each on its own connection: no redirects, no proxy, no
// address that was not checked.
type sender struct {
	transport *http.Transport
	key       *Key          // of signatures by RFC 9421; nil: none are made
	timeout   time.Duration // of the whole request
}

func newSender(private bool) *sender {
	dialer := &net.Dialer{Timeout: sendTimeout / 2, KeepAlive: -1, Control: checkDialed(private)}
	return &sender{timeout: sendTimeout, transport: &http.Transport{
		Proxy: nil, DialContext: dialer.DialContext, DisableKeepAlives: true, DisableCompression: true,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}, TLSHandshakeTimeout: sendTimeout / 2,
		MaxResponseHeaderBytes: 64 << 10,
	}}
}

// outcomeOf returns what a metric calls a refusal; of nil, that it was accepted.
func outcomeOf(r *delivery.Refusal) Outcome {
	switch {
	case r == nil:
		return delivered
	case r.Final:
		return givenUp
	}
	return failed
}

// refusal returns what the status of an answer means; nil: it was accepted.
func refusal(status int) *delivery.Refusal {
	again := []int{http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests}
	if status/100 == 2 {
		return nil
	}
	return &delivery.Refusal{Why: "status " + strconv.Itoa(status), Final: status < 500 && !slices.Contains(again, status)}
}

// send posts a body, and returns the status of the answer; 0: none. The receiver's response
// body is not read: it has no effect.
func (c *sender) send(ctx context.Context, r Registration, mediaType string, body []byte) (int, *delivery.Refusal) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, r.URL, bytes.NewReader(body))
	if err != nil {
		return 0, &delivery.Refusal{Why: "its URL is not of the known form", Final: true} // err would quote the URL
	}
	q.Header.Set("Content-Type", mediaType)
	q.Header.Set("User-Agent", "linesman")
	switch {
	case r.signed() && c.key == nil:
		return 0, &delivery.Refusal{Why: ErrNoKey.Error(), Final: true}
	case r.signed():
		c.key.sign(q, body, time.Now())
	case r.Scheme == Bearer:
		q.Header.Set("Authorization", "Bearer "+r.Credentials)
	case r.Scheme == HMAC:
		now := time.Now().Unix()
		signature, err := sign(r.Credentials, now, body)
		if err != nil {
			return 0, &delivery.Refusal{Why: err.Error(), Final: true}
		}
		q.Header.Set(headerTimestamp, strconv.FormatInt(now, 10))
		q.Header.Set(headerSignature, signature)
	}
	if r.Protocol == A2A && r.Token != "" {
		q.Header.Set("X-A2A-Notification-Token", r.Token)
	}
	answer, err := c.transport.RoundTrip(q)
	if err != nil {
		return 0, &delivery.Refusal{Why: reason(err)}
	}
	_ = answer.Body.Close()
	status, refused := answer.StatusCode, refusal(answer.StatusCode)
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		refused.After = retryAfter(answer.Header.Get("Retry-After"), time.Now())
	}
	if code := refusedFor(answer); code != "" {
		refused = &delivery.Refusal{Why: "it refuses the signature: " + code, Final: true}
	}
	return status, refused
}

// reason describes why there was no answer, without text that an error may
// quote.
func reason(err error) string {
	_, dns := errors.AsType[*net.DNSError](err)
	_, cert := errors.AsType[*tls.CertificateVerificationError](err)
	switch {
	case errors.Is(err, errForbidden):
		return errForbidden.Error()
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return "it did not answer in time"
	case dns:
		return "its name cannot be resolved"
	case cert:
		return "its certificate is invalid"
	}
	return "no answer"
}

// retryAfter parses a Retry-After header: seconds, or a date; at most an hour.
func retryAfter(s string, now time.Time) time.Duration {
	var d time.Duration
	if seconds, err := strconv.ParseUint(s, 10, 31); err == nil {
		d = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(s); err == nil {
		d = at.Sub(now)
	}
	return min(max(d, 0), maxRetryAfter)
}

// Headers of a notification that is signed with HMAC-SHA256.
const (
	headerTimestamp = "X-ADCP-Timestamp"
	headerSignature = "X-ADCP-Signature"
)

var (
	errSecret = errors.New("the secret is too weak to sign with")
	errNames  = errors.New("a body in which an object has a name twice is not signed")
)

// sign returns the signature of a body that is sent at a time, in Unix seconds.
// It refuses ambiguous bodies: JSON with a duplicate name in an object, at any
// depth.
func sign(secret string, at int64, body []byte) (string, error) {
	if checkSecret(secret) != "" {
		return "", errSecret
	}
	if err := checkNames(body); errors.Is(err, errNames) {
		return "", err
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(append(strconv.AppendInt(nil, at, 10), '.'))
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil)), nil
}

// checkNames returns errNames for JSON with a duplicate name in an object, and
// another error for invalid JSON or UTF-8.
func checkNames(raw []byte) error {
	d := jsontext.NewDecoder(bytes.NewReader(raw))
	_, err := d.ReadValue()
	if errors.Is(err, jsontext.ErrDuplicateName) {
		return errNames
	}
	if err != nil {
		return errors.New("not JSON") // the error of the library has parts of it
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return errors.New("more than one value")
	}
	return nil
}
