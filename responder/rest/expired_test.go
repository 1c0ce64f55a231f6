package rest_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/linesman/linesman/responder/idempotency"
)

// lasting is a store whose entries outlive their short time: so a key can be
// seen to have expired.
type lasting struct{ idempotency.Store }

func (l lasting) Put(ctx context.Context, key string, value []byte, _ time.Duration, revision uint64) (uint64, bool,
	error) {
	return l.Store.Put(ctx, key, value, time.Hour, revision)
}

// A key whose time is over has one status, in whatever form the answer is.
func TestAnExpiredKeyIsAConflictInEveryForm(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(c *config) {
		c.service.Requests.Store, c.service.Requests.TTL = lasting{c.service.Requests.Store}, time.Nanosecond
	})
	const request = `{"task":"go","idempotency_key":"0123456789abcdef"}`
	s.adcp(http.StatusAccepted, "submitted", "POST", "/v1/runs", request)
	if e := s.adcp(http.StatusConflict, "rejected", "POST", "/v1/runs", request); e.Error == nil ||
		e.Error.Code != "IDEMPOTENCY_EXPIRED" {
		t.Errorf("%+v", e)
	}
	s.want(http.StatusConflict, "POST", "/v1/runs", request)
}

// A caller that has used up its share of keys gets a retryable error, in every
// form.
func TestACallerWithoutAShareComesLaterInEveryForm(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(c *config) { c.service.Requests.Share = 2 })
	s.want(http.StatusAccepted, "POST", "/v1/runs", `{"task":"go","idempotency_key":"0123456789abcdef"}`)
	const next = `{"task":"go","idempotency_key":"fedcba9876543210"}`
	if e := s.adcp(http.StatusServiceUnavailable, "rejected", "POST", "/v1/runs", next); e.Error == nil ||
		e.Error.Code != "RATE_LIMITED" || e.Error.RetryAfter == 0 {
		t.Errorf("%+v", e)
	}
	if r := s.want(http.StatusServiceUnavailable, "POST", "/v1/runs", next); r.header.Get("Retry-After") == "" {
		t.Error("without Retry-After")
	}
	s.want(http.StatusAccepted, "POST", "/v1/runs", `{"task":"go"}`)
}

// A prompt may have what a terminal prints, of any length.
func TestPromptMayHaveControlCharacters(t *testing.T) {
	t.Parallel()
	newStage(t, nil).want(http.StatusAccepted, "POST", "/v1/runs", `{"task":"the log: \u001b[31mred\u0007"}`)
}
