package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// How long a delivery, and the pause before the next, may take.
const (
	sendTimeout   = 10 * time.Second
	maxPause      = 10 * time.Minute
	maxRetryAfter = time.Hour
)

// Counts is what became of notifications in this process.
type Counts struct {
	Made      uint64 // put into the outbox
	Delivered uint64
	Failed    uint64 // attempts that will be made again
	GivenUp   uint64 // refused for good, or too old
	Dropped   uint64 // their registration was gone, or they could not be sent
}

type counts struct{ made, delivered, failed, givenUp, dropped atomic.Uint64 }

// Counts returns how many there were so far.
func (p *Pusher) Counts() Counts {
	c := &p.counts
	return Counts{c.made.Load(), c.delivered.Load(), c.failed.Load(), c.givenUp.Load(), c.dropped.Load()}
}

// deliver tries once to deliver a notification, and says when to try again; 0:
// it is done with.
func (p *Pusher) deliver(ctx context.Context, n Notice) time.Duration {
	log := p.log.With(zap.String("run", n.Run))
	var of about
	if err := json.Unmarshal([]byte(n.About), &of); err != nil {
		p.counts.dropped.Add(1)
		log.Error("something in the outbox is no notification")
		return 0
	}
	list, _, err := read(ctx, p.cfg.Registrations, n.Run)
	if err != nil {
		log.Warn("the registrations of a run cannot be read", zap.Error(err))
		return spread(3 * time.Second)
	}
	i := find(list, of.Protocol, of.ID)
	if i < 0 || list[i].key(of.State) != n.Key { // or another one has its id
		p.counts.dropped.Add(1)
		log.Info("a notification is not sent: its registration is gone")
		return 0
	}
	r := list[i].Registration
	host := hostOf(r.URL)
	log = log.With(zap.String("host", host), zap.Int("times", n.Times))
	left := p.cfg.GiveUp - time.Since(n.At)
	if left <= 0 {
		p.giveUp(log, "it is too old")
		return 0
	}
	if checkURL(r.URL, p.cfg.Private) != "" { // it was taken under other settings
		p.giveUp(log, "its URL is not called by the settings of now")
		return 0
	}
	wait, ok := p.hosts.enter(host, n.Times > 1, time.Now())
	if !ok {
		return min(wait, left+time.Second)
	}
	began := time.Now()
	got := p.carrier.send(ctx, r, of.Type, n.Body)
	p.hosts.leave(host, time.Since(began), got.status != 0 || got.err != nil || ctx.Err() != nil, time.Now())
	switch {
	case got.err != nil:
		p.counts.dropped.Add(1)
		log.Error("a notification cannot be sent", zap.Error(got.err))
		return 0
	case got.status/100 == 2:
		p.counts.delivered.Add(1)
		log.Debug("a notification was delivered", zap.Int("status", got.status))
		return 0
	case ctx.Err() != nil: // this process ends
		return time.Second
	case got.again():
		p.counts.failed.Add(1)
		say := log.Debug
		if n.Times == 1 {
			say = log.Info
		}
		say("a notification was not taken", zap.Int("status", got.status), zap.String("why", got.why))
		return min(max(pause(time.Since(n.At), n.Times), got.after), left+time.Second)
	}
	p.giveUp(log, "status "+strconv.Itoa(got.status))
	return 0
}

func (p *Pusher) giveUp(log *zap.Logger, why string) {
	log.Warn("a notification is given up", zap.String("why", why), zap.Uint64("so_far", p.counts.givenUp.Add(1)))
}

// pause is how long a notification waits that was not taken: about as long as
// it has waited so far, so that the pauses double, also over a restart; but
// not longer than the number of times it was given out says, so that one that
// could not be sent for long is not left waiting as long again.
func pause(age time.Duration, times int) time.Duration {
	byTimes := maxPause
	if times < 11 {
		byTimes = min(time.Second<<max(times-1, 0), maxPause)
	}
	return spread(max(min(age, byTimes), time.Second))
}

// hostOf is HOST or HOST:PORT of a URL that was checked: all of it that may be
// shown.
func hostOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Host)
}

// carrier sends requests, each on a connection of its own: no redirect, no
// proxy, no address that was not checked.
type carrier struct {
	transport *http.Transport
	timeout   time.Duration // of all of it
}

func newCarrier(private bool) *carrier {
	dialer := &net.Dialer{Timeout: sendTimeout / 2, KeepAlive: -1, Control: checkDialed(private)}
	return &carrier{timeout: sendTimeout, transport: &http.Transport{
		Proxy: nil, DialContext: dialer.DialContext, DisableKeepAlives: true, DisableCompression: true,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}, TLSHandshakeTimeout: sendTimeout / 2,
		MaxResponseHeaderBytes: 64 << 10,
	}}
}

// outcome is what came of a request.
type outcome struct {
	status int           // 0: no answer
	why    string        // of no answer: a short word
	after  time.Duration // that the receiver asked for; 0: it did not
	err    error         // it can never be sent
}

// again reports whether another attempt may be taken.
func (o outcome) again() bool {
	switch o.status {
	case 0, http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return o.status >= 500
}

// send posts a body. The receiver's body is not read: nothing follows from it.
func (c *carrier) send(ctx context.Context, r Registration, mediaType string, body []byte) outcome {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, r.URL, bytes.NewReader(body))
	if err != nil {
		return outcome{err: errors.New("its URL is not of the known form")} // err quotes it
	}
	q.Header.Set("Content-Type", mediaType)
	q.Header.Set("User-Agent", "linesman")
	switch r.Scheme {
	case Bearer:
		q.Header.Set("Authorization", "Bearer "+r.Credentials)
	case HMAC:
		now := time.Now().Unix()
		signature, err := Sign(r.Credentials, now, body)
		if err != nil {
			return outcome{err: err}
		}
		q.Header.Set(headerTimestamp, strconv.FormatInt(now, 10))
		q.Header.Set(headerSignature, signature)
	}
	if r.Protocol == A2A && r.Token != "" {
		q.Header.Set("X-A2A-Notification-Token", r.Token)
	}
	answer, err := c.transport.RoundTrip(q)
	if err != nil {
		return outcome{why: reason(err)}
	}
	_ = answer.Body.Close()
	o := outcome{status: answer.StatusCode}
	if o.status == http.StatusTooManyRequests || o.status == http.StatusServiceUnavailable {
		o.after = retryAfter(answer.Header.Get("Retry-After"), time.Now())
	}
	return o
}

// reason is why there was no answer, without what an error may quote.
func reason(err error) string {
	var dns *net.DNSError
	var cert *tls.CertificateVerificationError
	switch {
	case errors.Is(err, errForbidden):
		return errForbidden.Error()
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return "it did not answer in time"
	case errors.As(err, &dns):
		return "its name cannot be resolved"
	case errors.As(err, &cert):
		return "its certificate is not good"
	}
	return "no answer"
}

// retryAfter is what a Retry-After asks for: seconds, or a date; at most an hour.
func retryAfter(s string, now time.Time) time.Duration {
	var d time.Duration
	if seconds, err := strconv.ParseUint(s, 10, 31); err == nil {
		d = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(s); err == nil {
		d = at.Sub(now)
	}
	return min(max(d, 0), maxRetryAfter)
}
