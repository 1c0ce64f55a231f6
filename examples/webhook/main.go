// Command webhook is told what becomes of runs: it takes the notifications of
// linesman that are signed with HMAC-SHA256, and prints each once.
//
//	WEBHOOK_SECRET=… webhook 127.0.0.1:8480     # behind something that does TLS
//
// It answers 200 to what it has printed, also to a repeat, 503 while it is at
// it, 409 to other bytes under a known key, and 401 to what is not signed.
// While a secret is being changed WEBHOOK_SECRET is both, a space between them.
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

const maxBody, window, maxKeys = 1 << 20, 300, 10_000 // bytes; seconds that a signature is good for; keys that are remembered

// receiver remembers the keys that it has seen; a real one does so on disk.
type receiver struct {
	secrets []string
	now     func() int64 // Unix seconds
	work    func(notification) error

	mu   sync.Mutex
	seen map[string]delivery
	keys []string // of those that are done, the oldest first
}

type delivery struct {
	hash [32]byte // of the body
	done bool
}

type notification struct {
	Key  string `json:"idempotency_key"`
	Task string `json:"task_id"`

	Status, Message string
}

// verify checks in the order of the contract: headers, timestamp, window,
// signature; and refuses a body in which two readers may read two things.
func verify(secrets []string, h http.Header, body []byte, now int64) (status int) {
	stamp := h.Get("X-ADCP-Timestamp")
	signature, known := strings.CutPrefix(h.Get("X-ADCP-Signature"), "sha256=")
	at, err := strconv.ParseInt(stamp, 10, 64)
	if !known || err != nil || at > now+window || at < now-window || len(signature) != 64 {
		return http.StatusUnauthorized
	}
	good := false
	for _, secret := range secrets {
		mac := hmac.New(sha256.New, []byte(secret))
		fmt.Fprintf(mac, "%s.%s", stamp, body)
		good = hmac.Equal([]byte(signature), []byte(hex.EncodeToString(mac.Sum(nil)))) || good
	}
	if !good {
		return http.StatusUnauthorized
	}
	if !once(json.NewDecoder(bytes.NewReader(body))) {
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// once reports whether a value is JSON in which no object has a name twice.
func once(d *json.Decoder) bool {
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
			if !once(d) {
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
			status = r.take(body)
		}
	}
	w.WriteHeader(status)
}

// take does what a notification is for, once, and returns what to answer.
func (r *receiver) take(body []byte) (status int) {
	var n notification
	if json.Unmarshal(body, &n) != nil || len(n.Key) < 16 || len(n.Key) > 255 {
		return http.StatusBadRequest
	}
	hash := sha256.Sum256(body)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch known, there := r.seen[n.Key]; {
	case there && known.hash != hash:
		return http.StatusConflict
	case there && known.done:
		return http.StatusOK
	case there: // it is at it: the sender comes again
		return http.StatusServiceUnavailable
	}
	r.seen[n.Key] = delivery{hash: hash}
	r.mu.Unlock()
	err := r.work(n)
	r.mu.Lock()
	if err != nil { // the next attempt does it
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
	if len(os.Args) != 2 || len(secrets) == 0 || slices.ContainsFunc(secrets, func(s string) bool { return len(s) < 32 }) {
		fmt.Fprintln(os.Stderr, "usage: webhook HOST:PORT, with a WEBHOOK_SECRET of 32 bytes or more")
		os.Exit(2)
	}
	r := &receiver{secrets: secrets, now: func() int64 { return time.Now().Unix() }, seen: map[string]delivery{}, work: func(n notification) error {
		_, err := fmt.Printf("%q %q %q\n", n.Task, n.Status, n.Message)
		return err
	}}
	s := &http.Server{Addr: os.Args[1], Handler: r, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second}
	fmt.Fprintln(os.Stderr, "webhook:", s.ListenAndServe())
	os.Exit(1)
}
