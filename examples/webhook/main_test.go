package main

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/linesman/linesman/test/fixture/adcptest"
)

// now is the default time of the vectors.
const now = 1_700_000_000

func header(stamp, signature string) http.Header {
	h := http.Header{}
	if stamp != "" {
		h.Set("X-ADCP-Timestamp", stamp)
	}
	if signature != "" {
		h.Set("X-ADCP-Signature", signature)
	}
	return h
}

func TestSignatureVectors(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(adcptest.Root(t), "..", "test-vectors", "webhook-hmac-sha256.json"))
	if err != nil {
		t.Fatal(err)
	}
	var v struct {
		Secret  string
		Vectors []struct {
			ID        string
			Timestamp int64
			Body      string `json:"raw_body"`
			Signature string `json:"expected_signature"`
			Action    string `json:"expected_verifier_action"`
		}
		Rejected []struct {
			ID        string
			Timestamp any
			Now       int64   `json:"current_time"`
			Body      string  `json:"raw_body"`
			Signature *string `json:"signature"`
		} `json:"rejection_vectors"`
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Vectors) < 15 || len(v.Rejected) < 10 {
		t.Fatalf("%d and %d vectors", len(v.Vectors), len(v.Rejected))
	}
	malformed := 0
	for _, vector := range v.Vectors {
		secrets := []string{strings.Repeat("another one ", 4), v.Secret} // as during a change of the secret
		got := verify(secrets, header(strconv.FormatInt(vector.Timestamp, 10), vector.Signature), []byte(vector.Body),
			vector.Timestamp+window)
		want := http.StatusOK
		if vector.Action == "reject-malformed" || !json.Valid([]byte(vector.Body)) {
			want = http.StatusBadRequest
			malformed++
		}
		if got != want {
			t.Errorf("%s: %d, want %d", vector.ID, got, want)
		}
	}
	if malformed == 0 || malformed > 4 {
		t.Errorf("%d vectors are malformed", malformed)
	}
	for _, vector := range v.Rejected {
		stamp := fmt.Sprint(vector.Timestamp)
		if n, ok := vector.Timestamp.(float64); ok {
			stamp = strconv.FormatInt(int64(n), 10)
		}
		signature := ""
		if vector.Signature != nil {
			signature = *vector.Signature
		}
		at := int64(now)
		if vector.Now != 0 {
			at = vector.Now
		}
		if got := verify([]string{v.Secret}, header(stamp, signature), []byte(vector.Body),
			at); got != http.StatusUnauthorized {
			t.Errorf("%s: %d", vector.ID, got)
		}
	}
	valid := v.Vectors[0]
	for _, at := range []int64{valid.Timestamp + window + 1, valid.Timestamp - window - 1} {
		if got := verify([]string{v.Secret}, header(strconv.FormatInt(valid.Timestamp, 10), valid.Signature),
			[]byte(valid.Body), at); got != http.StatusUnauthorized {
			t.Errorf("at %d: %d", at, got)
		}
	}
}

const secret = "a secret that is long enough for it"

func post(r *receiver, body string) int {
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "%d.%s", now, body)
	q := httptest.NewRequest("POST", "/", bytes.NewReader([]byte(body)))
	q.Header = header(strconv.Itoa(now), "sha256="+hex.EncodeToString(mac.Sum(nil)))
	w := httptest.NewRecorder()
	r.ServeHTTP(w, q)
	return w.Code
}

func TestNotificationsAreProcessedOnce(t *testing.T) {
	did := 0
	var fail error
	r := &receiver{secrets: []string{secret}, now: func() int64 { return now }, seen: map[string]delivery{}}
	r.work = func(notification) error { did++; return fail }
	const body = `{"idempotency_key":"key-0123456789-1","task_id":"T","status":"working"}`
	for i, tt := range []struct {
		body         string
		fail         error
		status, done int
	}{
		{body, errors.New("not now"), 500, 1}, {body, nil, 200, 2}, {body, nil, 200, 2},
		{strings.Replace(body, "working", "failed", 1), nil, 409, 2}, {body, nil, 200, 2},
		{`{"task_id":"T"}`, nil, 400, 2}, {`no JSON`, nil, 400, 2}, {`{"a":1,"a":2}`, nil, 400, 2},
		{strings.Replace(body, "-1", "-2", 1), nil, 200, 3}, {strings.Repeat("x", maxBody+1), nil, 400, 3},
	} {
		fail = tt.fail
		if got := post(r, tt.body); got != tt.status || did != tt.done {
			t.Errorf("request %d: %d, processed %d times; want %d, %d", i, got, did, tt.status, tt.done)
		}
	}
	w := httptest.NewRecorder()
	if r.ServeHTTP(w, httptest.NewRequest("POST", "/", strings.NewReader(body))); w.Code != 401 {
		t.Errorf("without a signature: %d", w.Code)
	}
}

func TestRetryDuringProcessing(t *testing.T) {
	started, finish := make(chan struct{}), make(chan struct{})
	r := &receiver{secrets: []string{secret}, now: func() int64 { return now }, seen: map[string]delivery{}}
	r.work = func(notification) error { close(started); <-finish; return nil }
	const body = `{"idempotency_key":"key-0123456789-1"}`
	first := make(chan int)
	go func() { first <- post(r, body) }()
	<-started
	if got := post(r, body); got != 503 {
		t.Errorf("during processing: %d", got)
	}
	close(finish)
	if got := <-first; got != 200 {
		t.Errorf("the first: %d", got)
	}
	if got := post(r, body); got != 200 {
		t.Errorf("afterwards: %d", got)
	}
}

func TestNumberOfStoredKeysIsLimited(t *testing.T) {
	r := &receiver{seen: map[string]delivery{}, work: func(notification) error { return nil }}
	for i := range maxKeys + 100 {
		if got := r.process(fmt.Appendf(nil, `{"idempotency_key":"key-%020d"}`, i)); got != 200 {
			t.Fatal(got)
		}
	}
	if len(r.seen) != maxKeys || len(r.keys) != maxKeys {
		t.Errorf("%d and %d", len(r.seen), len(r.keys))
	}
}
