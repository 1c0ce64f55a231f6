// Command webhook receives notifications of linesman about runs, signed with
// HMAC-SHA256, and prints each notification once.
//
//	WEBHOOK_SECRET=… webhook 127.0.0.1:8480     # behind a TLS proxy
//
// Responses: 200 for a processed notification, including retries; 503 while it is
// still being processed; 409 for a different body with a known key; 401 for an
// invalid signature. During a change of the secret WEBHOOK_SECRET contains both
// secrets, separated by a space.
package main

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	maxBody = 1 << 20 // bytes
	window  = 300     // maximum difference between timestamp and clock, in seconds
	maxKeys = 10_000  // stored idempotency keys
)

// receiver deduplicates notifications by their keys. A production receiver stores
// the keys on disk.
type receiver struct {
	secrets []string
	now     func() int64 // Unix seconds
	work    func(notification) error

	mu   sync.Mutex
	seen map[string]delivery
	keys []string // of processed notifications, the oldest first
}

type delivery struct {
	hash [32]byte // SHA-256 of the body
	done bool     // processed
}

type notification struct {
	Key  string `json:"idempotency_key"`
	Task string `json:"task_id"`

	Status, Message string
}

// verify checks headers, timestamp, window and signature, in the order of the
// contract. It rejects a body with duplicate names, because parsers differ in their
// interpretation.
func verify(secrets []string, h http.Header, body []byte, now int64) (status int) {
	stamp := h.Get("X-ADCP-Timestamp")
	signature, known := strings.CutPrefix(h.Get("X-ADCP-Signature"), "sha256=")
	at, err := strconv.ParseInt(stamp, 10, 64)
	if !known || err != nil || at > now+window || at < now-window || len(signature) != 64 {
		return http.StatusUnauthorized
	}
	valid := false
	for _, secret := range secrets {
		mac := hmac.New(sha256.New, []byte(secret))
		fmt.Fprintf(mac, "%s.%s", stamp, body)
		valid = hmac.Equal([]byte(signature), []byte(hex.EncodeToString(mac.Sum(nil)))) || valid
	}
	if !valid {
		return http.StatusUnauthorized
	}
	if !uniqueNames(json.NewDecoder(bytes.NewReader(body))) {
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// uniqueNames reports whether the next value is valid JSON without duplicate names
// in an object.
func uniqueNames(d *json.Decoder) bool {
	t, err := d.Token()
	if open, ok := t.(json.Delim); err == nil && ok {
		names := map[any]bool{}
		for d.More() {
			if open == '{' {
				name, err := d.Token()
				if err != nil || names[name] {
					return false
				}
				names[name] = true
			}
			if !uniqueNames(d) {
				return false
			}
		}
		_, err = d.Token()
	}
	return err == nil
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	status := http.StatusBadRequest
	if body, err := io.ReadAll(http.MaxBytesReader(w, q.Body, maxBody)); err == nil {
		if status = verify(r.secrets, q.Header, body, r.now()); status == http.StatusOK {
			status = r.process(body)
		}
	}
	w.WriteHeader(status)
}

// process processes a notification once, and returns the HTTP status.
func (r *receiver) process(body []byte) (status int) {
	var n notification
	if json.Unmarshal(body, &n) != nil || len(n.Key) < 16 || len(n.Key) > 255 {
		return http.StatusBadRequest
	}
	hash := sha256.Sum256(body)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch earlier, known := r.seen[n.Key]; {
	case known && earlier.hash != hash:
		return http.StatusConflict
	case known && earlier.done:
		return http.StatusOK
	case known: // still being processed: the sender retries
		return http.StatusServiceUnavailable
	}
	r.seen[n.Key] = delivery{hash: hash}
	r.mu.Unlock()
	err := r.work(n)
	r.mu.Lock()
	if err != nil { // the next retry processes it
		delete(r.seen, n.Key)
		return http.StatusInternalServerError
	}
	r.seen[n.Key] = delivery{hash, true}
	if r.keys = append(r.keys, n.Key); len(r.keys) > maxKeys {
		delete(r.seen, r.keys[0])
		r.keys = r.keys[1:]
	}
	return http.StatusOK
}

func main() {
	secrets := strings.Fields(os.Getenv("WEBHOOK_SECRET"))
	if len(os.Args) != 2 || len(secrets) == 0 || slices.ContainsFunc(secrets,
		func(s string) bool { return len(s) < 32 }) {
		fmt.Fprintln(os.Stderr, "usage: webhook HOST:PORT, with a WEBHOOK_SECRET of 32 bytes or more")
		os.Exit(2)
	}
	work := func(n notification) error {
		_, err := fmt.Printf("%q %q %q\n", n.Task, n.Status, n.Message)
		return err
	}
	now := func() int64 { return time.Now().Unix() }
	r := &receiver{secrets: secrets, now: now, work: work, seen: map[string]delivery{}}
	s := &http.Server{Addr: os.Args[1], Handler: r, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second}
	fmt.Fprintln(os.Stderr, "webhook:", s.ListenAndServe())
	os.Exit(1)
}
